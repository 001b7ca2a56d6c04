"""The bytes of a segment: a head, then records. All numbers big-endian.

    segment = head record*             named <base, 20 digits>-<salt, 8 hex digits>.segment

    head       8  magic "VicSeg\\r\\n"            a record    4  magic D7 "Vr" 0A
               2  version, 1                                 4  CRC-32 of all that follows, begun at the salt
               4  salt                                       4  n, bytes of the event
               8  base, offset of the first record           8  offset
               8  time of creation, ms                       8  time of receipt, ms
               4  CRC-32 of all before                       8  seq
                                                             4  lag, how many records of the same batch lie before it
                                                             1  p, bytes of the producer
                                                             p  producer, UTF-8
                                                             n  event, as it came (vicinal.wire)

CRC-32 (zlib's) and not CRC-32C: the standard library has it compiled. Either finds every burst of up to 32 bits and
every two flipped bits in a record of any size we allow; CRC-32C would find any three beyond 11 KB too.

The *salt* is a random number of the segment. After damage a reader looks for the next magic with a right CRC, and an
event may hold bytes that look like a record: without the salt nobody can make such bytes. Name and head both carry
base and salt, so that a damaged head costs nothing.

The *lag* tells what had been synced when a record was written: everything before its batch. Damage there is damage;
damage inside the last batch may be a write that never finished (see _tail.py).
"""

import struct
import zlib
from typing import NamedTuple

from vicinal import limits
from vicinal._compat import utf8_len
from vicinal.errors import LimitError, LocalProtocolError
from vicinal.event import Event
from vicinal.wire import encode

from .errors import LogVersionError

VERSION = 1
MAGIC = b"\xd7Vr\n"
_SEGMENT_MAGIC = b"VicSeg\r\n"
_HEAD = struct.Struct(">8sHIQq")
HEAD_BYTES = _HEAD.size + 4

FIXED = struct.Struct(">4sIIQqqIB")
FIXED_BYTES = FIXED.size
# What the CRC covers begins here.
CHECKED_FROM = 8
_CHECKED = struct.Struct(">IQqqIB")
_START = struct.Struct(">4sI")


class Entry(NamedTuple):
    """What is appended. Make it with `entry` or `entry_of`, which check it."""

    event: bytes
    producer: str
    seq: int


class Record(NamedTuple):
    """What is read."""

    offset: int
    time: int
    """of receipt, in ms"""
    producer: str
    seq: int
    event: bytes
    """as it was appended; `event_of` a record (scoped.py) is the Event"""
    lag: int = 0
    """how many records were appended together before this one"""


class Head(NamedTuple):
    salt: int
    base: int
    time: int


def entry(event: bytes, producer: str, seq: int) -> Entry:
    if type(event) is not bytes or not event:
        raise LocalProtocolError(f"event is {event!r}, want the bytes of vicinal.wire.encode")
    if len(event) > limits.MAX_EVENT_BYTES:
        raise LimitError("bytes of event", len(event), limits.MAX_EVENT_BYTES)
    if type(producer) is not str or not producer:
        raise LocalProtocolError(f"producer is {producer!r}, want a non-empty str")
    size = utf8_len(producer)
    if size < 0:
        raise LocalProtocolError(f"producer {producer!r} has no UTF-8 form")
    if size > limits.MAX_PRODUCER_BYTES:
        raise LimitError(f"length of producer {producer[:20]!r}...", size, f"{limits.MAX_PRODUCER_BYTES} bytes")
    if type(seq) is not int:
        raise LocalProtocolError(f"seq is {seq!r}, want an int")
    if not 0 <= seq <= limits.INT_MAX:
        raise LimitError("seq", seq, "0 .. 2^63-1")
    return Entry(event, producer, seq)


def entry_of(event: Event) -> Entry:
    if event.producer is None or event.seq is None:
        raise LocalProtocolError(f"event {event.subject!r} has no identity: stamp it before it is stored")
    return Entry(encode(event), event.producer, event.seq)


def crc(data: bytes, salt: int) -> int:
    return zlib.crc32(data, salt)


def encode_record(record: Record, salt: int) -> bytes:
    producer = record.producer.encode()
    checked = b"".join(
        (
            _CHECKED.pack(len(record.event), record.offset, record.time, record.seq, record.lag, len(producer)),
            producer,
            record.event,
        )
    )
    return _START.pack(MAGIC, crc(checked, salt)) + checked


def encode_head(head: Head) -> bytes:
    data = _HEAD.pack(_SEGMENT_MAGIC, VERSION, head.salt, head.base, head.time)
    return data + zlib.crc32(data).to_bytes(4, "big")


def decode_head(data: bytes, name: str) -> Head | None:
    """None if it is damaged. A head in order but of another version is refused: its records mean something else."""
    if len(data) < HEAD_BYTES or zlib.crc32(data[: HEAD_BYTES - 4]) != int.from_bytes(
        data[HEAD_BYTES - 4 : HEAD_BYTES], "big"
    ):
        return None
    magic, version, salt, base, time = _HEAD.unpack_from(data)
    if magic != _SEGMENT_MAGIC:
        return None
    if version != VERSION:
        raise LogVersionError(name, version, VERSION)
    return Head(salt, base, time)


def segment_name(base: int, salt: int) -> str:
    return f"{base:020d}-{salt:08x}.segment"


def parse_segment_name(name: str) -> tuple[int, int] | None:
    """base and salt, or None for a file that is not a segment."""
    stem, dot, kind = name.partition(".")
    base, dash, salt = stem.partition("-")
    if kind != "segment" or len(base) != 20 or len(salt) != 8 or not dot or not dash:
        return None
    try:
        numbers = int(base), int(salt, 16)
    except ValueError:
        return None
    return numbers if segment_name(*numbers) == name else None
