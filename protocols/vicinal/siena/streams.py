"""From broker to broker: packets in order and once, whatever the links between them do.

Forwarding from hop to hop may lose packets (a link fails) and overtake them (a route changes). So the first broker
numbers what it sends to each other broker, the last one puts it in order and acknowledges, and what is not
acknowledged in time is sent again, by whatever way there then is. A packet that has no way any more because its
scopes have none is sent again as nothing, so that those behind it are not held up.

A stream is named by both ends, their incarnations and an epoch: either end starting anew starts the stream anew.
"""

from ..wire import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Incoming", "Outgoing"]

# Milliseconds. A round trip over a few continents fits into the first; the last bounds the traffic towards the dead.
FIRST_RETRY = 2000
LAST_RETRY = 30000
ACKNOWLEDGE_AFTER = 50
# So long a packet without a way within its scopes waits for one: a broker of them may only be restarting.
PATIENCE = 15000
# Packets: sent and not acknowledged; held back because an earlier one is missing; waiting to be sent.
WINDOW = 256
MAX_HELD = 512
# Bytes held back of one stream, with what an event costs beside them: of most events all that the window has. What is
# not held is sent again.
MAX_HELD_BYTES = 4 << 20
HELD_OVERHEAD = 512
MAX_QUEUE = 4096
ACKNOWLEDGE_EVERY = 32


class Outgoing:
    def __init__(self, incarnation: int) -> None:
        """`incarnation` of the other end; `epoch` counts how often the stream was started anew."""
        self.incarnation = incarnation
        self.epoch = 1
        self.next = 1
        self.packets: list[tuple[int, Any]] = []  # not acknowledged, in order, no number missing
        self.sent = 0  # the highest number that was sent
        self.retry = FIRST_RETRY
        self.due: int | None = None
        self.stuck: dict[int, int] = {}  # packets that have no way, and since when

    def put(self, packet: "Any") -> None:
        self.packets.append((self.next, packet))
        self.next += 1

    def ready(self, now: int) -> "list[tuple[int, Any]]":
        """What may be sent now for the first time, or is behind what was sent again."""
        if not self.packets:
            return []
        found = self.packets[max(self.sent + 1 - self.packets[0][0], 0) : WINDOW]
        if found:
            self.sent = found[-1][0]
            if self.due is None:
                self.due = now + self.retry
        return found

    def again(self, now: int) -> "list[tuple[int, Any]]":
        """What must be sent again, if it is time."""
        if self.due is None or now < self.due:
            return []
        self.retry = min(self.retry * 2, LAST_RETRY)
        self.due = now + self.retry
        found = self.packets[: min(max(self.sent + 1 - self.packets[0][0], 0), 32)] if self.packets else []
        if found:
            # What was sent after these is lost too, for all we know: it follows when these have arrived.
            self.sent = found[-1][0]
        return found

    def acknowledged(self, number: int, now: int) -> None:
        """Up to a number all have arrived."""
        if self.stuck:
            self.stuck = {stuck: since for stuck, since in self.stuck.items() if stuck > number}
        if self.packets and number >= self.packets[0][0]:
            self.packets = self.packets[number + 1 - self.packets[0][0] :]
            self.retry = FIRST_RETRY
            self.due = now + self.retry if self.packets and self.packets[0][0] <= self.sent else None

    def hurry(self, now: int) -> None:
        """The ways have changed: what is under way may be lost."""
        if self.due is not None:
            self.retry = FIRST_RETRY
            self.due = min(self.due, now + FIRST_RETRY)

    def restart(self, incarnation: int, packets: "list[Any]") -> None:
        """Anew, with these packets: the other end has lost its memory, or too much was waiting for it."""
        epoch = self.epoch + 1
        self.__init__(incarnation)  # type: ignore[misc]
        self.epoch = epoch
        for packet in packets:
            self.put(packet)


class Incoming:
    def __init__(self, epoch: "tuple[int, int]") -> None:
        """`epoch` of the stream: the other end's incarnation, and its count."""
        self.epoch = epoch
        self.expected = 1
        self.held: dict[int, Any] = {}
        self.too_far_ahead = 0  # packets that were not held
        self._sizes: dict[int, int] = {}  # of those held
        self._held_bytes = 0
        self.unacknowledged = 0
        self.due: int | None = None

    def take(self, number: int, packet: "Any", now: int) -> "list[Any]":
        """The packets whose turn has come."""
        if self.due is None:
            self.due = now + ACKNOWLEDGE_AFTER
        self.unacknowledged += 1
        if number < self.expected:
            return []
        if number > self.expected:
            if number not in self.held:
                self._hold(number, packet)
            return []
        found = [packet]
        self.expected += 1
        while self.expected in self.held:
            found.append(self.held.pop(self.expected))
            self._held_bytes -= self._sizes.pop(self.expected)
            self.expected += 1
        return found

    def _hold(self, number: int, packet: "Any") -> None:
        size = _size(packet)
        if number - self.expected > MAX_HELD or self._held_bytes + size > MAX_HELD_BYTES:
            self.too_far_ahead += 1
            return
        self.held[number] = packet
        self._sizes[number] = size
        self._held_bytes += size

    def acknowledge(self, now: int) -> "int | None":
        """The number up to which all has come, if it is time to say so."""
        if self.due is None or (now < self.due and self.unacknowledged < ACKNOWLEDGE_EVERY):
            return None
        self.due = None
        self.unacknowledged = 0
        return self.expected - 1


def _size(packet: "Any") -> int:
    """About: an event with its trail, a filter, or next to nothing."""
    if packet[0] in ("event", "live", "again"):
        return HELD_OVERHEAD * (1 + len(packet[-1])) + len(encode(packet[1]))
    return HELD_OVERHEAD + (len(str(packet[2])) if packet[0] == "add" else 0)
