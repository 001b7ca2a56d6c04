"""One connection on a socket: bytes in and out of the state machine, and what waits to go out.

An owner is told what happens. Reading is at most READ_BYTES a turn; writing is put together until the owner flushes,
so that many small messages are one system call.
"""

import asyncio
import asyncio.sslproto
import os
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from vicinal.siena.connection import LOST, TOO_SLOW, Connection

from .limits import MAX_BUFFER, READ_BYTES, STUCK_MS
from .loop import DONE, FOR_THE_LOOP, FOR_THE_TRANSPORT, Loop

__all__ = ["Link", "Owner"]

# asyncio gives each TLS connection 256 KiB to read into, 10,000 of them 2.8 GB; a TLS record has 16 KiB.
asyncio.sslproto.SSLProtocol.max_size = 16384

# Read and used up before anything else can read: one for all connections.
_buffer = memoryview(bytearray(READ_BYTES))

# Seconds for the last words to leave before the connection is cut.
_LINGER = 2.0


class Owner(Protocol):
    def now(self) -> int: ...

    def opened(self, link: "Link") -> None:
        """The socket is there; nothing has been said."""

    def received(self, link: "Link", messages: list[tuple[Any, ...]]) -> None:
        """In the order in which they came."""

    def after_reading(self, link: "Link") -> None:
        """All that has come is dealt with: now flush."""

    def ended(self, link: "Link", code: int, reason: str) -> None:
        """Once, whatever happens."""


class Link(asyncio.BufferedProtocol):
    def __init__(self, owner: Owner, connection: Connection) -> None:
        self.owner = owner
        self.connection = connection
        self.transport: asyncio.Transport | None = None
        self.where = "?"
        self.identity: str | None = None
        """the name in the certificate that the other end has shown"""
        self.certificate: Any = None
        self.lane: Callable[[bytes], int] | None = None
        """the short way for what comes alone (single.py)"""
        self.descriptor = -1
        """of a socket that may be written to past the transport, as long as that holds nothing back"""
        self.bytes_in = 0
        self.bytes_out = 0
        self.paused = False
        """nothing is read: what came before is still being dealt with"""
        self.batches: deque[tuple[int, int]] = deque()
        """what was written and may still be with the transport: bytes_out after it, deliveries in it"""
        self._size: Callable[[], int] = int
        self._unsent = 0  # bytes in the transport's buffer, when it could last be asked
        self._moved = (-1, 0)  # bytes that had left, since when
        self._ended = False
        self._short_way: dict[int, Callable[[], int]] = {}

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._size = _size_of(transport)
        self.descriptor = self.direct(transport)
        peer = transport.get_extra_info("peername")
        self.where = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "?"
        self.certificate = transport.get_extra_info("peercert")
        self.identity = _common_name(self.certificate)
        self.owner.opened(self)
        self.started()

    def started(self) -> None:
        """Say what there is to say first."""
        self.flush()

    def get_buffer(self, sizehint: int) -> memoryview:
        return _buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._ended:
            return  # it still talks; nobody listens
        self.bytes_in += nbytes
        data = bytes(_buffer[:nbytes])
        if self.lane is None or self.lane(data) == FOR_THE_TRANSPORT:
            self._take(data)

    def readable(self) -> int:
        """The loop's short way, past the transport (loop.py)."""
        assert self.lane is not None
        try:
            data = os.read(self.descriptor, READ_BYTES)
        except BlockingIOError:
            return DONE
        except OSError:
            return FOR_THE_TRANSPORT
        if not data:
            return FOR_THE_TRANSPORT
        self.bytes_in += len(data)
        try:
            said = self.lane(data)
        except Exception as error:
            said = FOR_THE_LOOP
            asyncio.get_running_loop().call_soon(self._fail, error)
        if said == FOR_THE_TRANSPORT:
            said = FOR_THE_LOOP
            asyncio.get_running_loop().call_soon(self._take_or_fail, data)
        return said

    def _take_or_fail(self, data: bytes) -> None:
        try:
            self._take(data)
        except Exception as error:
            self._fail(error)

    def _take(self, data: bytes) -> None:
        self.arrived(data)
        self.deal()

    def _fail(self, error: Exception) -> None:
        """As a transport does with what its protocol does not catch."""
        assert self.transport is not None
        self.transport.abort()
        raise error

    def arrived(self, data: bytes) -> None:
        self.connection.receive_data(data, self.owner.now())

    def eof_received(self) -> bool:
        return False  # the transport closes, and connection_lost follows

    def connection_lost(self, exc: Exception | None) -> None:
        self._close_lane()
        self.descriptor = -1
        self.connection.receive_eof()
        self.deal()

    def open_lane(self, lane: "Callable[[bytes], int]") -> None:
        self.lane = lane
        loop = asyncio.get_running_loop()
        if isinstance(loop, Loop) and self.descriptor >= 0:
            self._short_way = loop.readable
            self._short_way[self.descriptor] = self.readable

    def _close_lane(self) -> None:
        self.lane = None
        self._short_way.pop(self.descriptor, None)

    # Both ways

    def deal(self) -> None:
        connection = self.connection
        while events := connection.next_events():
            closed = events.pop() if events[-1][0] == "closed" else None
            if events:
                self.owner.received(self, events)
            if closed is not None:
                self._end(closed[1], closed[2])
                return
        self.owner.after_reading(self)

    def flush(self) -> int:
        """Writes what there is to say. How many bytes still wait: for the socket, and for credit."""
        transport, connection = self.transport, self.connection
        if transport is None or transport.is_closing():
            return 0
        deliveries = connection.unsent
        data = connection.data_to_send()
        if data:
            taken = 0
            if self.descriptor >= 0 and not self.batches:
                try:
                    taken = os.write(self.descriptor, data)
                except OSError:  # it is full, or broken: the transport finds out
                    taken = 0
            if taken == len(data):
                self.bytes_out += taken
            else:
                self.put_rest(data, taken, deliveries)
        if self.batches:
            self._settle()
        return self.backlog if self.batches or connection.waiting else 0

    def put_rest(self, data: bytes | memoryview, taken: int, deliveries: int) -> None:
        """The socket has taken so many bytes of it: the others are for the transport, which may keep them."""
        assert self.transport is not None
        self.bytes_out += len(data)
        self.put(bytes(data[taken:]))
        if self.batches or self._size():
            self.batches.append((self.bytes_out, deliveries))
        elif self.transport.is_closing():  # it broke while this was written
            self._unsent = len(data) - taken
            self.batches.append((self.bytes_out, deliveries))

    def put(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    def direct(self, transport: asyncio.Transport) -> int:
        """The descriptor to write to without asking the transport, or -1: what becomes of it in TLS only that knows."""
        socket = transport.get_extra_info("socket")
        return -1 if socket is None or transport.get_extra_info("sslcontext") is not None else int(socket.fileno())

    @property
    def delivered(self) -> int:
        """Deliveries that have left this process for certain: what was in the transport's buffer when it was last seen,
        before a connection broke, has not."""
        return self.connection.released - self.connection.unsent - sum([count for _, count in self.batches])

    @property
    def bytes_left(self) -> int:
        """Those that are with the other end, or on their way."""
        return self.bytes_out - self._unwritten()

    @property
    def backlog(self) -> int:
        """Bytes that wait: for the socket, and for credit."""
        return self._unwritten() + self.connection.waiting

    @property
    def undelivered(self) -> int:
        """Deliveries that wait: for credit, for the next flush, and for the socket."""
        self._settle()
        return self.connection.waiting_count + self.connection.unsent + sum([count for _, count in self.batches])

    def _unwritten(self) -> int:
        # A transport that closes has thrown its buffer away, or is about to.
        if self.transport is not None and not self.transport.is_closing():
            self._unsent = self._size()
        return self._unsent

    def _settle(self) -> None:
        gone = self.bytes_out - self._unwritten()
        while self.batches and self.batches[0][0] <= gone:
            self.batches.popleft()

    def cut_if_slow(self, now: int) -> None:
        """Too much waits, or nothing has moved for too long."""
        backlog = self.backlog
        if backlog > MAX_BUFFER:
            self.cut(TOO_SLOW, f"{backlog} bytes wait for you, the limit is {MAX_BUFFER}")
            return
        unwritten = self._unwritten()
        moved = self.bytes_out - unwritten if unwritten else self.connection.released
        if not backlog or moved != self._moved[0]:
            self._moved = (moved, now)
        elif now - self._moved[1] >= STUCK_MS:
            self.cut(TOO_SLOW, f"{backlog} bytes wait for you, and you took none for {now - self._moved[1]} ms")

    def cut(self, code: int, reason: str) -> None:
        self.connection.bye(code, reason)
        self.deal()

    def pause(self) -> None:
        if not self.paused and self.transport is not None and not self.transport.is_closing():
            self.paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        if self.paused and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()
        self.paused = False

    def finish(self, code: int) -> None:
        """After the last words, where the transport has some of its own."""

    def _half_closed(self) -> bool:
        """A socket that is closed with something unread in it is reset, and the other end may never read the bye: so
        where it can be, only our side is closed."""
        assert self.transport is not None
        if self.transport.is_closing() or not self.transport.can_write_eof():
            return False
        try:
            self.transport.write_eof()
        except OSError:  # the other end is gone, and we have not been told yet
            return False
        return True

    def _end(self, code: int, reason: str) -> None:
        if self._ended:
            return
        self._ended = True
        self._close_lane()
        self.flush()
        if self.transport is not None:
            self._settle()
            self.owner.ended(self, code, reason)
            self.finish(code)
            if code == LOST or not self._half_closed():
                self.transport.close()
            if code != LOST:
                asyncio.get_running_loop().call_later(_LINGER, self.transport.abort)
        else:
            self.owner.ended(self, code, reason)


def _size_of(transport: asyncio.Transport) -> "Callable[[], int]":
    """Of all that waits to be written. Of TLS that is in two places, and asyncio tells of the upper one only."""
    lower = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None)
    upper = transport.get_write_buffer_size
    return upper if lower is None else lambda: upper() + int(lower.get_write_buffer_size())


def _common_name(certificate: Any) -> str | None:
    for part in (certificate or {}).get("subject", ()):
        for key, value in part:
            if key == "commonName":
                return str(value)
    return None
