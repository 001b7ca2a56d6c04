"""The calendar of a bus: which hard real-time channel has it when (spec/cosmic.md, calendar).

    calendar = Calendar(500000, precision=20)
    slot = calendar.reserve("Brake", period=5000, size=4, omissions=2)      or Refused, which says why
    for start, slot in calendar.entries(): ...                              one cycle, in order

A channel is admitted when there is a phase at which none of its slots meets one of those already there; the first such
phase is taken. Two periodic slots meet or not as they do within the greatest common divisor g of their periods:

    apart when   d >= length_1  and  d + length_2 <= g        d = (phase_2 - phase_1) mod g

so that nothing need be laid out to find out, and the search leaps from the end of one slot to the end of the next. The
cycle is the least common multiple of the periods. It is bounded: periods that have nothing in common would make a
calendar of hours, and nearly always mean that a period is mistyped.
"""

from ..errors import LimitError, LocalProtocolError
from .slot import Slot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MAX_CYCLE", "MAX_SLOTS", "Calendar", "Refused"]

# Ten seconds: what a person can still look at; the periods of control are milliseconds.
MAX_CYCLE = 10000000
# In one cycle. A bus of 1 Mbit/s has no room for more in ten seconds.
MAX_SLOTS = 30000


class Refused(LocalProtocolError):
    """A channel does not fit; `channel` is its name, `reason` says why."""

    def __init__(self, channel: str, reason: str) -> None:
        super().__init__(f"channel {channel!r} does not fit: {reason}")
        self.channel = channel
        self.reason = reason


class Calendar:
    def __init__(self, bitrate: int, precision: int = 100, jitter: int = 0) -> None:
        """Microseconds: how far two clocks of the bus may be apart, which is twice what each may be off, and how late a
        node may be at the ready time."""
        for what, value in (("bitrate", bitrate - 1), ("precision", precision), ("jitter", jitter)):
            if value < 0:
                raise LimitError(what, value, "0 or more")
        self.bitrate = bitrate
        self.precision = precision
        self.jitter = jitter
        self.slots: list[Slot] = []
        self.cycle = 1

    def reserve(
        self,
        channel: str,
        period: int,
        size: int = 8,
        omissions: int = 1,
        tx_node: "int | None" = None,
        earliest: int = 0,
        latest: "int | None" = None,
    ) -> Slot:
        """The first phase from `earliest` to `latest` that fits."""
        if channel in [slot.channel for slot in self.slots]:
            raise Refused(channel, "it has a slot already")
        if period < 1:
            raise Refused(channel, f"its period is {period}, want 1 microsecond or more")
        slot = Slot(channel, 0, period, size, omissions, self.bitrate, self.precision, self.jitter, tx_node)
        if slot.length > period:
            raise Refused(
                channel, f"its slot is {slot.length} us long ({omissions} omissions, {size} bytes), its period {period}"
            )
        cycle = self.cycle // _gcd(self.cycle, period) * period
        if cycle > MAX_CYCLE:
            raise Refused(channel, f"with its period of {period} the cycle is {cycle} us, the limit is {MAX_CYCLE}")
        count = sum([cycle // other.period for other in self.slots]) + cycle // period
        if count > MAX_SLOTS:
            raise Refused(channel, f"with it a cycle has {count} slots, the limit is {MAX_SLOTS}")
        for other in self.slots:
            common = _gcd(period, other.period)
            if slot.length + other.length > common:
                raise Refused(
                    channel,
                    f"its slots of {slot.length} us and those of {other.channel!r}, {other.length} us, meet: their "
                    f"periods {period} and {other.period} have {common} us in common",
                )
        last = period - 1 if latest is None else min(latest, period - 1)
        slot.phase = self._first_fit(slot, earliest, last)
        if slot.phase < 0:
            reserved = sum([1000 * other.length // other.period for other in self.slots])
            raise Refused(
                channel,
                f"no phase from {earliest} to {last} is free for {slot.length} us every {period}; "
                f"{len(self.slots)} channels hold {reserved // 10}.{reserved % 10} % of the bus",
            )
        self.cycle = cycle
        self.slots.append(slot)
        return slot

    def _first_fit(self, slot: Slot, phase: int, last: int) -> int:
        """The first free phase, or -1. Each leap passes a slot, so there are no more leaps than slots."""
        moved = True
        while moved:
            moved = False
            for other in self.slots:
                common = _gcd(slot.period, other.period)
                apart = (phase - other.phase) % common
                leap = 0
                if apart < other.length:
                    leap = other.length - apart
                elif apart + slot.length > common:
                    leap = common - apart + other.length
                if leap:
                    moved = True
                    phase += leap
                    if phase > last:
                        return -1
        return phase if phase <= last else -1

    def release(self, channel: str) -> None:
        """Its slots are free again, and the cycle as short as the others allow."""
        rest = [slot for slot in self.slots if slot.channel != channel]
        if len(rest) == len(self.slots):
            raise LocalProtocolError(f"channel {channel!r} has no slot")
        self.slots = rest
        self.cycle = 1
        for slot in rest:
            self.cycle = self.cycle // _gcd(self.cycle, slot.period) * slot.period

    def entries(self) -> "Iterator[tuple[int, Slot]]":
        """Start and slot, of one cycle, in order."""
        found = []
        for place, slot in enumerate(self.slots):
            for start in range(slot.phase, self.cycle, slot.period):
                found.append((start, place))
        for start, place in sorted(found):
            yield start, self.slots[place]

    def free(self) -> "list[tuple[int, int]]":
        """Start and length of what nobody reserved, of one cycle. The last slots may reach into the next cycle."""
        entries = list(self.entries())
        if not entries:
            return [(0, self.cycle)]
        last_start, last = entries[-1]
        end = max(last_start + last.length - self.cycle, 0)
        found = []
        for start, slot in entries:
            if start > end:
                found.append((end, start - end))
            end = start + slot.length
        if end < self.cycle:
            found.append((end, self.cycle - end))
        return found

    def reserved(self) -> int:
        """Microseconds of a cycle that slots hold; `cycle` is the whole."""
        return sum([slot.length * (self.cycle // slot.period) for slot in self.slots])


def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a
