"""One time on the bus: how a node follows the master's clock (spec/cosmic_binding.md, CBIND-45 to CBIND-52).

    master   ──[n │ rank │ when n-1 was on the bus]──▶        every 200 ms, on the channel TimeSync
    client       noted when n-1 came:  a pair (our time, bus time) of one and the same edge of a bit

A frame on CAN ends for all nodes at once, so that the only error is how late each end looks at its clock: the *jitter*.
The number n sees to it that a frame that was missed is never taken for the one before it.

    bus time
       │                    ·········   the line through the oldest and the newest pair of the ring
       │          o  o ····○            is the clock; between them lies the drift
       │      o o ····                  and the farther they are apart, the less jitter there is in it
       │  ○ ···                         (all in integers: a device's floats have 24 bits)
       └──────────────────────────▶ our time

How wrong it can be is known: both pairs are off by no more than the jitter, and after them the oscillators wander.

    error <= jitter + age * (2 jitter / distance of the pairs + wander)

The clock is in sync after three pairs in a row that it foretold within the accuracy, and as long as this bound is
within the accuracy: when the master is silent the age grows, and it falls out of sync. A single bad pair puts it out at
once and is not used; after three of them in a row the clock starts afresh.

At a pair the clock may step by as much as the accuracy, back too.
"""

from .._compat import const
from ..errors import LocalProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    Pair = tuple[int, int]

__all__ = ["SUBJECT", "BusClock", "pack_sync", "unpack_sync"]

SUBJECT = "TimeSync"
# Microseconds. Six frames until in sync: little more than a second.
PERIOD = const(200000)
# A quartz changes by this much while the ring lasts, parts per million: a few degrees.
WANDER = const(5)
RING = const(16)
GOOD = const(3)
BAD = const(3)
# With fewer a new master's line is worse than the old one's.
ENOUGH = const(4)
# How long the master that we follow may be silent before another is followed.
FAITHFUL = const(3)
# In a frame without a time: the master has not yet sent another, or does not know when.
NO_TIME = 0xFFFFFFFFFFFF
MAX_RANK = const(7)


def pack_sync(number: int, rank: int, before: int) -> bytes:
    """`before` is the bus time at which the frame before this one was sent, modulo 2^48: nine years."""
    return bytes([number, rank]) + before.to_bytes(6, "big")


def unpack_sync(data: bytes) -> "tuple[int, int, int] | None":
    """number, rank, bus time of the frame before"""
    if len(data) != 8 or data[1] > MAX_RANK:
        return None
    return data[0], data[1], int.from_bytes(data[2:], "big")


class BusClock:
    def __init__(self, accuracy: int = 100, jitter: "int | None" = None, period: int = PERIOD) -> None:
        """`accuracy` is what is wanted, `jitter` the most by which the times that both ends note differ; by default a
        quarter of the accuracy, and with more than half of it no clock is ever in sync."""
        if accuracy < 1 or period < 1:
            raise LocalProtocolError(f"accuracy {accuracy} and period {period}: want microseconds from 1")
        self.accuracy = accuracy
        self.jitter = accuracy >> 2 if jitter is None else jitter
        self.period = period
        self.leading = False  # we are the master: our line is the bus's time
        self.master: int | None = None  # rank of the one that is followed
        self.pairs = 0
        self.rejected = 0  # pairs that were off by more than the accuracy
        self.missed = 0  # frames of the master
        self.ignored = 0  # frames that are malformed, or of another master
        self._line: tuple[Pair, Pair] | None = None
        self._ring: list[Pair] = []
        self._last: tuple[int, int] | None = None  # number of the last frame and when it came
        self._heard = 0
        self._checked = 0  # when the last pair was
        self._off = 0  # by how much it differed from the line
        self._good = 0
        self._bad = 0

    # What time is it

    def local_to_bus(self, local: int) -> int:
        """Our own time as long as nothing is known."""
        if self._line is None:
            return local
        (l0, b0), (l1, b1) = self._line
        return b1 + (local - l1) * (b1 - b0) // (l1 - l0)

    def bus_to_local(self, bus: int) -> int:
        if self._line is None:
            return bus
        (l0, b0), (l1, b1) = self._line
        return l1 + (bus - b1) * (l1 - l0) // (b1 - b0)

    # A COSMIC node asks its clock by these names.
    to_global = local_to_bus
    to_local = bus_to_local

    def error_bound(self, now: int) -> "int | None":
        """The most by which local_to_bus(now) can be wrong; None when nothing is known of it."""
        if self.leading:
            return 0
        if self._line is None:
            return None
        (l0, _), (l1, _) = self._line
        age = abs(now - l1)
        fresh = abs(now - self._checked)
        slope = 2000000 * self.jitter // (l1 - l0) + WANDER + 1  # parts per million
        return max(self.jitter + age * slope // 1000000, self._off + self.jitter + fresh * slope // 1000000) + 1

    def in_sync(self, now: int) -> bool:
        if self.leading:
            return True
        bound = self.error_bound(now)
        return bound is not None and self._good >= GOOD and bound <= self.accuracy

    @property
    def drift(self) -> int:
        """How much faster the bus's clock is than ours, in parts per billion."""
        if self._line is None:
            return 0
        (l0, b0), (l1, b1) = self._line
        return (b1 - b0 - l1 + l0) * 1000000000 // (l1 - l0)

    # The master's frames

    def receive(self, data: bytes, now: int) -> None:
        """A frame of the channel TimeSync that came at `now`."""
        found = unpack_sync(data)
        if found is None or self.leading:
            self.ignored += 1
            return
        number, rank, before = found
        if rank != self.master:
            if self.master is not None and rank > self.master and now - self._heard < FAITHFUL * self.period:
                self.ignored += 1
                return
            self._follow(rank)
        self._heard = now
        last, self._last = self._last, (number, now)
        if last is None or number == last[0]:
            return  # repeated by the bus: the master too has noted the later one
        self.missed += (number - last[0] - 1) % 256
        # 128 periods later the number may have come round.
        if (last[0] + 1) % 256 == number and before != NO_TIME and now - last[1] < 128 * self.period:
            self._pair(last[1], before)

    def _follow(self, rank: int) -> None:
        """A new master goes on with the bus's time as well as it knew it: our line holds until it has its own."""
        self.master = rank
        self._last = None
        self._ring = []
        self._good = self._bad = 0

    def _pair(self, local: int, bus: int) -> None:
        self.pairs += 1
        if self._line is None:
            self._ring.append((local, bus))
            if len(self._ring) > 1:
                self._draw()
            return
        off = abs(bus - self.local_to_bus(local))
        if off >= self.accuracy:
            self.rejected += 1
            self._good = 0
            self._bad += 1
            if self._bad >= BAD:
                self._line = None
                self._ring = [(local, bus)]
                self._bad = 0
            return
        self._bad = 0
        self._good += 1
        self._checked, self._off = local, off
        self._ring.append((local, bus))
        if len(self._ring) > RING:
            self._ring.pop(0)
        if len(self._ring) >= ENOUGH or self._line[1] in self._ring:
            self._draw()

    def _draw(self) -> None:
        first, last = self._ring[0], self._ring[-1]
        if last[0] <= first[0] or last[1] <= first[1]:
            self._ring = [last]  # a clock that stands still, or goes back: not a line
            return
        self._line = (first, last)
        self._checked, self._off = last[0], 0

    # The master's own

    def lead(self) -> None:
        """From now on our line is the bus's time."""
        self.leading = True
        self.master = None
        self._last = None

    def step_back(self) -> None:
        """Another one leads; its time is ours when it has proved to be."""
        self.leading = False
        self._ring = []
        self._good = self._bad = 0
