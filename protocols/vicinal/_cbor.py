"""The CBOR profile: small, strict, one encoding for every value (RFC 8949, 4.2.1; spec/cbor.md).

This codec is the definition. It runs on devices, and on CPython it is what says why a message is refused;
messages in good order go through cbor2 there (wire.py).

    value     null, bool, int (-2^64 .. 2^64-1), float, bytes, text, array, map
    map keys  text or 0..23, in the bytewise order of their encoding, none twice
    refused   indefinite lengths, heads longer than needed, tags (and so bignums), undefined and other simple
              values, text that is not UTF-8, what limits.py forbids, anything after the value
"""

import struct

from . import limits
from ._compat import decode_utf8
from .errors import LocalProtocolError, RemoteProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def dumps(value: "Any") -> bytes:
    out = bytearray()
    _put(out, value)
    return bytes(out)


def put_head(out: bytearray, major: int, n: int) -> None:
    major <<= 5
    if n < 24:
        out.append(major | n)
        return
    info, size = 24, 1
    while n >> 8 * size:
        info += 1
        size *= 2
    out.append(major | info)
    out.extend(n.to_bytes(size, "big"))


def _put(out: bytearray, value: "Any") -> None:
    kind = type(value)
    if kind is str:
        data = value.encode("utf-8")
        put_head(out, 3, len(data))
        out.extend(data)
    elif kind is int:
        if not -(1 << 64) <= value < 1 << 64:
            raise LocalProtocolError(f"integer {value} has no 64-bit form")
        if value < 0:
            put_head(out, 1, -1 - value)
        else:
            put_head(out, 0, value)
    elif kind is float:
        out.extend(float_bytes(value))
    elif value is None:
        out.append(0xF6)
    elif kind is bool:
        out.append(0xF5 if value else 0xF4)
    elif kind is bytes:
        put_head(out, 2, len(value))
        out.extend(value)
    elif kind is list or kind is tuple:
        put_head(out, 4, len(value))
        for item in value:
            _put(out, item)
    elif kind is dict:
        put_head(out, 5, len(value))
        for key, item in sorted([(dumps(key), item) for key, item in value.items()], key=_first):
            out.extend(key)
            _put(out, item)
    else:
        raise LocalProtocolError(f"{kind.__name__} has no CBOR form here")


def _first(pair: "tuple[bytes, Any]") -> bytes:
    return pair[0]


def float_bytes(value: float) -> bytes:
    """The shortest of the three forms that keeps the value; one NaN."""
    if value != value:
        return b"\xf9\x7e\x00"
    infinite = value in (float("inf"), float("-inf"))
    # Past the largest single CPython raises and MicroPython gives infinity.
    if infinite or -3.4028234663852886e38 <= value <= 3.4028234663852886e38:
        single = struct.pack(">f", value)
        if struct.unpack(">f", single)[0] == value:
            half = _half_of(int.from_bytes(single, "big"))
            return b"\xfa" + single if half < 0 else b"\xf9" + half.to_bytes(2, "big")
    return b"\xfb" + struct.pack(">d", value)


def _half_of(single: int) -> int:
    """The 16 bits of a single-precision number, or -1 if they cannot hold it."""
    sign = single >> 16 & 0x8000
    exponent = single >> 23 & 0xFF
    mantissa = single & 0x7FFFFF
    if exponent == 255:
        return sign | 0x7C00
    if exponent == 0 and mantissa == 0:
        return sign
    if 113 <= exponent <= 142 and not mantissa & 0x1FFF:
        return sign | (exponent - 112) << 10 | mantissa >> 13
    shift = 126 - exponent
    if 14 <= shift <= 23:  # subnormal as a half
        mantissa |= 0x800000
        if not mantissa & ((1 << shift) - 1):
            return sign | mantissa >> shift
    return -1


def loads(data: bytes) -> "Any":
    if len(data) > limits.MAX_EVENT_BYTES:
        raise RemoteProtocolError(f"message has {len(data)} bytes, the limit is {limits.MAX_EVENT_BYTES}")
    reader = _Reader(data)
    value = reader.value(0)
    if reader.pos != len(data):
        raise RemoteProtocolError(f"{len(data) - reader.pos} bytes after the value", reader.pos)
    return value


def too_many(item: "Any") -> bool:
    """Whether a value has more than MAX_ITEMS items; never counts further."""
    left = limits.MAX_ITEMS
    lists = [[item]]
    while lists:
        part = lists.pop()
        left -= len(part)
        if left < 0:
            return True
        lists.extend([inner for inner in part if type(inner) is list])
    return False


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pos = 0
        self.items = 0

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
        if self.items > limits.MAX_ITEMS:
            raise RemoteProtocolError(f"more than {limits.MAX_ITEMS} items", start)
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
        if info == 25:
            number = _from_half(n)
        else:
            number = struct.unpack(">f" if info == 26 else ">d", raw)[0]
        if float_bytes(number) != bytes(self.data[start : self.pos]):
            raise RemoteProtocolError(f"float {number} is longer than needed", start)
        return number


def _from_half(bits: int) -> float:
    exponent, mantissa = bits >> 10 & 31, bits & 0x3FF
    if exponent == 31:
        number = float("nan") if mantissa else float("inf")
    elif exponent == 0:
        number = mantissa / 16777216
    else:
        number = (1024 + mantissa) * 2.0 ** (exponent - 25)
    return -number if bits & 0x8000 else number
