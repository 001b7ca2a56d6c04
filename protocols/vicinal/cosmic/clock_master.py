"""Who gives the time: the master of the bus's clock, and those who take over when it is silent (CBIND-53 to CBIND-56).

              silent for 3 periods, and one more for each rank
    follower ───────────────────────────────────────────────▶ master
        ▲                     one with a lower rank is heard     │
        └────────────────────────────────────────────────────────┘

A follower that takes over goes on with the time it has followed, drift and all, so that nobody sees a step larger than
the accuracy. A master that comes back follows first: it has lost the time that the others went on with.

    receive(data, now)       a frame of TimeSync, for the clock too
    data_to_send(now)        the next frame's data when it is time for one, else None
    sent(now)                it was on the bus at `now`: at the end of the frame, as those who hear it
    next_timeout()           when to ask data_to_send() again
"""

from .._compat import const
from ..errors import LimitError
from .clock import MAX_RANK, NO_TIME, BusClock, pack_sync, unpack_sync

__all__ = ["ClockMaster"]

# Periods.
SILENT_AFTER = const(3)
# A frame that was handed over and is not on the bus after so long was dropped by somebody.
GIVE_UP_AFTER = const(2)


class ClockMaster:
    def __init__(self, clock: BusClock, rank: int, now: int) -> None:
        if not 0 <= rank <= MAX_RANK:
            raise LimitError("rank", rank, f"0 .. {MAX_RANK}")
        self.clock = clock
        self.rank = rank
        self.takeovers = 0
        self._number = 0
        self._before = NO_TIME
        self._handed: int | None = None
        self._next = now + self._patience()

    def _patience(self) -> int:
        return (SILENT_AFTER + self.rank) * self.clock.period

    def receive(self, data: bytes, now: int) -> None:
        found = unpack_sync(data)
        if found is not None and self.clock.leading and found[1] < self.rank:
            self.clock.step_back()
        if found is not None and not self.clock.leading:
            self._next = now + self._patience()
        self.clock.receive(data, now)

    def data_to_send(self, now: int) -> "bytes | None":
        if now < self._next:
            return None
        if not self.clock.leading:
            self.clock.lead()
            self.takeovers += 1
            self._before = NO_TIME
        elif self._handed is not None:
            self._before = NO_TIME
        self._number = (self._number + 1) % 256
        self._handed = now
        self._next = now + GIVE_UP_AFTER * self.clock.period
        return pack_sync(self._number, self.rank, self._before)

    def sent(self, now: int) -> None:
        if self.clock.leading and self._handed is not None:
            self._before = self.clock.local_to_bus(now) & NO_TIME
            self._next = max(now, self._handed + self.clock.period)
        self._handed = None

    def next_timeout(self) -> int:
        return self._next
