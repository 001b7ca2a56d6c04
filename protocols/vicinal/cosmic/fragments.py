"""Events longer than a frame: cut into fragments, and put together again (spec/cosmic_binding.md, CBIND-1 to CBIND-13).

The header is that of FAMOUSO's fragmentation protocol (AFP), its length in unary, the same in all fragments of an
event and as short as the count allows. s counts the fragments still to come, f marks the first, e an extension:

    0efs ssss                               7 bytes of payload in a frame, up to 32 fragments
    10ef ssss ssss ssss                     6 bytes, up to 4,096
    110e fsss + 2 bytes                     5 bytes, up to 2^19          1110 efss + 3 and 1111 0efs + 4 likewise

    first        header │ 0000 0000 number (4)  if numbered │ data ...
    next         header │ data ...                                       every fragment but the last fills the frame
    last         header │ data ... CRC-32 (4)                            no CRC where the first is the last

AFP alone can be fooled: lose the tail of one event and the head of the next, and what is left counts down without a
gap. The checksum tells; CAN's own has seen only frames. The number is for channels where loss matters: it finds events
that are missing, and the repetition of a short one. AFP repeats it in every fragment, which here would leave 2 of 8
bytes; the checksum covers it, so once is enough.

On the bus anybody may send anything, so what is wrong is counted with its reason and never raised. Exactly:

    received = delivered + pending + sum(dropped.values())          in fragments
"""

from binascii import crc32

from .. import limits
from .._compat import const
from ..errors import LimitError, LocalProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Reassembly", "fragment_count", "fragments"]

MTU = const(8)
CHECK_BYTES = const(4)
# The extension's head, 0e00 0000, and its 32-bit number.
NUMBER_BYTES = const(5)
NUMBER_HEAD = const(0)
NUMBERS = 1 << 32

# What one event may take unless the channel asks for more; more than limits.MAX_EVENT_BYTES nobody may.
EVENT_BYTES = const(4096)
# All that events under way may cost, and what one sender may hold of it. With the numbers below it is under 1 MB.
TOTAL_BYTES = const(900000)
SENDER_BYTES = const(131072)
SENDER_EVENTS = const(16)
# Channels whose last number is remembered; the one that was silent for longest is forgotten first.
MAX_NUMBERED = const(256)
# What an event under way takes beside its bytes; CPython takes the most.
OVERHEAD = const(600)
# Microseconds without the next fragment: as ISO-TP's timers. A 65 KiB event may take a minute on a full bus, so
# there is no limit for the whole.
TIMEOUT = const(1000000)


def _shape(size: int, numbered: bool) -> "tuple[int, int]":
    """Bytes of header and number of fragments for an event of `size` bytes."""
    if size > limits.MAX_EVENT_BYTES:
        raise LimitError("event length", size, limits.MAX_EVENT_BYTES)
    number = NUMBER_BYTES if numbered else 0
    if 1 + number + size <= MTU:
        return 1, 1
    head = 1
    while True:
        room = MTU - head
        count = (number + size + CHECK_BYTES + room - 1) // room
        if count - 1 >> 7 * head - 2 == 0:
            return head, count
        head += 1


def fragment_count(size: int, numbered: bool = False) -> int:
    """How many frames an event of `size` bytes takes."""
    return _shape(size, numbered)[1]


def fragments(data: bytes, number: "int | None" = None) -> "Iterator[bytes]":
    """The payloads of its frames, made one by one as they are asked for. A channel where loss matters numbers its
    events 0, 1, 2 ..., modulo 2^32."""
    if number is not None and not 0 <= number < NUMBERS:
        raise LocalProtocolError(f"event number {number} is not in 0 .. {NUMBERS - 1}")
    head, count = _shape(len(data), number is not None)
    return _payloads(data, number, head, count)


def _payloads(data: bytes, number: "int | None", head: int, count: int) -> "Iterator[bytes]":
    bits = 7 * head - 2
    lead = (1 << head) - 2 << bits + 2  # the unary length, above e and f
    first = lead | 1 << bits | count - 1
    room = MTU - head
    extension = b""
    if number is not None:
        first |= 2 << bits
        extension = bytes([NUMBER_HEAD]) + number.to_bytes(4, "big")
    if count > 1:
        data = data + crc32(data, crc32(extension[1:])).to_bytes(CHECK_BYTES, "big")
    start = room - len(extension)
    yield first.to_bytes(head, "big") + extension + data[:start]
    for left in range(count - 2, -1, -1):
        yield (lead | left).to_bytes(head, "big") + data[start : start + room]
        start += room


class _Pending:
    """An event under way."""

    __slots__ = ("count", "data", "head", "last", "left", "number", "seen")

    def __init__(self, head: int, left: int, number: "int | None", payload: bytes, body: bytes, now: int) -> None:
        self.head = head
        self.left = left
        self.number = number
        self.last = payload
        self.data = bytearray(body)
        self.count = 1
        self.seen = now


def _cost(size: int) -> int:
    return OVERHEAD + size + (size >> 3)  # bytearrays grow by an eighth


class Reassembly:
    """Puts together what several senders send, each event under (TxNode, etag).

    receive(tx_node, etag, payload, now)     an event when its last fragment has come, else None
    next_timeout(), handle_timeout(now)      gives up what has stopped coming; receive() does so too

    `events` counts what was delivered, `lost` the numbered events that never came, `dropped` the fragments by reason.
    """

    def __init__(
        self,
        max_event: int = EVENT_BYTES,
        total_bytes: int = TOTAL_BYTES,
        sender_bytes: int = SENDER_BYTES,
        max_numbered: int = MAX_NUMBERED,
    ) -> None:
        if max_event > limits.MAX_EVENT_BYTES:
            raise LimitError("max_event", max_event, limits.MAX_EVENT_BYTES)
        self.max_event = max_event
        self.total_bytes = total_bytes
        self.sender_bytes = sender_bytes
        self.max_numbered = max_numbered
        self.used = 0  # bytes, reckoned: never above total_bytes
        self.received = 0
        self.delivered = 0
        self.events = 0
        self.lost = 0
        self.dropped: dict[str, int] = {}
        self._pending: dict[tuple[int, int], _Pending] = {}
        self._numbers: dict[tuple[int, int], tuple[int, int]] = {}  # last number and when
        self._senders: dict[int, tuple[int, int]] = {}  # events under way and their bytes
        self._sweep_at: int | None = None

    @property
    def pending(self) -> int:
        """Fragments of events under way."""
        return sum([event.count for event in self._pending.values()])

    def receive(self, tx_node: int, etag: int, payload: bytes, now: int) -> "bytes | None":
        if self._sweep_at is not None and now >= self._sweep_at:
            self.handle_timeout(now)
        self.received += 1
        head = 1
        lead = payload[0] if payload else 0xFF
        while lead & 0x80:
            lead <<= 1
            head += 1
        if head > 5 or len(payload) < head or len(payload) > MTU:
            return self._drop("malformed")
        bits = 7 * head - 2
        value = int.from_bytes(payload[:head], "big")
        left = value & (1 << bits) - 1
        if left and len(payload) != MTU:
            return self._drop("malformed")
        if value >> bits & 1:
            return self._first((tx_node, etag), payload, head, left, value >> bits + 1 & 1, now)
        if value >> bits + 1 & 1 or len(payload) == head:
            return self._drop("malformed")
        return self._next((tx_node, etag), payload, head, left, now)

    def _first(
        self, key: "tuple[int, int]", payload: bytes, head: int, left: int, extended: int, now: int
    ) -> "bytes | None":
        number = None
        start = head
        if extended:
            start = head + NUMBER_BYTES
            if len(payload) < start or payload[head] != NUMBER_HEAD:
                return self._drop("malformed")
            number = int.from_bytes(payload[head + 1 : start], "big")
        if head > 1 and not left >> 7 * head - 9:
            return self._drop("malformed")  # a shorter header would do
        before = self._pending.get(key)
        if before is not None:
            if before.last == payload:
                before.seen = now
                return self._drop("duplicate")
            self._give_up(key, "superseded")
        body = payload[start:]
        if left == 0:
            return self._deliver(key, body, number, 1, now)
        # Every fragment but the last is full, and the last has a byte at least.
        if len(body) + (left - 1) * (MTU - head) + 1 > self.max_event + CHECK_BYTES:
            return self._drop("too long")
        if not self._charge(key[0], _cost(len(body))):
            return self._drop("no room")
        self._pending[key] = _Pending(head, left, number, payload, body, now)
        if self._sweep_at is None:
            self._sweep_at = now + TIMEOUT
        return None

    def _next(self, key: "tuple[int, int]", payload: bytes, head: int, left: int, now: int) -> "bytes | None":
        event = self._pending.get(key)
        if event is None:
            return self._drop("stray")
        if payload == event.last:
            event.seen = now
            return self._drop("duplicate")
        event.count += 1
        if head != event.head or left != event.left - 1:
            return self._give_up(key, "gap")
        size = len(event.data)
        if not self._charge(key[0], _cost(size + len(payload) - head) - _cost(size)):
            return self._give_up(key, "no room")
        event.data.extend(payload[head:])
        event.last = payload
        event.left = left
        event.seen = now
        if left:
            return None
        data = bytes(event.data[:-CHECK_BYTES])
        seed = b"" if event.number is None else event.number.to_bytes(4, "big")
        if int.from_bytes(event.data[-CHECK_BYTES:], "big") != crc32(data, crc32(seed)):
            return self._give_up(key, "checksum")
        self._remove(key)
        return self._deliver(key, data, event.number, event.count, now)

    def _deliver(
        self, key: "tuple[int, int]", data: bytes, number: "int | None", count: int, now: int
    ) -> "bytes | None":
        if len(data) > self.max_event:
            return self._drop("too long", count)
        if number is not None:
            known = self._numbers.get(key)
            if known is not None:
                # A number that is not ahead is the same frames again, or a sender that has started again.
                ahead = (number - known[0]) % NUMBERS
                if ahead == 0 and now - known[1] < TIMEOUT:
                    return self._drop("duplicate", count)
                if 0 < ahead < NUMBERS >> 1:
                    self.lost += ahead - 1
            elif len(self._numbers) >= self.max_numbered:
                _, silent = min([(seen, other) for other, (_, seen) in self._numbers.items()])
                del self._numbers[silent]
            self._numbers[key] = (number, now)
        self.delivered += count
        self.events += 1
        return data

    # Time

    def next_timeout(self) -> "int | None":
        return self._sweep_at

    def handle_timeout(self, now: int) -> None:
        for key in [key for key, event in self._pending.items() if now - event.seen >= TIMEOUT]:
            self._give_up(key, "timeout")
        seen = [event.seen for event in self._pending.values()]
        self._sweep_at = min(seen) + TIMEOUT if seen else None

    # Books

    def _charge(self, sender: int, size: int) -> bool:
        """Whether `size` more bytes may be held; as much as an OVERHEAD is a new event."""
        events, used = self._senders.get(sender, (0, 0))
        if size >= OVERHEAD:
            events += 1
        if events > SENDER_EVENTS or used + size > self.sender_bytes or self.used + size > self.total_bytes:
            return False
        self._senders[sender] = (events, used + size)
        self.used += size
        return True

    def _remove(self, key: "tuple[int, int]") -> _Pending:
        event = self._pending.pop(key)
        size = _cost(len(event.data))
        events, used = self._senders.pop(key[0])
        if events > 1:
            self._senders[key[0]] = (events - 1, used - size)
        self.used -= size
        return event

    def _give_up(self, key: "tuple[int, int]", reason: str) -> "bytes | None":
        return self._drop(reason, self._remove(key).count)

    def _drop(self, reason: str, count: int = 1) -> "bytes | None":
        """Gives what receive() gives when there is no event."""
        self.dropped[reason] = self.dropped.get(reason, 0) + count
        return None
