"""A file of JSON lines as an event service: every line is an event, and whoever can append to a file can publish.

    [[service]]
    name = "notes"
    type = "lines"
    path = "/var/log/events.jsonl"    # made if it is not there; relative to the configuration
    poll_ms = 100                     # how often it is looked at

    {"subject": "Speed", "params": {"license_no": "00D12345", "rate": 57.2}}

What others append is received, what the gateway publishes is appended. News are the lines after `connect`: what was in
the file before is history. A file that was moved away (logrotate) is read to its end, then the new one from its start;
one that was cut is read from its start.
"""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

from vicinal import json_form, limits, wire
from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.federation.capabilities import Capabilities
from vicinal.filter import Filter
from vicinal.filter.index import Index
from vicinal.tables_cpython import Table
from vicinal_edge.adapter import Adapter, Port, Unavailable

__all__ = ["LinesAdapter"]

MAX_LINE = 4 * limits.MAX_EVENT_BYTES
"""bytes; JSON is wider than our wire"""
CHUNK = 1 << 16


class LinesAdapter(Adapter):
    def __init__(self, service: str, settings: Table) -> None:
        super().__init__(service, settings)
        path = settings.path("path")
        if path is None:
            settings.fail("path", "is missing, want a file")
        self.path: Path = path
        # What a file of lines can do. We look at contents here, so that nothing unwanted is given to the gateway.
        self.capabilities = Capabilities(filter="content", poll=settings.number("poll_ms", 100, 1, 60_000))
        self._index = Index()
        self._one_at_a_time = asyncio.Lock()
        self._reset()

    def _reset(self) -> None:
        self._port: Port | None = None
        self._file = -1
        self._place = 0
        """up to where it was read"""
        self._own: set[int] = set()
        """where the lines begin that we have written, and not yet read"""
        self._read = self._written = 0

    # Coming and going

    async def connect(self, port: Port) -> None:
        await self.disconnect()
        self._open()
        self._place = os.fstat(self._file).st_size
        self._port = port

    def _open(self) -> None:
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise Unavailable(f"{self.service}: {self.path}: {error.strerror}") from error

    async def disconnect(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._index = Index()
        self._reset()

    # Out

    async def publish(self, event: Event) -> None:
        self._connected()
        wire.encode(event)  # what is too large for others is too large here: it raises
        line = (json_form.dumps(event) + "\n").encode()
        await self.poll()  # which goes on to a new file where there is one
        async with self._one_at_a_time:
            self._connected()
            if not self._at_line_start():
                line = b"\n" + line  # somebody has left half a line: that it is none is not our line's fault
            try:
                written = os.write(self._file, line)
            except OSError as error:
                raise Unavailable(f"{self.service}: {self.path}: {error.strerror}") from error
            end = os.lseek(self._file, 0, os.SEEK_CUR)  # others may have appended too: this is where our line ends
            self._own.add(end - written + (line[:1] == b"\n"))
            if written < len(line):
                raise Unavailable(f"{self.service}: {self.path}: there was room for half a line only")
            self._written += 1

    def _at_line_start(self) -> bool:
        size = os.fstat(self._file).st_size
        return size == 0 or os.pread(self._file, 1, size - 1) == b"\n"

    # In

    async def subscribe(self, condition: Filter) -> None:
        await self.poll()  # what came before it was asked for is no news
        self._connected()
        self._index.add(condition.text, condition)

    async def unsubscribe(self, condition: Filter) -> None:
        await self.poll()
        self._index.remove(condition.text)

    async def poll(self) -> None:
        async with self._one_at_a_time:
            await self._receive()
            if self._port is not None and self._moved():
                await self._receive()  # written between the last look and the move
                os.close(self._file)
                self._file, self._place, self._own = -1, 0, set()
                self._open()
                await self._receive()

    async def _receive(self) -> None:
        if self._file < 0:
            return
        if os.fstat(self._file).st_size < self._place:
            self._place, self._own = 0, set()  # it was cut
        for line in self._lines():
            port = self._port
            if port is None:
                return
            try:
                event = json_form.loads(line)
            except LocalProtocolError:
                port.malformed("a line that is no event")
                continue
            self._read += 1
            if self._index.match(event):
                await port.room()
                port.received(event)

    def _lines(self) -> Iterator[bytes]:
        """Whole ones, those of others. What has no end yet is left for the next time."""
        rest = b""
        while self._file >= 0 and (chunk := os.pread(self._file, CHUNK, self._place + len(rest))):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                start, self._place = self._place, self._place + len(line) + 1
                if start in self._own:
                    self._own.discard(start)
                elif line.strip():
                    yield line
            if len(rest) > MAX_LINE:
                self._place, rest = self._place + len(rest), b""
                yield b"too long"

    def _moved(self) -> bool:
        here = os.fstat(self._file)
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return True
        return (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino)

    # Inside

    def _connected(self) -> None:
        if self._port is None or self._file < 0:
            raise Unavailable(f"{self.service} is not connected")

    def status(self) -> dict[str, int | str]:
        return {"path": str(self.path), "lines read": self._read, "lines written": self._written}
