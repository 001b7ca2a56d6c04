"""vicinal release: keygen, key, build, show."""

import json
from pathlib import Path

import click

import vicinal
from vicinal.errors import LocalProtocolError

from ..complain import BadInput
from ..overlay import Failed

__all__ = ["command"]


@click.group("release")
def command() -> None:
    """Releases of the agent, signed, for devices to fetch from their gateway."""


def _say_key(public: str) -> None:
    click.echo(f'In the configuration of each device:\n\n[update]\nkey = "{public}"')


@command.command()
@click.argument("file", type=click.Path(dir_okay=False), default="release.key")
def keygen(file: str) -> None:
    """Make a key to sign releases with, in FILE, and show what devices have to know of it.

    Who has FILE can put any program onto every device that knows the key: keep it where releases are made, and a copy
    where it cannot be lost, as devices take no release that another key has signed.
    """
    from ..release import new_key, public_of

    try:
        key = new_key(Path(file))
    except LocalProtocolError as error:
        raise BadInput(str(error)) from error
    click.echo(f"{file} is written, for you alone.")
    _say_key(public_of(key))


@command.command()
@click.argument("file", type=click.Path(dir_okay=False), default="release.key")
def key(file: str) -> None:
    """Show what devices have to know of the key in FILE."""
    from ..release import public_of, read_key

    try:
        _say_key(public_of(read_key(Path(file))))
    except LocalProtocolError as error:
        raise BadInput(str(error)) from error


@command.command()
@click.option("--key", default="release.key", show_default=True, type=click.Path(dir_okay=False), help="Who signs.")
@click.option("--out", type=click.Path(dir_okay=False), help="Where it goes; else agent-VERSION.release here.")
@click.option("--version", default=vicinal.__version__, show_default=True, help="Devices take what is newer.")
@click.option("--board", default="any", show_default=True, help="For one board alone: `vicinal board list`.")
@click.option("--back", metavar="VERSION", help="It may replace VERSION and older, although it is older itself.")
def build(key: str, out: str | None, version: str, board: str, back: str | None) -> None:
    """Make a release of the agent of this installation, and sign it.

    Put it into the folder `releases` of the gateways' CoAP services. Devices fetch it by themselves, or when they are
    told: vicinal agents update NAME --version VERSION
    """
    from vicinal_edge.releases import SUFFIX, Release
    from vicinal_hw.boards import board as known

    from ..release import build as make
    from ..stage import CompileError

    path = Path(out or f"agent-{version}{SUFFIX}")
    try:
        if board != "any" and known(board).kind != "micropython":
            raise BadInput(f"board {board}: its agent is updated with pip or apt, and not by releases")
        make(Path(key), path, version, board, back)
        found = Release(path)
    except LocalProtocolError as error:
        raise BadInput(str(error)) from error
    except CompileError as error:
        raise Failed(str(error)) from error
    click.echo(f"{path}: version {version} for {_board(board)}, {found.head.files} files, {found.head.bytes:,} bytes")
    if path.suffix != SUFFIX:
        click.echo(f"Note: a gateway offers what is called *{SUFFIX}", err=True)


def _board(name: str) -> str:
    return "any board" if name == "any" else f"board {name}"


@command.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--key", metavar="KEY", help="The public key (66 hex digits): is it signed by that?")
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
def show(file: str, key: str | None, as_json: bool) -> None:
    """Show what the release in FILE is, and check every file of it.

    Exit code 1 when it is not signed by --key.
    """
    from vicinal_edge.releases import Release

    try:
        found = Release(Path(file))
        good = None if key is None else found.is_signed_by(key)
    except LocalProtocolError as error:
        raise BadInput(str(error)) from error
    head = found.head
    if as_json:
        said = {"version": head.version, "board": head.board, "bytecode": head.mpy, "back": head.back, "signed": good}
        files = [{"name": one.name, "bytes": one.size, "sha256": one.digest.hex()} for one in found.files]
        click.echo(json.dumps(said | {"bytes": head.bytes, "files": files}))
    else:
        from rich.console import Console
        from rich.table import Table

        click.echo(f"version {head.version} for {_board(head.board)}, bytecode {head.mpy}")
        if head.back is not None:
            click.echo(f"it may replace {head.back} and older")
        if good is not None:
            click.echo("signed by that key" if good else "NOT signed by that key")
        table = Table("file", "bytes", "SHA-256")
        table.columns[1].justify = "right"
        for one in found.files:
            table.add_row(one.name, f"{one.size:,}", one.digest.hex()[:16])
        table.add_section()
        table.add_row(f"{head.files} files", f"{head.bytes:,}", "")
        Console().print(table)
    if good is False:
        click.get_current_context().exit(1)
