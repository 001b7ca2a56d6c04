"""The two commonest tests on CPython, which compares int with float exactly and hashes them alike."""

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._ast import PARAM, SUBJECT, Name

if TYPE_CHECKING:
    from ..event import Event
    from ._match import Test

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_KINDS = {int: "n", float: "n", str: "s", bool: "b", bytes: "x"}


def compare_fast(op: str, name: Name, get: "Callable[[Event], Any]", value: Any) -> "Test":
    """Of a name with a number or a string."""
    holds, ident = OPERATORS[op], name.ident
    if type(value) is str:
        if name.kind == SUBJECT:
            return lambda event: holds(event.subject, value)

        def text(event: "Event") -> bool | None:
            found = get(event)
            return holds(found, value) if type(found) is str else None

        return text

    def number(event: "Event") -> bool | None:
        found = event.params.get(ident)
        kind = type(found)
        if kind is float or kind is int:
            return holds(found, value) if found == found else None
        return None

    def number_of(event: "Event") -> bool | None:
        found = get(event)
        kind = type(found)
        if kind is float or kind is int:
            return holds(found, value) if found == found else None
        return None

    return number if name.kind == PARAM else number_of


def in_fast(get: "Callable[[Event], Any]", values: tuple[Any, ...]) -> "Test":
    # TRUE hashes as 1, so that the kind belongs to the key.
    keys = {(_KINDS[type(value)], value) for value in values}
    kinds = {kind for kind, _ in keys}
    miss = False if len(kinds) == 1 else None

    def test(event: "Event") -> bool | None:
        found = get(event)
        kind = _KINDS.get(type(found))
        if kind not in kinds or found != found:
            return None
        return True if (kind, found) in keys else miss

    return test
