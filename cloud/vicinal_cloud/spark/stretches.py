"""Records of a log, thousands at once, without making a Record of each.

    bytes of a segment ──▶ every magic ──▶ lengths ──▶ each ends where the next begins, offsets ascend by one, CRCs are
                                                       right: a Stretch. Anything else: None, and the log's own reader
                                                       (vicinal_cloud.log), which knows what to make of damage

A `Stretch` is the bytes, and arrays that say where in them each event lies (_record.py draws a record). It says of
records exactly what the log's reader would, or nothing.
"""

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from vicinal.limits import MAX_EVENT_BYTES, MAX_PRODUCER_BYTES

from ..log import Record
from ..log._record import CHECKED_FROM, FIXED_BYTES, MAGIC
from ..log.scoped import event_bytes

__all__ = ["Stretch", "stretch_at", "stretch_of"]

_TAGGED = 0xD754  # an event with its scopes before it (log/scoped.py)
_TAGS = 4


class Stretch(NamedTuple):
    """`start` and `size` say where in the data each event lies, without its scopes. `record` gives a whole one."""

    data: bytes
    start: Any
    size: Any
    offset: Any
    received: Any
    record: Callable[[int], Record]

    def __len__(self) -> int:
        return len(self.offset)

    def event(self, row: int) -> bytes:
        at = int(self.start[row])
        return self.data[at : at + int(self.size[row])]


def stretch_of(records: Sequence[Record]) -> Stretch:
    """Of records that somebody else has read."""
    events = [event_bytes(record.event) for record in records]
    size = np.fromiter(map(len, events), np.int64, len(events))
    return Stretch(
        b"".join(events),
        np.cumsum(size) - size,
        size,
        np.fromiter((record.offset for record in records), np.int64, len(records)),
        np.fromiter((record.time for record in records), np.int64, len(records)),
        records.__getitem__,
    )


def stretch_at(data: bytes, salt: int, first: int, high: int) -> tuple[Stretch, int] | None:
    """The whole records at the beginning of the data, offsets first .. high-1 at most, and how many bytes they are.
    None where anything is not as it should be, or no record is whole."""
    buffer = np.frombuffer(data, np.uint8)
    heads = _heads(buffer)
    if not len(heads) or heads[0] != 0:
        return None
    fixed = sliding_window_view(buffer, FIXED_BYTES)[heads]
    n, p = _number(fixed, 8, ">u4"), fixed[:, FIXED_BYTES - 1].astype(np.int64)
    ends = heads + FIXED_BYTES + p + n
    offset = _number(fixed, 12, ">u8")
    whole = len(heads) if ends[-1] <= len(data) else len(heads) - 1
    whole = min(whole, int(np.searchsorted(offset[:whole], high))) if whole else 0
    if not whole:
        return None
    heads, ends, offset, n, p = heads[:whole], ends[:whole], offset[:whole], n[:whole], p[:whole]
    right = (
        (ends[:-1] == heads[1:]).all()
        and (offset == np.arange(first, first + whole)).all()
        and ((n > 0) & (n <= MAX_EVENT_BYTES) & (p > 0) & (p <= MAX_PRODUCER_BYTES)).all()
    )
    if not right:
        return None
    checked = map(data.__getitem__, map(slice, (heads + CHECKED_FROM).tolist(), ends.tolist()))
    if list(map(crc32, checked, repeat(salt))) != _number(fixed[:whole], 4, ">u4").tolist():
        return None
    seq, lag, received = _number(fixed, 28, ">i8"), _number(fixed, 36, ">u4"), _number(fixed, 20, ">i8")

    def record(row: int) -> Record:
        at, end = int(heads[row]) + FIXED_BYTES, int(ends[row])
        middle = at + int(p[row])
        return Record(
            int(offset[row]),
            int(received[row]),
            data[at:middle].decode(),
            int(seq[row]),
            data[middle:end],
            int(lag[row]),
        )

    start = heads + FIXED_BYTES + p
    start = _without_scopes(buffer, start, ends)
    return Stretch(data, start, ends - start, offset, received[:whole], record), int(ends[-1])


def _heads(buffer: Any) -> Any:
    """Where the magic stands, and a head has room."""
    last = len(buffer) - FIXED_BYTES + 1
    if last <= 0:
        return np.zeros(0, np.int64)
    found = np.flatnonzero(buffer[:last] == MAGIC[0])
    for place in range(1, len(MAGIC)):
        found = found[buffer[found + place] == MAGIC[place]]
    return found


def _number(rows: Any, at: int, kind: str) -> Any:
    size = np.dtype(kind).itemsize
    return np.ascontiguousarray(rows[:, at : at + size]).view(kind).reshape(len(rows)).astype(np.int64)


def _without_scopes(buffer: Any, start: Any, ends: Any) -> Any:
    room = ends - start >= _TAGS
    tagged = np.flatnonzero(room & (buffer[start] == _TAGGED >> 8))
    tagged = tagged[buffer[start[tagged] + 1] == _TAGGED & 0xFF]
    if len(tagged):
        here = start[tagged]
        size = _TAGS + buffer[here + 2].astype(np.int64) * 256 + buffer[here + 3]
        start = start.copy()
        start[tagged] = np.minimum(here + size, ends[tagged])
    return start
