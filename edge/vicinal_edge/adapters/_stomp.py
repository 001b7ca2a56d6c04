"""STOMP 1.2, the frames (stomp.github.io/stomp-specification-1.2), without I/O.

    COMMAND \\n  name:value \\n ...  \\n  body \\0         between frames, line ends: heart-beats

Bytes go in by `feed`, frames come out. Header names and values are escaped, but for CONNECT and CONNECTED, as in 1.0;
of a header that is there twice the first counts.
"""

from vicinal.errors import RemoteProtocolError

__all__ = ["Frame", "Parser", "encode"]

# Whoever sends more is not a broker of events of 64 KiB.
MAX_HEADER_BYTES = 1 << 20
MAX_BODY_BYTES = 1 << 26
_PLAIN = ("CONNECT", "CONNECTED")
_COMMANDS = ("CONNECTED", "MESSAGE", "RECEIPT", "ERROR")


class Frame:
    __slots__ = ("body", "command", "headers", "text")

    def __init__(self, command: str, headers: dict[str, str], body: bytes = b"", text: bool = True) -> None:
        self.command = command
        self.headers = headers
        self.body = body
        self.text = text
        """without a content-length: ActiveMQ makes a TextMessage of one, a BytesMessage of the other"""

    def __repr__(self) -> str:
        return f"<{self.command} {self.headers} {self.body!r}>"


def escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n").replace(":", "\\c")


def unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts = text.split("\\\\")
    for part in parts:
        rest = part.replace("\\r", "").replace("\\n", "").replace("\\c", "")
        if "\\" in rest:
            raise RemoteProtocolError(f"header {text[:40]!r} has an escape that STOMP does not know")
    return "\\".join(part.replace("\\r", "\r").replace("\\n", "\n").replace("\\c", ":") for part in parts)


def encode(frame: Frame) -> bytes:
    change = str if frame.command in _PLAIN else escape
    lines = [frame.command, *(f"{change(name)}:{change(value)}" for name, value in frame.headers.items())]
    if not frame.text:
        lines.append(f"content-length:{len(frame.body)}")
    return "\n".join([*lines, "", ""]).encode() + frame.body + b"\0"


class Parser:
    """Of what a server sends."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._searched = 0
        """bytes in which no end of headers was found"""
        self._head: tuple[str, dict[str, str]] | None = None
        self._length: int | None = None

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete. Raises RemoteProtocolError, after which nothing more can be read."""
        self._data += data
        found: list[Frame] = []
        while True:
            frame = self._next()
            if frame is None:
                return found
            found.append(frame)

    def _next(self) -> Frame | None:
        if self._head is None and not self._read_head():
            return None
        assert self._head is not None
        if self._length is None:
            end = self._data.find(b"\0", self._searched)
            if end < 0:
                self._searched = len(self._data)
                if self._searched > MAX_BODY_BYTES:
                    raise RemoteProtocolError(f"body of {self._head[0]} has more than {MAX_BODY_BYTES} bytes")
                return None
        else:
            end = self._length
            if len(self._data) <= end:
                return None
            if self._data[end]:
                raise RemoteProtocolError(f"body of {self._head[0]} does not end after {end} bytes as it says")
        frame = Frame(*self._head, bytes(self._data[:end]), self._length is None)
        del self._data[: end + 1]
        self._head, self._length, self._searched = None, None, 0
        return frame

    def _read_head(self) -> bool:
        beats = 0
        while beats < len(self._data) and self._data[beats] in b"\r\n":
            beats += 1
        if beats:
            del self._data[:beats]
            self._searched = 0
        plain, returned = self._data.find(b"\n\n", self._searched), self._data.find(b"\n\r\n", self._searched)
        ends = [at for at in (plain, returned) if at >= 0]
        if not ends:
            self._searched = max(0, len(self._data) - 2)
            if len(self._data) > MAX_HEADER_BYTES:
                raise RemoteProtocolError(f"headers have more than {MAX_HEADER_BYTES} bytes: it is no STOMP")
            return False
        end = min(ends)
        try:
            lines = self._data[:end].decode().split("\n")
        except UnicodeDecodeError as error:
            raise RemoteProtocolError("headers are not UTF-8", error.start) from error
        del self._data[: end + (2 if end == plain else 3)]
        self._searched = 0
        command = lines[0].removesuffix("\r")
        if command not in _COMMANDS:
            raise RemoteProtocolError(f"{command[:40]!r} is no frame of a STOMP server")
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, colon, value = line.removesuffix("\r").partition(":")
            if not colon:
                raise RemoteProtocolError(f"header {line[:40]!r} has no colon")
            if command not in _PLAIN:
                name, value = unescape(name), unescape(value)
            headers.setdefault(name, value)
        length = headers.get("content-length")
        if length is not None:
            if not (length.isascii() and length.isdecimal() and int(length) <= MAX_BODY_BYTES):
                raise RemoteProtocolError(f"content-length is {length[:40]!r}, want at most {MAX_BODY_BYTES}")
            self._length = int(length)
        self._head = (command, headers)
        return True
