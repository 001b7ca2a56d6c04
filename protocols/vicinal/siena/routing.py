"""Where an event goes: to which brokers, along which scopes, and in what form.

    route    (broker, the event as it is there, its tags, the goal there: topology.py)

An event is spread through the scopes of the advanced dimension (scope/spread.py) where it is published: here it is
known as it was published, and so what every interface, mapping, session and policy on its way makes of it. What is sent
to another broker is the form that its clients get, with the path of scopes by which it came to be that; brokers on the
way keep to the path, and to the scopes they are in. In the other dimensions, and where no dimension is advanced,
visibility alone decides (seed 003, 3.5), and any way through visible scopes will do.

    members  clients, where a policy chooses among them: those are told by name. Elsewhere a broker stands for all its
             clients in a scope.
    agents   what a scope's publishing policies speak of goes to the agent of the scope, a client of one broker
             (holding.py), and from there upwards.

Who is chosen is chosen by the broker where the event is published: it needs nobody's leave, and if another is out of
reach the rest go on. Each broker so takes turns of its own.
"""

from ..scope import session
from ..scope.graph import Tags
from ..scope.journey import Journey
from ..scope.policy import LEAST_LOADED, ONE_OF_N, hashed
from ..scope.publishing import policy_for
from ..scope.spread import Spread
from ..scope.visibility import visible_in
from .holding import AGENT, said_by, scope_of_agent
from .topology import goal_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from ..event import Event
    from ..scope.graph import ScopeGraph
    from .topology import Goal

    Route: TypeAlias = "tuple[str, Event, Tags, Goal]"
    # Brokers that care for an event, each with the tags of the subscriptions for which it does.
    Match: TypeAlias = "Callable[[Event], set[tuple[str, Tags]]]"

__all__ = ["Routes"]

# Ways in another dimension that are tried when scopes on the shortest have no broker in common.
_MAX_DETOURS = 8
# Choices that are remembered, for events that come again from the log.
_MAX_CHOICES = 65536
# Of events given to a client of a least-loaded scope and not done; past it the oldest count as done.
_MAX_OUTSTANDING = 65536


class _Journey(Journey):
    """`others` are the tags in the other dimensions, one of which it is visible by."""

    __slots__ = ("again", "agents", "all_others", "bottom", "by_scope", "members", "others", "routes", "seen")

    def __init__(self, event: "Event", starts: "list[str]", others: "Tags", bottom: bool, again: bool) -> None:
        super().__init__(said_by(event), event, starts)
        self.all_others = others.scopes
        self.others = others.alternatives()
        self.bottom = bottom
        self.again = again
        self.routes: list[Route] = []
        self.members: dict[str, tuple[str, Tags]] = {}
        self.seen: dict[Tags, tuple[Tags, tuple[str | None, ...]] | None] = {}
        self.agents: dict[str, tuple[Event, bool]] = {}
        self.by_scope: list[tuple[Event, dict[str | None, list[tuple[str, Tags]]]]] = []


class Routes(Spread):
    def __init__(
        self,
        graph: "ScopeGraph",
        match: "Match",
        has_no_way: "Callable[[Event, Tags, str, Goal], bool]",
        scopes_of: "Callable[[str], frozenset[str]]",
    ) -> None:
        self._match = match
        self._scopes_of = scopes_of
        self._has_no_way = has_no_way
        self._choices: dict[Any, str] = {}
        self._outstanding: dict[str, list[tuple[tuple[str, str], ...]]] = {}
        self._done: dict[str, int] = {}
        super().__init__(graph)

    def use_graph(self, graph: "ScopeGraph") -> None:
        self.graph = graph
        self._build()

    def of(self, event: "Event", tags: "Tags", now: int, again: bool = False) -> "list[Route]":
        """Each broker and goal once, in the order in which they are to be sent. `again`: from the log."""
        if self.graph.advanced is None:
            return self.visible(event, tags.alternatives(), self._match(event))
        return self._spread(event, tags, now, again)

    def visible(self, event: "Event", starts: "list[Tags]", matched: "set[tuple[str, Tags]]") -> "list[Route]":
        found: dict[Any, Route] = {}
        for broker, subscribed in matched:
            for tags in starts:
                wanted = goal_of(tags, subscribed)
                if wanted is None:
                    continue
                key = (broker, repr(wanted), tags.scopes)
                if key in found:
                    break
                if not self._passes(event, tags, wanted):
                    continue
                if tags.scopes and self._has_no_way(event, tags, broker, wanted):
                    self._count("dropped: no way within its scopes")
                    continue
                found[key] = (broker, event, tags, wanted)
                break
        return [found[key] for key in sorted(found)]

    def _passes(self, event: "Event", tags: "Tags", wanted: "tuple[str | None, ...]") -> bool:
        pairs = zip(tags.scopes, wanted)
        return all([scope is None or visible_in(self.graph, event, start[1], scope) for start, scope in pairs])

    # Through the advanced dimension

    def _spread(self, event: "Event", tags: "Tags", now: int, again: bool) -> "list[Route]":
        advanced = self.graph.advanced
        starts = [scope for dimension, scope in tags.scopes if dimension == advanced and scope in self.graph]
        others = Tags([pair for pair in tags.scopes if pair[0] != advanced], tags.rest, tags.admitted)
        producer = event.producer or ""
        if producer.startswith(AGENT):
            # What an agent lets go is in the scope already.
            scope = scope_of_agent(producer)
            journey = _Journey(event, [scope], others, False, again)
            journey.taken.add(scope)
            above = self._above(journey, scope, event) if scope in self.graph else []
            self._rise(journey, self._crossed(journey, scope, above), now)
        else:
            bottom = not starts
            journey = _Journey(event, starts, others, bottom, again)
            by_scope = self._by_scope(journey, event)
            if bottom and tags.rest:
                if session.tag_of(self.graph, event) is None:
                    starts = sorted([scope for scope in by_scope if scope is not None and scope in self.graph])
                else:
                    starts = sorted([one.name for one in self.graph.scopes.values() if one.dimension == advanced])
            journey.starts = [scope for scope in starts if self._enters(producer, scope, event)]
            self._rise(journey, [(scope, event) for scope in journey.starts], now)
            self._outside(journey, by_scope.get(None, []))
        self._to_agents(journey)
        return journey.routes

    def _outside(self, journey: _Journey, rows: "list[tuple[str, Tags]]") -> None:
        """To those in no scope of the advanced dimension: as it was published."""
        starts = journey.others
        if not journey.bottom:
            starts = [self._with_start(tags, start) for start in journey.starts for tags in journey.others]
        journey.routes += self.visible(journey.event, starts, set(rows))

    def _with_start(self, tags: "Tags", start: str) -> "Tags":
        advanced: Any = self.graph.advanced
        return Tags(tags.scopes + ((advanced, start),), tags.rest, tags.admitted)

    def _by_scope(self, journey: _Journey, form: "Event") -> "dict[str | None, list[tuple[str, Tags]]]":
        """Who cares for a form, by their scope in the advanced dimension."""
        for known, found in journey.by_scope:
            if known is form:
                return found
        advanced: Any = self.graph.advanced
        rows: dict[str | None, list[tuple[str, Tags]]] = {}
        for row in self._match(form):
            rows.setdefault(row[1].get(advanced), []).append(row)
        journey.by_scope.append((form, rows))
        return rows

    def _members(self, journey: Journey, scope: str, form: "Event", now: int) -> "list[str]":
        assert isinstance(journey, _Journey)
        found = []
        for broker, tags in self._by_scope(journey, form).get(scope, ()):
            if tags.who.startswith(AGENT) or self._seen(journey, tags) is None:
                continue
            name = f"{tags.who}\0{broker}" if tags.who else f"\0{broker}\0{tags!r}"
            if name not in journey.received and tags.who != journey.component:
                journey.members[name] = (broker, tags)
                if name not in found:
                    found.append(name)
        return sorted(found)

    def _seen(self, journey: _Journey, subscribed: "Tags") -> "tuple[Tags, tuple[str | None, ...]] | None":
        """By which tags in the other dimensions it is visible to a subscription, and its scopes there."""
        if subscribed not in journey.seen:
            advanced: Any = self.graph.advanced
            elsewhere = Tags([pair for pair in subscribed.scopes if pair[0] != advanced], subscribed.rest)
            journey.seen[subscribed] = None
            for tags in journey.others:
                wanted = goal_of(tags, elsewhere)
                if wanted is not None and self._passes(journey.event, tags, wanted):
                    if not journey.bottom or tags.rest:
                        journey.seen[subscribed] = (tags, wanted)
                        break
        return journey.seen[subscribed]

    def _goes_up(self, journey: Journey, scope: str, form: "Event", above: "list[tuple[str, Event]]", now: int) -> bool:
        assert isinstance(journey, _Journey)
        if journey.bottom:
            return session.tag_of(self.graph, journey.event) is not None  # else it is everywhere already
        policies = self.graph.scopes[scope].publishing
        if not policies or policy_for(policies, form) is None:
            return True
        journey.agents[scope] = (form, True)
        return False

    def _saw(self, journey: Journey, scope: str, form: "Event") -> None:
        assert isinstance(journey, _Journey)
        policies = self.graph.scopes[scope].publishing
        for policy in policies:
            for condition in (policy.until, policy.closed_by):
                if condition is not None and condition.matches(form):
                    journey.agents.setdefault(scope, (form, False))

    def _to_agents(self, journey: _Journey) -> None:
        for scope, (form, leaves) in journey.agents.items():
            rows = [row for row in self._by_scope(journey, form).get(scope, ()) if row[1].who.startswith(AGENT)]
            if leaves and not rows:
                self._count("dropped: nobody holds what leaves its scope")
            # While it goes over from one broker to another two may say that they hold: one gets it.
            holder = self.graph.scopes[scope].holder
            rows.sort(key=lambda row: (row[0] != holder, row[0]))
            for broker, tags in rows[:1]:
                others = self._let_go_in(journey, broker) if leaves else []
                self._route(journey, broker, tags, scope, form, (tags.who, scope if leaves else "") + tuple(others))

    def _let_go_in(self, journey: _Journey, broker: str) -> "list[str]":
        """Dimensions and scopes but the advanced: its own, or where the agent's broker is not in one of them, the
        nearest above it that it is in and the event gets to."""
        mine = self._scopes_of(broker)
        found: list[str] = []
        for dimension, scope in journey.all_others:
            level, seen = [scope], {scope}
            while level and not any([name in mine for name in level]):
                level = [
                    name
                    for at in level
                    for name, up, interface in self.graph.steps(at, True)
                    if up and name not in seen and self.graph.passes(interface, journey.event)
                ]
                seen.update(level)
            inside = sorted([name for name in level if name in mine])
            found.extend((dimension, inside[0] if inside else scope))
        return found

    def _choose(self, journey: Journey, scope: str, offered: "list[str]", form: "Event") -> "list[str]":
        """What comes again from the log goes to whom it went before, or where that is not known to one that the event
        itself decides on."""
        assert isinstance(journey, _Journey)
        kind = self._choosers[scope].delivery.kind
        if kind not in (ONE_OF_N, LEAST_LOADED) or not offered:
            return super()._choose(journey, scope, offered, form)
        key = (scope, form.identity)
        if journey.again:
            known = self._choices.get(key, "")
            return [known if known in offered else offered[hashed(repr(key).encode()) % len(offered)]]
        found = super()._choose(journey, scope, offered, form)
        if len(self._choices) >= _MAX_CHOICES:
            self._choices = {}
        self._choices[key] = found[0]
        return found

    def _deliver(
        self, journey: Journey, name: str, scope: "str | None", form: "Event", chain: "tuple[tuple[str, str], ...]"
    ) -> None:
        assert isinstance(journey, _Journey)
        assert scope is not None
        if name in journey.received:
            return
        journey.received.add(name)
        broker, tags = journey.members[name]
        self._route(journey, broker, tags, scope, form, (tags.who, scope if journey.bottom else ""))
        if any([self._choosers[at].delivery.kind == LEAST_LOADED for at, _ in chain]) and not journey.again:
            waiting = self._outstanding.setdefault(name, [])
            waiting.append(chain)
            if len(waiting) > _MAX_OUTSTANDING:
                self._is_done(waiting.pop(0))

    def _route(
        self,
        journey: _Journey,
        broker: str,
        subscribed: "Tags",
        scope: str,
        form: "Event",
        chosen: "tuple[str, ...]",
    ) -> None:
        seen = self._seen(journey, subscribed)
        if seen is None:
            return
        others, wanted = seen
        path = journey.path(scope)
        advanced: Any = self.graph.advanced
        end: Any = (chosen,) if chosen[0] or chosen[1] else ()
        # Where some way would make another of it, or not let it in, it keeps to the one it took.
        as_published = form is journey.event and self.graph.is_plain(path[0], scope)
        if as_published:
            goals = [(others, wanted)]
        else:
            goals = [(others, detour) for detour in self._detours(journey.event, others, wanted)]
        for tags, goal in goals:
            full: Any = goal
            if not journey.bottom or path[0] != scope:
                tags = self._with_start(others, path[0])
                at = [name for name, _ in tags.scopes].index(advanced)
                full = goal[:at] + (scope if as_published else path,) + goal[at:]
            route = (broker, form, tags, full + end)
            if not tags.scopes or not self._has_no_way(form, tags, broker, full):
                if route not in journey.routes:
                    journey.routes.append(route)
                return
        self._count("dropped: no way within its scopes")

    def _detours(self, event: "Event", tags: "Tags", wanted: "tuple[str | None, ...]") -> "list[Any]":
        """Goals with a path in each dimension that the event passes, the shortest first."""
        found: list[tuple[Any, ...]] = [()]
        for (_, start), goal in zip(tags.scopes, wanted):
            paths: list[Any] = [None] if goal is None else self._paths(event, start, goal)
            found = [one + (path,) for one in found for path in paths][:_MAX_DETOURS]
        return found

    def _paths(self, event: "Event", start: str, goal: str) -> "list[tuple[str, ...]]":
        ways = self.graph.ways(start, goal)
        found: list[tuple[str, ...]] = []
        front: list[tuple[tuple[str, ...], bool]] = [((start,), True)]
        while front and len(found) < _MAX_DETOURS:
            following = []
            for path, up in front:
                if path[-1] == goal:
                    found.append(path)
                    continue
                for name, still, interface in ways.get((path[-1], up), ()):
                    if interface.matches(event):
                        following.append((path + (name,), still))
            front = following[: _MAX_DETOURS * _MAX_DETOURS]
        return found

    # Of least-loaded

    def reported(self, broker: str, client: str, done: int) -> None:
        """So many in all of what was given to a client it has done."""
        name = f"{client}\0{broker}"
        waiting = self._outstanding.get(name, [])
        for _ in range(min(max(done - self._done.get(name, 0), 0), len(waiting))):
            self._is_done(waiting.pop(0))
        self._done[name] = done

    def gone(self, broker: str, client: str) -> None:
        name = f"{client}\0{broker}"
        for chain in self._outstanding.pop(name, []):
            self._is_done(chain)
        self._done.pop(name, None)

    def _is_done(self, chain: "tuple[tuple[str, str], ...]") -> None:
        for scope, member in chain:
            if scope in self._choosers:
                self._choosers[scope].done(member)
