"""The CBOR profile, writing: one encoding for every value (RFC 8949, 4.2.1; spec/cbor.md).

    value     null, bool, int (-2^64 .. 2^64-1), float, bytes, text, array, map
    map keys  text or 0..23, in the bytewise order of their encoding, none twice

_cbor_read.py reads it, strictly; the two are the definition. On CPython, messages in good order go through cbor2.
"""

import struct

from . import limits
from .errors import LocalProtocolError

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


def too_many(item: "Any", most: int = limits.MAX_ITEMS) -> bool:
    """Whether a value has more than so many items; never counts further."""
    left = most
    lists = [[item]]
    while lists:
        part = lists.pop()
        left -= len(part)
        if left < 0:
            return True
        lists.extend([inner for inner in part if type(inner) is list])
    return False
