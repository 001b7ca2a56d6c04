"""A counter-example: an event that one filter matches and another does not.

For each term of the filter that should be covered, every name gets a few values that the term allows: one of each
kind, and such as fail a constraint of the other filter. Combinations are tried until the matchers themselves
agree that one is a counter-example, so that what is found is never wrong. Nothing found proves nothing.
"""

from ..errors import LocalProtocolError
from ..event import Event
from . import Filter
from ._ast import ATTRIBUTE, PARAM, SUBJECT, And, Name, Node, Not, Or, Within
from ._covering import Term, literal_name, relates
from ._normal import dnf, nnf
from ._values import Values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAX_TRIES = 5000
_nothing = Filter("FALSE")
_FILL = (0, 1, -1, "a", "b", True)


def example(a: "Filter") -> "Event | None":
    """An event that a filter matches."""
    return counter_example(_nothing, a)


def counter_example(a: "Filter", b: "Filter") -> "Event | None":
    """An event that `b` matches and `a` does not: why `a` does not cover `b`."""
    against = _literals(nnf(a.node))
    for literals in dnf(b.node)[0]:
        term = Term(literals)
        names: list[Name] = []
        for literal in literals + against:
            for name in _names(literal):
                if name not in names:
                    names.append(name)
        choices = [(name, _choices(name, term, against)) for name in names]
        for chosen in _combinations(choices, _MAX_TRIES):
            event = _event(chosen)
            if event is not None and b.matches(event) and not a.matches(event):
                return event
    return None


def _literals(node: "Any") -> "list[Node]":
    if type(node) is And or type(node) is Or:
        return [literal for term in node.terms for literal in _literals(term)]
    return [node] if _names(node) else []


def _names(literal: "Any") -> "list[Name]":
    inner: Any = literal.term if type(literal) is Not else literal
    if type(inner) is Within:
        return [Name(PARAM, "lat"), Name(PARAM, "lon")]
    if relates(inner):
        return [inner.name, inner.value]
    return [inner.name] if hasattr(inner, "name") else []


def _choices(name: Name, term: Term, against: "list[Node]") -> "list[Any]":
    found = _samples(name, term, against)
    for literal in term.relations + [other for other in against if relates(other)]:
        names = _names(literal)
        if name not in names:
            continue
        inner: Any = literal.term if type(literal) is Not else literal
        if type(inner) is Within:
            found.extend(_around(inner, name))
        else:
            found.extend(_samples(names[1] if name == names[0] else names[0], term, against))
            found.extend(_FILL)
    return found


def _samples(name: Name, term: Term, against: "list[Node]") -> "list[Any]":
    values = term.values[name] if name in term.values else Values(name, term.budget)
    return values.samples([literal for literal in against if not relates(literal) and literal_name(literal) == name])


def _around(circle: Within, name: Name) -> "list[int]":
    """Places at the centre, inside near the edge, and outside."""
    centre = circle.lat if name.ident == "lat" else circle.lon
    reach = circle.metres * 90  # 1e-7 degrees in a metre, about
    return [centre, centre + reach * 9 // 10, centre + reach * 2, centre - reach * 2, centre + reach // 2]


def _combinations(choices: "list[tuple[Name, list[Any]]]", most: int) -> "Any":
    """First those that differ in one name from the first of all, then all, up to so many."""
    if any([not values for _, values in choices]):
        return
    for i, (_, values) in enumerate(choices):
        for value in values:
            yield [(name, value if i == j else some[0]) for j, (name, some) in enumerate(choices)]
    at = [0] * len(choices)
    for _ in range(most):
        yield [(choices[i][0], choices[i][1][at[i]]) for i in range(len(choices))]
        for i in range(len(choices)):
            at[i] += 1
            if at[i] < len(choices[i][1]):
                break
            at[i] = 0
        else:
            return


def _event(chosen: "list[tuple[Name, Any]]") -> "Event | None":
    subject = "a"
    params: list[tuple[str, Any]] = []
    attrs: list[tuple[str, Any]] = []
    for name, value in chosen:
        if name.kind == SUBJECT:
            subject = value
        elif value is not None:
            (attrs if name.kind == ATTRIBUTE else params).append((name.ident, value))
    try:
        return Event(subject, params, attrs)
    except LocalProtocolError:
        return None
