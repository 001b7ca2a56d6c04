"""A tree as a function of an event: True, False or None for unknown (SQL's three values).

A missing name is unknown, and so is a comparison of unlike types; NaN compares with nothing. Numbers compare
exactly, strings by code point, booleans and bytes only by = and <>. NOT of unknown is unknown.
"""

from .._compat import MICROPYTHON, cmp_numbers
from ._ast import ATTRIBUTE, PARAM, And, Compare, Constant, In, IsNull, Name, Not, Or, Within
from ._like import matcher

if not MICROPYTHON:
    from ._match_cpython import compare_fast, in_fast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from ..event import Event

    Test: TypeAlias = "Callable[[Event], bool | None]"


def kind_of(value: "Any") -> "str | None":
    """ "n" number, "s" string, "b" boolean, "x" bytes; None for what compares with nothing."""
    kind = type(value)
    if kind is int:
        return "n"
    if kind is float:
        return "n" if value == value else None
    if kind is str:
        return "s"
    if kind is bool:
        return "b"
    return "x" if kind is bytes else None


def compare_values(op: str, left: "Any", right: "Any") -> "bool | None":
    kind = kind_of(left)
    if kind is None or kind != kind_of(right):
        return None
    if op == "=":
        return equal(left, right)
    if op == "<>":
        return not equal(left, right)
    if kind == "n":
        sign = cmp_numbers(left, right)
    elif kind == "s":
        sign = (left > right) - (left < right)
    else:
        return None
    if op == "<":
        return sign < 0
    if op == "<=":
        return sign <= 0
    return sign > 0 if op == ">" else sign >= 0


def equal(left: "Any", right: "Any") -> bool:
    """Of two values of one kind."""
    if type(left) is type(right):
        return bool(left == right)
    return cmp_numbers(left, right) == 0


def getter(name: Name) -> "Callable[[Event], Any]":
    ident = name.ident
    if name.kind == PARAM:
        return lambda event: event.params.get(ident)
    if name.kind == ATTRIBUTE:
        return lambda event: event.attrs.get(ident)
    return lambda event: event.subject


def compile_node(node: "Any") -> "Test":
    kind = type(node)
    if kind is Compare:
        return _compare(node)
    if kind is And or kind is Or:
        return _chain([compile_node(term) for term in node.terms], kind is Or)
    if kind is Not:
        return _not(compile_node(node.term))
    if kind is Constant:
        value = node.value
        return lambda event: value
    if kind is Within:
        from ._within import compile_within

        return compile_within(node)
    get = getter(node.name)
    if kind is IsNull:
        return lambda event: get(event) is None
    if kind is In:
        return _in(get, node.values)
    return _like(get, matcher(node.pattern, node.escape))


def _chain(tests: "list[Test]", decisive: bool) -> "Test":
    """AND stops at the first False, OR at the first True; unknown is remembered."""

    def test(event: "Event") -> "bool | None":
        result: bool | None = not decisive
        for part in tests:
            value = part(event)
            if value is decisive:
                return decisive
            if value is None:
                result = None
        return result

    return test


def _not(part: "Test") -> "Test":
    def test(event: "Event") -> "bool | None":
        value = part(event)
        return None if value is None else not value

    return test


def _compare(node: "Any") -> "Test":
    op, value = node.op, node.value
    get = getter(node.name)
    if type(value) is Name:
        other = getter(value)
        return lambda event: compare_values(op, get(event), other(event))
    if not MICROPYTHON and kind_of(value) in ("n", "s"):
        return compare_fast(op, node.name, get, value)
    return lambda event: compare_values(op, get(event), value)


def _in(get: "Any", values: "tuple[Any, ...]") -> "Test":
    """OR of the equalities: a value of another kind than some of them is unknown, unless it equals one."""
    if not MICROPYTHON:
        return in_fast(get, values)

    def test(event: "Event") -> "bool | None":
        found = get(event)
        results = [compare_values("=", found, value) for value in values]
        return True if True in results else (None if None in results else False)

    return test


def _like(get: "Any", matches: "Callable[[str], bool]") -> "Test":
    def test(event: "Event") -> "bool | None":
        found = get(event)
        return matches(found) if type(found) is str else None

    return test
