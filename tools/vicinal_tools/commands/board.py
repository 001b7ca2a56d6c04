"""vicinal board: list, show."""

import json

import click

from vicinal.errors import LocalProtocolError

from ..complain import BadInput

__all__ = ["command"]


@click.group("board")
def command() -> None:
    """Boards that an agent runs on: their pins, buses and radios."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, with everything.")
def list_(as_json: bool) -> None:
    """The boards that are known, one a line."""
    from vicinal_hw.boards import board, names

    for name in names():
        found = board(name)
        click.echo(json.dumps(found.table()) if as_json else f"{name:<10} {found.title}, {found.kind}")


@command.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
def show(name: str, as_json: bool) -> None:
    """What the board NAME has, and which pins an agent may use."""
    from vicinal_hw.boards import board

    try:
        found = board(name)
    except LocalProtocolError as error:
        raise BadInput(str(error)) from error
    if as_json:
        click.echo(json.dumps(found.table()))
        return
    click.echo(f"{found.title} ({found.chip}), agent on {'MicroPython' if found.kind == 'micropython' else 'Linux'}")
    if found.firmware_offset is not None:
        click.echo(f"flash      {found.flash_mb} MiB, firmware at {found.firmware_offset:#x}")
    click.echo(f"radios     {', '.join(found.radios) or 'none'}")
    click.echo(f"CAN        {', '.join(f'{key} {value}' for key, value in found.can.items()) or 'none'}")
    click.echo(f"I2C        {', '.join(f'{key} {value}' for key, value in found.i2c.items())}")
    for use, text in (("adc", "analogue"), ("gpio", "digital"), ("reserved", "reserved")):
        click.echo(f"{text:<10} {', '.join(map(str, found.pins[use])) or 'none'}")
