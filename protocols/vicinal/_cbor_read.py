"""The CBOR profile, reading: what is not in its one right encoding is refused (spec/cbor.md).

    refused   indefinite lengths, heads longer than needed, tags (and so bignums), undefined and other simple
              values, text that is not UTF-8, what limits.py forbids, anything after the value

Apart from writing, because a node that only sends does not load it. On CPython it says why a message is refused.
"""

from . import limits
from ._compat import decode_utf8
from .errors import RemoteProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def loads(data: bytes, max_bytes: int = limits.MAX_EVENT_BYTES, max_items: int = limits.MAX_ITEMS) -> "Any":
    if len(data) > max_bytes:
        raise RemoteProtocolError(f"message has {len(data)} bytes, the limit is {max_bytes}")
    reader = _Reader(data, max_items)
    value = reader.value(0)
    if reader.pos != len(data):
        raise RemoteProtocolError(f"{len(data) - reader.pos} bytes after the value", reader.pos)
    return value


def place_of(data: bytes, index: int, max_items: int = limits.MAX_ITEMS) -> int:
    """The offset of an item of an array that has been read."""
    reader = _Reader(data, max_items)
    reader.head()
    for _ in range(index):
        reader.value(1)
    return reader.pos


class _Reader:
    def __init__(self, data: bytes, max_items: int = limits.MAX_ITEMS) -> None:
        self.data = data
        self.pos = 0
        self.items = 0
        self.max_items = max_items

    def head(self) -> "tuple[int, int, int]":
        """major type, additional information, argument"""
        start = self.pos
        if start >= len(self.data):
            raise RemoteProtocolError("truncated: a value is missing", start)
        first = self.data[start]
        major, info = first >> 5, first & 31
        self.pos = start + 1
        if info < 24:
            return major, info, info
        if info > 27:
            if info == 31 and 2 <= major <= 5:
                raise RemoteProtocolError("indefinite length", start)
            raise RemoteProtocolError(
                "break outside a value" if first == 255 else f"reserved head 0x{first:02x}", start
            )
        size = 1 << (info - 24)
        if size > len(self.data) - self.pos:
            raise RemoteProtocolError("truncated head", start)
        n = int.from_bytes(self.data[self.pos : self.pos + size], "big")
        self.pos += size
        if major != 7 and (n < 24 if size == 1 else not n >> size * 4):
            raise RemoteProtocolError(f"head of {n} is longer than needed", start)
        return major, info, n

    def value(self, depth: int) -> "Any":
        start = self.pos
        self.items += 1
        if self.items > self.max_items:
            raise RemoteProtocolError(f"more than {self.max_items} items", start)
        major, info, n = self.head()
        if major == 0:
            return n
        if major == 1:
            return -1 - n
        if major == 7:
            return self.simple(start, info, n)
        if major == 6:
            raise RemoteProtocolError(f"bignum (tag {n})" if n in (2, 3) else f"tag {n}", start)
        # A map's pair and an array's item take at least a byte each: refuse before allocating.
        if n > len(self.data) - self.pos:
            raise RemoteProtocolError(f"truncated: length {n}, {len(self.data) - self.pos} bytes left", start)
        if major < 4:
            raw = self.data[self.pos : self.pos + n]
            self.pos += n
            if major == 2:
                return bytes(raw)
            text = decode_utf8(raw)
            if text is None:
                raise RemoteProtocolError("text is not UTF-8", start)
            return text
        if depth >= limits.MAX_DEPTH:
            raise RemoteProtocolError(f"depth {depth + 1}, the limit is {limits.MAX_DEPTH}", start)
        if major == 4:
            return [self.value(depth + 1) for _ in range(n)]
        return self.map(n, depth)

    def map(self, n: int, depth: int) -> "dict[Any, Any]":
        found: dict[Any, Any] = {}
        last = b""
        for _ in range(n):
            start = self.pos
            key = self.value(depth + 1)
            if type(key) is not str and not (type(key) is int and 0 <= key < 24):
                raise RemoteProtocolError("a map key is neither text nor 0..23", start)
            raw = bytes(self.data[start : self.pos])
            if raw <= last:
                raise RemoteProtocolError(f"map key {key!r} is " + ("twice" if raw == last else "out of order"), start)
            last = raw
            found[key] = self.value(depth + 1)
        return found

    def simple(self, start: int, info: int, n: int) -> "Any":
        if info in (20, 21):
            return info == 21
        if info == 22:
            return None
        if info < 25:
            raise RemoteProtocolError("undefined" if n == 23 else f"simple value {n}", start)
        raw = bytes(self.data[start + 1 : self.pos])
        from ._cbor_float import float_bytes, float_of

        number = float_of(info, n, raw)
        if float_bytes(number) != bytes(self.data[start : self.pos]):
            raise RemoteProtocolError(f"float {number} is longer than needed", start)
        return number
