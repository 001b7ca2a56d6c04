"""The values that one name may have under a conjunction of literals.

Values fall into kinds that never compare with each other: n numbers, s strings, b booleans, x bytes; besides them
a name may be missing ("null") or hold what compares with nothing ("other": an event, an area, NaN). Within a kind
every literal is true or false, so that one question answers all others:

    S is empty               no kind has a value
    S implies the literal    no kind has a value for which it is not true

Numbers are taken as dense, which is on the safe side: between two numbers a filter names there may be no 64-bit float.
"""

from .._compat import cmp_numbers
from ._ast import SUBJECT, Compare, In, IsNull, Like, Name, Node, Not
from ._like import literal as plain
from ._like import matcher, segments
from ._match import compare_values, equal, kind_of
from ._normal import negated
from ._strings import find_string

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KINDS = ("n", "s", "b", "x", "null", "other")
NULL = None


class Values:
    def __init__(self, name: Name, budget: "list[int]") -> None:
        """`budget` is what strings may still cost, shared by all that one question leads to."""
        self.name = name
        self.budget = budget
        self.kinds: tuple[str, ...] = KINDS
        self.literals: list[Node] = []
        if name.kind == SUBJECT:
            self.kinds = ("s",)
            self.literals.append(Compare("<>", name, ""))

    def restrict(self, literal: "Any") -> None:
        kinds = kinds_of(literal)
        self.kinds = tuple([kind for kind in self.kinds if kind in kinds])
        if not _about_presence(literal):
            self.literals.append(literal)

    def keep(self, kinds: "tuple[str, ...]") -> None:
        self.kinds = tuple([kind for kind in self.kinds if kind in kinds])

    def empty(self) -> bool:
        """True only if it is certain."""
        return not any([exists(kind, self.literals, self.budget)[0] for kind in self.kinds])

    def implies(self, literal: Node) -> bool:
        """True only if it is certain that the literal is true of every value."""
        kinds = kinds_of(literal)
        # Of a kind in which it can be true, a literal about presence is true throughout.
        opposite = [] if _about_presence(literal) else [negated(literal)]
        for kind in self.kinds:
            if kind not in kinds:
                if exists(kind, self.literals, self.budget)[0]:
                    return False
            elif opposite and exists(kind, self.literals + opposite, self.budget)[0]:
                return False
        return True

    def samples(self, against: "list[Node]") -> "list[Any]":
        """Values of the set: one of each kind, and where they exist such that fail one of the given literals."""
        found: list[Any] = []
        for kind in self.kinds:
            if kind in ("null", "other"):
                found.append(NULL if kind == "null" else float("nan"))
                continue
            inside = [literal for literal in against if kind in kinds_of(literal) and not _about_presence(literal)]
            extras: list[list[Node]] = [[]]
            for extra in extras + [[negated(literal)] for literal in inside]:
                value = exists(kind, self.literals + extra, self.budget)[1]
                if value is not None and value not in found:
                    found.append(value)
        return found


def _about_presence(literal: "Any") -> bool:
    return type(literal.term if type(literal) is Not else literal) is IsNull


def kinds_of(literal: "Any") -> "tuple[str, ...]":
    """The kinds in which a literal on one name can be true. In those it is never unknown."""
    kind = type(literal)
    if kind is Not:
        inner = literal.term
        if type(inner) is IsNull:
            return KINDS[:4] + ("other",)
        found = kinds_of(inner)
        # Beside a value of another kind each inequality of NOT IN is unknown.
        return found if type(inner) is not In or len(found) == 1 else ()
    if kind is IsNull:
        return ("null",)
    if kind is Like:
        return ("s",)
    if kind is In:
        return tuple([name for name in KINDS if name in [kind_of(value) for value in literal.values]])
    name = kind_of(literal.value)
    if name in ("b", "x") and literal.op not in ("=", "<>"):
        return ()
    return (name,)  # type: ignore[return-value]


def exists(kind: str, literals: "list[Any]", budget: "list[int]") -> "tuple[bool, Any]":
    """Whether a value of the kind satisfies all literals, and one; (True, None) if perhaps."""
    if kind in ("null", "other"):
        return True, None
    literals = _without_in(literals, kind)
    few = candidates(kind, literals)
    if few is not None:
        for value in few:
            if all([holds(literal, value) for literal in literals]):
                return True, value
        return False, None
    if kind == "n":
        return _find_number(literals)
    if kind == "s":
        return find_string(literals, budget)
    # Bytes, and only finitely many excluded.
    excluded = [literal.value for literal in literals]
    return True, [bytes(size) for size in range(len(excluded) + 1) if bytes(size) not in excluded][0]


def holds(literal: "Any", value: "Any") -> bool:
    """Whether a literal on one name is true of a value."""
    if type(literal) is Compare:
        return compare_values(literal.op, value, literal.value) is True
    if type(literal) is In:
        return any([compare_values("=", value, each) for each in literal.values])
    like: Any = literal.term if type(literal) is Not else literal
    return matcher(like.pattern, like.escape)(value) is (like is literal)


def _without_in(literals: "list[Any]", kind: str) -> "list[Any]":
    """NOT IN as inequalities. Values of another kind never equal one of this."""
    found: list[Any] = []
    for literal in literals:
        if type(literal) is Not and type(literal.term) is In:
            values = [value for value in literal.term.values if kind_of(value) == kind]
            found.extend([Compare("<>", literal.term.name, value) for value in values])
        else:
            found.append(literal)
    return found


def candidates(kind: str, literals: "list[Any]") -> "list[Any] | None":
    """The values that come into question, if they are finitely many."""
    if kind == "b":
        return [True, False]
    for literal in literals:
        if type(literal) is Compare and literal.op == "=":
            return [literal.value]
        if type(literal) is In:
            return [value for value in literal.values if kind_of(value) == kind]
        if type(literal) is Like:
            parts = segments(literal.pattern, literal.escape)
            text = plain(parts[0])
            if len(parts) == 1 and text is not None:
                return [text]
    return None


def _find_number(literals: "list[Any]") -> "tuple[bool, Any]":
    low: Any = None
    high: Any = None
    open_low = open_high = False
    excluded = []
    for literal in literals:
        value = literal.value
        if literal.op == "<>":
            excluded.append(value)
        elif literal.op in (">", ">="):
            sign = 1 if low is None else cmp_numbers(value, low)
            if sign > 0 or (sign == 0 and literal.op == ">"):
                low, open_low = value, literal.op == ">"
        else:
            sign = -1 if high is None else cmp_numbers(value, high)
            if sign < 0 or (sign == 0 and literal.op == "<"):
                high, open_high = value, literal.op == "<"
    if low is not None and high is not None:
        sign = cmp_numbers(low, high)
        if sign > 0 or (sign == 0 and (open_low or open_high or any([equal(low, value) for value in excluded]))):
            return False, None
    for value in _guesses(low, high, len(excluded) + 2):
        if all([holds(literal, value) for literal in literals]):
            return True, value
    return True, None


def _guesses(low: "Any", high: "Any", count: int) -> "list[Any]":
    """More numbers between the ends than can be excluded, the plainest first. Far out a step of 1 is lost in a float,
    so that steps grow with the numbers, and at the very end there is infinity."""
    found: list[Any] = []
    for step in range(count + 1):
        for end, sign in ((low, 1), (high, -1)):
            if end is not None:
                found.append(end + sign * step)
                if abs(end) < 1 << 63:
                    found.append(int(end) + sign * step)
                if end - end == 0 and abs(end) < 1e300:
                    found.append(float(end) + sign * step * abs(end))
        if low is not None and high is not None:
            found.append(low + (high - low) * (step / count))
        elif low is None and high is None:
            found.append(step)
    found += [float("inf"), float("-inf")]
    return [value for value in found if type(value) is float or -(1 << 63) <= value < 1 << 63]
