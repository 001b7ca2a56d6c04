"""Covering and overlapping (SIENA; facts in spec/filter.md, 5).

One filter covers another when it matches every event that the other matches. The other's terms are taken one by
one: a term is covered if it cannot be satisfied, or if it implies the covering filter, and a conjunction implies a
literal exactly when the values it leaves for the literal's name do (_values.py). Sound always; complete when both
are conjunctions of constraints on one name each. What relates two names (x < y) or is a circle is compared as such.

The tables of SIENA's own code have one wrong line (<= over prefix); here there is no table to be wrong.
"""

from .. import limits
from ._ast import And, Compare, Constant, In, Name, Node, Not, Or, Within
from ._normal import dnf, nnf
from ._parser import FLIP
from ._values import Values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# What a relation of two names says beside itself. Not that = says <=: of two booleans only the first is known.
_SAYS = {"<": ("<", "<=", "<>"), ">": (">", ">=", "<>")}
# A disjunction's alternatives may be hidden in IN lists: how many are tried one by one.
_MAX_SPLITS = 64


class Term:
    """A conjunction of literals, sorted by name."""

    def __init__(self, literals: "list[Node]", budget: "list[int] | None" = None) -> None:
        self.literals = literals
        self.budget = new_budget() if budget is None else budget
        self.values: dict[Name, Values] = {}
        self.relations: list[Any] = []
        for literal in literals:
            if relates(literal):
                self.relations.append(literal)
                self._note(literal)
            else:
                self.of(literal_name(literal)).restrict(literal)

    def of(self, name: Name) -> Values:
        if name not in self.values:
            self.values[name] = Values(name, self.budget)
        return self.values[name]

    def _note(self, literal: "Any") -> None:
        """What a relation says of each of its names alone."""
        if type(literal) is Compare:
            kinds = ("n", "s", "b", "x") if literal.op in ("=", "<>") else ("n", "s")
            self.of(literal.name).keep(kinds)
            self.of(literal.value).keep(kinds)
            return
        from ._within import place_literals

        inner: Any = literal.term if type(literal) is Not else literal
        for part in place_literals(inner, inner is not literal):
            values = self.of(literal_name(part))
            values.keep(("n",))
            values.restrict(part)

    def empty(self) -> bool:
        """True only if it is certain that no event satisfies it."""
        for values in self.values.values():
            if values.empty():
                return True
        circles = [literal for literal in self.relations if type(literal) is Within]
        return any(_apart(a, b) for i, a in enumerate(circles) for b in circles[:i])

    def implies(self, node: "Any") -> bool:
        """True only if it is certain that a node in normal form is true wherever the term is."""
        kind = type(node)
        if kind is Constant:
            return node.value is True
        if kind is And:
            return all(self.implies(part) for part in node.terms)
        if kind is Or:
            return any(self.implies(part) for part in node.terms)
        if node in self.literals:
            return True
        if relates(node):
            return any(_relation_implies(mine, node) for mine in self.relations)
        name = literal_name(node)
        return (self.values[name] if name in self.values else Values(name, self.budget)).implies(node)


def new_budget() -> "list[int]":
    return [limits.MAX_STRING_STEPS]


def covers(a: Node, b: Node, budget: "list[int] | None" = None) -> bool:
    left = new_budget() if budget is None else budget
    wanted = nnf(a)
    terms, _ = dnf(b)
    return all(_covered(literals, wanted, [_MAX_SPLITS], left) for literals in terms)


def _covered(literals: "list[Any]", wanted: Node, splits: "list[int]", budget: "list[int]") -> bool:
    term = Term(literals, budget)
    if term.implies(wanted) or term.empty():
        return True
    for i, literal in enumerate(literals):
        if type(literal) is In and len(literal.values) <= splits[0]:
            splits[0] -= len(literal.values)
            rest = literals[:i] + literals[i + 1 :]
            equals = [Compare("=", literal.name, value) for value in literal.values]
            return all(_covered([equal] + rest, wanted, splits, budget) for equal in equals)
    return False


def overlaps(a: Node, b: Node) -> bool:
    budget = new_budget()
    mine, _ = dnf(a)
    theirs, _ = dnf(b)
    return any(not Term(left + right, budget).empty() for left in mine for right in theirs)


def relates(literal: "Any") -> bool:
    """Whether a literal is about more than one name."""
    inner = literal.term if type(literal) is Not else literal
    return type(inner) is Within or (type(inner) is Compare and type(inner.value) is Name)


def literal_name(literal: "Any") -> Name:
    inner: Any = literal.term if type(literal) is Not else literal
    return inner.name  # type: ignore[no-any-return]


def _relation_implies(mine: "Any", wanted: "Any") -> bool:
    if mine == wanted:
        return True
    if type(mine) is Compare and type(wanted) is Compare:
        if mine.name == wanted.name and mine.value == wanted.value:
            return wanted.op in _SAYS.get(mine.op, (mine.op,))
        flipped = FLIP[mine.op]
        return mine.name == wanted.value and mine.value == wanted.name and wanted.op in _SAYS.get(flipped, (flipped,))
    if type(mine) is Within and type(wanted) is Within:
        return _inside(mine, wanted)
    if type(mine) is Not and type(wanted) is Not and type(mine.term) is Within and type(wanted.term) is Within:
        return _inside(wanted.term, mine.term)
    return type(mine) is Within and type(wanted) is Not and type(wanted.term) is Within and _apart(mine, wanted.term)


# Our distance is off by up to half a metre to 100 km and by percents far beyond; what is said of circles of events must
# hold for every event, so that the difference is given away.
def _slack(metres: float) -> float:
    return 2.0 if metres < 100000 else metres / 20


def _inside(small: Within, large: Within) -> bool:
    if (small.lat, small.lon) == (large.lat, large.lon):
        return small.metres <= large.metres
    from ..proximity import distance

    reach = distance(small.lat, small.lon, large.lat, large.lon) + small.metres
    return reach + _slack(reach) <= large.metres


def _apart(a: Within, b: Within) -> bool:
    from ..proximity import distance

    gap = distance(a.lat, a.lon, b.lat, b.lon)
    return gap - _slack(gap) > a.metres + b.metres
