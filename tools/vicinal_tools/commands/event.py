"""vicinal event: encode and decode."""

import string
from collections.abc import Iterator
from pathlib import Path

import click

from vicinal import json_form, wire
from vicinal.errors import LocalProtocolError, VicinalError
from vicinal.event import Event

from ..complain import BadInput
from ..lines import read_lines

__all__ = ["command"]

_HEX = frozenset(string.hexdigits + string.whitespace)


@click.group("event")
def command() -> None:
    """Turn events into bytes and back.

    As JSON: {"subject": "Speed", "params": {"rate": 57.2}, "attrs": {"Priority": 3}, "producer": "car-7", "seq": 12}
    """


@command.command()
@click.argument("file", required=False)
def encode(file: str | None) -> None:
    """Write the bytes of each event of FILE (or stdin), JSON a line each, as hexadecimal."""
    for line in read_lines(file):
        click.echo(line.read(lambda text: wire.encode(json_form.loads(text))).hex())


@command.command()
@click.argument("hex_or_file", nargs=-1, metavar="[HEX... | FILE | -]")
def decode(hex_or_file: tuple[str, ...]) -> None:
    """Write the events of hexadecimal bytes as JSON, one event a line.

    An argument of hexadecimal digits is bytes; any other is a file of such lines, - is stdin (./ab is the file ab).
    """
    for event in _events(hex_or_file or ("-",)):
        click.echo(json_form.dumps(event))


def _events(arguments: tuple[str, ...]) -> Iterator[Event]:
    for argument in arguments:
        if argument.strip() and _HEX.issuperset(argument):
            try:
                yield _decode(argument)
            except VicinalError as error:
                raise BadInput(f"{_short(argument)}: {error}") from error
        elif argument == "-" or Path(argument).exists():
            for line in read_lines(argument):
                yield line.read(_decode)
        else:
            raise BadInput(f"{_short(argument)} is neither hexadecimal nor a file")


def _decode(text: str) -> Event:
    try:
        data = bytes.fromhex(text)
    except ValueError as error:
        raise LocalProtocolError(f"{_short(text)} is not pairs of hexadecimal digits") from error
    return wire.decode(data)


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")
