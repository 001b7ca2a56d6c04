"""How long a frame occupies the bus, in bits (ISO 11898-1, classic frames).

    SOF 1 | identifier and control | data 8 n | CRC 15 | delimiter, ACK, EOF 10 | intermission 3
    '------------- stuffed: after five equal bits an opposite one ------------'

Counted is all of it, the intermission too: the next frame cannot start earlier. An extended frame without stuff bits
has 67 + 8 n bits, a standard one 47 + 8 n. Stuff bits depend on the content, so that `frame_bits` computes the checksum
and counts them, while `worst_bits` takes the most there can be: the first after five bits, then one after every four.

The bits go through two tables, eight at a time, made when first asked for: a bus that simulates a million frames asks
for each of them, and a device never does.
"""

from ..errors import LocalProtocolError
from .frame import MAX_DATA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .frame import Frame

__all__ = ["ERROR_BITS", "INTERMISSION", "duration", "frame_bits", "worst_bits"]

INTERMISSION = 3
# CRC delimiter, ACK slot, ACK delimiter, seven bits of EOF, intermission: never stuffed.
_TAIL = 10 + INTERMISSION
# What an error costs at most beside the frame it destroys: two flags that just overlap (12), the delimiter (8), the
# intermission (3) and the pause of a sender that is error passive (8).
ERROR_BITS = 31

_CRC_POLYNOMIAL = 0x4599


def _crc_table() -> "list[int]":
    table = []
    for byte in range(256):
        crc = byte << 7
        for _ in range(8):
            crc = (crc << 1 ^ _CRC_POLYNOMIAL if crc & 0x4000 else crc << 1) & 0x7FFF
        table.append(crc)
    return table


def _stuff_table() -> "list[tuple[int, int]]":
    """By state and byte: stuff bits, next state. A state is last bit * 4 + run - 1, with runs of 1 to 4: the fifth
    equal bit is followed by a stuff bit, which starts a run of its own."""
    table = []
    for state in range(8):
        for byte in range(256):
            last, run, stuffed = state >> 2, (state & 3) + 1, 0
            for shift in range(7, -1, -1):
                bit = byte >> shift & 1
                run = run + 1 if bit == last else 1
                last = bit
                if run == 5:
                    stuffed += 1
                    last, run = 1 - bit, 1
            table.append((stuffed, last << 10 | run - 1 << 8))
    return table


_tables: "tuple[list[int], list[tuple[int, int]]] | None" = None


def frame_bits(frame: "Frame") -> int:
    """Bits of this frame on the bus, with its stuff bits and the intermission after it."""
    global _tables
    if _tables is None:
        _tables = (_crc_table(), _stuff_table())
    crcs, stuffs = _tables
    number, size = frame.id, len(frame.data)
    # From SOF on. It is 0, as is what fills up the first byte: zeros in front do not change the checksum. What fills up
    # the stuffed bits are alternating ones, which end in 1 before SOF and so are never stuffed.
    if frame.extended:
        head, length, filling = (number >> 18 << 20 | 3 << 18 | number & 0x3FFFF) << 7, 39, 1
    else:
        head, length, filling = number << 7, 19, 0b010101
    head |= frame.remote << 6 | size
    if size and not frame.remote:
        head = head << 8 * size | int.from_bytes(frame.data, "big")
        length += 8 * size
    crc = 0
    for byte in head.to_bytes(length + 7 >> 3, "big"):
        crc = (crc << 8 & 0x7FFF) ^ crcs[crc >> 7 ^ byte]
    length += 15
    state, stuffed = 1 << 10, 0
    for byte in (filling << length | head << 15 | crc).to_bytes(length + 7 >> 3, "big"):
        more, state = stuffs[state | byte]
        stuffed += more
    return length + stuffed + _TAIL


def worst_bits(data_length: int, extended: bool = True) -> int:
    """Most bits that a frame with so many bytes can have: 160 for an extended one with 8."""
    if not 0 <= data_length <= MAX_DATA:
        raise LocalProtocolError(f"{data_length} bytes of data, a frame has 0 to {MAX_DATA}")
    stuffed = (54 if extended else 34) + 8 * data_length
    return stuffed + (stuffed - 1) // 4 + _TAIL


def duration(bits: int, bitrate: int) -> int:
    """Microseconds, rounded up."""
    return -(-bits * 1000000 // bitrate)
