"""A reservation of the bus: how long a slot must be, and when it comes (spec/cosmic.md, slots).

    ready                                                                 sent at last      delivery
      |-- jitter --|-- in the way --|-- frame --|-- error --| ...again... --|---- precision ----|
      |<-------------------------------- window -------------------------->|
      |<------------------------------------- length --------------------------------------->|

In the way is at most one longest frame, destroyed at its end. An attempt that fails is followed by another wait: the
sender may be error passive by then, and pauses for eight bits in which somebody else may start. So every frame of the
event and every omission costs a wait and a frame, every omission an error as well.

Nothing is reserved on the wire itself: what a slot does not need, other frames take by arbitration.
"""

from ..errors import LimitError
from .bits import ERROR_BITS, duration, worst_bits
from .frame import MAX_DATA

__all__ = ["MAX_OMISSIONS", "MAX_SLOT_BYTES", "Slot", "window_of"]

# In 9 frames of a fragmented event; what is longer is not urgent to the microsecond.
MAX_SLOT_BYTES = 56
# A bus on which as many attempts fail in a row is broken.
MAX_OMISSIONS = 15


def frames_of(size: int) -> int:
    """Frames of a hard real-time event: one up to 8 bytes, as it is; else fragments."""
    if not 0 <= size <= MAX_SLOT_BYTES:
        raise LimitError("bytes of a hard real-time event", size, MAX_SLOT_BYTES)
    if size <= MAX_DATA:
        return 1
    from .fragments import fragment_count

    return fragment_count(size)


def window_of(size: int, omissions: int, bitrate: int, jitter: int = 0) -> int:
    """From the ready time until the event is sent for certain, in microseconds."""
    if not 0 <= omissions <= MAX_OMISSIONS:
        raise LimitError("omission degree", omissions, MAX_OMISSIONS)
    longest = worst_bits(MAX_DATA)
    frame = longest if size > MAX_DATA else worst_bits(size)
    waits = frames_of(size) + omissions
    return jitter + duration(waits * (longest + ERROR_BITS + frame) + omissions * ERROR_BITS, bitrate)


class Slot:
    """When a channel's sender has the bus: at `phase` and every `period` after it, in the bus's time."""

    __slots__ = ("channel", "length", "omissions", "period", "phase", "precision", "size", "tx_node", "window")

    def __init__(
        self,
        channel: str,
        phase: int,
        period: int,
        size: int,
        omissions: int,
        bitrate: int,
        precision: int,
        jitter: int = 0,
        tx_node: "int | None" = None,
    ) -> None:
        self.channel = channel
        self.phase = phase
        self.period = period
        self.size = size
        self.omissions = omissions
        self.precision = precision  # how far two clocks may be apart
        self.window = window_of(size, omissions, bitrate, jitter)
        self.length = self.window + precision
        self.tx_node = tx_node

    @property
    def latency(self) -> int:
        """The computed bound from publishing to delivery: just missed, so a period more."""
        return self.period + self.length

    def next_ready(self, time: int) -> int:
        """The first ready time at or after `time`."""
        return time + (self.phase - time) % self.period
