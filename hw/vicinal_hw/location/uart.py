"""A receiver on a board's serial port. Runs on MicroPython.

from machine import UART
location = Uart(UART(1, 9600, rx=16, timeout=0, rxbuf=1024))
while True:
    location.service(now)          at least every half second: at 9600 baud 1024 bytes are there in one
    location.fix(now)
"""

from .fix import MAX_AGE
from .nmea import Nmea

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Port(Protocol):
        """machine.UART, as far as we use it."""

        def any(self) -> int: ...
        def readinto(self, into: "bytearray | memoryview", count: int) -> "int | None": ...


__all__ = ["Uart"]

# Bytes taken in one turn, so that the radio and the bus have theirs; what is left waits in the port's buffer.
AT_ONCE = 256


class Uart(Nmea):
    def __init__(self, port: "Port", max_age: int = MAX_AGE) -> None:
        super().__init__(max_age)
        self._port = port
        self._room = bytearray(AT_ONCE)

    def service(self, now: int) -> bool:
        """Takes what is there and never waits. True: there may be more."""
        waiting = self._port.any()
        if not waiting:
            return False
        count = self._port.readinto(self._room, min(waiting, AT_ONCE))
        self.receive_data(memoryview(self._room)[: count or 0], now)
        return waiting > AT_ONCE
