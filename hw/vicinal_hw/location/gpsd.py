"""The position from gpsd, which knows every receiver there is: its JSON protocol on TCP port 2947. CPython only.

    async with Gpsd("127.0.0.1") as location:
        location.fix(now_ms())

What decides is Reports, one connection's worth of lines, without a socket:

    gpsd  {"class":"VERSION",...}                                   who does not begin with it is not gpsd
    we    ?WATCH={"enable":true,"json":true};
    gpsd  {"class":"TPV","mode":3,"time":"2026-03-23T12:00:25.000Z","lat":53.344314375,"lon":-6.256863375,
           "track":109.4,"speed":12.81,"eph":17.1, ...}             a fix if the mode is 2 or 3
    we    ?VERSION;                                                 after QUIET without a line: is anybody there?

Numbers are taken as text and become integers without a float on the way. Positions are rounded to the nearest 1e-7
degree, halves away from zero; gpsd gives nine decimals.

Gpsd is the shell: it connects, and when the connection is lost it comes back, waiting twice as long after each failure.
"""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from vicinal import limits
from vicinal.errors import LimitError, VicinalError

from ._text import Number, instant, shifted
from .fix import MAX_AGE, TURN, Fix, Latest

__all__ = ["PORT", "Gpsd", "GpsdError", "Reports", "now_ms", "pause"]

PORT = 2947

MAX_LINE = 16384
"""bytes: a view of the whole sky, gpsd's longest, stays under 10 KiB"""
QUIET = 10_000
"""ms without a line after which gpsd is asked for one: without a receiver it has nothing to say by itself"""
ANSWER = 10_000
"""ms that it may take, which tells a gpsd with nothing to say from one that is no more"""
FIRST_PAUSE, LAST_PAUSE = 500, 30_000
"""ms before the first and between the later attempts to come back: a restarted gpsd is there in half a second, one that
was stopped by a person in minutes"""
CONNECT = 5_000
"""ms that a connection may take, beyond which a person would call it dead"""
MAX_MM = 1_000_000_000
"""of accuracy, and of speed in a second: a thousand km are no figure of a receiver"""

_SIMULATED = "8"


class GpsdError(VicinalError):
    """gpsd is not there, or what is there is not gpsd."""


def pause(failures: int) -> int:
    """How many ms to wait after so many failures in a row."""
    return min(FIRST_PAUSE << min(failures - 1, 16), LAST_PAUSE)


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Reports(Latest):
    """Lines of gpsd as they come in, and fixes. Outlives a connection: begin() says that there is a new one. Every line
    ends as one count, but for those of a connection that was refused: lines = fixes + no fix + other + the rest."""

    def __init__(self, max_age: int = MAX_AGE, device: str | None = None) -> None:
        super().__init__(max_age)
        self.counters = {
            "lines": 0,
            "fixes": 0,
            "no fix": 0,
            "simulated": 0,
            "other": 0,
            "too long": 0,
            "not JSON": 0,
            "bad field": 0,
            "not gpsd": 0,
        }
        self.problem: str | None = None
        """why this connection is of no use"""
        watch: dict[str, object] = {"enable": True, "json": True}
        if device is not None:
            watch["device"] = device
        self._watch = f"?WATCH={json.dumps(watch)};\n".encode()
        self.begin(0)

    def begin(self, now: int) -> None:
        self.problem = None
        self.is_gpsd = False
        self._buffer = bytearray()
        self._skipping = False
        self._out = b""
        self._asked = False
        self._due = now + QUIET

    def data_to_send(self) -> bytes:
        out, self._out = self._out, b""
        return out

    def next_timeout(self) -> int:
        return self._due

    def handle_timeout(self, now: int) -> None:
        if now < self._due:
            return
        if self._asked or not self.is_gpsd:
            self.problem = f"it has said nothing for {(QUIET + ANSWER * self._asked) // 1000} s"
            return
        self._asked = True
        self._out += b"?VERSION;\n"
        self._due = now + ANSWER

    def receive_data(self, data: bytes, now: int) -> None:
        start = 0
        while self.problem is None:
            end = data.find(b"\n", start)
            piece = data[start:] if end < 0 else data[start:end]
            if self._skipping or len(self._buffer) + len(piece) > MAX_LINE:
                self._skipping = True
                self._buffer.clear()
            else:
                self._buffer += piece
            if end < 0:
                return
            line, skipped = bytes(self._buffer), self._skipping
            self._buffer.clear()
            self._skipping = False
            start = end + 1
            self._asked = False
            self._due = now + QUIET
            self.counters["lines"] += 1
            self.counters["too long" if skipped else self._line(line, now)] += 1

    def _line(self, line: bytes, now: int) -> str:
        try:
            report = json.loads(line, parse_float=Number, parse_int=Number)
        except (ValueError, RecursionError):
            report = None
        kind = report.get("class") if isinstance(report, dict) else None
        if not self.is_gpsd:
            if kind != "VERSION":
                self.problem = f"what is there is not gpsd: it began with {line[:60]!r}"
                return "not gpsd"
            self.is_gpsd = True
            self._out += self._watch
        if not isinstance(report, dict):
            return "not JSON"
        if kind != "TPV":
            return "other"
        try:
            return self._tpv(report, now)
        except (ValueError, LimitError):
            return "bad field"

    def _tpv(self, report: dict[str, Any], now: int) -> str:
        mode = report.get("mode")
        if mode not in ("2", "3"):
            self._hear(None, now)
            return "no fix"
        if report.get("status") == _SIMULATED:
            self._hear(None, now)
            return "simulated"
        lat = _number(report, "lat", 7, -limits.MAX_LAT, limits.MAX_LAT)
        lon = _number(report, "lon", 7, -limits.MAX_LON, limits.MAX_LON)
        if lat is None or lon is None:
            return "no fix"
        heading = _number(report, "track", 2, 0, TURN)
        accuracy = _number(report, "eph", 3, 0, MAX_MM)
        if accuracy is None:
            sides = [_number(report, name, 3, 0, MAX_MM) for name in ("epx", "epy")]
            accuracy = max((side for side in sides if side is not None), default=None)
        text = report.get("time")
        measured = instant(text) if isinstance(text, str) else None
        speed = _number(report, "speed", 3, 0, MAX_MM)
        self._hear(Fix(lat, lon, measured, speed, None if heading is None else heading % TURN, accuracy), now)
        return "fixes"


def _number(report: dict[str, Any], name: str, places: int, least: int, most: int) -> int | None:
    text = report.get(name)
    if text is None:
        return None
    if not isinstance(text, Number):
        raise ValueError(f"{name} is {text!r}, no number")
    found = shifted(text, places)
    if not least <= found <= most:
        raise ValueError(f"{name} is {text}")
    return found


class Gpsd(Reports):
    """The shell. Entering fails with a GpsdError when gpsd is not there; with `required` False it is waited for, and
    `trouble` says what is wrong meanwhile. `clock` gives ms and is the clock that fix(now) is asked by; `device` is the
    one receiver to listen to, where gpsd has several."""

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = PORT,
        max_age: int = MAX_AGE,
        device: str | None = None,
        required: bool = True,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        super().__init__(max_age, device)
        if not 1 <= port <= 65535:
            raise LimitError("gpsd's port", port, "1 .. 65535")
        self.host = host
        self.port = port
        self.connections = 0
        """that turned out to be gpsd"""
        self.failures = 0
        """since the last of them"""
        self.trouble: str | None = None
        """for people: what is wrong now and what to do, None while connected"""
        self._required = required
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Gpsd":
        self._up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run())
        if self._required:
            try:
                await asyncio.wait([self._up, self._task], return_when=asyncio.FIRST_COMPLETED)
                await (self._up if self._up.done() else self._task)
            except BaseException:
                await self._stop()
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    async def _stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._up.cancel()

    async def _run(self) -> None:
        while True:
            self.trouble = await self._connection()
            self.failures += 1
            if self._required and not self._up.done():
                self._up.set_exception(GpsdError(self.trouble))
                return
            await asyncio.sleep(pause(self.failures) / 1000)

    async def _connection(self) -> str:
        """One connection from its beginning to its end, and why it ended."""
        at = f"{self.host} port {self.port}"
        try:
            async with asyncio.timeout(CONNECT / 1000):
                reader, writer = await asyncio.open_connection(self.host, self.port)
        except TimeoutError:
            return f"no gpsd at {at}: no answer in {CONNECT // 1000} s. Is the host right, and the port open?"
        except (OSError, UnicodeError) as error:
            return f"no gpsd at {at}: {_said(error)}. Is it running? (systemctl start gpsd, or: gpsd -N DEVICE)"
        try:
            self.begin(self._clock())
            await self._serve(reader, writer)
            why = self.problem or "it closed the connection"
        except OSError as error:
            why = _said(error)
        finally:
            writer.close()
        return f"gpsd at {at} is lost: {why}" if self.is_gpsd else f"no gpsd at {at}: {why}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while self.problem is None:
            try:
                async with asyncio.timeout(max(0, self.next_timeout() - self._clock()) / 1000):
                    data = await reader.read(65536)
            except TimeoutError:
                self.handle_timeout(self._clock())
            else:
                if not data:
                    return
                known = self.is_gpsd
                self.receive_data(data, self._clock())
                if self.is_gpsd and not known:
                    self._begun()
            writer.write(self.data_to_send())
            await writer.drain()

    def _begun(self) -> None:
        self.connections += 1
        self.failures = 0
        self.trouble = None
        if not self._up.done():
            self._up.set_result(None)


def _said(error: Exception) -> str:
    """asyncio puts the address into strerror, and it stands in our text already."""
    number = getattr(error, "errno", None)
    return os.strerror(number) if number and number > 0 else str(error)
