"""Streams of events: a CBOR sequence (RFC 8742) of frames, each a byte string that holds one event.

    frame = 0x40..0x57 | 0x58 n | 0x59 nn | 0x5a nnnn   then n bytes: one event

The byte string's head is the length, so that a reader knows how much to wait for, and refuses what is too long
before it has come.
"""

from . import limits
from ._cbor import put_head
from .errors import RemoteProtocolError
from .event import Event
from .wire import decode, encode

__all__ = ["FrameReader", "frame"]


def frame(event: Event) -> bytes:
    """The event as one frame of a stream."""
    data = encode(event)
    head = bytearray()
    put_head(head, 2, len(data))
    return bytes(head) + data


# So much of an unfinished frame is put before what comes next; more is kept to be added to, or a long frame that comes
# in small pieces would be copied for each of them.
_SHORT = 4096


class FrameReader:
    """Takes a stream in arbitrary slices, gives its frames. After an error it stays in error: a stream that lost
    its framing has lost its meaning. `offset` of an error counts from the start of the stream."""

    def __init__(self, max_bytes: int = limits.MAX_EVENT_BYTES) -> None:
        self.max_bytes = min(max_bytes, limits.MAX_EVENT_BYTES)
        self._buffer: bytes | bytearray = b""
        self._start = 0  # of the next frame in the buffer
        self._offset = 0  # of the buffer's first byte in the stream
        self._error: RemoteProtocolError | None = None

    def receive_data(self, data: bytes) -> None:
        rest = len(self._buffer) - self._start
        self._offset += self._start
        if self._error is not None:  # nobody will ask for it
            self._buffer = b""
        elif not rest:
            self._buffer = bytes(data)
        elif rest < _SHORT:
            self._buffer = bytes(self._buffer[self._start :]) + data
        else:
            if self._start or type(self._buffer) is not bytearray:
                self._buffer = bytearray(self._buffer[self._start :])
            self._buffer.extend(data)
        self._start = 0

    def next_frame(self) -> "bytes | None":
        """The next frame's content, or None until more data has come."""
        if self._error is not None:
            raise self._error
        buffer, start = self._buffer, self._start
        if start == len(buffer):
            return None
        first = buffer[start]
        if first >> 5 != 2 or first & 31 > 27:
            self._fail(f"a frame starts with 0x{first:02x}, want a byte string")
        extra = first - 0x57 if first > 0x57 else 0
        extra = 1 << extra - 1 if extra else 0
        body = start + 1 + extra
        if body > len(buffer):
            return None
        size = int.from_bytes(buffer[start + 1 : body], "big") if extra else first & 31
        if extra and (size < 24 if extra == 1 else not size >> extra * 4):
            self._fail(f"head of {size} is longer than needed")
        if size > self.max_bytes:
            self._fail(f"a frame of {size} bytes, the limit is {self.max_bytes}")
        if body + size > len(buffer):
            return None
        self._start = body + size
        return bytes(buffer[body : body + size])

    @property
    def is_empty(self) -> bool:
        """Whether all that has come was taken."""
        return self._start == len(self._buffer)

    def waiting(self) -> "tuple[bytes | bytearray, int]":
        """What has come and was not taken: a buffer, and where it begins there."""
        return self._buffer, self._start

    def pass_by(self, size: int) -> None:
        """So many bytes of the stream came while nothing was waiting, and were taken elsewhere."""
        self._offset += size

    def skip(self, size: int) -> None:
        """So many bytes of what is waiting were taken."""
        self._start += size

    def next_frames(self, most: int) -> "list[bytes]":
        """Up to so many frames that are there in whole. Those before a wrong one are given; the error is next."""
        found: list[bytes] = []
        if self._error is not None:
            raise self._error
        buffer, start, most_bytes = self._buffer, self._start, self.max_bytes
        end = len(buffer)
        while len(found) < most and start + 1 < end:
            first = buffer[start]
            if first == 0x58:
                size, body = buffer[start + 1], start + 2
                if size < 24:
                    break
            elif 0x40 <= first < 0x58:
                size, body = first - 0x40, start + 1
            else:
                break
            stop = body + size
            if stop > end or size > most_bytes:
                break
            found.append(bytes(buffer[body:stop]))
            start = stop
        self._start = start
        if not found:
            frame = self.next_frame()
            if frame is not None:
                found.append(frame)
        return found

    def next_event(self) -> "Event | None":
        start = self._offset + self._start
        data = self.next_frame()
        if data is None:
            return None
        try:
            return decode(data)
        except RemoteProtocolError as error:
            head = self._offset + self._start - len(data) - start
            self._error = RemoteProtocolError(error.reason, start + head + error.offset)
            raise self._error

    def receive_eof(self) -> None:
        """The stream ended: in the middle of a frame that is an error."""
        if self._error is None and self._start < len(self._buffer):
            self._fail("the stream ends inside a frame")

    def _fail(self, message: str) -> None:
        self._error = RemoteProtocolError(message, self._offset + self._start)
        raise self._error
