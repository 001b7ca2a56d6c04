"""Opening a log: from what lies in the directory to a state in which every promise holds again.

1  checkpoint, or nothing         producers and a place up to which no scan is needed
2  the segments behind it         scanned; damage is skipped and counted
3  the newest of them             its torn end is cut (_tail.py)
4  sync                           what a killed process had written is in the kernel's memory only, and a repeated
                                  event must not be acknowledged by it; what an earlier failed sync may have left
                                  behind is written over with itself, so that this sync includes it
"""

from collections.abc import Callable
from typing import NamedTuple

from ._active import Active
from ._checkpoint import (
    CHECKPOINT,
    CHECKPOINT_NEW,
    COMMITTED,
    COMMITTED_BYTES,
    Committed,
    Place,
    decode_checkpoint,
    decode_committed,
)
from ._producers import ProducerIndex
from ._record import HEAD_BYTES, Record, decode_head, parse_segment_name
from ._scan import Damage
from ._segments import Segment, last_record, list_segments, read
from ._tail import Tail, inspect
from .counters import Counters
from .files import Files

_RECORDS = 1 << 16  # at once, while scanning

__all__ = ["Recovered", "read_committed", "recover", "settle"]


class Recovered(NamedTuple):
    segments: list[Segment]
    active: Active | None
    next: int
    producers: ProducerIndex
    damage: dict[tuple[int, int], Damage]
    """by base and position"""


def read_committed(files: Files) -> Committed | None:
    try:
        return decode_committed(files.read(COMMITTED, 0, COMMITTED_BYTES))
    except FileNotFoundError:
        return None


def recover(files: Files, window: int, most_producers: int, counters: Counters) -> Recovered:
    producers = ProducerIndex(window, most_producers)
    place = _read_checkpoint(files, producers)
    committed = read_committed(files)
    _remove_leftovers(files)
    segments = list_segments(files)
    for segment in segments:
        if decode_head(files.read(segment.name, 0, HEAD_BYTES), segment.name) is None:
            counters.damaged_heads += 1

    acknowledged = max(committed.next if committed else 0, place.next if place else 0)
    start = place.next if place else segments[0].base if segments else 0
    damage: dict[tuple[int, int], Damage] = {}

    def report(segment: Segment, found: Damage) -> None:
        if found.last >= start or not place:
            damage[segment.base, found.position] = found

    def note(record: Record) -> None:
        if record.offset >= start:
            producers.note(record.producer, record.seq, record.offset)

    if segments:
        offset, last = max(start, segments[0].base), segments[-1]
        while offset < last.base:
            records, offset = read(files, segments, offset, last.base, _RECORDS, None, report)
            for record in records:
                note(record)
        tail = settle(files, last, place, acknowledged, note)
        for found in tail.damage:
            report(last, found)
        if tail.size > tail.end:
            counters.repaired += 1
            counters.repaired_bytes += tail.size - tail.end
        following = max(tail.next, acknowledged)
        if following > tail.next:
            damage[last.base, tail.end] = Damage(tail.next, following - 1, tail.end, 0)
        if tail.end > HEAD_BYTES:
            active = _make_durable(files, last, tail, committed)
        else:
            # No record can be read in it: the next append makes a new one. If some were acknowledged it stays, as
            # damage.
            active = None
            if following == last.base:
                segments.pop()
                files.remove(last.name)
                files.sync_directory()
    else:
        following, active = acknowledged, None
    for found in damage.values():
        counters.damaged += found.last - found.first + 1
        counters.damaged_bytes += found.bytes
    return Recovered(segments, active, following, producers, damage)


def settle(files: Files, last: Segment, place: Place | None, acknowledged: int, note: Callable[[Record], None]) -> Tail:
    """Inspects the newest segment, from the checkpoint's place where that lies in it."""
    start, position = last.base, HEAD_BYTES
    if (
        place is not None
        and (place.base, place.salt) == (last.base, last.salt)
        and place.position <= files.size(last.name)
    ):
        start, position = place.next, place.position
    return inspect(files, last, start, position, acknowledged, note)


def _make_durable(files: Files, last: Segment, tail: Tail, committed: Committed | None) -> Active:
    active = Active(files, last.base, last.salt, tail.end)
    if tail.size > tail.end:
        files.truncate(last.name, tail.end)
    if committed is not None and committed.boot == files.boot() and tail.unsure < tail.end:
        files.write_at(last.name, tail.unsure, files.read(last.name, tail.unsure, tail.end - tail.unsure))
    active.sync()
    files.sync_directory()
    return active


def _read_checkpoint(files: Files, producers: ProducerIndex) -> Place | None:
    try:
        size = files.size(CHECKPOINT)
    except FileNotFoundError:
        return None
    return decode_checkpoint(files.read(CHECKPOINT, 0, size), producers)


def _remove_leftovers(files: Files) -> None:
    """A checkpoint that was not finished, and segments that were begun and never used."""
    names = files.names()
    if CHECKPOINT_NEW in names:
        files.remove(CHECKPOINT_NEW)
    parsed = [(parse_segment_name(name), name) for name in names]
    bases = [found[0] for found, _ in parsed if found]
    for found, name in parsed:
        if found and bases.count(found[0]) > 1 and last_record(files, Segment(*found)) is None:
            bases.remove(found[0])
            files.remove(name)
