"""A condition on a converted value, as a condition on the value before: never narrower, and exact where it can be.

With y = round(A(v)) and A rising, y >= c holds from one number on: where A(v) is half way between the last float (or
whole number) below c and the first from c on. That place is an exact fraction, and so is the v that leads to it; it is
written as the first number from there on that the other side can hold. `<` and `<=` are what is left over.

    rate >= 30 in mph, v in km/h       v >= 48.28032
"""

from .. import limits
from .._compat import decode_utf8
from ..filter._ast import And, Compare, In, IsNull, Like, Name, Node, Not, Or
from ..filter._match import kind_of
from ..filter._normal import FALSE, join
from ..filter._values import holds, kinds_of
from ._convert import Conversion, Unmappable
from ._exact import BITS, before, floor_parts, ratio, ratio_of, reduced, value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._exact import Ratio

__all__ = ["present", "through"]

_KIND = {"int": "n", "float": "n", "str": "s", "bool": "b", "bytes": "x"}
# Of these the values are few: the condition is asked of each.
_BOTH = {
    ("bool", "int"): ((False, 0), (True, 1)),
    ("bool", "str"): ((False, "false"), (True, "true")),
    ("int", "bool"): ((0, False), (1, True)),
    ("str", "bool"): (("false", False), ("true", True)),
}


def present(name: Name) -> Node:
    return Not(IsNull(name))


def through(conversion: Conversion, literal: "Any", name: Name) -> "tuple[Node, bool]":
    """The condition on `name`, which holds the value before; and whether it is exact."""
    inner = literal.term if type(literal) is Not else literal
    if type(inner) is IsNull:
        return (IsNull(name) if inner is literal else present(name)), True
    kind = _KIND[conversion.target]
    if kind not in kinds_of(literal):
        return FALSE, True
    both = _BOTH.get((conversion.source, conversion.target))
    if both is not None:
        return _of_few([value for value, after in both if _holds(literal, after)], both, name), True
    if type(inner) is In:
        same = [value for value in inner.values if kind_of(value) == kind]
        op = "=" if inner is literal else "<>"
        found = [_compare(conversion, op, value, name) for value in same]
        return join(Or if op == "=" else And, [node for node, _ in found]), all([exact for _, exact in found])
    if type(inner) is Like:
        if conversion.source == conversion.target:
            return _renamed(literal, name), True
        return present(name), False
    return _compare(conversion, literal.op, literal.value, name)


def _holds(literal: "Any", value: "Any") -> bool:
    if type(literal) is Not and type(literal.term) is In:
        return all([holds(Compare("<>", literal.term.name, each), value) for each in literal.term.values])
    return holds(literal, value)


def _of_few(values: "list[Any]", both: "Any", name: Name) -> Node:
    if len(values) == len(both):
        return present(name)
    return Compare("=", name, values[0]) if values else FALSE


def _renamed(literal: "Any", name: Name) -> Node:
    if type(literal) is Not:
        return Not(_renamed(literal.term, name))
    return Like(name, literal.pattern, literal.escape)


def _compare(conversion: Conversion, op: str, value: "Any", name: Name) -> "tuple[Node, bool]":
    if conversion.numeric:
        return _number(conversion, op, value, name)
    if conversion.source == conversion.target:
        return Compare(op, name, value), True
    if op not in ("=", "<>") or conversion.target in ("int", "float"):
        # Order is another among decimals, and many texts are one number.
        return present(name), False
    found = _source_of(conversion, value)
    if found is None:
        return (FALSE if op == "=" else present(name)), True
    return Compare(op, name, found), True


def _source_of(conversion: Conversion, value: "Any") -> "Any":
    """The one value that becomes this one; None if there is none."""
    if conversion.target == "bytes":
        return decode_utf8(value)
    if conversion.source == "bytes":
        return value.encode("utf-8")
    try:
        found = conversion.back().apply(value)
        return found if conversion.apply(found) == value else None
    except Unmappable:
        return None


# Numbers


def _number(conversion: Conversion, op: str, value: "Any", name: Name) -> "tuple[Node, bool]":
    if op == "<>":
        low, exact = _number(conversion, "<", value, name)
        high, same = _number(conversion, ">", value, name)
        return _merged(join(Or, [low, high]), name), exact and same
    if op == "=":
        low, exact = _number(conversion, ">=", value, name)
        high, same = _number(conversion, "<=", value, name)
        return _merged(join(And, [low, high]), name), exact and same
    rises = op in (">", ">=")
    edge = _from(conversion, ratio(value), op in (">", "<="))
    if edge is None:
        return (FALSE if rises else present(name)), True
    (n, d), open_ = edge
    # A(v) > edge, or >= ; for < and <= all that is not that.
    if not rises:
        open_ = not open_
    start = reduced(n * conversion.d - conversion.m * d, d * conversion.n)
    return _beyond(name, start, open_, rises is not conversion.falls, conversion.source)


def _from(conversion: Conversion, least: "Ratio", open_: bool) -> "tuple[Ratio, bool] | None":
    """Where A(v) begins to be rounded to `least` or more (`open_`: to more than that), and whether without that place.
    None: nothing is."""
    n, d = least
    if conversion.target == "int":
        first = n // d + 1 if open_ else -(-n // d)
        if conversion.rounding == "down":
            return (first, 1), False
        if conversion.rounding == "up":
            return (first - 1, 1), True
        return (2 * first - 1, 2), bool(first & 1)
    down = floor_parts(-n, d)  # the least that is at least n / d is the negative of this
    if down is None:
        return None
    first_parts = (-down[0], down[1])
    if open_ and _equal(ratio_of(first_parts), least):
        # The next greater: mirrored, the one before.
        m, e = before((-first_parts[0], first_parts[1]))
        first_parts = (-m, e)
    last = before(first_parts)
    (a, b), (p, q) = ratio_of(first_parts), ratio_of(last)
    return reduced(a * q + p * b, 2 * b * q), bool(first_parts[0] & 1)


def _equal(a: "Ratio", b: "Ratio") -> bool:
    return a[0] * b[1] == b[0] * a[1]


def _beyond(name: Name, start: "Ratio", open_: bool, rises: bool, source: str) -> "tuple[Node, bool]":
    """v > start or v >= start (or <, <= if not `rises`), in numbers that a filter and the source can hold."""
    n, d = start
    if not rises:
        n = -n  # -v > -start
    op, other = (">", ">=") if rises else ("<", "<=")
    sign = 1 if rises else -1
    if source == "int":
        first = n // d + 1 if open_ else -(-n // d)
        if first > limits.INT_MAX:
            # -2^63 is one more than 2^63 - 1 is.
            return (Compare("=", name, limits.INT_MIN) if not rises and first == limits.INT_MAX + 1 else FALSE), True
        if first <= limits.INT_MIN:
            return present(name), True
        return Compare(other, name, sign * first), True
    if d == 1 and -limits.INT_MAX <= n <= limits.INT_MAX:
        return Compare(op if open_ else other, name, sign * n), True
    down = floor_parts(n, d)
    if down is None:
        return present(name), False
    if _equal(ratio_of(down), (n, d)):
        return Compare(op if open_ else other, name, sign * value_of(down)), True
    if abs(n) >> BITS < d:
        # Between two floats there is no whole number here, so that both kinds begin at the next float: from it on, or
        # after the one before it, whichever is shorter.
        m, e = before((-down[0], down[1]))
        last, first_float = sign * value_of(down), sign * value_of((-m, e))
        if len(repr(last)) < len(repr(first_float)):
            return Compare(op, name, last), True
        return Compare(other, name, first_float), True
    return Compare(op, name, sign * value_of(down)), False


def _merged(node: "Any", name: Name) -> Node:
    """v >= 5 AND v <= 5 is v = 5; v < 5 OR v > 5 is v <> 5."""
    terms = getattr(node, "terms", ())
    if len(terms) == 2 and all([type(term) is Compare for term in terms]):
        first, second = sorted(terms, key=lambda term: term.op)
        if first.value == second.value and type(first.value) is type(second.value):
            if (first.op, second.op) == ("<=", ">="):
                return Compare("=", name, first.value)
            if (first.op, second.op) == ("<", ">"):
                return Compare("<>", name, first.value)
    return node  # type: ignore[no-any-return]
