"""What is asked of a direct event service, and by whom (seed 001, 5.9.3: "make a note").

    note(source, filter)       subscribe at the adapter if nobody has asked for the same before
    announce(source, event)    announce the type there if nobody has before; `source` "" is the gateway itself, which
                               makes an announcement up where the service wants one before an event
    match(event)               the event services that asked for it: the way back

The adapter is asked once for each filter, however many want it, and again each time it is connected. Until it has
answered nobody is told; then everybody who waits is. A note is kept for a time unless it is asked for again: who asked
may have gone without a word.
"""

from ..filter.index import Index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..event import Event
    from ..filter import Filter
    from .capabilities import Capabilities

__all__ = ["TUNNEL", "Direct", "tunnel_filter"]

# The subject under which an adapter's own bytes travel between two services of one type.
TUNNEL = "FES_Tunnel"
ASKING, APPLIED = "asking", "applied"
# Of one direct service: each is a subscription that its adapter holds.
MAX_NOTES = 4096


def tunnel_filter(kind: str) -> str:
    return f"subject = '{TUNNEL}' AND Kind = '{kind}'"


class Note:
    """A filter or a type, with those who want it and until when."""

    __slots__ = ("sources", "state", "waiting", "what")

    def __init__(self, what: "Any") -> None:
        self.what = what
        self.sources: dict[str, int | None] = {}
        self.state = ""
        self.waiting: list[Any] = []


class Direct:
    """A service that the gateway is connected to, or wants to be."""

    def __init__(self, name: str, kind: str, capabilities: "Capabilities") -> None:
        self.name = name
        self.kind = kind
        self.capabilities = capabilities
        self.up = False
        self.notes: dict[str, Note] = {}
        self.announced: dict[str, Note] = {}
        self.plans: dict[Any, Any] = {}
        """what became of the events that met the same filters: found once, while the notes are these"""
        self._index = Index()
        self._found: list[tuple[str, Note, str]] = []

    # Asking the adapter

    def asked(self) -> "list[tuple[str, Note, str]]":
        """What the adapter must be asked now, as (verb, note, key): since the last call."""
        found, self._found = self._found, []
        return found

    def _ask(self, verb: str, key: str, note: Note) -> None:
        if self.up:
            if verb in ("subscribe", "announce"):
                note.state = ASKING
            self._found.append((verb, note, key))

    def connected(self) -> None:
        """All of it again: the adapter has forgotten it. Announcements first."""
        self.up = True
        self._found = []
        for key, note in self.announced.items():
            self._ask("announce", key, note)
        for key, note in self.notes.items():
            self._ask("subscribe", key, note)

    def disconnected(self) -> None:
        self.up = False
        self._found = []
        for note in list(self.notes.values()) + list(self.announced.values()):
            note.state = ""

    # Subscriptions

    def note(self, source: str, condition: "Filter", until: "int | None") -> Note:
        """The note, whose `state` tells whether it is applied."""
        key = condition.text
        known = self.notes.get(key)
        if known is None:
            known = self.notes[key] = Note(condition)
            self._index.add(key, condition)
            self._ask("subscribe", key, known)
        known.sources[source] = until
        self.plans.clear()
        return known

    def drop(self, source: str, condition: "Filter") -> bool:
        """Whether there was such a note."""
        return self._drop(source, condition.text)

    def _drop(self, source: str, key: str) -> bool:
        known = self.notes.get(key)
        if known is None or source not in known.sources:
            return False
        del known.sources[source]
        self.plans.clear()
        if not known.sources:
            self.forget(key)
            self._ask("unsubscribe", key, known)
        return True

    def forget(self, key: str) -> None:
        """It was refused, or nobody wants it."""
        if key in self.notes:
            del self.notes[key]
            self._index.remove(key)
            self.plans.clear()

    def met(self, event: "Event") -> "list[str]":
        """The filters that it meets."""
        return self._index.match(event)

    def match(self, event: "Event") -> "list[str]":
        """The services that asked for it."""
        return self.sources(self._index.match(event))

    def sources(self, keys: "list[str]") -> "list[str]":
        """Who asked for what meets these filters."""
        if len(keys) == 1:
            return list(self.notes[keys[0]].sources)
        found: list[str] = []
        for key in keys:
            for source in self.notes[key].sources:
                if source not in found:
                    found.append(source)
        return found

    def drop_where(self, is_over: "Any") -> "list[tuple[str, str]]":
        """Drops the notes of which is_over(source, until) holds; gives (source, filter)."""
        found = []
        for key, note in list(self.notes.items()):
            for source, until in list(note.sources.items()):
                if is_over(source, until):
                    self._drop(source, key)
                    found.append((source, key))
        return found

    def set_back(self, by: int) -> None:
        """The clock was, by so many milliseconds."""
        for note in self.notes.values():
            for source, until in note.sources.items():
                if until is not None:
                    note.sources[source] = until - by

    # Announcements

    def announce(self, source: str, event: "Event") -> Note:
        known = self.announced.get(event.subject)
        if known is None:
            known = self.announced[event.subject] = Note(event)
            self._ask("announce", event.subject, known)
        known.sources[source] = None
        return known

    def unannounce(self, source: str, subject: str) -> bool:
        known = self.announced.get(subject)
        if known is None or source not in known.sources:
            return False
        del known.sources[source]
        if not known.sources:
            del self.announced[subject]
            self._ask("unannounce", subject, known)
        return True
