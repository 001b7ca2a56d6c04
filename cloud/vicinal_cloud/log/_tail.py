"""What a crash has left at the end of a log, and what of it counts.

A batch is written at once and acknowledged after its sync, and the next is written after that. So everything before the
last batch was on disk: what is wrong there is damage, the rest of it is good. What is wrong *in* the last batch is most
likely a write that never finished, a power cut having kept some blocks and not others; nobody was told that it is
stored, and its first hole ends the log: keeping what lies behind the hole would turn the order of its producer.
`committed` (_checkpoint.py) tells the two apart where it reaches: what it covers was acknowledged, and a hole in it
is damage.
"""

from collections.abc import Callable
from typing import NamedTuple

from ._record import Record
from ._scan import Damage, Scanner
from ._segments import Segment
from .files import Files
from .limits import READ_CHUNK

__all__ = ["Tail", "inspect"]

_ANY = (1 << 63) - 1


class Tail(NamedTuple):
    next: int
    """the offset behind the last record that counts"""
    end: int
    """the position behind it: the segment is cut here"""
    size: int
    damage: list[Damage]
    dropped: int
    """whole records of an unfinished batch"""
    unsure: int
    """the position behind the last record below `committed`"""
    time: int
    """of the newest record that counts, or 0"""


class _Cut(NamedTuple):
    next: int
    end: int
    kept: int
    """records of the batch before it"""
    damage: int
    """entries of the scanner's damage before it"""


def inspect(
    files: Files, segment: Segment, start: int, position: int, committed: int, note: Callable[[Record], None]
) -> Tail:
    """Scans the newest segment from `position`, where the record `start` is expected. `note` gets every record that
    counts, in order. Offsets below `committed` were acknowledged."""
    scanner = Scanner(segment.salt, start, _ANY, position)
    batch: list[Record] = []
    batch_start = -1
    cut: _Cut | None = None
    time = 0
    seen = 0
    unsure = position
    ended = False
    while True:
        if scanner.next <= committed:
            unsure = scanner.end
        found = scanner.take(1)
        if not found:
            if ended:
                break
            data = files.read(segment.name, scanner.fed, READ_CHUNK)
            ended = not data
            scanner.feed(data)
            continue
        record = found[0]
        if record.offset - record.lag != batch_start:
            for one in batch:
                note(one)
                time = max(time, one.time)
            batch = []
            batch_start = record.offset - record.lag
            cut = None
        if len(scanner.damage) > seen:
            damage = scanner.damage[-1]
            if cut is None and damage.last >= batch_start and damage.bytes:
                cut = _Cut(max(damage.first, batch_start), damage.position, len(batch), seen)
            seen += 1
        batch.append(record)
    following, end, dropped = scanner.next, scanner.end, 0
    if cut is not None and cut.next >= committed:
        following, end, dropped = cut.next, cut.end, len(batch) - cut.kept
        del batch[cut.kept :]
        del scanner.damage[cut.damage :]
    for one in batch:
        note(one)
        time = max(time, one.time)
    return Tail(following, end, scanner.fed, scanner.damage, dropped, min(unsure, end), time)
