"""A scope's features in a few words, for pictures and explanations."""

from vicinal.filter import Filter
from vicinal.scope.graph import Scope, ScopeGraph

__all__ = ["edge_words", "scope_words", "short"]


def short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def scope_words(scope: Scope) -> list[str]:
    """What is not as it would be by itself."""
    found = []
    if scope.session:
        found.append("session")
    if scope.delivery is not None:
        found.append(scope.delivery.kind + (f" {scope.delivery.key}" if scope.delivery.key else ""))
    if scope.traverse != "broadcast":
        found.append(scope.traverse)
    for policy in scope.publishing:
        found.append(f"publishes {policy}" + (f" what meets {policy.of}" if policy.of is not None else ""))
    if scope.membership is not None:
        join = scope.membership.join
        found.append(f"members: {'nobody' if join is None else join}")
    return found


def edge_words(graph: ScopeGraph, name: str, above: str) -> list[str]:
    """Which events cross between a scope and a superscope."""
    edge = graph.edge(name, above)
    found = [f"out: {_interface(edge.output)}", f"in: {_interface(edge.input)}"]
    return [*found, "mapped"] if edge.mapping is not None else found


def _interface(filter: Filter | None) -> str:
    return "nothing" if filter is None or filter.text == "FALSE" else "all" if filter.text == "TRUE" else filter.text
