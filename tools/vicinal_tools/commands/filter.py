"""vicinal filter: explain, match, covers."""

import json
import sys
from pathlib import Path

import click
from rich.console import Console

from vicinal import json_form

from ..complain import BadInput, parse_filter
from ..lines import read_lines

__all__ = ["command"]

# An extended identifier has 29 bits.
_MAX_CAN_ID = (1 << 29) - 1


@click.group("filter")
def command() -> None:
    """Ask what a filter means.

    A filter is an SQL-92 condition: subject = 'Speed' AND rate > 30. It has = <> < <= > >=, BETWEEN, IN, LIKE, IS NULL,
    AND, OR, NOT, $Attribute and within(lat, lon, metres). The whole language: protocols/spec/filter.md
    """


@command.command()
@click.argument("expr")
@click.option("--can", "can", multiple=True, metavar="SUBJECT=ID[,ID]", help="CAN identifiers that carry a subject.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
def explain(expr: str, can: tuple[str, ...], as_json: bool) -> None:
    """Show a filter's tree, and its translations: exact, or wider and why."""
    from ..explain import Explanation

    explanation = Explanation(expr, parse_filter(expr), _can_mapping(can))
    if as_json:
        click.echo(json.dumps(explanation.as_json(), ensure_ascii=False))
    else:
        explanation.show(Console())


@command.command()
@click.argument("expr")
@click.argument("file", required=False)
def match(expr: str, file: str | None) -> None:
    """Write those lines of FILE (or stdin) whose event the filter matches.

    Each line is an event as JSON; it is written as it came. A line that is no event ends the run with exit code 2; that
    none matched is no failure.
    """
    if file is None and len(expr) < 256 and Path(expr).is_file():
        raise BadInput(f"{expr!r} is a file; the filter comes before it: vicinal filter match EXPR {expr}")
    matches = parse_filter(expr).matches
    asks_for_places = "within" in expr.lower()
    decimals = 0
    # Bytes, past the text layer: a line's end and its encoding are its own.
    out = sys.stdout.buffer
    for line in read_lines(file):
        event = line.read(json_form.loads)
        decimals += asks_for_places and float in (type(event.get("lat")), type(event.get("lon")))
        if matches(event):
            out.write(line.raw)
            # What a live source said must not wait here for more.
            out.flush()
    if decimals:
        click.echo(
            f"Note: {decimals} events have lat or lon with a decimal point; an event's place is in whole 1e-7 degrees, "
            "so within did not see them.",
            err=True,
        )


@command.command()
@click.argument("a")
@click.argument("b")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
@click.pass_context
def covers(ctx: click.Context, a: str, b: str, as_json: bool) -> None:
    """Say whether A matches every event that B matches.

    yes: exit code 0. no: exit code 1, with an event that B matches and A does not, or "not proven" if none was found.
    """
    from vicinal.filter._witness import counter_example

    wide, narrow = parse_filter(a, "A: "), parse_filter(b, "B: ")
    answer = wide.covers(narrow)
    found = None if answer else counter_example(wide, narrow)
    example = None if found is None else json_form.dumps(found)
    if as_json:
        # The example is JSON already, in the one form events have.
        click.echo(
            f'{{"covers": {json.dumps(answer)}, "proven": {json.dumps(answer or found is not None)}, '
            f'"counter_example": {example or "null"}}}'
        )
    elif answer:
        click.echo("yes")
    else:
        click.echo("no" if example else "no: not proven")
        if example:
            click.echo(example)
    ctx.exit(0 if answer else 1)


def _can_mapping(options: tuple[str, ...]) -> dict[str, list[int]]:
    mapping: dict[str, list[int]] = {}
    for option in options:
        subject, found, numbers = option.rpartition("=")
        if not found or not subject:
            raise BadInput(f"--can {option!r}: want SUBJECT=ID[,ID]")
        for number in numbers.split(","):
            mapping.setdefault(subject, []).append(_can_id(number.strip(), option))
    return mapping


def _can_id(text: str, option: str) -> int:
    try:
        number = int(text, 0)  # 291 and 0x123 alike
    except ValueError as error:
        raise BadInput(f"--can {option!r}: {text!r} is not a number; write 291 or 0x123") from error
    if not 0 <= number <= _MAX_CAN_ID:
        raise BadInput(f"--can {option!r}: {text} is not in 0 .. 0x{_MAX_CAN_ID:x} (29 bits)")
    return number
