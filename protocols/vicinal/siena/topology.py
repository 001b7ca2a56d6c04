"""Where is broker B, and how does an event get there without leaving its scopes.

A notification moves through pairs (broker, scopes): it is forwarded to a neighbour that belongs to all the scopes it
is in now, or mapped to a superscope or subscope at a broker that belongs to both (seed 003, 4.1, the graph of
transitions). A route is the shortest such walk, of links; mappings cost nothing. All brokers with the same view find
the same one, so that each takes one step and leaves the rest to the next.

    state   one (scope, going up) for each dimension of the advertisement, in the order of its tags; () when it has none
    goal    for each of these dimensions the scope of the subscription, or None where it takes any

A Topology never changes; brokers that share a view may share it, and what it has worked out.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from ..event import Event
    from ..scope.graph import ScopeGraph, Tags

    State: TypeAlias = "tuple[tuple[str, bool], ...]"
    Goal: TypeAlias = "tuple[str | None, ...]"
    Blocked: TypeAlias = "frozenset[tuple[str, bool]]"

__all__ = ["Step", "Topology", "blocked_for", "first_state", "goal_of"]

_MAX_REMEMBERED = 10000


class Step:
    """What to do next: be mapped through `states` here (the first is where it stands), then go to `hop`, or stay
    (None)."""

    __slots__ = ("hop", "states")

    def __init__(self, states: "list[State]", hop: "str | None") -> None:
        self.states = states
        self.hop = hop


class Topology:
    def __init__(
        self, links: "Mapping[str, tuple[str, ...]]", members: "Mapping[str, frozenset[str]]", graph: "ScopeGraph"
    ) -> None:
        """`links` are what each broker says of itself; only those that both ends name are used."""
        self.graph = graph
        self.members = members
        self._said = links
        self._next: dict[str, dict[str, str]] = {}
        self._reached: dict[tuple[str, State, Blocked], dict[str, list[tuple[State, Step]]]] = {}

    def neighbours(self, broker: str) -> "list[str]":
        return [other for other in self._said.get(broker, ()) if broker in self._said.get(other, ())]

    def towards(self, broker: str, goal: str) -> "str | None":
        """The next hop of the shortest way, for what belongs to no scope."""
        if goal not in self._next:
            self._next[goal] = self._tree(goal)
        return self._next[goal].get(broker)

    def _tree(self, root: str) -> "dict[str, str]":
        found: dict[str, str] = {root: root}
        front = [root]
        while front:
            following = []
            for broker in front:
                for other in self.neighbours(broker):
                    if other not in found:
                        found[other] = broker
                        following.append(other)
            front = following
        return found

    def step(self, broker: str, state: "State", goal: str, wanted: "Goal", blocked: "Blocked") -> "Step | None":
        """The first step from a broker and state to a broker and the wanted scopes; None if there is no way."""
        if not state:
            if broker == goal:
                return Step([()], None)
            hop = self.towards(broker, goal)
            return None if hop is None else Step([()], hop)
        for there, step in self._reach(broker, state, blocked).get(goal, ()):
            if arrived(there, wanted):
                return step
        return None

    def _reach(self, broker: str, state: "State", blocked: "Blocked") -> "dict[str, list[tuple[State, Step]]]":
        """Every broker that can be reached, in which states, and the first step to each, the nearest first."""
        key = (broker, state, blocked)
        if key not in self._reached:
            if len(self._reached) >= _MAX_REMEMBERED:
                self._reached = {}
            self._reached[key] = self._search(broker, state, blocked)
        return self._reached[key]

    def _search(self, broker: str, state: "State", blocked: "Blocked") -> "dict[str, list[tuple[State, Step]]]":
        """Breadth first over links; all that mapping at one broker can reach counts as one place."""
        found: dict[str, list[tuple[State, Step]]] = {}
        here = Step([state], None)
        front: list[tuple[str, State, Step]] = [(broker, state, here)]
        seen = {(broker, state)}
        while front:
            following: list[tuple[str, State, Step]] = []
            at = 0
            while at < len(front):
                name, now, step = front[at]
                at += 1
                found.setdefault(name, []).append((now, step))
                for mapped in self.mappings(name, now, blocked):
                    if (name, mapped) not in seen:
                        seen.add((name, mapped))
                        # While still at home, a mapping is part of the first step.
                        longer = Step(step.states + [mapped], None) if step.hop is None else step
                        front.append((name, mapped, longer))
                for other in self.neighbours(name):
                    if (other, now) not in seen and self.admits(other, now):
                        seen.add((other, now))
                        following.append((other, now, Step(step.states, other) if step.hop is None else step))
            front = following
        return found

    def admits(self, broker: str, state: "State") -> bool:
        """Whether a broker belongs to all the scopes of a state."""
        mine = self.members.get(broker)
        return mine is not None and all([scope in mine for scope, _ in state])

    def mappings(self, broker: str, state: "State", blocked: "Blocked") -> "list[State]":
        """The states that a broker at the boundary of two scopes may map to, one dimension at a time."""
        found = []
        mine = self.members.get(broker, frozenset())
        for i, (scope, up) in enumerate(state):
            for name, still, _ in self.graph.steps(scope, up):
                # The interface is the lower scope's: its output going up, its input coming down.
                edge = (scope, True) if still else (name, False)
                if name in mine and edge not in blocked:
                    found.append(state[:i] + ((name, still),) + state[i + 1 :])
        return found


def arrived(state: "State", wanted: "Goal") -> bool:
    return all([want is None or scope == want for (scope, _), want in zip(state, wanted)])


def first_state(tags: "Tags") -> "State":
    return tuple([(scope, True) for _, scope in tags.scopes])


def goal_of(advertised: "Tags", subscribed: "Tags") -> "Goal | None":
    """The scopes an event must reach for a subscription; None if it cannot be visible there (seed 003, 3.5)."""
    if not advertised.rest and any([advertised.get(dimension) is None for dimension, _ in subscribed.scopes]):
        return None
    wanted = []
    for dimension, _ in advertised.scopes:
        scope = subscribed.get(dimension)
        if scope is None and not subscribed.rest:
            return None
        wanted.append(scope)
    return tuple(wanted)


def blocked_for(graph: "ScopeGraph", event: "Event") -> "Blocked":
    """The interfaces an event does not pass: (scope, True) its output, (scope, False) its input."""
    found = []
    for scope in graph.scopes.values():
        # (One that is not there is closed anyway, and never asked.)
        if scope.output is not None and not scope.output.matches(event):
            found.append((scope.name, True))
        if scope.input is not None and not scope.input.matches(event):
            found.append((scope.name, False))
    return frozenset(found)
