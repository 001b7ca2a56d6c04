"""What stands in an advertisement (spec/steam.md, STEAM-1 to STEAM-12): our structure among others, and its frames.

An advertisement is a row of AD structures, each a length, a type and data. Ours is manufacturer specific data of the
company 0xFFFF, which the Bluetooth SIG gives to nobody; a 16-bit service UUID would have to be bought, a 128-bit one
takes 16 of 31 bytes:

    length │ 0xFF │ 0xFF 0xFF │ frame ...                       31 bytes in all, 28 beside flags; 254 when extended

    byte 0    version 1 (3 bits) │ tagged (1) │ kind (4)
    1..3      hash of the subject
    4..6      sender, drawn at its start
    beacon    kind 0..3: see beacon.py
    piece     kind 4 (with names), 5 (values only) │ 7..8 number │ 9 index (4) count (4) │ 10.. chunk

A tagged frame ends with four bytes that shall prove who sent it. They are reserved, not defined: this version sends
none and drops what it cannot check.

An event is cut into `count` chunks of one length, and one more, index = count, is the XOR of them all: any `count`
of the count + 1 pieces are enough. At 10 % loss two rounds of 3 + 1 pieces do better than three rounds of 3.

    body      count = 1:  check (2) │ data              else:  fill (1) │ check (2) │ data │ `fill` zero bytes
"""

from binascii import crc32

from .._compat import const
from ..errors import LimitError, RemoteProtocolError

__all__ = ["COMPANY", "LEGACY_ROOM", "MAX_ROOM", "Cut", "Piece", "payloads", "read_piece", "structure"]

COMPANY = const(0xFFFF)
# Some stacks put three bytes of flags first, and do not ask.
LEGACY_ROOM = const(28)
# One AD structure of an extended advertisement that needs no chain.
MAX_ROOM = const(254)
MIN_ROOM = const(27)  # a beacon of a rectangle that moves

VERSION = const(1)
TAGGED = const(0x10)
FULL = const(4)
TYPED = const(5)
# Four bits, and the parity has the index after the last.
_MAX_CHUNKS = const(15)

# Twice what 31 bytes can hold; a long row of tiny ones must not cost more to look through.
_MAX_STRUCTURES = const(30)
_STRUCTURE = const(4)
_HEAD = const(10)
_START = b"\xff\xff\xff"  # the type, and the company


def payloads(advertisement: bytes) -> "list[bytes]":
    """Our frames in an advertisement; none in a stranger's. What is no row of AD structures ends where it goes wrong:
    the air is full of it."""
    if advertisement.find(_START) < 0:
        return []
    found = []
    at, size = 0, len(advertisement)
    for _ in range(_MAX_STRUCTURES):
        if at >= size:
            break
        end = at + 1 + advertisement[at]
        if end > size or end == at + 1:  # cut off, or the zeros that fill up an advertisement
            break
        if advertisement[at + 1 : at + 4] == _START and end > at + _STRUCTURE:
            found.append(bytes(advertisement[at + _STRUCTURE : end]))
        at = end
    return found


def structure(payload: bytes) -> bytes:
    """The AD structure with a frame in it."""
    return bytes((len(payload) + 3,)) + _START + payload


class Piece:
    __slots__ = ("chunk", "count", "index", "number", "sender", "subject", "typed")

    def __init__(
        self, typed: bool, subject: bytes, sender: bytes, number: int, index: int, count: int, chunk: bytes
    ) -> None:
        self.typed = typed
        self.subject = subject
        self.sender = sender
        self.number = number
        self.index = index
        self.count = count
        self.chunk = chunk

    def encode(self) -> bytes:
        head = bytes((VERSION << 5 | (TYPED if self.typed else FULL),)) + self.subject + self.sender
        return head + self.number.to_bytes(2, "big") + bytes((self.index << 4 | self.count,)) + self.chunk


def read_piece(payload: bytes) -> Piece:
    """Of a frame whose first byte says that it is one."""
    if len(payload) <= _HEAD:
        raise RemoteProtocolError(f"a piece of {len(payload)} bytes has no chunk", len(payload))
    index, count = payload[9] >> 4, payload[9] & 15
    if count == 0 or index > count or (count == 1 and index):
        raise RemoteProtocolError(f"piece {index} of {count}", 9)
    number = payload[7] << 8 | payload[8]
    return Piece(payload[0] & 15 == TYPED, payload[1:4], payload[4:7], number, index, count, payload[_HEAD:])


def check_of(seed: bytes, data: bytes) -> bytes:
    """The radio checks frames; this finds pieces of different events put together, and subjects that share a hash."""
    return (crc32(data, crc32(seed)) & 0xFFFF).to_bytes(2, "big")


class Cut:
    """An event cut to pieces that are made when they are asked for, for an AD structure of `room` bytes."""

    def __init__(self, data: bytes, seed: bytes, room: int) -> None:
        most = room - _STRUCTURE - _HEAD
        check = check_of(seed, data)
        if len(data) + 2 <= most:
            self.count = 1
            self.body = check + data
        else:
            self.count = (len(data) + 2 + most) // most
            if self.count > _MAX_CHUNKS:
                raise LimitError("bytes of an event in advertisements", len(data), _MAX_CHUNKS * most - 3)
            fill = -(len(data) + 3) % self.count
            self.body = bytes((fill,)) + check + data + bytes(fill)
        self.size = len(self.body) // self.count

    @property
    def pieces(self) -> int:
        """With the parity, which one alone does not need."""
        return self.count + 1 if self.count > 1 else 1

    def chunk(self, index: int) -> bytes:
        if index < self.count:
            return self.body[index * self.size : (index + 1) * self.size]
        return xor([self.chunk(i) for i in range(self.count)])


def xor(chunks: "list[bytes]") -> bytes:
    found = bytearray(chunks[0])
    for chunk in chunks[1:]:
        for i in range(len(found)):
            found[i] ^= chunk[i]
    return bytes(found)


def data_of(chunks: "list[bytes]") -> "tuple[bytes, bytes] | None":
    """The check and the data of all chunks in order, or None where the fill is impossible."""
    body = b"".join(chunks)
    if len(chunks) == 1:
        return (body[:2], body[2:]) if len(body) > 2 else None
    fill = body[0]
    end = len(body) - fill
    if fill >= len(chunks) or end <= 3 or body[end:] != bytes(fill):
        return None
    return body[1:3], body[3:end]
