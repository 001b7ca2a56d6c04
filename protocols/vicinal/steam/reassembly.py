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
        self.events = 0
        self.bytes = 0
        self._of: dict[bytes, dict[int, _Pending]] = {}  # by subject and sender, then by number, oldest first
        self._due: int | None = None  # nothing is over before

    def receive(self, piece: "Piece", now: int, patience: int) -> "tuple[bytes, bytes] | None":
        """`patience` is how long after its first piece an event may take."""
        self.received += 1
        self.handle_timeout(now)
        if piece.count == 1:
            return self._whole([piece.chunk], 1)
        key, number, cost = piece.subject + piece.sender, piece.number, _OVERHEAD + len(piece.chunk)
        event = self._of.get(key, {}).get(number)
        if event is None:
            if len(self._of.get(key, ())) >= self.sender_events:
                # By when it began, not by number: numbers run around.
                self._give_up(key, list(self._of[key])[0], "superseded")
            if self.events >= self.max_events or self.bytes + cost > self.max_bytes:
                return self._drop("no room")
            event = _Pending(piece, now + patience)
            self._of.setdefault(key, Ordered())[number] = event
            self.events += 1
            if self._due is None or event.until < self._due:
                self._due = event.until
        first, chunks = event.first, event.chunks
        if first.count != piece.count or len(first.chunk) != len(piece.chunk) or first.typed != piece.typed:
            return self._drop("mismatch")
        if piece.index in chunks:
            return self._drop("repeated")
        if self.bytes + cost > self.max_bytes:
            return self._drop("no room")
        chunks[piece.index] = piece.chunk
        self.bytes += cost
        self.pending += 1
        if len(chunks) < piece.count:
            return None
        self._remove(key, number)
        missing = [i for i in range(piece.count) if i not in chunks]
        if missing:  # then the parity is there, and it is the XOR of all that is
            chunks[missing[0]] = xor(list(chunks.values()))
        return self._whole([chunks[i] for i in range(piece.count)], piece.count)

    def _whole(self, chunks: "list[bytes]", count: int) -> "tuple[bytes, bytes] | None":
        found = data_of(chunks)
        if found is None:
            return self._drop("malformed", count)
        self.used += count
        return found

    def next_timeout(self) -> "int | None":
        """Never later than something is over; sometimes sooner."""
        return self._due

    def handle_timeout(self, now: int) -> None:
        if self._due is None or now < self._due:
            return
        self._due = None
        for key in list(self._of):
            for number, event in list(self._of[key].items()):
                if now >= event.until:
                    self._give_up(key, number, "timeout")
                elif self._due is None or event.until < self._due:
                    self._due = event.until

    def _remove(self, key: bytes, number: int) -> int:
        event = self._of[key].pop(number)
        if not self._of[key]:
            del self._of[key]
        count = len(event.chunks)
        self.events -= 1
        self.bytes -= (_OVERHEAD + len(event.first.chunk)) * count
        self.pending -= count
        return count

    def _give_up(self, key: bytes, number: int, reason: str) -> None:
        self._drop(reason, self._remove(key, number))

    def _drop(self, reason: str, count: int = 1) -> "tuple[bytes, bytes] | None":
        """Gives what receive() gives when there is no event."""
        self._on_drop(reason, count)
        return None
