"""A STEAM node on a board, with MicroPython's `bluetooth` (the ESP32): the radio, and the loop that serves it.

    import bluetooth
    shell = DeviceShell(node, DeviceRadio(bluetooth.BLE()))
    while True:
        again = shell.service(now)              Unix ms; and when shell.radio has heard something

    scan result interrupt ──▶ ours? ──▶ queue ──▶ service() ──▶ node.receive()
                               │ no: counted            └────▶ node.advertisement() ──▶ gap_advertise()

The interrupt's memory is the stack's own and is copied there, and only if the company's number stands in it: the air of
a city has some hundred strangers a second. What does not fit into the queue is counted as dropped.
"""

from vicinal.errors import LimitError

from .turns import Turns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vicinal.steam.node import Node

__all__ = ["DeviceRadio", "DeviceShell"]

_IRQ_SCAN_RESULT = 5
_IRQ_SCAN_DONE = 6
_LEGACY_MAX = 31
_OURS = b"\xff\xff\xff"
# Advertisements between two turns of the loop: 100 ms of ten neighbours who all send, and some more.
_QUEUE_MAX = 16
# us; the radio listens all the time, on another channel in each interval. Less saves power and loses frames.
_SCAN = 30000


class DeviceRadio:
    def __init__(self, ble: "Any", interval: int = 100, window: int = _SCAN) -> None:
        """`ble` is a bluetooth.BLE(). `interval` in ms between advertising events, `window` in us of each 30 ms."""
        self.counters = {"heard": 0, "strangers": 0, "dropped": 0}
        self._ble = ble
        self._interval = interval * 1000
        self._window = window
        self._queue: list[tuple[bytes, int]] = []
        ble.active(True)
        ble.irq(self._on_irq)
        self._scan()

    def _scan(self) -> None:
        self._ble.gap_scan(0, _SCAN, self._window, False)

    def _on_irq(self, event: int, data: "Any") -> None:
        if event == _IRQ_SCAN_RESULT:
            advertisement = bytes(data[4])
            if advertisement.find(_OURS) < 0:
                self.counters["strangers"] += 1
            elif len(self._queue) >= _QUEUE_MAX:
                self.counters["dropped"] += 1
            else:
                self.counters["heard"] += 1
                self._queue.append((advertisement, data[3]))
        elif event == _IRQ_SCAN_DONE:
            self._scan()  # for ever was asked for: somebody else has stopped it

    def receive(self) -> "tuple[bytes, int] | None":
        """The oldest advertisement that was heard, and its strength."""
        return self._queue.pop(0) if self._queue else None

    def advertise(self, advertisement: "bytes | None") -> None:
        if advertisement is None:
            self._ble.gap_advertise(None)
        elif len(advertisement) > _LEGACY_MAX:
            # What MicroPython says itself is "OSError: -18".
            raise LimitError("advertisement", len(advertisement), _LEGACY_MAX)
        else:
            self._ble.gap_advertise(self._interval, advertisement, connectable=False)

    def close(self) -> None:
        self._ble.gap_advertise(None)
        self._ble.gap_scan(None)
        self._ble.irq(None)
        self._ble.active(False)


class DeviceShell:
    def __init__(self, node: "Node", radio: DeviceRadio) -> None:
        self.node = node
        self.radio = radio
        self._turns = Turns(node, radio.advertise, node.interval)

    def set_fix(self, fix: "Any", now: int) -> None:
        """What a Location gives; None: nobody knows where this is."""
        if fix is None:
            self.node.set_position(None, None, now)
        else:
            self.node.set_position(fix.lat, fix.lon, now, fix.velocity)

    def service(self, now: int) -> "int | None":
        """Everything there is to do now; gives when it must be called again at the latest, if nothing is heard."""
        for _ in range(_QUEUE_MAX):
            heard = self.radio.receive()
            if heard is None:
                break
            self.node.receive(heard[0], heard[1], now)
        return self._turns.service(now)
