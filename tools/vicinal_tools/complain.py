"""Saying what is wrong with what a person gave: the message, the place, and exit code 2.

Error: want a name or a value, got the end (column 7)
  rate >
        ^
"""

import click
from rich.cells import cell_len

from vicinal.errors import FilterSyntaxError
from vicinal.filter import Filter
from vicinal.filter._ast import SUBJECT, And, Compare, Name, Node, Not

__all__ = ["BadInput", "parse_filter", "point_at"]

# A filter may have 4,096 characters; the reader of an error needs those around it, on one line of a terminal.
_BEFORE, _AFTER = 50, 20


class BadInput(click.ClickException):
    """click prints it as "Error: ..." on stderr."""

    exit_code = 2


def point_at(text: str, column: int) -> str:
    """The text with a caret under a column (from 1), cut around it where it is long."""
    at = min(max(column, 1) - 1, len(text))
    start = at - _BEFORE if at > _BEFORE else 0
    end = min(len(text), at + _AFTER if start or len(text) > _BEFORE + _AFTER else len(text))
    left = ("..." if start else "") + _printable(text[start:at])
    right = _printable(text[at:end]) + ("..." if end < len(text) else "")
    # Cells, not characters: a Chinese one takes two, a combining one none.
    return f"  {left}{right}\n  {' ' * cell_len(left)}^"


def _printable(text: str) -> str:
    """Line ends and control characters would move the caret away, or the terminal's colours."""
    return "".join(char if char.isprintable() else " " for char in text)


def parse_filter(text: str, label: str = "") -> Filter:
    """`label` tells two expressions of one command apart."""
    try:
        found = Filter(text)
    except FilterSyntaxError as error:
        raise BadInput(f"{label}{error}\n{point_at(error.text, error.column)}") from error
    for name in _unquoted(found.node):
        click.echo(
            f"Note: {label}subject is compared with the parameter {name}. Is subject = '{name}' meant? "
            "A string stands in single quotes.",
            err=True,
        )
    return found


def _unquoted(node: Node) -> list[str]:
    """Names that the subject is compared with: allowed, and nearly always forgotten quotes."""
    if isinstance(node, Not):
        return _unquoted(node.term)
    if isinstance(node, And):
        return [name for term in node.terms for name in _unquoted(term)]
    if not isinstance(node, Compare) or not isinstance(node.value, Name):
        return []
    both = (node.name, node.value)
    return [one.ident for one in both if one.kind != SUBJECT] if any(one.kind == SUBJECT for one in both) else []
