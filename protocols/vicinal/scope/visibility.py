"""From where to where an event is visible: the relation of seed 003, 3.4 and 3.5, as it is written there.

Brokers do not ask it: they walk it, step by step, where the scopes' overlays meet. It is what their walk must amount
to.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container

    from ..event import Event
    from .graph import ScopeGraph, Tags

__all__ = ["visible", "visible_in"]


def visible_in(
    graph: "ScopeGraph", event: "Event", start: str, goal: str, within: "Container[str] | None" = None
) -> bool:
    """Within one dimension: from a producer in one scope to a consumer in another; `within` some scopes only."""
    if start == goal:
        return True
    ways = graph.ways(start, goal)
    seen = set()
    front = [(start, True)]
    while front:
        state = front.pop()
        if state in seen:
            continue
        seen.add(state)
        if state[0] == goal:
            return True
        for name, up, interface in ways.get(state, ()):
            if (within is None or name in within) and interface.matches(event):
                front.append((name, up))
    return False


def visible(graph: "ScopeGraph", event: "Event", advertised: "Tags", subscribed: "Tags") -> bool:
    """In all the dimensions that either names."""
    for dimension, start in advertised.scopes:
        goal = subscribed.get(dimension)
        if goal is None:
            if not subscribed.rest:
                return False
        elif not visible_in(graph, event, start, goal):
            return False
    return advertised.rest or all([advertised.get(dimension) is not None for dimension, _ in subscribed.scopes])
