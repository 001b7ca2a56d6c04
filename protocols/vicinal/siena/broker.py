"""A broker of the overlay, as a state machine: what happens goes in, what to do comes out.

    link_up, link_down, receive        what the neighbours do
    join_scope, leave_scope            what the administrator does; and `administer`, for all brokers
    admit                              who a client is: what it may depends on it (rights.py)
    advertise, subscribe, publish ...  what the clients do; refused with a Refused that says why. An event is checked
                                       when it comes, and published then, or when it is on disk
    handle_timeout(now)                at next_timeout()
    actions()                          ("send", neighbour, message); ("replay", ...) and ("mark", ...): catchup.py;
                                       ("ended", client, ...) and ("administered", kind, statement): governed.py
    deliveries()                       (event, trail, [(client, its subscriptions), ...])

A client publishes under its own name: an event's producer is the client. Time is integer milliseconds. An event with
the attribute `Trace` carries its trail: (broker, scopes, time) for each place it went through.
"""

from ..errors import LocalProtocolError
from ..scope.graph import Tags
from ..scope.membership import PUBLISH, SUBSCRIBE
from .forwarding import EVENTS
from .holding import AGENT
from .kinds import Kinds
from .publishing import Busy, Publishing, Refused
from .quick import Advert
from .records import Advertised, Record
from .telling import PRUNING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..event import Event
    from ..filter import Filter
    from ..scope.graph import ScopeGraph
    from .interest import Subscription
    from .kinds import Kind

__all__ = ["PRUNING", "Broker", "Busy", "Refused"]


class Broker(Publishing):
    def __init__(
        self,
        name: str,
        incarnation: int,
        graph: "ScopeGraph",
        trace: bool = False,
        pruning: "tuple[str, ...]" = PRUNING,
    ) -> None:
        """`incarnation` must be greater than at every earlier start that was forgotten. With `trace`, events carry
        their trail: the brokers and scopes they went through. `pruning` says what keeps subscriptions from travelling;
        less of it is for comparison."""
        super().__init__(name, incarnation, graph, trace, pruning)
        self._version = 0
        self._advertised = Kinds(self._say_adverts)
        self._advertised_size = Advertised()
        self._leaving: dict[str, set[str]] = {}  # scope -> neighbours that may still send
        self._say()

    # Neighbours and what is known of the overlay

    def link_up(self, neighbour: str, now: int) -> None:
        if neighbour in self._links:
            return
        self._links.append(neighbour)
        self._links.sort()
        self._unheard.add(neighbour)
        self._say()
        self._tell_statements(neighbour)
        for record in self.records.all():
            self._send(neighbour, ("record", record))
        self._hurry(now)

    def link_down(self, neighbour: str, now: int) -> None:
        if neighbour not in self._links:
            return
        self._links.remove(neighbour)
        self._unheard.discard(neighbour)
        for scope in list(self._leaving):
            self._left(scope, neighbour)
        self._say()
        self._hurry(now)

    def _say(self) -> None:
        """A new record of this broker, to all neighbours."""
        self._version += 1
        adverts = [(kind.filter, kind.tags) for kind in self._advertised.roots.values()]
        stays = frozenset([scope for scope in self.scopes if scope not in self._leaving])
        record = Record(self.name, self.incarnation, self._version, tuple(self._links), stays, tuple(adverts))
        self.records.put(record)
        self._spread(record, "")
        self._pace.said(len(adverts))

    def _say_adverts(self, key: int, kind: "Kind | None") -> None:
        self._pace.is_due = True

    def _spread(self, record: Record, sender: str) -> None:
        for neighbour in self._links:
            if neighbour != sender:
                self._send(neighbour, ("record", record))

    def receive(self, neighbour: str, message: "tuple[Any, ...]", now: int) -> None:
        self._pace.clock = self.rights.now = now
        kind = message[0]
        if kind == "packets":
            self._forward(message[1], message[2], message[3], message[4], message[5], message[6], message[7], now)
        elif kind == "record":
            self._receive_record(neighbour, message[1], now)
        elif kind == "ack":
            self._receive_ack(message, now)
        elif kind == "leave":
            self._send(neighbour, ("left", message[1]))
        elif kind == "left":
            self._left(message[1], neighbour)
        elif kind == "change":
            self._learn(message[1], neighbour)

    def _receive_record(self, neighbour: str, record: Record, now: int) -> None:
        if record.broker == self.name:
            # From before a start that was forgotten: ours is newer, or must become so.
            if record.incarnation > self.incarnation:
                raise LocalProtocolError(f"broker {self.name!r} was started with an old incarnation {self.incarnation}")
            return
        if record.broker == neighbour:
            self._unheard.discard(neighbour)
        known = self.records.get(record.broker)
        before = self.records.changes
        if not self.records.put(record):
            return
        self._spread(record, neighbour)
        if known is not None and known.incarnation != record.incarnation:
            self._stream_began(record.broker)
            self._in.pop(record.broker, None)
            self._restart(record)
        if known is None or known.adverts != record.adverts or known.incarnation != record.incarnation:
            self._tell_all(record, known is None or known.incarnation != record.incarnation)
            self._flush([record.broker], now)
        if before != self.records.changes:
            self._hurry(now)

    # Scopes

    def join_scope(self, scope: str) -> None:
        if scope not in self.graph:
            raise Refused(f"{scope!r} is no scope")
        self._leaving.pop(scope, None)
        self.scopes.add(scope)
        self._say()

    def leave_scope(self, scope: str) -> None:
        """The broker belongs to it until every neighbour has said that it will send no more of it: until then events
        under way still arrive, and they may."""
        if scope not in self.scopes or scope in self._leaving:
            return
        self._leaving[scope] = set(self._links)
        self._say()
        for neighbour in self._links:
            self._send(neighbour, ("leave", scope))
        self._left(scope, "")

    def use_graph(self, graph: "ScopeGraph", now: int) -> "list[str]":
        """Other scopes from now on. Gives the clients whose tags name what is no more, or where this broker is not: who
        serves them has to drop them. A scope that is no more is left at once: nobody can name it any longer."""
        self.graph = graph
        self.records.use_graph(graph)
        self._routes.use_graph(graph)
        self._forget_audiences()
        self._tell_anew()
        self._use_rules(graph, now)
        for scope in [scope for scope in self.scopes if scope not in graph]:
            self._leaving[scope] = set()
            self._left(scope, "")
        self._say()
        self._hurry(now)
        return self.clients_outside()

    def clients_outside(self) -> "list[str]":
        """Those that advertise or subscribe in a scope where this broker is not, or no longer."""
        found = [(client, advert.tags) for client, adverts in self._adverts.items() for advert in adverts.values()]
        found.extend([(one.client, one.tags) for one in self.subscriptions.by_key.values()])
        return sorted({client for client, tags in found if not self._inside(tags)})

    def _inside(self, tags: "Tags") -> bool:
        for dimension, scope in tags.scopes:
            if scope not in self.scopes or scope in self._leaving:
                return False
            if scope not in self.graph or self.graph.scopes[scope].dimension != dimension:
                return False
        return True

    def _left(self, scope: str, neighbour: str) -> None:
        waiting = self._leaving.get(scope)
        if waiting is None:
            return
        waiting.discard(neighbour)
        if waiting:
            return
        del self._leaving[scope]
        self.scopes.discard(scope)
        # What still waits here of that scope may no longer be held.
        for stream in self._out.values():
            stream.packets = [(number, self._purged(packet, scope)) for number, packet in stream.packets]
        for incoming in self._in.values():
            for number, packet in incoming.held.items():
                incoming.held[number] = self._purged(packet, scope)

    def _purged(self, packet: "tuple[Any, ...]", scope: str) -> "tuple[Any, ...]":
        if packet[0] in EVENTS and any([name == scope for _, name in packet[2].scopes]):
            self._count("dropped: left the scope")
            return ("void",)
        return packet

    def held_here(self) -> "list[str]":
        """The scopes whose agent is a client of this broker: what their publishing policies hold back waits here."""
        found = []
        for name in sorted(self.scopes):
            scope = self.graph.scopes.get(name)
            if scope is not None and scope.publishing and name not in self._leaving:
                inside = [record.broker for record in self.records.all() if name in record.scopes]
                if (scope.holder or min(inside, default=self.name)) == self.name:
                    found.append(name)
        return found

    # Clients

    def advertise(self, client: str, condition: "Filter", tags: "Tags", number: "int | None" = None) -> int:
        """The number to publish under: the client's, or the next that is free."""
        condition, tags = self.check_place(client, condition, tags, PUBLISH)
        held = self._adverts.setdefault(client, {})
        if number is None:
            number = max(held) + 1 if held else 1
        elif number in held:
            raise Refused(f"client {client!r} has an advertisement {number} already")
        kinds: list[Kind] = []
        for one in tags.alternatives():
            if not self._advertised.has(condition, one):
                refusal = self._advertised_size.refusal(condition, one)
                if refusal is not None:
                    self._withdraw(kinds)
                    raise Refused(refusal)
                self._advertised_size.add(condition, one)
            kinds.append(self._advertised.add(condition, one))
        held[number] = Advert(condition, tags, kinds)
        self._asked(condition, True)
        return number

    def unadvertise(self, client: str, advert: int) -> None:
        held = self._adverts.get(client, {}).pop(advert, None)
        if held is None:
            raise Refused(f"client {client!r} has no advertisement {advert}")
        self._withdraw(held.kinds)
        self._asked(held.filter, False)

    def _withdraw(self, kinds: "list[Kind]") -> None:
        for kind in kinds:
            self._advertised.remove(kind)
            if not self._advertised.has(kind.filter, kind.tags):
                self._advertised_size.remove(kind.filter, kind.tags)

    def subscribe(
        self,
        client: str,
        condition: "Filter",
        tags: "Tags",
        now: int,
        number: "int | None" = None,
        durable: bool = False,
    ) -> int:
        """The number that its deliveries carry, and to unsubscribe by: the client's, or the next that it has free. What
        is for a `durable` one comes again until the shell has it on disk; all subscriptions of its client are."""
        self.rights.now = now
        condition, tags = self.check_place(client, condition, tags, SUBSCRIBE)
        keys = self._keys.setdefault(client, {})
        if number is None:
            number = max(keys) + 1 if keys else 1
        elif number in keys:
            raise Refused(f"client {client!r} has a subscription {number} already")
        held = [one for numbered in keys.values() for one in numbered]
        named = self._is_named(client, [tags] + [self.subscriptions.by_key[key].tags for key in held])
        if named and held and not self.subscriptions.by_key[held[0]].tags.who:
            self._tell_anew_of(client, True)
        keys[number] = tuple(
            [self._hear(client, number, condition, one, durable, named).key for one in tags.alternatives()]
        )
        if durable:
            self._read_for(client, now)
        self._flush(sorted(self._out), now)
        return number

    def unsubscribe(self, client: str, number: int, now: int) -> None:
        keys = self._keys.get(client, {}).pop(number, None)
        if keys is None:
            raise Refused(f"client {client!r} has no subscription {number}")
        for key in keys:
            self._hear_no_more(key)
        self._flush(sorted(self._out), now)

    def _is_named(self, client: str, some: "list[Tags]") -> bool:
        """Whether a client is told by name, in all its scopes: where it is in one whose members are chosen among, what
        it got elsewhere counts."""
        choosy = self.graph.choosy
        return client.startswith(AGENT) or any([scope in choosy for tags in some for _, scope in tags.scopes])

    def _hear(
        self, client: str, number: int, condition: "Filter", tags: "Tags", durable: bool, named: bool
    ) -> "Subscription":
        told = Tags(tags.scopes, tags.rest, who=client if named else "")
        one = self.subscriptions.add(client, number, condition, told, durable)
        self._local.add(one.key, condition)
        self._asked(condition, True)
        return one

    def _hear_no_more(self, key: int) -> None:
        self._local.remove(key)
        self._asked(self.subscriptions.by_key[key].kind.filter, False)
        self.subscriptions.remove(key)

    def _tell_anew(self) -> None:
        """Other policies: where members are chosen among, they are told by name, and nowhere else."""
        for client, numbers in self._keys.items():
            some = [self.subscriptions.by_key[key].tags for keys in numbers.values() for key in keys]
            self._tell_anew_of(client, self._is_named(client, some))

    def _tell_anew_of(self, client: str, named: bool) -> None:
        numbers = self._keys[client]
        for number, keys in numbers.items():
            kinds = [self.subscriptions.by_key[key].kind for key in keys]
            numbers[number] = tuple(
                [self._hear(client, number, one.filter, one.tags, one.durable, named).key for one in kinds]
            )
            for key in keys:
                self._hear_no_more(key)

    def drop_client(self, client: str, now: int) -> None:
        """It is gone: so are its advertisements and subscriptions."""
        for number in list(self._keys.get(client, ())):
            self.unsubscribe(client, number, now)
        self._keys.pop(client, None)
        self._durable.discard(client)
        for advert in list(self._adverts.get(client, ())):
            self.unadvertise(client, advert)
        self._adverts.pop(client, None)
        self._forget_client(client)
        self.loads.forget(client)
        self._routes.gone(self.name, client)
        self.rights.forget(client)

    def last_published(self, client: str) -> int:
        """The highest seq known of a client, or -1."""
        known = self._producers.get(client)
        return known.published if known is not None else -1

    def _is_client(self, name: str) -> bool:
        return name in self._adverts or name in self._keys

    def check_publish(self, client: str, advert: int, event: "Event") -> "Tags":
        """Whether an event may be published. The tags to publish it with: now, or when it is stored."""
        held = self._adverts.get(client, {}).get(advert)
        if held is None:
            raise Refused(f"client {client!r} has no advertisement {advert}")
        condition, tags = held.filter, held.tags
        if event.producer != client or event.seq is None:
            raise Refused(f"client {client!r} publishes under its own name, not {event.producer!r}, and numbered")
        if not condition.matches(event):
            raise Refused(f"event {event.subject!r} is outside the advertisement {condition}")
        for _, scope in tags.scopes:
            if scope not in self.scopes:
                raise Refused(f"broker {self.name!r} is not in scope {scope!r}: see [broker] join, vicinal scope join")
        if not self.rights.guarded:
            return tags
        why = self.rights.hindrance(client, tags, PUBLISH)
        if why:
            raise Refused(why)
        return self.rights.outgoing(client, tags)

    def check_place(self, client: str, condition: "Filter", tags: "Tags", action: str) -> "tuple[Filter, Tags]":
        """What becomes of a filter and tags that a client names, if it may."""
        self._check_tags(tags)
        condition, tags = self.rights.placed(client, condition, tags, action)
        self._check_tags(tags)
        return condition, tags

    def _check_tags(self, tags: "Tags") -> None:
        for dimension, scope in tags.scopes:
            if scope not in self.graph or self.graph.scopes[scope].dimension != dimension:
                raise Refused(f"{scope!r} is no scope of dimension {dimension!r}")
            if scope not in self.scopes:
                raise Refused(f"broker {self.name!r} is not in scope {scope!r}: see [broker] join, vicinal scope join")

    # What has come

    def _stream_began(self, source: str) -> None:
        for who in self.interest.forget(source):  # it tells all of it anew
            self._routes.gone(source, who)

    def _handle(self, source: str, content: "tuple[Any, ...]", now: int) -> None:
        kind = content[0]
        if kind == "add":
            if content[3].who and not self.interest.names(source, content[3].who):
                self._routes.gone(source, content[3].who)
            if not self.interest.add(source, content[1], content[2], content[3]):
                self._count("dropped: too much interest of one broker")
        elif kind == "remove":
            who = self.interest.remove(source, content[1])
            if who:
                self._routes.gone(source, who)
        elif kind in EVENTS:
            event, tags, wanted, trail = content[1:]
            audience = self._audience(self._local.match(event), tags, wanted, event)
            if self._barred:
                audience = self._admitted(source, audience)
            if kind != "event":
                audience = self._live(audience) if kind == "live" else self._lasting(audience)
            self._hand(event, trail, audience, tags, wanted)
            self._weigh(source, tags, wanted, now)
        elif kind == "hold":
            self._hold(source)
        elif kind == "resume":
            self._resume(source, content[1], now)
        elif kind == "mark":
            self._marked(source, content[1])
        elif kind == "load":
            if self.interest.names(source, content[1]):  # else it is gone, or was never told of
                self._routes.reported(source, content[1], content[2])
