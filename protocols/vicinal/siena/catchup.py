"""Durable subscriptions over the death of brokers: who has come how far in whose log (spec/overlay.md, OVER-28 to 33).

A broker with a log keeps what was published at it, in order, by offset: the log is the queue. A broker with durable
subscriptions keeps for each other broker its *cursor*: it has, on its disk, all that was for it before that offset.
After either has died the one goes on from the cursor and the other reads its log from there. What comes twice is known
by (producer, seq) and dropped; so cursors may lag, and are written when there is time.

    reader                                   source
      hold                          ──▶        events are for its live clients only, from now on
      add, add, ...                 ──▶        what it is interested in
      resume(cursor)                ──▶        ("replay", reader, cursor) to the shell, which reads the log:
                                    ◀──      again(event), again(event), ...     for durable subscriptions only
                                    ◀──      mark(offset)                        all before it has been sent
      ("mark", source, offset)      ◀──      event, event, ..., mark(offset)     as ever, with a mark now and then
       to the shell: the cursor, once all before it is on disk

While a reader catches up, live events go to its live clients as "live"; so those get what they always get, and durable
subscriptions get everything once and in order, whichever way it came. A resume without a cursor means: from now on.
"""

from .forwarding import Forwarder
from .streams import MAX_QUEUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..scope.graph import ScopeGraph

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
        self._durable: set[str] = set()  # clients
        self._behind: dict[str, int] = {}  # readers that catch up, from where
        self._marks: dict[str, list[tuple[int, int]]] = {}  # readers: numbers in their stream and offsets
        self._unmarked: dict[str, int] = {}  # events since the last mark
        self._marked_all = 0

    # Of the reader

    def _read_for(self, client: str, now: int) -> None:
        """Its subscriptions are durable."""
        if not self._durable:
            for record in self.records.all():
                if record.broker != self.name:
                    self._ask(record.broker)
            self._resume(self.name, self.cursors.get(self.name), now)
        self._durable.add(client)

    def _ask(self, broker: str) -> None:
        self._stream(broker).put(("resume", self.cursors.get(broker)))

    def _live(self, takers: "list[Any]") -> "list[Any]":
        return [one for one in takers if one[0] not in self._durable]

    def _lasting(self, takers: "list[Any]") -> "list[Any]":
        return [one for one in takers if one[0] in self._durable]

    # Of the source

    def _resume(self, reader: str, cursor: "int | None", now: int) -> None:
        if self.position < 0:  # no log: from now on is all there is
            self._behind.pop(reader, None)
            return
        if cursor is None:
            self._behind.pop(reader, None)
            self._mark(reader, now)
            return
        self._behind[reader] = cursor
        self._marks[reader] = [(self._stream(reader).next - 1, cursor)]
        self._actions.append(("replay", reader, cursor))

    def _hold(self, reader: str) -> None:
        self._behind[reader] = _HELD
        self._actions.append(("replay", reader, _HELD))

    def has_room(self, reader: str) -> bool:
        """Whether more of the log may be published again for a reader."""
        stream = self._out.get(reader)
        if stream is not None and len(stream.packets) >= MAX_AHEAD:
            return False
        return reader == self.name or self.records.topology.towards(self.name, reader) is not None

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

    def _leave_to_the_log(self, reader: str) -> bool:
        """What waits for a reader is about to go: whether it can have it from the log, later."""
        if reader not in self._marks:
            return False
        stream = self._out[reader]
        done = stream.packets[0][0] - 1 if stream.packets else stream.next - 1
        reached = [offset for number, offset in self._marks[reader] if number <= done]
        cursor = reached[-1] if reached else self._marks[reader][0][1]
        if self._behind.get(reader) == _HELD:
            return True  # it says itself from where
        self._behind[reader] = cursor
        self._marks[reader] = [(0, cursor)]
        self._actions.append(("replay", reader, cursor))
        return True

    def _reader_began(self, reader: str) -> None:
        """It has lost its memory: when it has told what it wants, it says from where."""
        self._marks.pop(reader, None)
        if self._behind.pop(reader, None) is not None:
            self._actions.append(("replay", reader, _HELD))
