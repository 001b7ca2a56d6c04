"""One radio on the air: where it is, what it repeats, and when it listens on which channel.

A scanner listens on one primary channel at a time, the next one in each interval, for the first `window` of it:

    37 ├──window──┤          │38 ├──window──┤          │39 ├──window──┤          │37 ...
       ├───────interval──────┤

Radios are half-duplex: one that sends, or follows a pointer to a secondary channel, hears nothing else. advertise()
starts a new round of events, the first within 10 ms: hosts stop, exchange and start (BlueZ and MicroPython both do).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from .physics import LEGACY_MAX, PRIMARY, check_data, check_interval, check_scan

if TYPE_CHECKING:
    from .air import Air, Transmission

__all__ = ["SCAN_INTERVAL", "Heard", "Radio"]

SCAN_INTERVAL = 30_000
"""us; listening all the time by default, as a device does that is not short of power"""
INTERVAL = 100_000

Heard: TypeAlias = Callable[[bytes, int, int], None]
"""(data, rssi, now)"""


class Radio:
    def __init__(self, air: "Air", name: str, x: float, y: float, power: int, phase: int) -> None:
        self.air = air
        self.name = name
        self.x = x
        self.y = y
        self.power = power
        self.reach = air.model.reach(power)
        self.disturbs = air.model.reach(power + air.model.capture)
        """metres within which it can be heard, and within which it can keep others from being heard"""
        self.on_heard: Heard | None = None
        self.on_sent: Callable[[], None] | None = None
        """an advertising event has begun"""
        self.data: bytes | None = None
        self.extended = False
        self.interval = INTERVAL
        self.sent = 0
        """advertising events"""
        self.scanning = False
        self.window = self.scan_interval = SCAN_INTERVAL
        self.phase = phase
        self.cell = (0, 0)
        self.generation = 0
        """of the advertised data: an event that was due for older ones does not happen"""
        self.neighbours: list[tuple[Radio, float]] = []
        self.neighbours_as_of = -1
        self.sending: Transmission | None = None
        """the latest one"""
        self.away_from = self.away_until = -1
        """when it listens, or listened, on a secondary channel"""

    def move(self, x: float, y: float) -> None:
        self.air._move(self, x, y)

    def advertise(self, data: bytes | None, interval: int = INTERVAL, extended: bool | None = None) -> None:
        """Repeats these data until told otherwise; None: no more. `extended` None: where legacy has no room."""
        if data is None:
            self.data = None
            self.generation += 1
            return
        if extended is None:
            extended = len(data) > LEGACY_MAX
        check_interval(interval)
        check_data(data, extended)
        self.data, self.interval, self.extended = bytes(data), interval, extended
        self.generation += 1
        self.air._start(self)

    def scan(self, window: int = SCAN_INTERVAL, interval: int = SCAN_INTERVAL) -> None:
        check_scan(window, interval)
        self.window, self.scan_interval = window, interval
        if not self.scanning:
            self.scanning = True
            self.air._listen(self, True)

    def stop_scan(self) -> None:
        if self.scanning:
            self.scanning = False
            self.air._listen(self, False)

    def listens(self, channel: int, begin: int, end: int) -> bool:
        """Whether it listens on a primary channel (0, 1, 2) all this time, as far as its schedule goes."""
        slot, into = divmod(begin + self.phase, self.scan_interval)
        return slot % PRIMARY == channel and into + end - begin <= self.window

    def is_busy(self, begin: int, end: int) -> bool:
        """Whether it sends, or is away on a secondary channel, at some time of this."""
        sending = self.sending
        if sending is not None and sending.begin < end and sending.ends > begin:
            return True
        return self.away_from < end and self.away_until > begin
