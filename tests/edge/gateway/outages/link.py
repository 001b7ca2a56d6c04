"""The way between a gateway and its broker, with the faults of one: a TCP proxy on loopback.

    async with Link(host, port) as link:
        link.address        tcp://127.0.0.1:40123
        link.cut()          connections are reset, new ones are refused
        link.freeze()       half open: connections stay, nothing passes, nobody is told
        link.heal()

What passes may be late (`delay`, seconds at most; order is kept, as TCP keeps it), and in slices (`slice`, bytes at
most), so that a cut is in the midst of a frame.
"""

import asyncio
import random
import socket
import struct
from typing import Self

__all__ = ["Link"]

RESET = struct.pack("ii", 1, 0)


class Link:
    def __init__(self, port: int, seed: int = 0) -> None:
        self.delay = 0.0
        self.slice = 65536
        self.connections = 0
        self.cuts = 0
        self._target = port
        self._chance = random.Random(seed)
        self._server: asyncio.Server | None = None
        self._open = asyncio.Event()
        self._open.set()
        self._refusing = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self._reset()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        self.cuts += 1
        self._refusing = True
        self._open.set()
        self._reset()

    def freeze(self) -> None:
        self._open.clear()

    def heal(self) -> None:
        self._refusing = False
        self._open.set()

    def _reset(self) -> None:
        for writer in list(self._writers):
            _reset(writer)
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._refusing:
            _reset(writer)
            return
        self._writers.add(writer)
        self.connections += 1
        try:
            to_read, to_write = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:  # the broker is down
            _reset(writer)
            return
        if self._refusing:
            _reset(writer)
            _reset(to_write)
            return
        self._writers.add(to_write)
        await asyncio.gather(self._pass(reader, to_write), self._pass(to_read, writer), return_exceptions=True)
        for one in (writer, to_write):
            _reset(one)
            self._writers.discard(one)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(self._chance.randint(1, self.slice) if self.slice < 65536 else 65536):
                if self.delay:
                    await asyncio.sleep(self._chance.random() * self.delay)
                await self._open.wait()
                writer.write(data)
                await writer.drain()
            writer.close()
        except OSError:
            _reset(writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()
