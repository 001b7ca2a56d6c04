"""A fake of MicroPython's `bluetooth`: legacy advertisements, sent and heard over the virtual radio. No connections.

On a board the interrupt comes at any time; here it comes while the program sleeps, or asks the host something.
"""

import fake_host as _host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_IRQ_SCAN_RESULT = 5
_LEGACY_MAX = 31


class BLE:
    _handler: "Any" = None
    _active = False

    def active(self, on: "bool | None" = None) -> bool:
        if on is not None:
            BLE._active = on
            if not on:
                _host.tell(b"B", b"")
                _host.tell(b"L", b"\x00")
        return BLE._active

    def irq(self, handler: "Any") -> None:
        BLE._handler = handler
        _host.on_event = _heard if handler is not None else None

    def config(self, *names: str, **values: "Any") -> "Any":
        return None

    def gap_advertise(
        self, interval: "int | None", data: "Any" = None, resp_data: "Any" = None, connectable: bool = True
    ) -> None:
        self._check()
        if interval is None:
            _host.tell(b"B", b"")
            return
        octets = bytes(data or b"")
        if len(octets) > _LEGACY_MAX:
            raise OSError(-18)
        _host.tell(b"B", octets)

    def gap_scan(self, duration: "int | None", interval: int = 0, window: int = 0, active: bool = False) -> None:
        self._check()
        _host.tell(b"L", b"\x00" if duration is None else b"\x01")

    def _check(self) -> None:
        if not BLE._active:
            raise OSError(19)


def _heard(data: bytes) -> None:
    """Strength, then the advertisement."""
    if BLE._handler is not None:
        rssi = data[0] - 256
        BLE._handler(_IRQ_SCAN_RESULT, (0, b"\x00\x00\x00\x00\x00\x00", 3, rssi, memoryview(data)[1:]))
