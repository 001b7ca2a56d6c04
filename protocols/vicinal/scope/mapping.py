"""Subscriptions along the ways of events: the right, never narrower, filter below an edge for one above it, and the
other way round (seed 004, 3.4; seed 001, 5.2.5).

    path      of scopes from a producer's to a consumer's, up and then down, as `paths` finds them
    along     of a consumer's filter at its end, what to ask for at its beginning

An event that meets every interface on the path, mapped as the edges map it, and then the filter, meets what `along`
gives; so what is filtered early is only what nobody would have got.
"""

from ..errors import LocalProtocolError
from ..filter import Filter
from ..filter._ast import ATTRIBUTE, And, Compare, Constant, Name, Not, Or, Within
from ..filter._normal import TRUE, join, nnf
from ..filter._text import text_of
from ..mapping.mapping import INWARD, OUTWARD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .graph import ScopeGraph

__all__ = ["MAX_PATHS", "along", "both", "paths"]

# Of the ways between two scopes of a graph with many diamonds; they are for people.
MAX_PATHS = 64


def paths(graph: "ScopeGraph", start: str, goal: str) -> "list[list[str]]":
    """The ways from scope to scope, whatever the interfaces say: the shortest first, then by names."""
    found: list[list[str]] = []
    front = [([start], True)]
    while front and len(found) < MAX_PATHS:
        following = []
        for path, up in front:
            at = path[-1]
            if at == goal:
                found.append(path)
                continue
            steps = [(name, True) for name in (graph.scopes[at].supers if up else ())]
            steps += [(name, False) for name in graph.subs.get(at, ())]
            following += [(path + [name], still) for name, still in steps if name not in path]
        front = following[: MAX_PATHS * MAX_PATHS]
    return found


def along(graph: "ScopeGraph", path: "list[str]", condition: Filter) -> "tuple[Filter, list[str]]":
    """With the reasons why it is wider than what gets through, if it is."""
    reasons: list[str] = []
    at = len(path) - 1
    while at > 0:
        before, after = path[at - 1], path[at]
        up = after in graph.scopes[before].supers
        edge = graph.edge(before, after) if up else graph.edge(after, before)
        interface = edge.output if up else edge.input
        if interface is None:
            return Filter("FALSE"), []
        if graph.scopes[after].session:
            condition = _whatever_session(condition, reasons)
        if up:
            condition = both(interface, condition, reasons)
        if edge.mapping is not None:
            condition = _whatever_session(condition, reasons)
            mapped = edge.mapping.map_filter(condition, OUTWARD if up else INWARD)
            reasons += [reason for reason in mapped.reasons if reason not in reasons]
            condition = mapped.filter
        if not up:
            condition = both(interface, condition, reasons)
        at -= 1
    if graph.scopes[path[0]].session:
        condition = _whatever_session(condition, reasons)
    return condition, reasons


def both(a: Filter, b: Filter, reasons: "list[str]") -> Filter:
    """One condition of two; the shorter alone where both would be past the limits."""
    if b.text == "TRUE" or a.text == b.text:
        return a
    if a.text == "TRUE":
        return b
    try:
        return Filter(f"({a.text}) AND ({b.text})")
    except LocalProtocolError as error:
        reasons.append(f"it would be past the limits of a filter: {error}")
        return a if len(a.text) < len(b.text) else b


def _whatever_session(condition: Filter, reasons: "list[str]") -> Filter:
    """What is asked of the tag is left out: a session scope sets it, and no mapping touches it."""
    if "Session" not in condition.text:
        return condition
    node = _untagged(nnf(condition.node))
    reasons.append("$Session is set by the scopes on the way")
    return Filter(text_of(node))


def _untagged(node: "Any") -> "Any":
    kind = type(node)
    if kind is And or kind is Or:
        return join(kind, [_untagged(term) for term in node.terms])
    inner = node.term if kind is Not else node
    if type(inner) in (Constant, Within):
        return node
    names = [inner.name]
    if type(inner) is Compare and type(inner.value) is Name:
        names.append(inner.value)
    return TRUE if any([name.kind == ATTRIBUTE and name.ident == "Session" for name in names]) else node
