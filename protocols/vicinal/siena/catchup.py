"""Durable subscriptions over the death of brokers: who has come how far in whose log (spec/overlay.md, OVER-28 to 33).

A broker with a log keeps what was published at it, in order, by offset: the log is the queue. A broker with durable
subscriptions keeps for each other broker its *cursor*: it has, on its disk, all that was for it before that offset.
After either has died the one goes on from the cursor and the other reads its log from there. What comes twice is known
by (producer, seq) and dropped; so cursors may lag, and are written when there is time.

    reader                                   source
      hold                          ──▶        events are for its live clients only, from now on
      add, add, ...                 ──▶        what it is interested in
      resume(cursor)                ──▶        ("replay", reader, cursor) to the shell, which reads the log:
                                    ◀──      mark(cursor)                        from here on it is told again
                                    ◀──      again(event), again(event), ...     for durable subscriptions only
                                    ◀──      mark(offset)                        all before it has been sent
      ("mark", source, offset)      ◀──      event, event, ..., mark(offset)     as ever, with a mark now and then
       to the shell: the cursor, once all before it is on disk

While a reader catches up, live events go to its live clients as "live"; so those get what they always get, and durable
subscriptions get everything once and in order, whichever way it came. A resume without a cursor means: from now on; or,
after a hold, from the first mark that the source has sent to a reader that has not yet named one.

A durable subscription that has missed something (its disk was full) is *barred*: it takes nothing from a source until
that has read its log again from before the cursor. What was under way then comes too early: put into a log that keeps
the order of each producer it would lock out what was missed. The mark that answers a resume tells when that is over: it
is below the cursor, and none that was under way is.
"""

from .forwarding import Forwarder
from .streams import ACKNOWLEDGE_AFTER, MAX_QUEUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..scope.graph import ScopeGraph
    from .streams import Incoming

__all__ = ["CatchUp"]

# Events for a reader between two marks: so many come twice when it dies.
MARK_EVERY = 64
# Offsets between two marks for a reader that wants few of them: so many are looked at when it dies.
MARK_ALL = 4096
# Packets that wait for a reader that catches up; the rest waits in the log.
MAX_AHEAD = MAX_QUEUE // 4

_HELD = -1


class CatchUp(Forwarder):
    """The part of a broker that knows of cursors and marks."""

    def __init__(self, name: str, incarnation: int, graph: "ScopeGraph", trace: bool) -> None:
        super().__init__(name, incarnation, graph, trace)
        self.position = -1
        """the shell's: all before this offset of the log was published; -1 without a log"""
        self.cursors: dict[str, int] = {}
        """the shell's: all that was for here before these offsets of other brokers' logs is on disk"""
        self.first_cursor: int | None = None
        """the shell's: where to begin with a broker that has no cursor; None is from now on"""
        self.keeps_up: Callable[[], bool] = _always
        """the shell's: whether the disk takes what is for durable subscriptions as fast as it comes"""
        self._durable: set[str] = set()  # clients
        self._behind: dict[str, int] = {}  # readers that catch up, from where
        self._marks: dict[str, list[tuple[int, int]]] = {}  # readers: numbers in their stream and offsets
        self._unmarked: dict[str, int] = {}  # events since the last mark
        self._marked_all = 0
        self._begun: dict[str, int] = {}  # readers that have not named a cursor yet: their first mark
        self._barred: dict[str, tuple[int, set[str]]] = {}  # sources: the mark that ends it, durable clients

    # Of the reader

    def _read_for(self, client: str, now: int) -> None:
        """Its subscriptions are durable."""
        if not self._durable:
            for record in self.records.all():
                if record.broker != self.name:
                    self._ask(record.broker)
            self._resume(self.name, self._cursor(self.name), now)
        self._durable.add(client)

    def _ask(self, broker: str) -> None:
        self._stream(broker).put(("resume", self._cursor(broker)))

    def _cursor(self, broker: str) -> "int | None":
        if broker in self._barred:
            return self._barred[broker][0]
        return self.cursors.get(broker, self.first_cursor)

    def read_again(self, client: str, now: int) -> None:
        """A durable client has missed something since the cursors were where they are: it takes nothing until all from
        there on comes again."""
        self._forget_client(client)
        for record in self.records.all():
            source = record.broker
            cursor = self._cursor(source)
            if cursor is None:
                continue  # it has no log, or has not said how far it is
            clients = self._barred[source][1] if source in self._barred else set()
            self._barred[source] = (max(cursor - 1, 0), clients | {client})
            if source == self.name:
                self._resume(source, self._cursor(source), now)
            else:
                self._stream(source).put(("hold",))
                self._ask(source)
        self._flush(sorted(self._out), now)

    def _forget_client(self, client: str) -> None:
        """What it was given before may come again."""
        raise NotImplementedError

    def _admitted(self, source: str, takers: "list[Any]") -> "list[Any]":
        """Without those that wait for the source to read its log again."""
        barred = self._barred[source][1] if source in self._barred else ()
        return [one for one in takers if one[0] not in barred]

    def _marked(self, source: str, offset: int) -> None:
        if source in self._barred:
            if offset > self._barred[source][0]:
                return  # it was under way
            del self._barred[source]
        self._actions.append(("mark", source, offset))

    def _acknowledge(self, broker: str, stream: "Incoming", now: int) -> None:
        """Not while the disk is behind: who sends has a window, and waits."""
        if self._durable and stream.due is not None and not self.keeps_up():
            stream.due = now + ACKNOWLEDGE_AFTER
            return
        super()._acknowledge(broker, stream, now)

    def _live(self, takers: "list[Any]") -> "list[Any]":
        return [one for one in takers if one[0] not in self._durable]

    def _lasting(self, takers: "list[Any]") -> "list[Any]":
        return [one for one in takers if one[0] in self._durable]

    # Of the source

    def _resume(self, reader: str, cursor: "int | None", now: int) -> None:
        if cursor is not None:
            self._begun.pop(reader, None)
        elif self._behind.get(reader) == _HELD:
            # Not the first time, perhaps: it may have died before it could keep what the first mark said.
            cursor = self._begun.get(reader)
        if self.position < 0:  # no log: from now on is all there is
            self._behind.pop(reader, None)
            if cursor is not None:
                self._stream(reader).put(("mark", cursor))
                self._flush([reader], now)
            return
        if cursor is None:
            self._behind.pop(reader, None)
            self._begun[reader] = self.position
            self._mark(reader, now)
            return
        stream = self._stream(reader)
        stream.put(("mark", cursor))
        self._behind[reader] = cursor
        self._marks[reader] = [(stream.next - 1, cursor)]
        self._actions.append(("replay", reader, cursor))
        self._flush([reader], now)

    def _hold(self, reader: str) -> None:
        self._behind[reader] = _HELD
        self._actions.append(("replay", reader, _HELD))

    def has_room(self, reader: str) -> bool:
        """Whether more of the log may be published again for a reader."""
        stream = self._out.get(reader)
        if stream is not None and len(stream.packets) >= MAX_AHEAD:
            return False
        if reader == self.name:
            return self.keeps_up()
        return self.records.topology.towards(self.name, reader) is not None

    def caught_up(self, reader: str, now: int) -> None:
        """All before `position` was published again for it."""
        self._behind.pop(reader, None)
        self._mark(reader, now)

    def _mark(self, reader: str, now: int) -> None:
        stream = self._stream(reader)
        stream.put(("mark", self.position))
        done = stream.packets[0][0] - 1
        marks = self._marks.get(reader, [])
        while len(marks) > 1 and marks[1][0] <= done:
            marks = marks[1:]
        self._marks[reader] = marks + [(stream.next - 1, self.position)]
        self._unmarked[reader] = 0
        self._flush([reader], now)

    def _mark_due(self, brokers: "list[str]", now: int) -> None:
        """Before an event is put into the streams to some brokers: all before it are."""
        for broker in brokers:
            if broker in self._marks and broker not in self._behind:
                self._unmarked[broker] = self._unmarked.get(broker, 0) + 1
                if self._unmarked[broker] > MARK_EVERY:
                    self._mark(broker, now)
        if self.position - self._marked_all >= MARK_ALL:
            self._marked_all = self.position
            for broker in list(self._marks):
                if broker not in self._behind:
                    self._mark(broker, now)

    def _leave_to_the_log(self, reader: str) -> "list[Any] | None":
        """What waits for a reader is about to go: None, or if it can have it from the log later, what is said first."""
        if reader not in self._marks:
            return None
        stream = self._out[reader]
        done = stream.packets[0][0] - 1 if stream.packets else stream.next - 1
        reached = [offset for number, offset in self._marks[reader] if number <= done]
        cursor = reached[-1] if reached else self._marks[reader][0][1]
        if self._behind.get(reader) == _HELD:
            return []  # it says itself from where
        self._behind[reader] = cursor
        self._marks[reader] = [(0, cursor)]
        self._actions.append(("replay", reader, cursor))
        return [("mark", cursor)]

    def _reader_began(self, reader: str) -> None:
        """It has lost its memory: when it has told what it wants, it says from where."""
        self._marks.pop(reader, None)
        if self._behind.pop(reader, None) is not None:
            self._actions.append(("replay", reader, _HELD))


def _always() -> bool:
    return True
