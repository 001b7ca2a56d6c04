"""Two small files beside the segments. Both may be missing, old or damaged, and only time is lost.

checkpoint   what a scan of all segments up to a place would find: written at every roll and on closing, to another
             name, synced, renamed. Opening scans from there on only.

    8 magic "VicCkpt\\n"   4 CRC-32 of the rest   then, deflated:
    8 next   8 base   4 salt   8 position   4 number of producers, of each:
        1 length   name   8 floor   2 n   n * 8 seqs   n * 8 offsets

committed    how far the log is on disk, for readers in other processes: written in place after every sync, itself
             synced on opening and closing only. It lags behind the truth after a power cut, and is never ahead of it.

    4 magic D7 "Vc" 0A   4 CRC-32 of the rest   8 next   16 boot id
"""

import struct
import sys
import zlib
from array import array
from typing import NamedTuple

from ._producers import ProducerIndex

CHECKPOINT = "checkpoint"
CHECKPOINT_NEW = "checkpoint.new"
COMMITTED = "committed"

_MAGIC = b"VicCkpt\n"
_BODY = struct.Struct(">QQIQI")
_PRODUCER = struct.Struct(">qH")
_COMMITTED_MAGIC = b"\xd7Vc\n"
_COMMITTED = struct.Struct(">Q16s")
COMMITTED_BYTES = 8 + _COMMITTED.size


class Place(NamedTuple):
    """Behind the record before `next`: in the segment `base` with `salt`, at byte `position`."""

    next: int
    base: int
    salt: int
    position: int


class Committed(NamedTuple):
    next: int
    boot: bytes


def encode_checkpoint(place: Place, producers: ProducerIndex) -> bytes:
    parts = [_BODY.pack(*place, len(producers))]
    for producer, floor, seqs, offsets in producers.states():
        name = producer.encode()
        parts.append(bytes((len(name),)) + name + _PRODUCER.pack(floor, len(seqs)) + _swapped(seqs) + _swapped(offsets))
    body = zlib.compress(b"".join(parts), 1)
    return _MAGIC + zlib.crc32(body).to_bytes(4, "big") + body


def decode_checkpoint(data: bytes, producers: ProducerIndex) -> Place | None:
    """Fills `producers`, or gives None."""
    body = data[12:]
    if data[:8] != _MAGIC or int.from_bytes(data[8:12], "big") != zlib.crc32(body):
        return None
    try:
        body = zlib.decompress(body)
    except zlib.error:
        return None
    *place, count = _BODY.unpack_from(body)
    at = _BODY.size
    for _ in range(count):
        name = body[at + 1 : at + 1 + body[at]].decode()
        at += 1 + body[at]
        floor, n = _PRODUCER.unpack_from(body, at)
        at += _PRODUCER.size
        producers.restore(name, floor, _array(body[at : at + 8 * n]), _array(body[at + 8 * n : at + 16 * n]))
        at += 16 * n
    return Place(*place)


def encode_committed(committed: Committed) -> bytes:
    body = _COMMITTED.pack(*committed)
    return _COMMITTED_MAGIC + zlib.crc32(body).to_bytes(4, "big") + body


def decode_committed(data: bytes) -> Committed | None:
    body = data[8:]
    if (
        data[:4] != _COMMITTED_MAGIC
        or len(data) != COMMITTED_BYTES
        or int.from_bytes(data[4:8], "big") != zlib.crc32(body)
    ):
        return None
    return Committed(*_COMMITTED.unpack(body))


def _swapped(numbers: "array[int]") -> bytes:
    if sys.byteorder == "big":
        return numbers.tobytes()
    numbers = numbers[:]
    numbers.byteswap()
    return numbers.tobytes()


def _array(data: bytes) -> "array[int]":
    numbers = array("q", data)
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers
