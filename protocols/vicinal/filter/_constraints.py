"""What of a term can be looked up instead of evaluated.

A constraint is (place, op, value): the place is (kind, identifier) of a name, op one of

    =  in  < <= > >=  between  prefix  exists

Every constraint is necessary for its literal; where it is not sufficient too, the literal stays in the residue, which
is evaluated on the few events that pass all constraints of its term.
"""

from .._compat import MICROPYTHON
from ._ast import SUBJECT, Compare, In, IsNull, Like, Node, Not, Within
from ._covering import literal_name, relates
from ._like import literal as plain
from ._like import segments
from ._match import kind_of

if not MICROPYTHON:
    from ._intervals_cpython import joined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Constraint: TypeAlias = "tuple[tuple[int, str], str, Any]"


def constraints_of(literals: "list[Node]") -> "tuple[list[Constraint], list[Node]]":
    found: list[Constraint] = []
    residue: list[Node] = []
    for literal in literals:
        constraints, sufficient = _of(literal)
        found.extend(constraints)
        if not sufficient:
            residue.append(literal)
    if not found:
        # Better than looking at every event: at those that have the name at all.
        for literal in residue:
            if not relates(literal) and type(literal) is not IsNull and literal_name(literal).kind != SUBJECT:
                found.append((literal_name(literal).key(), "exists", None))
                break
    return (found if MICROPYTHON else joined(found)), residue


def _of(literal: "Any") -> "tuple[list[Constraint], bool]":
    kind = type(literal)
    if kind is Compare:
        return _compare(literal)
    if kind is In:
        return [(literal.name.key(), "in", literal.values)], True
    if kind is Like:
        return _like(literal)
    if kind is Within:
        return _within(literal), False
    if kind is Not and type(literal.term) is IsNull:
        return [(literal.term.name.key(), "exists", None)], True
    return [], False


def _compare(node: Compare) -> "tuple[list[Constraint], bool]":
    kind = kind_of(node.value)
    if node.op == "=" and kind is not None:
        return [(node.name.key(), "=", node.value)], True
    if node.op != "<>" and kind in ("n", "s"):
        return [(node.name.key(), node.op, node.value)], True
    return [], False


def _like(node: Like) -> "tuple[list[Constraint], bool]":
    place: Any = node.name.key()
    parts = segments(node.pattern, node.escape)
    text = plain(parts[0])
    if len(parts) == 1 and text is not None:
        return [(place, "=", text)], True
    if text:
        return [(place, "prefix", text)], len(parts) == 2 and not parts[1]
    return [], False


def _within(node: Within) -> "list[Constraint]":
    from ._within import place_literals

    return [constraint for literal in place_literals(node) for constraint in _of(literal)[0]]
