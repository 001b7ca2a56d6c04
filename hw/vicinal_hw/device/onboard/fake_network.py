"""A fake of MicroPython's `network`: an access point that the host plays. Sockets are the host's own, on loopback, and
work whether the station is connected or not."""

import fake_host as _host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STA_IF, AP_IF = 0, 1
STAT_IDLE, STAT_CONNECTING, STAT_GOT_IP, STAT_WRONG_PASSWORD = 1000, 1001, 1010, 202


class WLAN:
    IF_STA = STA_IF

    def __init__(self, interface: int = STA_IF) -> None:
        self._active = False
        self._status = STAT_IDLE

    def active(self, on: "bool | None" = None) -> bool:
        if on is not None:
            self._active = on
        return self._active

    def connect(self, ssid: str, key: str = "") -> None:
        if not self._active:
            raise OSError("Wifi Not Started")
        right = _host.ask(b"N", ssid.encode() + b"\x00" + key.encode()) == b"\x01"
        self._status = STAT_GOT_IP if right else STAT_WRONG_PASSWORD

    def disconnect(self) -> None:
        self._status = STAT_IDLE

    def isconnected(self) -> bool:
        return self._status == STAT_GOT_IP

    def status(self, *what: "Any") -> int:
        return self._status

    def ifconfig(self) -> "tuple[str, str, str, str]":
        return ("127.0.0.1", "255.0.0.0", "127.0.0.1", "127.0.0.1")
