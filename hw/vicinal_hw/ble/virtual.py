"""The virtual radio for several processes of one host, in real or stepped time.

    radio = VirtualRadio("town", lat=533438000, lon=-62546000)
    async with Shell(node, radio): ...

All who open the same name are on the same air, each where it says it is. A process of its own holds it (server.py); it
starts with the first client and ends with the last. Without an event loop (`connect()`, `fetch()`) it can be driven by
hand, and in stepped time `advance()` lets time pass.
"""

import asyncio
import contextlib
import json
import select
import socket
from collections.abc import Callable
from typing import Any, NamedTuple

from vicinal.errors import LocalProtocolError

from .._caller import Connection, Refused, call
from .._holder import folder, socket_of
from ._host import HEARD, PROTOCOL, REQUEST_MAX
from .air import DEFAULT_POWER
from .physics import LEGACY_MAX, check_data
from .radio import SCAN_INTERVAL
from .shell import RadioError

__all__ = ["Heard", "VirtualRadio", "known"]

ANSWER_PATIENCE = 30.0
"""seconds for an answer: a process that is stopped, not gone"""
DRAIN = 256
"""advertisements taken at once before the loop may do something else"""


class Heard(NamedTuple):
    advertisement: bytes
    rssi: int
    time: int
    """us of the air"""
    dropped: int
    """that were not fetched in time, before this one"""


def known() -> list[str]:
    """The radios that are held at the moment."""
    return [path.stem for path in sorted(folder("ble").glob("*.sock"))]


class VirtualRadio:
    def __init__(
        self,
        name: str,
        lat: int = 0,
        lon: int = 0,
        *,
        interval: int = 100,
        power: int = DEFAULT_POWER,
        window: int = SCAN_INTERVAL,
        scan_interval: int = SCAN_INTERVAL,
        stepped: bool | None = None,
        seed: int = 0,
        loss: float = 0.0,
        label: str = "",
    ) -> None:
        """`interval` in ms. `label` is how the air's record calls this radio, if it keeps one (_host.py). `stepped`,
        `seed` and `loss` are the air's, and the first client decides them; `stepped` None takes what there is."""
        self.name = name
        self.counters = {"heard": 0, "dropped: not fetched": 0}
        self._place = (lat, lon)
        self._interval = interval * 1000
        self._power = power
        self._label = label
        self._scan = (window, scan_interval)
        self._stepped = stepped
        self._start = ["--seed", str(seed), "--loss", str(loss)]
        self._connection: Connection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_heard: Callable[[bytes, int], None] | None = None
        self._on_lost: Callable[[Exception], None] | None = None
        self._in_loop = False

    # Without an event loop

    def connect(self) -> None:
        """On the air from now on, and scanning."""
        hello = {"protocol": PROTOCOL, "stepped": self._stepped, "power": self._power, "label": self._label}
        start = ["-m", "vicinal_hw.ble.server", self.name, "--detach", *self._start]
        start += ["--stepped"] * bool(self._stepped)
        try:
            self._connection = call(socket_of("ble", self.name), hello, start, socket.SOCK_SEQPACKET)
        except (Refused, OSError, ValueError) as error:
            raise RadioError(f"virtual radio {self.name!r}: {error}") from error
        self._connection.control.settimeout(ANSWER_PATIENCE)
        self.move(*self._place)
        self._ask({"do": "scan", "window": self._scan[0], "interval": self._scan[1]})

    def fetch(self, timeout: float | None = 0.0) -> Heard | None:
        """The next advertisement that was heard; None when none came in so many seconds."""
        happenings = self._open_connection().happenings
        if not select.select([happenings], [], [], timeout)[0]:
            return None
        try:
            octets = happenings.recv(HEARD.size + REQUEST_MAX)
        except BlockingIOError:
            return None
        except OSError as error:
            raise self._gone() from error
        if not octets:
            raise self._gone()
        now, rssi, dropped = HEARD.unpack_from(octets)
        self.counters["heard"] += 1
        self.counters["dropped: not fetched"] += dropped
        return Heard(octets[HEARD.size :], rssi, now, dropped)

    def advertise(self, advertisement: bytes | None) -> None:
        data = None if advertisement is None else advertisement.hex()
        extended = advertisement is not None and len(advertisement) > LEGACY_MAX
        if advertisement is not None:
            check_data(advertisement, extended)
        self._tell({"do": "advertise", "data": data, "interval": self._interval, "extended": extended})

    def move(self, lat: int, lon: int) -> None:
        self._place = (lat, lon)
        if self._connection:
            self._tell({"do": "move", "lat": lat, "lon": lon})

    def set_loss(self, probability: float) -> None:
        """For everybody on this air."""
        self._ask({"do": "loss", "probability": probability})

    def advance(self, microseconds: int) -> int:
        """Stepped time: lets so much pass, and gives the air's now."""
        return int(self._ask({"do": "advance", "by": microseconds}, patient=True)["now"])

    def status(self) -> dict[str, int]:
        """What the holder counts of this radio."""
        found: dict[str, int] = self._ask({"do": "status"})["counters"]
        return found

    @property
    def holder(self) -> int:
        """The process that holds it."""
        return int(self._open_connection().welcome["pid"])

    def shut(self) -> None:
        if self._connection:
            connection, self._connection = self._connection, None
            for end in (connection.control, connection.happenings):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    # In an event loop

    async def open(self, on_heard: Callable[[bytes, int], None], on_lost: Callable[[Exception], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_heard, self._on_lost = on_heard, on_lost
        await asyncio.to_thread(self.connect)
        self._loop.add_reader(self._open_connection().happenings, self._readable)
        self._loop.add_reader(self._open_connection().control, self._answered)
        self._in_loop = True

    async def close(self) -> None:
        self._leave_loop()
        self.shut()

    def _readable(self) -> None:
        assert self._on_heard
        try:
            for _ in range(DRAIN):
                heard = self.fetch() if self._connection else None
                if heard is None:
                    return
                self._on_heard(heard.advertisement, heard.rssi)
        except RadioError as error:
            self._lose(error)

    def _answered(self) -> None:
        """Nobody waits for an answer: it is a refusal, or the end."""
        try:
            self._take_answer()
        except (RadioError, LocalProtocolError) as error:
            self._lose(error if isinstance(error, RadioError) else RadioError(str(error)))

    def _leave_loop(self) -> None:
        self._in_loop = False
        if self._loop and self._connection:
            self._loop.remove_reader(self._connection.happenings)
            self._loop.remove_reader(self._connection.control)

    def _lose(self, error: RadioError) -> None:
        self._leave_loop()
        if self._on_lost:
            self._on_lost(error)

    # Inside

    def _open_connection(self) -> Connection:
        if self._connection is None:
            raise RadioError(f"virtual radio {self.name!r} is not open")
        return self._connection

    def _gone(self) -> RadioError:
        pid = self._connection.welcome["pid"] if self._connection else "?"
        text = f"virtual radio {self.name!r} is gone: process {pid}, which held it, ended. Open it again"
        log = socket_of("ble", self.name).with_suffix(".log")
        if log.exists() and log.stat().st_size:
            text += f". Its last words are in {log}"
        return RadioError(text)

    def _tell(self, request: dict[str, Any]) -> None:
        """In a loop without waiting for the answer: the loop has other radios to serve, and the process that holds the
        air may have to wait for its turn."""
        if not self._in_loop:
            self._ask(request)
            return
        try:
            self._open_connection().control.sendall(json.dumps({**request, "quiet": True}).encode() + b"\n")
        except OSError as error:
            raise self._gone() from error

    def _ask(self, request: dict[str, Any], patient: bool = False) -> dict[str, Any]:
        control = self._open_connection().control
        try:
            control.settimeout(None if patient else ANSWER_PATIENCE)
            control.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise self._gone() from error
        return self._take_answer()

    def _take_answer(self) -> dict[str, Any]:
        control = self._open_connection().control
        answer = b""
        try:
            while not answer.endswith(b"\n"):
                octets = control.recv(REQUEST_MAX)
                if not octets:
                    raise self._gone()
                answer += octets
        except OSError as error:
            raise self._gone() from error
        found: dict[str, Any] = json.loads(answer)
        if "refused" in found:
            raise LocalProtocolError(f"virtual radio {self.name!r}: {found['refused']}")
        return found
