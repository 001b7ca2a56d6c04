"""A broker under administration: what is said of its clients takes effect on what they have begun.

    ("ended", client, (number, why, kind))      an advertisement or subscription is no more. `kind` is "advert" or
                                                "subscription"; or "lapsed", when the client has to show anew who it
                                                is; or "moved": the client is another component now
    ("administered", kind, statement)           for the shell: to be kept, and of deployments and places, to be done

Whatever is asked of a right counts from the moment it changes; what was begun under it ends when actions are next
asked for. Statements go to all brokers (administration.py): to a new neighbour those that count, then each as it comes.
"""

from ..scope.graph import Tags
from ..scope.membership import PUBLISH, SUBSCRIBE
from . import kinds  # noqa: F401 - first: at the end of the chain below MicroPython cannot bear it
from .administration import Administration
from .forwarding import EVENTS
from .quick import Quick

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..event import Event
    from ..filter import Filter
    from ..scope.graph import ScopeGraph
    from ..scope.membership import Identity
    from .administration import Statement

__all__ = ["NO_MEMBER", "Governed"]

# What is counted of events that a right would have been needed for.
NO_MEMBER = "dropped: no longer a member"
_MEMBERSHIP = ("approve", "deny", "revoke")


class Governed(Quick):
    def __init__(
        self, name: str, incarnation: int, graph: "ScopeGraph", trace: bool, pruning: "tuple[str, ...]"
    ) -> None:
        super().__init__(name, incarnation, graph, trace, pruning)
        self.administration = Administration()
        self._unswept: set[str] | None = set()  # names whose rights have changed; None is all

    def admit(self, client: str, identity: "Identity", now: int) -> None:
        """Before anything else of it."""
        self.rights.now = now
        self.rights.admit(client, identity)
        if client in self._adverts or client in self._keys:
            self._rights_changed({identity.name})

    def clients(self) -> "set[str]":
        """Those that advertise or subscribe."""
        return set(self._adverts) | set(self._keys)

    def advertised_by(self, client: str) -> "list[tuple[Filter, Tags]]":
        return [(advert.filter, advert.tags) for _, advert in sorted(self._adverts.get(client, {}).items())]

    def subscribed_by(self, client: str) -> "list[tuple[Filter, Tags]]":
        found = []
        for number, keys in sorted(self._keys.get(client, {}).items()):
            tags = self.subscribed(client, number)
            if tags is not None:
                found.append((self.subscriptions.by_key[keys[0]].kind.filter, tags))
        return found

    def subscribed(self, client: str, number: int) -> "Tags | None":
        """The tags of a subscription, if it is there."""
        keys = self._keys.get(client, {}).get(number)
        if keys is None:
            return None
        some = [self.subscriptions.by_key[key].tags for key in keys]
        return Tags([pair for tags in some for pair in tags.scopes], some[0].rest)

    # What is said

    def administer(self, what: "tuple[Any, ...]", now: int) -> "Statement":
        """By an administrator at this broker. Raises for what cannot be said."""
        self.rights.now = now
        statement = self.administration.make(what, self.name, now)
        self._learn(statement, "")
        return statement

    def recall(self, statements: "list[Statement]") -> None:
        """What was kept over a restart."""
        for statement in statements:
            self._learn(statement, "")

    def _learn(self, statement: "Statement", sender: str) -> None:
        if not self.administration.put(statement):
            return
        for neighbour in self._links:
            if neighbour != sender:
                self._send(neighbour, ("change", statement))
        if statement[0] in _MEMBERSHIP:
            self.administration.apply(statement, self.rights.memberships)
            self._rights_changed({statement[2]})
        self._actions.append(("administered", statement[0], statement))

    def _tell_statements(self, neighbour: str) -> None:
        for statement in self.administration.statements():
            self._send(neighbour, ("change", statement))

    # What comes of it

    def _use_rules(self, graph: "ScopeGraph", now: int) -> None:
        self.rights.now = now
        self.rights.use_graph(graph)
        self._rights_changed()

    def _rights_changed(self, names: "set[str] | None" = None) -> None:
        """Of some names, or of all."""
        self.rights.refresh(self.rights.now, names)
        self._forget_answers()
        if names is None or self._unswept is None:
            self._unswept = None
        else:
            self._unswept = self._unswept | names

    def next_timeout(self) -> "int | None":
        due, ends = super().next_timeout(), self.rights.due
        return due if ends is None else ends if due is None else min(due, ends)

    def handle_timeout(self, now: int) -> None:
        super().handle_timeout(now)
        self.rights.now = now
        if self.rights.due is not None and now >= self.rights.due:
            self._rights_changed(self.rights.ending(now))

    def actions(self) -> "list[tuple[Any, ...]]":
        if self._unswept is None or self._unswept:
            names, self._unswept = self._unswept, set()
            self._sweep(names)
        return super().actions()

    def _sweep(self, names: "set[str] | None") -> None:
        clients = sorted(self.clients() if names is None else self.rights.clients_of(names, self.clients()))
        for client in clients:
            if self.rights.moved(client):
                self._actions.append(("ended", client, (0, "it is another component now", "moved")))
        for client in clients:
            for number, kind in sorted(self._adverts.get(client, {}).items()):
                why = self.rights.hindrance(client, kind.tags, PUBLISH)
                if why:
                    self.unadvertise(client, number)
                    self._actions.append(("ended", client, (number, why, self._how(client, "advert"))))
        for client in clients:
            for number in sorted(self._keys.get(client, {})):
                tags: Any = self.subscribed(client, number)
                why = self.rights.hindrance(client, tags, SUBSCRIBE)
                if why:
                    self.unsubscribe(client, number, self.rights.now)
                    self._actions.append(("ended", client, (number, why, self._how(client, "subscription"))))
        if self.rights.guarded:
            for stream in self._out.values():
                stream.packets = [(number, self._sifted(packet)) for number, packet in stream.packets]

    def _how(self, client: str, kind: str) -> str:
        return "lapsed" if self.rights.memberships.lapsed(self.rights.identity(client), self.rights.now) else kind

    def _sifted(self, packet: "tuple[Any, ...]") -> "tuple[Any, ...]":
        """Of what waits for other brokers, without what was revoked."""
        if packet[0] in EVENTS and packet[2].scopes and self._silenced(packet[1], packet[2], None):
            return ("void",)
        return packet

    def _silenced(self, event: "Event", tags: "Tags", time: "int | None") -> bool:
        """Whether its producer may no longer; then it is counted."""
        if not self.rights.silenced(event, tags, time):
            return False
        self._count(NO_MEMBER)
        return True

    def silences(self, event: "Event", tags: "Tags", since: int, now: int) -> bool:
        """Whether who published what was held since may no longer: it is not let go (holding.py)."""
        self.rights.now = now
        return bool(self.rights.silenced(event, tags, since))

    def unadvertise(self, client: str, advert: int) -> None:
        raise NotImplementedError

    def unsubscribe(self, client: str, number: int, now: int) -> None:
        raise NotImplementedError
