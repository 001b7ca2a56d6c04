"""Whether a component may say or hear an event, apart from its way through the advanced dimension: the membership of
every scope it is in, and the other dimensions (seed 003, 3.5), which judge the event as it was published.

In each of them, where both are in scopes there is a visibility path from one to the other; where one is in none it
counts as bottom or top, if it minds that not, but not past a rule: a scope that would not have it does not hear it, nor
is it heard there.
"""

from .membership import PUBLISH, SUBSCRIBE, Memberships
from .visibility import visible_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..event import Event
    from .component import Component
    from .graph import ScopeGraph

__all__ = ["Judge"]


class Judge:
    def __init__(self, graph: "ScopeGraph", memberships: Memberships) -> None:
        self.graph = graph
        self.memberships = memberships

    def refusal(self, component: "Component", scope: str, action: str, now: int) -> str:
        return self.memberships.refusal(component.identity, scope, action, now)

    def allowed(self, component: "Component", scopes: "list[str]", action: str, now: int) -> "list[str]":
        return [scope for scope in scopes if not self.refusal(component, scope, action, now)]

    def starts(self, component: "Component", now: int) -> "list[str] | None":
        """The scopes of the advanced dimension that it publishes in; None if it may not publish at all, because in some
        dimension it may in none of its scopes."""
        for dimension in self.graph.dimensions:
            mine = self.graph.scopes_of(component, dimension)
            if mine and not self.allowed(component, mine, PUBLISH, now):
                return None
        advanced = self.graph.advanced
        if advanced is None:
            return []
        inside = self.graph.scopes_of(component, advanced)
        if not inside and component.rest:  # bottom
            inside = sorted([name for name, scope in self.graph.scopes.items() if scope.dimension == advanced])
        return self.allowed(component, inside, PUBLISH, now)

    def ended(self, name: str, starts: "list[str]", now: int) -> str:
        """Why a component could not publish now what it published before in these scopes; empty if it could."""
        component = self.graph.components.get(name)
        if component is None:
            return f"{name!r} is no longer there"
        for start in starts:
            if start not in self.graph:
                return f"{start!r} is no longer there"
            mine = self.graph.scopes_of(component, self.graph.scopes[start].dimension)
            if start not in mine and (mine or not component.rest):
                return f"{name!r} is no longer in {start!r}"
            why = self.refusal(component, start, PUBLISH, now)
            if why:
                return why
        return ""

    def hears_outside(self, consumer: "Component", starts: "list[str]", producer: "Component", now: int) -> str:
        """Of a consumer in no scope of the advanced dimension, why not; empty if it does."""
        advanced = self.graph.advanced
        if advanced is None or not self.graph.scopes_of(producer, advanced):
            return ""
        if not consumer.rest:
            return f"it is in no scope of dimension {advanced!r}"
        if not self.allowed(consumer, starts, SUBSCRIBE, now):
            return f"it may not subscribe in any of {', '.join(starts) or 'none'}"
        return ""

    def hiding(self, producer: "Component", consumer: "Component", event: "Event", now: int) -> str:
        """Why it is not visible in one of the other dimensions; empty if it is in all."""
        for dimension in self.graph.dimensions:
            if dimension != self.graph.advanced:
                why = self.hiding_in(dimension, producer, consumer, event, now)
                if why:
                    return f"dimension {dimension!r}: {why}"
        return ""

    def hiding_in(self, dimension: str, producer: "Component", consumer: "Component", event: "Event", now: int) -> str:
        starts, goals = self.graph.scopes_of(producer, dimension), self.graph.scopes_of(consumer, dimension)
        if not starts and not goals:
            return ""
        if (not starts and not producer.rest) or (not goals and not consumer.rest):
            one = producer if not starts else consumer
            return f"{one.name!r} is in no scope of it, and not in the rest either"
        # Who is in none is asked of the other's scopes.
        says = self.allowed(producer, starts or goals, PUBLISH, now)
        hears = self.allowed(consumer, goals or starts, SUBSCRIBE, now)
        if not says:
            return f"{producer.name!r} may not publish in {', '.join(starts or goals)}"
        if not hears:
            return f"{consumer.name!r} may not subscribe in {', '.join(goals or starts)}"
        if not starts or not goals:
            both = [scope for scope in says if scope in hears]
            return "" if both else f"no scope has both {producer.name!r} and {consumer.name!r}"
        for start in says:
            for goal in hears:
                if visible_in(self.graph, event, start, goal):
                    return ""
        return f"no way from {', '.join(says)} to {', '.join(hears)}"
