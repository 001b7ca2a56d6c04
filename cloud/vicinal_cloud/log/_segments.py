"""Reading segments by offset. A segment is its own index: probe the middle, find the next record, halve.

A probe lands anywhere, and the magic and the salted CRC say where the next record begins (_scan.py): so that there is
no index file to be damaged, and finding an offset takes about ten small reads. Where a reader stopped is remembered,
as it will go on there.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence

from ._record import HEAD_BYTES, Record, parse_segment_name, segment_name
from ._scan import Damage, Scanner, first_record
from .files import Files
from .limits import MAX_READ_BYTES, MAX_RECORD_BYTES, READ_CHUNK

__all__ = ["Segment", "last_record", "list_segments", "read"]

_PROBE = 8 << 10
# Closer than this, reading on is cheaper than probing.
_NEAR = 16 << 10
_PLACES = 64
_ANY = (1 << 63) - 1


class Segment:
    def __init__(self, base: int, salt: int) -> None:
        self.base = base
        self.salt = salt
        self.name = segment_name(base, salt)
        self._places: dict[int, int] = {}

    def remember(self, offset: int, position: int) -> None:
        if len(self._places) >= _PLACES:
            self._places.clear()
        self._places[offset] = position

    def scanner(self, files: Files, offset: int, high: int) -> Scanner:
        """Begins at `offset`, or a little before it."""
        position = self._places.get(offset)
        if position is not None:
            return Scanner(self.salt, offset, high, position)
        low, low_at, top = self.base, HEAD_BYTES, files.size(self.name)
        while top - low_at > _NEAR:
            middle = (low_at + top) // 2
            found = self._probe(files, middle, top, high)
            if found is None or found[1] > offset:
                top = middle
            else:
                low_at, low = found
        return Scanner(self.salt, low, high, low_at)

    def _probe(self, files: Files, position: int, top: int, high: int) -> tuple[int, int] | None:
        """Position and offset of the first record that begins between."""
        size = _PROBE
        while True:
            found = first_record(files.read(self.name, position, size), self.salt, self.base, high)
            if found is not None:
                return (position + found[0], found[1]) if position + found[0] < top else None
            if size <= MAX_RECORD_BYTES:
                size = 2 * MAX_RECORD_BYTES
            elif position + size >= top:
                return None
            else:
                size *= 2


def list_segments(files: Files) -> list[Segment]:
    """Ascending. Of two with one base, of which one is a beginning that was never used, the larger."""
    found: dict[int, Segment] = {}
    for name in files.names():
        parsed = parse_segment_name(name)
        if parsed is not None:
            other = found.get(parsed[0])
            if other is None or files.size(other.name) < files.size(name):
                found[parsed[0]] = Segment(*parsed)
    return [found[base] for base in sorted(found)]


def read(
    files: Files,
    segments: Sequence[Segment],
    offset: int,
    next_offset: int,
    limit: int,
    select: Callable[[Record], bool] | None,
    report: Callable[[Segment, Damage], None],
) -> tuple[list[Record], int]:
    """Records from `offset` on, and the offset to go on with. Ends at `limit` records, at `next_offset`, or when enough
    bytes were read. `report` is told what could not be read."""
    records: list[Record] = []
    budget = MAX_READ_BYTES
    at = bisect_right(segments, offset, key=lambda segment: segment.base) - 1
    while offset < next_offset and len(records) < limit and budget > 0:
        segment = segments[at]
        high = min(next_offset, segments[at + 1].base) if at + 1 < len(segments) else next_offset
        scanner = segment.scanner(files, offset, high)
        ended = False
        # A hole may be larger than the budget: who reads must come past it all the same.
        while scanner.next < high and len(records) < limit and (budget > 0 or scanner.next <= offset):
            found = scanner.take(limit - len(records))
            if found:
                if found[0].offset < offset:
                    found = [record for record in found if record.offset >= offset]
                records.extend(found if select is None else filter(select, found))
            elif ended:
                scanner.damage.append(Damage(scanner.next, high - 1, scanner.end, scanner.fed - scanner.end))
                scanner.next = high
                break
            else:
                data = files.read(segment.name, scanner.fed, READ_CHUNK)
                budget -= len(data)
                ended = not data
                scanner.feed(data)
        else:
            segment.remember(scanner.next, scanner.end)
        for damage in scanner.damage:
            report(segment, damage)
        offset = max(offset, scanner.next)
        at += 1
    return records, offset


def last_record(files: Files, segment: Segment) -> Record | None:
    scanner = segment.scanner(files, _ANY, _ANY)
    last = None
    while True:
        found = scanner.take(1 << 20)
        if found:
            last = found[-1]
            continue
        data = files.read(segment.name, scanner.fed, READ_CHUNK)
        scanner.feed(data)
        if not data:
            found = scanner.take(1 << 20)
            return found[-1] if found else last
