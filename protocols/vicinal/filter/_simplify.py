"""A filter that matches the same events, with fewer conditions.

Terms that no event satisfies go, then literals that the rest of their term implies, then terms that another term
covers; equalities of one name become an IN. The result is taken only if it is not longer than what it came from:
the distributed form of (a OR b) AND (c OR d) is no simplification.
"""

from ._ast import And, Compare, In, Name, Node, Or
from ._covering import Term, covers, new_budget
from ._normal import dnf, join, nnf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def simplify(node: Node) -> Node:
    folded: Node = nnf(node)
    terms, exact = dnf(node)
    if not exact:
        return folded
    budget = new_budget()
    kept = [_needed(literals, budget) for literals in terms if not Term(literals, budget).empty()]
    nodes = _merge_equalities([join(And, literals) for literals in kept])
    parts = list(nodes)
    # Longest first, so that of two equal terms the later stays.
    for order in sorted([(-size(part), i) for i, part in enumerate(nodes)]):
        part = parts[order[1]]
        others = [other for other in nodes if other is not part]
        if any(covers(other, part, budget) for other in others):
            nodes = others
    result = join(Or, nodes)
    return result if size(result) <= size(folded) else folded


def _needed(literals: "list[Node]", budget: "list[int]") -> "list[Node]":
    for literal in list(reversed(literals)):
        rest = [other for other in literals if other is not literal]
        if Term(rest, budget).implies(literal):
            literals = rest
    return literals


def _merge_equalities(nodes: "list[Node]") -> "list[Node]":
    """x = 1 OR x IN (2, 3) -> x IN (1, 2, 3), in the place of the first."""
    values: dict[Name, list[Any]] = {}
    for node in nodes:
        for value in _equals(node):
            known = values.setdefault(node.name, [])  # type: ignore[attr-defined]
            if not any([Compare("=", node.name, value) == Compare("=", node.name, other) for other in known]):  # type: ignore[attr-defined]
                known.append(value)
    found: list[Node] = []
    for node in nodes:
        if not _equals(node):
            found.append(node)
        elif node.name in values:  # type: ignore[attr-defined]
            name: Name = node.name  # type: ignore[attr-defined]
            same = values.pop(name)
            found.append(Compare("=", name, same[0]) if len(same) == 1 else In(name, tuple(same)))
    return found


def _equals(node: "Any") -> "tuple[Any, ...]":
    if type(node) is Compare and node.op == "=" and type(node.value) is not Name:
        return (node.value,)
    return node.values if type(node) is In else ()


def size(node: "Any") -> int:
    """Nodes of the tree, values of IN included."""
    kind = type(node)
    if kind is And or kind is Or:
        return 1 + sum([size(term) for term in node.terms])
    if kind is In:
        return len(node.values)
    return 1
