"""The length of one frame with the stuff bits it really has (bits.py), for buses that are simulated.

The bits go through two tables, eight at a time: a bus that carries a million frames asks for each of them.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .frame import Frame

__all__ = ["frame_bits"]

# CRC delimiter, ACK slot, ACK delimiter, seven bits of EOF, three of intermission: never stuffed.
_TAIL = 13
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


_CRCS, _STUFFS = _crc_table(), _stuff_table()


def frame_bits(frame: "Frame") -> int:
    """Bits of this frame on the bus, with its stuff bits and the intermission after it."""
    crcs, stuffs = _CRCS, _STUFFS
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
