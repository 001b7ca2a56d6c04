"""Events to bytes on CPython, for what most events are: texts, numbers, bytes and bools, a few of each.

The same bytes as those of _cbor.py, put together from pieces that come again: names, subjects and producers with their
heads, and the order of attributes. What is not as simple (areas, events in events, many items) is left to others.
"""

from struct import Struct
from typing import Any

from . import limits
from .attributes import KEYS, sort_key
from .event import Event

__all__ = ["encode_simple"]

# Of what a stranger may choose: then all of it is forgotten.
_MAX_KEPT = 4096

_heads: dict[str, bytes] = {}  # texts with their heads
_orders: dict[tuple[str, ...], list[tuple[str, bytes]]] = {}  # attributes as they stand on the wire
_small = [bytes([number]) for number in range(24)]
_small_negative = [bytes([0x20 | number]) for number in range(24)]
_arrays = [bytes([0x80 | count]) for count in range(24)]
_bytes = [bytes([0x40 | size]) for size in range(24)]
_texts = [bytes([0x60 | size]) for size in range(24)]
_pack8, _pack16 = Struct(">BB").pack, Struct(">BH").pack
_pack32, _pack64 = Struct(">BI").pack, Struct(">BQ").pack
_half, _single = Struct(">e"), Struct(">f")
_half_pack, _half_unpack, _single_pack, _single_unpack = _half.pack, _half.unpack, _single.pack, _single.unpack
_double_pack = Struct(">Bd").pack


def encode_simple(event: Event) -> bytes | None:
    """None for what is not simple."""
    params, attrs = event.params, event.attrs
    if len(params) > 11 or len(attrs) > 11:
        return None
    producer, seq = event.producer, event.seq
    parts = [
        b"\x85",
        _heads.get(event.subject) or _kept(event.subject),
        b"\xf6" if producer is None else _heads.get(producer) or _kept(producer),
        b"\xf6" if seq is None else _integer(seq),
        _arrays[2 * len(params)],
    ]
    put = parts.append
    value: Any
    for name, value in params.items():
        put(_heads.get(name) or _kept(name))
        kind = type(value)
        if kind is float:
            put(_real(value))
        elif kind is str:
            put(_text(value))
        elif kind is int:
            put(_integer(value))
        elif kind is bool:
            put(b"\xf5" if value else b"\xf4")
        elif kind is bytes:
            put(_head(0x40, _bytes, len(value)))
            put(value)
        else:
            return None
    put(_arrays[2 * len(attrs)])
    if attrs:
        for name, key in _orders.get(tuple(attrs)) or _order(tuple(attrs)):
            put(key)
            value = attrs[name]
            kind = type(value)
            if kind is str:
                put(_heads.get(value) or _text(value))
            elif kind is int:
                put(_integer(value))
            elif kind is float:
                put(_real(value))
            elif kind is bool:
                put(b"\xf5" if value else b"\xf4")
            elif kind is bytes:
                put(_head(0x40, _bytes, len(value)))
                put(value)
            else:
                return None
    data = b"".join(parts)
    # What is larger may be too large, or have too many items.
    return data if len(data) <= limits.MAX_ITEMS else None


def _kept(text: str) -> bytes:
    if len(_heads) >= _MAX_KEPT:
        _heads.clear()
    found = _heads[text] = _text(text)
    return found


def _order(names: tuple[str, ...]) -> list[tuple[str, bytes]]:
    if len(_orders) >= _MAX_KEPT:
        _orders.clear()
    found = _orders[names] = [
        (name, _small[KEYS[name]] if name in KEYS else _text(name)) for name in sorted(names, key=sort_key)
    ]
    return found


def _text(text: str) -> bytes:
    data = text.encode()
    size = len(data)
    return (_texts[size] if size < 24 else _head(0x60, _texts, size)) + data


def _head(major: int, small: list[bytes], argument: int) -> bytes:
    if argument < 24:
        return small[argument]
    if argument < 1 << 8:
        return _pack8(major | 24, argument)
    if argument < 1 << 16:
        return _pack16(major | 25, argument)
    return _pack32(major | 26, argument) if argument < 1 << 32 else _pack64(major | 27, argument)


def _integer(value: int) -> bytes:
    return _head(0, _small, value) if value >= 0 else _head(0x20, _small_negative, -1 - value)


def _real(value: float) -> bytes:
    """In the shortest form that is the same number."""
    if value != value:
        return b"\xf9\x7e\x00"
    try:
        data = _half_pack(value)
        if _half_unpack(data)[0] == value:
            return b"\xf9" + data
    except OverflowError:
        pass
    try:
        data = _single_pack(value)
        if _single_unpack(data)[0] == value:
            return b"\xfa" + data
    except OverflowError:
        pass
    return _double_pack(0xFB, value)
