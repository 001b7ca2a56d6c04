"""The CBOR profile, writing: one encoding for every value (RFC 8949, 4.2.1; spec/cbor.md).

    value     null, bool, int (-2^64 .. 2^64-1), float, bytes, text, array, map
    map keys  text or 0..23, in the bytewise order of their encoding, none twice

_cbor_read.py reads it, strictly; the two are the definition. On CPython, messages in good order go through cbor2.
"""

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


_float_bytes: "Any" = None


def float_bytes(value: float) -> bytes:
    """See _cbor_float.py, which is loaded with the first float and found without a search after that."""
    global _float_bytes
    if _float_bytes is None:
        from ._cbor_float import float_bytes as found

        _float_bytes = found
    data: bytes = _float_bytes(value)
    return data


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
