"""Normal forms. Below the root only truth counts (unknown does not match), so that NOT can be pushed to the leaves.

A *literal* is a Compare, or a Like, In, IsNull or Within, plain or under one Not. Pushing NOT inwards is exact in
three-valued logic: NOT x < 5 and x >= 5 are both unknown where x is missing.

    nnf   And and Or over literals; constants only as the whole
    dnf   a list of terms, each a list of literals; past MAX_DNF_TERMS it widens, and says so
"""

from .. import limits
from ._ast import And, Compare, Constant, Node, Not, Or

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Literals: TypeAlias = "list[Node]"

_INVERSE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}

TRUE = Constant(True)
FALSE = Constant(False)


def nnf(node: "Any", negate: bool = False) -> "Any":
    kind = type(node)
    if kind is Not:
        return nnf(node.term, not negate)
    if kind is And or kind is Or:
        parts = [nnf(term, negate) for term in node.terms]
        return join(Or if (kind is Or) is not negate else And, parts)
    if kind is Constant:
        # Unknown stays unknown under NOT, and matches as little as FALSE.
        return FALSE if node.value is None or node.value is negate else TRUE
    return negated(node) if negate else node


def negated(literal: "Any") -> "Any":
    """True where the literal is false, unknown where it is unknown."""
    if type(literal) is Not:
        return literal.term
    if type(literal) is Compare:
        return Compare(_INVERSE[literal.op], literal.name, literal.value)
    return Not(literal)


def join(kind: "type[And]", parts: "list[Node]") -> Node:
    """And or Or of parts in normal form: flat, without repetition, constants folded."""
    decisive = TRUE if kind is Or else FALSE
    terms: list[Node] = []
    for part in parts:
        if part == decisive:
            return decisive
        for term in part.terms if type(part) is kind else (part,):
            if type(term) is not Constant and term not in terms:
                terms.append(term)
    if not terms:
        return FALSE if kind is Or else TRUE
    return terms[0] if len(terms) == 1 else kind(tuple(terms))


def dnf(node: Node) -> "tuple[list[Literals], bool]":
    """The terms of a filter, and whether they are exact or wider."""
    return _terms(nnf(node))


def _terms(node: "Any") -> "tuple[list[Literals], bool]":
    kind = type(node)
    if kind is Constant:
        return ([[]] if node.value else []), True
    if kind is Or:
        found: list[Literals] = []
        exact = True
        for part in node.terms:
            terms, same = _terms(part)
            found.extend(terms)
            exact = exact and same
        return (found, exact) if len(found) <= limits.MAX_DNF_TERMS else ([[]], False)
    if kind is not And:
        return [[node]], True
    parts = [_terms(part) for part in node.terms]
    exact = all([same for _, same in parts])
    # Small factors first: what no longer fits is dropped, which widens, and the large ones weigh least. (The place is
    # part of the key because MicroPython's sort is not stable.)
    product: list[Literals] = [[]]
    for number in sorted([(len(terms), i) for i, (terms, _) in enumerate(parts)]):
        terms = parts[number[1]][0]
        if len(product) * len(terms) > limits.MAX_DNF_TERMS:
            exact = False
            continue
        product = [left + [literal for literal in right if literal not in left] for left in product for right in terms]
    return product, exact
