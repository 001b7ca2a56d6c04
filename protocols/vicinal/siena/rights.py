"""What the clients of one broker may: their identities, the scopes they are put into, and what they may say and hear.

    admit(client, identity)                 who it is, as far as its connection proves it
    placed(client, filter, tags, action)    where an advertisement or a subscription is, and how far it goes
    outgoing(client, tags)                  the tags of what is published now
    audible(keys, tags, event, by_key)      whose subscriptions may have it now

The membership of every scope is asked each time (scope/membership.py). Answers are remembered until somebody says
something, the scopes change, or time ends what they stand on.

Where an event is published its producer is known, where it is delivered the consumer is. A producer that names no scope
of a dimension is not heard past a rule unless the rule has it (SCOPE-35): the broker where it publishes says so, in the
tags of the event (`admitted`). Of producers elsewhere only the name is known: what was said against it counts.
"""

from ..errors import LocalProtocolError
from ..filter import Filter
from ..scope.graph import Tags
from ..scope.membership import PUBLISH, SUBSCRIBE, Identity, Memberships
from .holding import AGENT, said_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ..event import Event
    from ..scope.component import Component
    from ..scope.graph import ScopeGraph
    from .interest import Subscription

__all__ = ["NotAllowed", "Rights", "person"]

# Identities of clients that have gone, of whom something may still wait: half of them are forgotten at once.
_MAX_GONE = 20000
# Clients of whom answers are remembered, and of each of them how many.
_MAX_CLIENTS = 20000
_MAX_ANSWERS = 4096
# Tags of deliveries that nobody has fetched.
_MAX_SEEN = 4096


class NotAllowed(LocalProtocolError):
    """A client asked for what its rights do not give it; the message says why."""


def person(client: str) -> str:
    """Of whom a client is, or a producer: somebody may have several at once, "ann~1" and "ann~2"."""
    at = client.find("~")
    return client[:at] if at > 0 else client


class Rights:
    def __init__(self, graph: "ScopeGraph") -> None:
        self.graph = graph
        self.memberships = Memberships(graph)
        self.now = 0
        """the latest time that anybody told"""
        self.due: int | None = None
        """when an identity or an approval ends"""
        self.generation = 0
        """grows with every change"""
        self.guarded = False
        """whether anything can be refused at all"""
        self.seen: dict[Any, tuple[Tags, int]] = {}
        """of events in scopes that were delivered: their tags, and when; by identity. The shell's to clear"""
        self._identities: dict[str, Identity] = {}
        self._gone: dict[str, Identity] = {}
        self._components: dict[str, Component | None] = {}  # of clients that have something placed: as it was then
        self._answers: dict[str, dict[tuple[str, str], tuple[str, int | None]]] = {}  # by client
        self._outgoing: dict[str, dict[Tags, Tags]] = {}
        self._ruled: list[tuple[str, str]] = []  # dimension, scope
        self.refresh(0)

    # Who

    def admit(self, client: str, identity: Identity) -> None:
        """Only what was answered of this client is forgotten: thousands come at once."""
        self._identities[client] = self._with_declared(identity)
        self._gone.pop(client, None)
        self._answers.pop(client, None)
        self._outgoing.pop(client, None)
        if identity.expires is not None:
            self.guarded = self.guarded or bool(self.graph.scopes)
            self.due = identity.expires if self.due is None else min(self.due, identity.expires)

    def forget(self, client: str) -> None:
        """It is gone; what it has published may still wait."""
        self._components.pop(client, None)
        self._answers.pop(client, None)
        self._outgoing.pop(client, None)
        identity = self._identities.pop(client, None)
        if identity is not None:
            if len(self._gone) >= _MAX_GONE:
                for name in sorted(self._gone)[::2]:
                    del self._gone[name]
            self._gone[client] = identity

    def identity(self, client: str) -> Identity:
        found = self._identities.get(client) or self._gone.get(client)
        return Identity(person(client)) if found is None else found

    def _with_declared(self, identity: Identity) -> Identity:
        """What an administrator says of a component counts for who has proven to be it, unless it says otherwise."""
        component = self.graph.components.get(identity.name)
        if component is None or identity.issued is None or not len(component.identity.event.params):
            return identity
        said = dict(component.identity.event.params.items())
        said.update(dict(identity.event.params.items()))
        return Identity(identity.name, said, identity.issued, identity.expires)

    def ended(self, client: str) -> str:
        """Why a client is nobody any more; empty if it is."""
        return self.memberships.ended(self.identity(client), self.now)

    # What changes

    def use_graph(self, graph: "ScopeGraph") -> None:
        self.graph = graph
        self.memberships.reload(graph)
        self._identities = {client: self._with_declared(one) for client, one in self._identities.items()}
        self.refresh(self.now)

    def refresh(self, now: int, names: "set[str] | None" = None) -> None:
        """Nothing that was answered before counts; with names, of those alone: one of thousands is denied, or
        expires."""
        self.now = max(now, self.now)
        self.generation += 1
        scopes = self.graph.scopes
        if names is None:
            self._answers = {}
            self._outgoing = {}
            self._ruled = sorted([(one.dimension, name) for name, one in scopes.items() if one.membership is not None])
        else:
            for held in (self._answers, self._outgoing):
                for client in self.clients_of(names, list(held)):
                    del held[client]
        times = [one.expires for one in self._identities.values() if one.expires is not None]
        soonest = self.memberships.next_timeout(self.now)
        later = [time for time in times if time > self.now] + ([] if soonest is None else [soonest])
        self.due = min(later) if later else None
        self.guarded = bool(scopes) and bool(self._ruled or times or not self.memberships.is_empty)

    def clients_of(self, names: "set[str]", clients: "Iterable[str]") -> "list[str]":
        """Of some clients those of these names."""
        found = []
        for client in clients:
            identity = self._identities.get(client) or self._gone.get(client)
            if (person(client) if identity is None else identity.name) in names:
                found.append(client)
        return found

    def ending(self, now: int) -> "set[str]":
        """Names of whom time has ended something."""
        found = [one.name for one in self._identities.values() if one.expires is not None and one.expires <= now]
        return set(found + self.memberships.ended_approvals(now))

    def moved(self, client: str) -> bool:
        """Whether it was placed as another component than it is now."""
        if client not in self._components:
            return False
        before, now = self._components[client], self._component(client)
        return before is not now and (before is None or now is None or _declared(before) != _declared(now))

    # Where, and how far

    def _component(self, client: str) -> "Component | None":
        return self.graph.components.get(self.identity(client).name)

    def placed(self, client: str, condition: "Filter", tags: "Tags", action: str) -> "tuple[Filter, Tags]":
        """A component is in its scopes, whatever it names of them, and within what it was declared to say and hear."""
        component = self._component(client)
        if component is not None:
            tags = component_tags(self.graph, component, tags)
            bound = component.publishes if action == PUBLISH else component.subscribes
            if bound is None:
                raise NotAllowed(f"component {component.name!r} is declared to {action} nothing")
            if not bound.covers(condition):
                condition = Filter(f"({condition}) AND ({bound})")
        why = self.hindrance(client, tags, action)
        if why:
            raise NotAllowed(why)
        self._components[client] = component
        return condition, tags

    def hindrance(self, client: str, tags: "Tags", action: str) -> str:
        """Why a client may not in any of the scopes that it is in, of some dimension; empty if it may."""
        for dimension in sorted(set([name for name, _ in tags.scopes])):
            whys = [self.refusal(client, scope, action) for name, scope in tags.scopes if name == dimension]
            if all(whys):
                return whys[0]
        return ""

    def refusal(self, client: str, scope: str, action: str) -> str:
        if client.startswith(AGENT):
            return ""  # it is the scope's own
        answers = self._answers.get(client)
        if answers is None:
            if len(self._answers) >= _MAX_CLIENTS:
                self._answers = {}
            answers = self._answers[client] = {}
        known = answers.get((scope, action))
        if known is not None and (known[1] is None or self.now < known[1]):
            return known[0]
        identity = self.identity(client)
        why = self.memberships.refusal(identity, scope, action, self.now)
        if len(answers) >= _MAX_ANSWERS:
            answers.clear()
        answers[(scope, action)] = (why, self.memberships.lasts(identity, scope, self.now))
        return why

    # What is said

    def outgoing(self, client: str, tags: "Tags") -> "Tags":
        """With the scopes that have a rule, of dimensions that it does not name, in which it is heard all the same."""
        if not self.guarded:
            return tags
        made = self._outgoing.setdefault(client, {})
        if tags not in made and not (self._ruled and tags.rest):
            made[tags] = self._sayable(client, tags)
        elif tags not in made:
            said = self._sayable(client, tags)
            mine = [dimension for dimension, _ in tags.scopes]
            past = [
                scope
                for dimension, scope in self._ruled
                if dimension not in mine and not self.refusal(client, scope, PUBLISH)
            ]
            made[tags] = Tags(said.scopes, True, past) if past else said
        return made[tags]

    def _sayable(self, client: str, tags: "Tags") -> "Tags":
        """Of a component in several scopes of a dimension, those in which it may."""
        pairs = [pair for pair in tags.scopes if not self.refusal(client, pair[1], PUBLISH)]
        return tags if len(pairs) == len(tags.scopes) else Tags(pairs, tags.rest)

    def silenced(self, event: "Event", tags: "Tags", time: "int | None") -> str:
        """Why what was published at some time, if that is known, is not to leave a queue; empty if it may. Who is or
        was here is asked as such; of others the name."""
        if not self.guarded:
            return ""
        producer = said_by(event)
        known = producer in self._identities or producer in self._gone
        for _, scope in tags.scopes:
            why = self.refusal(producer, scope, PUBLISH) if known else ""
            if not why and (time is not None or not known):
                why = self.memberships.silenced(person(producer), scope, time or 0, self.now)
            if why:
                return why
        return ""

    # What is heard

    def audible(
        self, keys: "list[int]", tags: "Tags", event: "Event", by_key: "dict[int, Subscription]"
    ) -> "list[int]":
        """Of subscriptions that want an event those that may have it now."""
        if tags.scopes and keys:
            self.saw(event, tags)
        if not self.guarded:
            return keys
        producer = said_by(event)
        found = []
        for key in keys:
            one = by_key[key]
            mine = one.tags
            if (tags.scopes or mine.scopes) and self.hiding(one.client, mine, tags, producer, self.now):
                continue
            found.append(key)
        return found

    def saw(self, event: "Event", tags: "Tags") -> None:
        if len(self.seen) >= _MAX_SEEN:
            self.seen.clear()
        self.seen[event.identity] = (tags, self.now)

    def hiding(self, client: str, mine: "Tags", tags: "Tags", producer: str, time: int) -> str:
        """Why a client's subscription may not have what was published at some time; empty if it may."""
        name = person(producer)
        for dimension, scope in mine.scopes:
            why = self.refusal(client, scope, SUBSCRIBE)
            if not why and tags.get(dimension) is None:
                why = self._unheard(name, scope, tags, time)
            if why:
                return why
        for dimension, scope in tags.scopes:
            why = self.memberships.silenced(name, scope, time, self.now)
            if not why and mine.get(dimension) is None:
                why = self.refusal(client, scope, SUBSCRIBE)
            if why:
                return why
        return ""

    def _unheard(self, name: str, scope: str, tags: "Tags", time: int) -> str:
        """Of who is in no scope of the dimension."""
        if self.graph.scopes[scope].membership is not None and scope not in tags.admitted:
            return f"{name!r} may not publish in {scope!r}"
        return self.memberships.silenced(name, scope, time, self.now)


def component_tags(graph: "ScopeGraph", component: "Component", named: "Tags") -> "Tags":
    """Where a component is, of which it may name a part."""
    for _, scope in named.scopes:
        if scope not in component.scopes:
            inside = ", ".join(component.scopes) or "none"
            raise NotAllowed(f"component {component.name!r} is not in {scope!r}: its scopes are {inside}")
    found = list(named.scopes)
    for dimension in graph.dimensions:
        if named.get(dimension) is None:
            found += [(dimension, scope) for scope in graph.scopes_of(component, dimension)]
    return Tags(found, named.rest and component.rest)


def _declared(component: "Component") -> "tuple[Any, ...]":
    return (component.scopes, str(component.publishes), str(component.subscribes), component.rest)
