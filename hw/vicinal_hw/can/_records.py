"""What the virtual bus's server and its clients say to each other on a Unix socket.

    client                                       server, after hello and welcome (_holder.py)
      │ request ──────▶ ◀────── answer             │ one at a time
      │◀═══════════════════════════════════════════╡ the other socket: what happens on the bus

Requests, answers and happenings are records of one size, so that a reader takes one from the socket and leaves the
next there, where a selector sees it:

    kind 1 | flags 1 | size 1 | state 1 | number 4 | value 8 | data 8        little-endian, 24 bytes

`number` is an identifier, `value` a time in nanoseconds; a few kinds put something else there, as said beside them.
"""

from enum import IntEnum
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from vicinal.cosmic.frame import Frame

from .. import _holder

__all__ = ["RECORD", "Kind", "Record", "Refusal", "folder", "frame_of", "record_of", "socket_of"]

PROTOCOL = 1
RECORD = Struct("<BBBBIQ8s")

EXTENDED, REMOTE, OWN = 1, 2, 4
FOREVER = (1 << 64) - 1


class Kind(IntEnum):
    # requests
    SEND = 1  # value: how long to wait for room in the queue, ns
    ADVANCE = 2  # value: by how much, ns
    STATUS = 3
    RECOVER = 4
    FILTER = 5  # number: identifier, value: mask, size: how many more follow
    FILTER_NONE = 6  # accept everything
    DISTURB = 7  # number: seed, value: probability in 2^-32, size: degree + 1 or 0, flags: OWN for the client's frames
    # answers
    DONE = 20  # value: now; state; data: tec, rec (2 bytes each), queued (4 bytes)
    REFUSED = 21  # size: a Refusal
    # happenings
    FRAME = 40  # value: when
    ERROR = 41  # number and data as in SocketCAN's error frames


class Refusal(IntEnum):
    FULL = 1
    BUS_OFF = 2
    LISTEN_ONLY = 3
    REAL_TIME = 4
    BAD = 5


class Record(NamedTuple):
    kind: int
    flags: int = 0
    size: int = 0
    state: int = 0
    number: int = 0
    value: int = 0
    data: bytes = b""

    def pack(self) -> bytes:
        return RECORD.pack(*self)

    @classmethod
    def unpack(cls, octets: bytes) -> "Record":
        return cls(*RECORD.unpack(octets))


def record_of(kind: Kind, frame: Frame, value: int, own: bool = False) -> Record:
    flags = (EXTENDED if frame.extended else 0) | (REMOTE if frame.remote else 0) | (OWN if own else 0)
    return Record(kind, flags, len(frame.data), 0, frame.id, value, frame.data)


def frame_of(record: Record) -> Frame:
    if record.size > 8:
        raise ValueError(f"{record.size} bytes of data, a frame has at most 8")
    return Frame(record.number, record.data[: record.size], bool(record.flags & EXTENDED), bool(record.flags & REMOTE))


def folder() -> Path:
    """Where the sockets of this user's buses are."""
    return _holder.folder("can")


def socket_of(channel: str) -> Path:
    return _holder.socket_of("can", channel)
