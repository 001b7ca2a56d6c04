"""The sentences of protocols/spec/cbor.md."""

import math
import struct
import time
from typing import Any

import cbor2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from spec_helpers import spec, unhex

from vicinal import _cbor, _cbor_read, wire
from vicinal.errors import LimitError, RemoteProtocolError
from vicinal.event import Event

NAN, INF = float("nan"), float("inf")


def refused(text: str, match: str) -> None:
    """By the codec of devices, which is the definition."""
    with pytest.raises(RemoteProtocolError, match=match):
        _cbor_read.loads(unhex(text))


cbor_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 64), (1 << 64) - 1)
    | st.floats()
    | st.binary(max_size=30)
    | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3) | st.integers(0, 23), inner, max_size=4)
    ),
    max_leaves=10,
)


def bits(value: Any) -> Any:
    """Of a float its bits: Python's == sees neither NaN nor the sign of zero."""
    if isinstance(value, float):
        return ("float", struct.pack(">d", value) if value == value else "nan")
    if isinstance(value, list):
        return [bits(part) for part in value]
    if isinstance(value, dict):
        return {key: bits(part) for key, part in value.items()}
    return (type(value), value)


@spec("CBOR-1", "CBOR-2", "CBOR-3", "CBOR-4", "CBOR-5", "CBOR-6", "CBOR-7")
@given(cbor_values)
def test_cbor_has_one_encoding_and_it_is_that_of_cbor2(value: Any) -> None:
    data = _cbor.dumps(value)
    assert data == cbor2.dumps(value, canonical=True)
    assert bits(_cbor_read.loads(data)) == bits(value)


@spec("CBOR-2", "CBOR-13")
@pytest.mark.parametrize("key", ["18 18", "20", "f4", "f6", "f90000", "41 61", "80", "a0"])
def test_cbor_map_keys(key: str) -> None:
    assert _cbor_read.loads(unhex("a2 17 01 6161 02")) == {23: 1, "a": 2}
    refused("a1" + key + "01", "neither text nor 0..23")


@spec("CBOR-3", "CBOR-13")
def test_cbor_order_of_map_keys() -> None:
    assert _cbor.dumps({"b": 1, "aa": 2, 1: 3}) == unhex("a3 01 03 6162 01 626161 02")
    refused("a2 6162 01 6161 02", "out of order")
    refused("a2 626161 02 6162 01", "out of order")
    refused("a2 6161 01 6161 02", "twice")


@spec("CBOR-4", "CBOR-9")
@given(st.integers(0, (1 << 64) - 1), st.integers(0, 5))
def test_cbor_longer_heads_are_refused(n: int, major: int) -> None:
    short = _cbor.dumps(n)
    for info, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if size > len(short) - 1 and n < 1 << 8 * size:
            head = bytes([major << 5 | info]) + n.to_bytes(size, "big")
            with pytest.raises(RemoteProtocolError, match="longer than needed"):
                _cbor_read.loads(head)


@spec("CBOR-5", "CBOR-6", "CBOR-9")
def test_cbor_floats() -> None:
    for value, text in ((1.5, "f93e00"), (100000.0, "fa47c35000"), (1.1, "fb3ff199999999999a"), (-0.0, "f98000")):
        assert _cbor.dumps(value) == unhex(text)
    assert [_cbor.dumps(value).hex() for value in (NAN, INF, -INF)] == ["f97e00", "f97c00", "f9fc00"]
    assert math.copysign(1, _cbor_read.loads(unhex("f98000"))) == -1
    for text in ("fa3fc00000", "fb3ff8000000000000", "f97e01", "f9fe00", "fa7fc00000", "fb7ff8000000000001"):
        refused(text, "longer than needed")


@spec("CBOR-7")
def test_cbor_integers_are_not_floats() -> None:
    assert (_cbor.dumps(1), _cbor.dumps(1.0)) == (b"\x01", b"\xf9\x3c\x00")
    assert [type(_cbor_read.loads(unhex(text))) for text in ("01", "f93c00")] == [int, float]


@spec("CBOR-8", "CBOR-15")
@pytest.mark.parametrize("text", ["5f4100ff", "7f6161ff", "9f01ff", "bf0102ff", "819fff"])
def test_cbor_indefinite_lengths(text: str) -> None:
    refused(text, "indefinite length")


@spec("CBOR-10")
@given(st.integers(0, (1 << 64) - 1))
@example(2)
@example(3)
@example(35)
def test_cbor_tags(tag: int) -> None:
    head = bytearray(_cbor.dumps(tag))
    head[0] |= 0xC0
    with pytest.raises(RemoteProtocolError, match=f"tag {tag}"):
        _cbor_read.loads(bytes(head) + b"\x41\x00")


@spec("CBOR-11")
def test_cbor_simple_values() -> None:
    assert [_cbor_read.loads(bytes([0xE0 | n])) for n in (20, 21, 22)] == [False, True, None]
    refused("f7", "undefined")
    for n in range(20):
        refused(f"{0xE0 | n:02x}", f"simple value {n}")
    for n in range(256):
        refused(f"f8{n:02x}", "simple value|undefined")


@spec("CBOR-12")
@given(st.binary(max_size=8))
@example(b"\xed\xa0\x80")
@example(b"\xc0\x80")
@example(b"\xf4\x90\x80\x80")
def test_cbor_text_is_utf8(raw: bytes) -> None:
    data = bytes([0x60 | len(raw)]) + raw
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        with pytest.raises(RemoteProtocolError, match="not UTF-8"):
            _cbor_read.loads(data)
    else:
        assert _cbor_read.loads(data) == text


@spec("CBOR-14")
@given(cbor_values, st.binary(min_size=1, max_size=4))
def test_cbor_all_of_it_and_nothing_more(value: Any, more: bytes) -> None:
    data = _cbor.dumps(value)
    with pytest.raises(RemoteProtocolError, match="after the value"):
        _cbor_read.loads(data + more)
    for size in range(len(data)):
        with pytest.raises(RemoteProtocolError, match="truncated"):
            _cbor_read.loads(data[:size])


@spec("CBOR-15")
def test_cbor_reserved_heads() -> None:
    for major in range(8):
        for info in (28, 29, 30):
            refused(f"{major << 5 | info:02x}", "reserved head")
    for text in ("ff", "81ff", "1f", "3f", "df"):
        refused(text, "break outside|reserved head")


@spec("CBOR-16")
def test_cbor_bytes_of_a_message() -> None:
    most = Event("a", {"x": bytes(65536 - 12)})
    assert len(wire.encode(most)) == 65536
    assert wire.decode(wire.encode(most)) == most
    with pytest.raises(LimitError, match="is 65537, the limit is 65536"):
        wire.encode(Event("a", {"x": bytes(65536 - 11)}))
    with pytest.raises(RemoteProtocolError, match="65537 bytes, the limit is 65536"):
        wire.decode(wire.encode(most) + b"\0")


@spec("CBOR-17")
def test_cbor_items_of_a_message() -> None:
    assert len(_cbor_read.loads(_cbor.dumps([0] * 4095))) == 4095
    with pytest.raises(RemoteProtocolError, match="more than 4096 items"):
        _cbor_read.loads(_cbor.dumps([0] * 4096))
    with pytest.raises(RemoteProtocolError, match="more than 4096 items"):
        _cbor_read.loads(_cbor.dumps([[0] * 2000, {"a": [0] * 2100}]))
    # 8 nested events of 255 parameters: 8 * (5 + 1 + 510) items and the outer ones, in some 14,000 bytes.
    inner = Event("b", [(f"p{i}", 0) for i in range(255)])
    with pytest.raises(LimitError, match="items of event 'a'"):
        wire.encode(Event("a", [(f"e{i}", inner) for i in range(8)]))
    fits = Event("a", [(f"e{i}", inner) for i in range(7)])
    assert wire.decode(wire.encode(fits)) == fits


@spec("CBOR-18")
def test_cbor_depth() -> None:
    assert _cbor_read.loads(b"\x81" * 16 + b"\x00")
    refused("81" * 17 + "00", "depth 17, the limit is 16")
    refused("a100" * 17 + "00", "depth 17, the limit is 16")


@spec("CBOR-19")
@pytest.mark.parametrize(
    "head", ["5b7fffffffffffffff", "7affffffff", "9b00000000ffffffff", "bb1fffffffffffffff", "9affffffff"]
)
def test_cbor_huge_lengths_cost_nothing(head: str) -> None:
    start = time.perf_counter()
    refused(head + "00" * 16, "truncated|longer")
    with pytest.raises(RemoteProtocolError):
        wire.decode(unhex("856161f6f6826178" + head))
    assert time.perf_counter() - start < 0.02
