"""Pieces put together again, within limits (spec/steam.md, STEAM-26 to STEAM-32).

Pieces come in any order, again and again, and with holes; any `count` of count + 1 are enough. On the air anybody may
send anything: what is wrong is told to `on_drop(reason, pieces)` and never raised. Exactly, in pieces:

    received = used + pending + what was dropped

A sender repeats its newest events most, so the oldest of a sender's events gives way to its newer ones; senders do
not give way to each other.
"""

from .._compat import MICROPYTHON, Ordered, const
from .frames import data_of, xor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .frames import Piece

__all__ = ["Reassembly"]

# What keeping a chunk costs beside its bytes.
_OVERHEAD = const(64)


class _Pending:
    __slots__ = ("chunks", "first", "until")

    def __init__(self, first: "Piece", until: int) -> None:
        self.first = first  # what the others must agree with
        self.chunks: dict[int, bytes] = {}
        self.until = until


class Reassembly:
    """receive() gives the check and the data of an event as soon as it is whole."""

    # Events under way: all, and of one sender and subject. A crossing has fifty neighbours with an event or two each.
    max_events = 8 if MICROPYTHON else 256
    sender_events = 2 if MICROPYTHON else 8
    # What all of them may hold.
    max_bytes = 2048 if MICROPYTHON else 262144

    def __init__(self, on_drop: "Callable[[str, int], None]") -> None:
        self._on_drop = on_drop
        self.received = 0
        self.used = 0
        self.pending = 0
        self.bytes = 0
        self._events: dict[tuple[bytes, int], _Pending] = Ordered()  # oldest first

    def __len__(self) -> int:
        return len(self._events)

    def receive(self, piece: "Piece", now: int, patience: int) -> "tuple[bytes, bytes] | None":
        """`patience` is how long after its first piece an event may take."""
        self.received += 1
        key = (piece.subject + piece.sender, piece.number)
        event = self._events.get(key)
        if event is not None and now >= event.until:
            self._give_up(key, "timeout")
            event = None
        if event is None:
            if piece.count == 1:
                return self._whole([piece.chunk], 1)
            event = self._begin(key, piece, now, patience)
            if event is None:
                return None
        first, chunks = event.first, event.chunks
        if first.count != piece.count or len(first.chunk) != len(piece.chunk) or first.typed != piece.typed:
            return self._drop("mismatch")
        if piece.index in chunks:
            return self._drop("repeated")
        if self.bytes + _OVERHEAD + len(piece.chunk) > self.max_bytes:
            if not chunks:
                del self._events[key]
            return self._drop("no room")
        chunks[piece.index] = piece.chunk
        self.bytes += _OVERHEAD + len(piece.chunk)
        self.pending += 1
        if len(chunks) < piece.count:
            return None
        self._remove(key)
        missing = [i for i in range(piece.count) if i not in chunks]
        if missing:  # then the parity is there, and it is the XOR of all that is
            chunks[missing[0]] = xor(list(chunks.values()))
        return self._whole([chunks[i] for i in range(piece.count)], piece.count)

    def _begin(self, key: "tuple[bytes, int]", piece: "Piece", now: int, patience: int) -> "_Pending | None":
        of_sender = [other for other in self._events if other[0] == key[0]]
        if len(of_sender) >= self.sender_events:
            # By when it began, not by number: numbers run around.
            self._give_up(of_sender[0], "superseded")
        elif len(self._events) >= self.max_events:
            self.handle_timeout(now)
            if len(self._events) >= self.max_events:
                self._drop("no room")
                return None
        event = self._events[key] = _Pending(piece, now + patience)
        return event

    def _whole(self, chunks: "list[bytes]", count: int) -> "tuple[bytes, bytes] | None":
        found = data_of(chunks)
        if found is None:
            return self._drop("malformed", count)
        self.used += count
        return found

    def forget(self, key: bytes, reason: str) -> None:
        """Gives up all that one sender has under way of a subject."""
        for other in [other for other in self._events if other[0] == key]:
            self._give_up(other, reason)

    def next_timeout(self) -> "int | None":
        times = [event.until for event in self._events.values()]
        return min(times) if times else None

    def handle_timeout(self, now: int) -> None:
        for key in [key for key, event in self._events.items() if now >= event.until]:
            self._give_up(key, "timeout")

    def _remove(self, key: "tuple[bytes, int]") -> int:
        event = self._events.pop(key)
        self.bytes -= (_OVERHEAD + len(event.first.chunk)) * len(event.chunks)
        self.pending -= len(event.chunks)
        return len(event.chunks)

    def _give_up(self, key: "tuple[bytes, int]", reason: str) -> None:
        self._drop(reason, self._remove(key))

    def _drop(self, reason: str, count: int = 1) -> "tuple[bytes, bytes] | None":
        """Gives what receive() gives when there is no event."""
        self._on_drop(reason, count)
        return None
