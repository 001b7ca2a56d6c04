"""To whom of a broker's own clients an event goes: once to each, and in the order of its producer."""

from ..scope.visibility import visible
from .holding import AGENT, noted, said_by
from .producers import Producers
from .rights import Rights
from .topology import chosen_of, goal_of, meets
from .yielding import Yielding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from ..event import Event
    from ..scope.graph import ScopeGraph, Tags
    from .interest import Subscription
    from .topology import Goal

    # A client, and the numbers of its subscriptions.
    Taker: TypeAlias = "tuple[str, tuple[int, ...]]"
    # event, trail, who gets it
    Delivery: TypeAlias = "tuple[Event, Any, list[Taker]]"

__all__ = ["Delivering"]

# Of audiences that are remembered until a subscription changes: in units of 16 bytes, which is what a subscription in
# one takes; some 40 MB.
_MAX_REMEMBERED = 2500000
# So much more takes a client with several subscriptions in it, and the audience itself.
_SEVERAL = 7
_ENTRY = 16


class Delivering(Yielding):
    def __init__(
        self, name: str, incarnation: int, graph: "ScopeGraph", trace: bool, pruning: "tuple[str, ...]"
    ) -> None:
        super().__init__(name, incarnation, graph, trace, pruning)
        self._keys: dict[str, dict[int, tuple[int, ...]]] = {}  # client -> its numbers -> keys
        self._deliveries: list[Delivery] = []
        self._producers = Producers(self._is_client, self._count)
        self._audiences: dict[Any, list[Taker]] = {}
        self._remembered = 0  # units that they take
        self.rights = Rights(graph)

    def deliveries(self) -> "list[Delivery]":
        """What clients are to get, since it was asked last."""
        found, self._deliveries = self._deliveries, []
        return found

    def _audience(self, keys: "list[int]", tags: "Tags", wanted: "Goal", event: "Event") -> "list[Taker]":
        """The clients of these subscriptions that have the scopes wanted, each with the subscriptions that see the
        event (which counts only where there are scopes)."""
        plain = tags.rest and not tags.scopes and not wanted and self.graph.advanced is None
        if self.rights.guarded or tags.scopes:
            keys = self.rights.audible(keys, tags, event, self.subscriptions.by_key)
        known = tuple(keys)
        if plain and known in self._audiences:
            return self._audiences[known]
        held: dict[str, list[Subscription]] = {}
        for key in sorted(keys):
            one = self.subscriptions.by_key[key]
            held.setdefault(one.client, []).append(one)
        found: list[Taker] = []
        size = len(known) + _ENTRY
        for client, some in held.items():
            if not plain and not any([self._wants(tags, one, wanted) for one in some]):
                continue
            if len(some) == 1:
                found.append(some[0].taker)
            else:
                # Once for the client, and for all its subscriptions: what comes later by another way is a repetition.
                # Where it has come to it may be seen, also when its own scope is not known here.
                seen = [
                    one.number
                    for one in some
                    if plain or self._wants(tags, one, wanted) or self._sees(event, tags, one)
                ]
                found.append((client, tuple(sorted(seen))))
                size += _SEVERAL
        if plain and size <= _MAX_REMEMBERED:
            if self._remembered + size > _MAX_REMEMBERED:
                self._forget_audiences()
            self._remembered += size
            self._audiences[known] = found
        return found

    def _wants(self, tags: "Tags", one: "Subscription", wanted: "Goal") -> bool:
        """Whether a subscription is what the goal of an event means."""
        if not meets(goal_of(tags, one.tags), wanted):
            return False
        advanced = self.graph.advanced
        if advanced is None:
            return True
        client, scope = chosen_of(wanted, len(tags.scopes))[:2]
        inside = one.tags.get(advanced)
        if client:
            return one.client == client and scope in ("", inside)
        if inside is not None and one.tags.who:
            return False  # it goes to those by name
        return tags.get(advanced) is not None or (inside or "") == scope

    def _sees(self, event: "Event", tags: "Tags", one: "Subscription") -> bool:
        """Without an advanced dimension that is a matter of visibility alone."""
        return self.graph.advanced is None and visible(self.graph, event, tags, one.tags)

    def _forget_audiences(self) -> None:
        self._audiences.clear()
        self._remembered = 0

    def _hand(
        self, event: "Event", trail: "Any", takers: "list[Taker]", tags: "Tags | None" = None, wanted: "Goal" = ()
    ) -> bool:
        """To those clients that were not given it, or a newer one of its producer. Whether there is one at all. A
        scope's agent gets it with its `tags`."""
        producer: Any = event.producer
        seq: Any = event.seq
        known = self._producers.recent.get(producer) or self._producers.recall(producer)
        given = known.given
        first = said_by(event)
        if first in self._keys:
            fresh = [one for one in takers if one[0] != first]
        else:
            fresh = takers
        if seq > known.newest:
            known.newest = seq
        else:
            fresh = [one for one in fresh if seq > given.get(one[0], -1)]
        if fresh:
            before = len(given)
            for client, _ in fresh:
                given[client] = seq
            if len(given) > before:
                self._producers.gave(producer, before, [client for client, _ in fresh])
            self._count("delivered", len(fresh))
            if tags is not None and fresh[0][0].startswith(AGENT):
                event = noted(event, tags.rest, chosen_of(wanted, len(tags.scopes)))
            self._deliveries.append((event, trail, fresh))
        return bool(takers)

    def _forget_client(self, client: str) -> None:
        self._producers.forget_client(client)

    def _is_client(self, name: str) -> bool:
        raise NotImplementedError
