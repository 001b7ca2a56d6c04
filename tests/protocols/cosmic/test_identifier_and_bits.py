"""The identifier's fields, and the length of a frame against a bit by bit model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.cosmic import bits, identifier
from vicinal.cosmic.frame import Frame
from vicinal.errors import LimitError, LocalProtocolError

spec = pytest.mark.spec


@spec("COSMIC-1")
@given(st.integers(0, 255), st.integers(0, 127), st.integers(0, 16383))
def test_what_is_packed_is_unpacked(priority: int, tx_node: int, etag: int) -> None:
    number = identifier.pack(priority, tx_node, etag)
    assert identifier.unpack(number) == (priority, tx_node, etag)
    assert Frame(number).id == number


@spec("COSMIC-1")
def test_the_fields_lie_where_the_page_says() -> None:
    assert identifier.pack(0xFD, 0x7F, 4) == 0x1FBFC004
    assert identifier.pack(1, 0, 0) == 1 << 21
    assert identifier.pack(0, 1, 0) == 1 << 14


@spec("COSMIC-1")
@pytest.mark.parametrize("fields", [(256, 0, 0), (-1, 0, 0), (0, 128, 0), (0, -1, 0), (0, 0, 16384), (0, 0, -1)])
def test_a_field_out_of_range_is_refused(fields: tuple[int, int, int]) -> None:
    with pytest.raises(LimitError, match="limit is 0"):
        identifier.pack(*fields)


@pytest.mark.parametrize("number", [-1, 1 << 29])
def test_an_identifier_has_29_bits(number: int) -> None:
    with pytest.raises(LimitError, match="identifier"):
        identifier.unpack(number)


@spec("COSMIC-2")
def test_bands() -> None:
    assert [identifier.band(priority) for priority in (0, 1, 250, 251, 255)] == ["HRT", "SRT", "SRT", "NRT", "NRT"]


def wire_of(frame: Frame) -> list[int]:
    """SOF to the end of the checksum, unstuffed, written out as in the standard."""

    def number(value: int, width: int) -> list[int]:
        return [value >> shift & 1 for shift in reversed(range(width))]

    size = len(frame.data)
    out = [0]
    if frame.extended:
        out += [*number(frame.id >> 18, 11), 1, 1, *number(frame.id & 0x3FFFF, 18), int(frame.remote), 0, 0]
    else:
        out += [*number(frame.id, 11), int(frame.remote), 0, 0]
    out += number(size, 4)
    if not frame.remote:
        for byte in frame.data:
            out += number(byte, 8)
    crc = 0
    for bit in out:
        top = crc >> 14 ^ bit
        crc = crc << 1 & 0x7FFF
        if top:
            crc ^= 0x4599
    return out + number(crc, 15)


def stuffed(wire: list[int]) -> list[int]:
    out: list[int] = []
    for bit in wire:
        out.append(bit)
        if len(out) >= 5 and len(set(out[-5:])) == 1:
            out.append(1 - bit)
    return out


frames = st.one_of(
    st.builds(Frame, st.integers(0, 0x1FFFFFFF), st.binary(max_size=8), st.just(True), st.booleans()),
    st.builds(Frame, st.integers(0, 0x7FF), st.binary(max_size=8), st.just(False), st.booleans()),
    st.builds(
        Frame, st.sampled_from([0, 0x1FFFFFFF, 0x1F07C1F0]), st.sampled_from([b"\0" * 8, b"\xff" * 8, b"\x0f" * 8])
    ),
)


@spec("COSMIC-6")
@given(frames)
def test_length_against_the_model_bit_by_bit(frame: Frame) -> None:
    assert bits.frame_bits(frame) == len(stuffed(wire_of(frame))) + 13
    size = 0 if frame.remote else len(frame.data)
    assert bits.frame_bits(frame) <= bits.worst_bits(size, frame.extended)


@spec("COSMIC-6", "COSMIC-7")
def test_worst_cases_of_the_page() -> None:
    assert bits.ERROR_BITS == 12 + 8 + bits.INTERMISSION + 8
    assert [bits.worst_bits(8), bits.worst_bits(0), bits.worst_bits(8, False)] == [160, 80, 135]
    assert [bits.duration(160, rate) for rate in (1000000, 500000, 250000, 125000)] == [160, 320, 640, 1280]
    assert bits.duration(1, 800000) == 2
    for size in (-1, 9):
        with pytest.raises(LocalProtocolError, match="0 to 8"):
            bits.worst_bits(size)


def test_the_models_checksum_is_the_rest_of_a_division() -> None:
    frame = Frame(0x14, b"\x01", extended=False)
    message = int("".join(map(str, wire_of(frame)[:-15])), 2) << 15
    divisor = 0xC599  # x^15 and the polynomial
    for shift in range(message.bit_length() - 16, -1, -1):
        if message >> shift + 15 & 1:
            message ^= divisor << shift
    assert wire_of(frame)[-15:] == [message >> shift & 1 for shift in reversed(range(15))]
