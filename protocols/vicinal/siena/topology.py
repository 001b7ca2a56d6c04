"""Where is broker B, and how does an event get there without leaving its scopes.

A notification moves through pairs (broker, scopes): it is forwarded to a neighbour that belongs to all the scopes it
is in now, or mapped to a superscope or subscope at a broker that belongs to both (seed 003, 4.1, the graph of
transitions). A route is the shortest such walk, of links; mappings cost nothing. All brokers with the same view find
the same one, so that each takes one step and leaves the rest to the next.

    state   one (scope, going up) for each dimension of the advertisement, in the order of its tags; () when it has none
    goal    for each of these dimensions the scope of the subscription, or None where it takes any
            of an event that scopes on its way have made another: the path to that scope, for what it was published as
            is not known on the way; and where that matters, at the end (client, scope): a client that was chosen, and
            the scope of the advanced dimension when the event was published in none. For a scope's agent (holding.py)
            the scope is there when the event leaves it, and then the event's dimensions and scopes but the advanced

A Topology never changes; brokers that share a view may share it, and what it has worked out.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeAlias

    from ..event import Event
    from ..scope.graph import ScopeGraph, Tags

    State: TypeAlias = "tuple[tuple[str, bool], ...]"
    Path: TypeAlias = "tuple[str, ...]"
    Goal: TypeAlias = "tuple[str | Path | None, ...]"
    # Interfaces that an event does not pass, by their text; or a goal with paths.
    Blocked: TypeAlias = "frozenset[str] | Goal"

__all__ = ["Step", "Topology", "blocked_for", "chosen_of", "first_state", "goal_of", "has_paths", "meets"]

_MAX_REMEMBERED = 20000


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
        self._sets = {broker: frozenset(others) for broker, others in links.items()}
        self._neighbours: dict[str, list[str]] = {}
        self._next: dict[str, dict[str, str]] = {}
        self._searches: dict[tuple[str, State, Goal, Blocked], _Search] = {}

    def neighbours(self, broker: str) -> "list[str]":
        if broker not in self._neighbours:
            said = self._said.get(broker, ())
            self._neighbours[broker] = [other for other in said if broker in self._sets.get(other, ())]
        return self._neighbours[broker]

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
        wanted = wanted[: len(state)]
        key = (broker, state, wanted, blocked)
        if key not in self._searches:
            if len(self._searches) >= _MAX_REMEMBERED:
                self._searches = {}
            self._searches[key] = _Search(self, broker, state, wanted, blocked)
        return self._searches[key].find(goal)

    def admits(self, broker: str, state: "State") -> bool:
        """Whether a broker belongs to all the scopes of a state."""
        mine = self.members.get(broker)
        return mine is not None and all([scope in mine for scope, _ in state])

    def mappings(self, broker: str, state: "State", wanted: "Goal", blocked: "Blocked") -> "list[State]":
        """The states that a broker at the boundary of two scopes may map to, one dimension at a time: on ways to what
        is wanted, else three dimensions of a hundred scopes would be a million states."""
        found = []
        mine = self.members.get(broker, frozenset())
        if type(blocked) is tuple:
            for i, (scope, up) in enumerate(state):
                step = self._along(blocked[i], scope, up)
                if step is not None and step[0] in mine:
                    found.append(state[:i] + (step,) + state[i + 1 :])
            return found
        for i, (scope, up) in enumerate(state):
            want: Any = wanted[i]
            steps = self.graph.steps(scope, up) if want is None else self.graph.ways(scope, want).get((scope, up), ())
            for name, still, interface in steps:
                if name in mine and interface.text not in blocked:
                    found.append(state[:i] + ((name, still),) + state[i + 1 :])
        return found

    def _along(self, path: "str | Path | None", scope: str, up: bool) -> "tuple[str, bool] | None":
        """The next scope on a path, if the graph has that step."""
        if type(path) is not tuple or scope not in path[:-1]:
            return None
        following = path[path.index(scope) + 1]
        for name, still, _ in self.graph.steps(scope, up):
            if name == following:
                return (name, still)
        return None


class _Search:
    """From one broker and state outwards, breadth first over links; all that mapping at one broker can reach counts as
    one place. It goes only as far as it is asked, and goes on from there when it is asked again."""

    def __init__(self, topology: Topology, broker: str, state: "State", wanted: "Goal", blocked: "Blocked") -> None:
        self._topology = topology
        self._wanted = wanted
        self._blocked = blocked
        self._found: dict[str, list[tuple[State, Step]]] = {}
        self._seen = {(broker, state)}
        self._front: list[tuple[str, State, Step]] = [(broker, state, Step([state], None))]
        self._following: list[tuple[str, State, Step]] = []

    def find(self, goal: str) -> "Step | None":
        wanted = self._wanted
        for state, step in self._found.get(goal, ()):
            if arrived(state, wanted):
                return step
        while self._front or self._following:
            if not self._front:
                self._front, self._following = self._following, []
                self._front.reverse()
            name, state, step = self._front.pop()
            self._found.setdefault(name, []).append((state, step))
            self._grow(name, state, step)
            if name == goal and arrived(state, wanted):
                return step
        return None

    def _grow(self, name: str, state: "State", step: Step) -> None:
        mapped = []
        for after in self._topology.mappings(name, state, self._wanted, self._blocked):
            if (name, after) not in self._seen:
                self._seen.add((name, after))
                # While still at home, a mapping is part of the first step.
                mapped.append((name, after, Step(step.states + [after], None) if step.hop is None else step))
        mapped.reverse()
        self._front.extend(mapped)
        for other in self._topology.neighbours(name):
            if (other, state) not in self._seen and self._topology.admits(other, state):
                self._seen.add((other, state))
                self._following.append((other, state, Step(step.states, other) if step.hop is None else step))


def arrived(state: "State", wanted: "Goal") -> bool:
    return all([want is None or scope == _end(want) for (scope, _), want in zip(state, wanted)])


def _end(want: "str | Path | None") -> "str | None":
    return want[-1] if type(want) is tuple else want  # type: ignore[return-value]


def has_paths(wanted: "Goal", dimensions: int) -> bool:
    return any([type(want) is tuple for want in wanted[:dimensions]])


def chosen_of(wanted: "Goal", dimensions: int) -> "Path":
    """(client, scope) at the end of a goal, each "" where any will do."""
    return wanted[dimensions] if len(wanted) > dimensions else ("", "")  # type: ignore[return-value]


def first_state(tags: "Tags") -> "State":
    return tuple([(scope, True) for _, scope in tags.scopes])


def goal_of(advertised: "Tags", subscribed: "Tags") -> "tuple[str | None, ...] | None":
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


def meets(goal: "tuple[str | None, ...] | None", wanted: "Goal") -> bool:
    """Whether what has come to the scopes wanted is at a subscription's goal."""
    return goal is not None and all([one == _end(want) for one, want in zip(goal, wanted)])


def blocked_for(graph: "ScopeGraph", event: "Event", tags: "Tags", wanted: "Goal") -> "Blocked":
    """What keeps an event from going any other way: the path it must take; or the interfaces that it does not pass, as
    far as they lie on its ways."""
    if has_paths(wanted, len(tags.scopes)):
        return wanted[: len(tags.scopes)]
    found = []
    for (_, start), want in zip(tags.scopes, wanted):
        for interface in graph.interfaces_between(start, _end(want)):
            if not interface.matches(event):
                found.append(interface.text)
    return frozenset(found)
