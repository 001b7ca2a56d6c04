"""Where events lie: a log's directory, or the log of a broker over the network. Both are read by offset.

    ends()                          the first offset there is, and the next to be written
    plan(start, end)                pieces that can be read apart, always the same for the same offsets
    blocks(piece, ...)              what is in a piece, of what was asked for
    name_at(offset)                 which event lies there

A directory is read through its sidecar (sidecar.py) where a piece is most of a closed segment, or has whole *shares* of
the open one. Over the network the broker selects, and what it sends is read here.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from vicinal.errors import VicinalError
from vicinal.filter import Filter

from ..log import DirectoryFiles, LogReader, OffsetGone, Record
from ..log._checkpoint import COMMITTED
from ..log._record import FIXED_BYTES
from ..log._segments import Segment, list_segments
from .conditions import Bound, select
from .forms import Block, Loose, blocks_in, blocks_of
from .orders import Read
from .sidecar import FOLDER, Sidecar, make, open_sidecar, sweep
from .stretches import Stretch, stretch_at

__all__ = ["PIECE", "SHARE", "Asked", "DirectoryLog", "Lost", "Piece", "log_at"]

# Offsets of the open segment that have columns of their own until it is closed: 4 MB, so that little is left without.
SHARE = 1 << 15
# Offsets of one piece that is read from the log itself: half a second's work, and 30 MB.
PIECE = 8 * SHARE
# Of a segment, from which on its sidecar is used or made: reading it costs as much as reading that part of the log.
_WORTH = 0.25
# Bytes of a segment that are read at once: so many records are arrays that numpy's own cost is small beside.
_CHUNK = 4 << 20
# Of the search for an offset, which ends a little before it.
_NEAR = 32 << 10


class Piece(NamedTuple):
    log: str
    first: int
    end: int
    segment: str = ""
    """its name, where a sidecar is worth it"""
    shares: int = -1
    """of the segment that is still written: its base, from which its shares are counted"""
    without: "tuple[int, ...] | None" = None
    """forms of its sidecar that are read elsewhere (events.py)"""


class Lost(NamedTuple):
    first: int
    last: int
    why: str


class Asked(NamedTuple):
    names: "frozenset[str] | None"
    """columns that are wanted, of events and (`_offset`, ...) of the log; None for all, and for their bytes"""
    condition: Filter | None
    bounds: tuple[Bound, ...] = ()
    sidecars: bool = True
    keep_loose: bool = True
    """also what is no event, which no condition is true of: only without a condition"""


Found = Block | list[Loose] | Lost


def log_at(where: str, options: "dict[str, str] | None" = None) -> "DirectoryLog | Any":
    """A directory, or tcp://, tls://, ws:// and wss:// for a broker."""
    if "://" in where and not where.startswith("file://"):
        from .network import BrokerLog

        return BrokerLog(where, options or {})
    return DirectoryLog(Path(where.removeprefix("file://")))


class DirectoryLog:
    def __init__(self, path: Path) -> None:
        """The log's own folder, or the one of a broker that has it as `published`."""
        inner = path / "published"
        self.path = inner if inner.is_dir() and not any(path.glob("*.segment")) else path
        if not self.path.is_dir() or not ((self.path / COMMITTED).exists() or any(self.path.glob("*.segment"))):
            raise VicinalError(f"{path}: there is no event log: want the directory that [log] of a broker names")
        self.name = str(path)
        self._reader = LogReader(self.path)
        self._files = DirectoryFiles(self.path, make=False)
        self._here: _Here | None = None
        self.read = Read()

    def ends(self) -> tuple[int, int]:
        return self._reader.first, self._reader.next

    def sample(self, oldest: int, newest: int) -> list[Record]:
        first, following = self.ends()
        return sample(self._reader.read, first, following, oldest, newest)

    def name_at(self, offset: int) -> str | None:
        try:
            return name_of(self._reader.read(offset, 1)[0], offset)
        except OffsetGone:
            return None

    def plan(self, start: int, end: int, sidecars: bool = True, piece: int = PIECE) -> list[Piece]:
        segments = list_segments(self._files)
        found: list[Piece] = []
        edges = [segment.base for segment in segments]
        for at, segment in enumerate(segments):
            closed = at + 1 < len(segments)
            low, high = max(start, edges[at]), min(end, edges[at + 1]) if closed else end
            if low >= high:
                continue
            if closed and sidecars and high - low >= _WORTH * (edges[at + 1] - edges[at]):
                found.append(Piece(self.name, low, high, segment.name))
            else:
                name, shares = ("", -1) if closed or not sidecars else (segment.name, segment.base)
                found += [
                    Piece(self.name, one, min(one + piece, high), name, shares) for one in range(low, high, piece)
                ]
        if sidecars:
            sweep(self.path / FOLDER, {segment.name for segment in segments})
        if (found and found[0].first > start) or (not found and start < end):
            # What retention has taken is read with the rest, and said there.
            found.insert(0, Piece(self.name, start, found[0].first if found else end))
        return found

    def blocks(self, piece: Piece, asked: Asked) -> Iterator[Found]:
        """Raises OSError."""
        if not piece.segment or not asked.sidecars:
            yield from self._from_log(piece.first, piece.end, asked)
        elif piece.shares < 0:
            yield from self._from_columns(self._sidecar(piece.segment), piece.first, piece.end, asked, piece.without)
        else:
            at = piece.first
            for low in range(piece.shares, piece.end - SHARE + 1, SHARE):
                if low >= at:
                    yield from self._from_log(at, low, asked)
                    yield from self._from_columns(self._share(piece.segment, low), low, low + SHARE, asked)
                    at = low + SHARE
            yield from self._from_log(at, piece.end, asked)

    def whole_sidecar(self, piece: Piece) -> Sidecar | None:
        """Where there is one by now, of just these offsets."""
        if not piece.segment or piece.shares >= 0:
            return None
        try:
            size = (self.path / piece.segment).stat().st_size
        except OSError:
            return None
        found = open_sidecar(self.path / FOLDER, piece.segment, size, self.read)
        return found if found is not None and found.records == piece.end - piece.first else None

    def _from_columns(
        self,
        sidecar: Sidecar | None,
        first: int,
        end: int,
        asked: Asked,
        without: "tuple[int, ...] | None" = None,
    ) -> Iterator[Found]:
        if sidecar is None:
            if without is not None:
                raise VicinalError(f"{self.name}: offsets {first} to {end - 1} were removed while a query read them")
            yield from self._from_log(first, end, asked)
            return
        names = None if asked.names is None else set(asked.names)
        yield from sidecar.blocks(first, end, names, asked.condition, asked.bounds, self.read, without or ())
        for low, high in sidecar.damaged:
            if low < end and high >= first and asked.condition is None:
                yield Lost(max(low, first), min(high, end - 1), "damaged")
        for offset in sidecar.loose:
            if first <= offset < end:
                yield from self._from_log(offset, offset + 1, asked)

    def _from_log(self, first: int, end: int, asked: Asked) -> Iterator[Found]:
        at = first
        while at < end:
            found = self._stretch(at, end)
            if found is not None:
                yield from chosen(*blocks_in(found), asked)
                at += len(found)
                continue
            try:
                records, following = self._read(at, end)
            except OffsetGone as error:
                last = min(error.first, end) - 1
                yield Lost(at, last, "removed by retention")
                at = last + 1
                continue
            yield from found_in(records, at, following, asked)
            if following <= at:
                raise VicinalError(f"{self.name}: offset {at} is not there yet, {end} was planned")
            at = following

    def _sidecar(self, segment: str) -> Sidecar | None:
        try:
            size = (self.path / segment).stat().st_size
        except OSError:
            return None  # retention was faster: reading the log will say so
        found = open_sidecar(self.path / FOLDER, segment, size, self.read)
        if found is not None:
            return found
        segments = list_segments(self._files)
        at = [one.name for one in segments].index(segment)
        return self._made(segment, size, segments[at].base, segments[at + 1].base)

    def _share(self, segment: str, low: int) -> Sidecar | None:
        """Of the open segment, which grows: its records up to here stay what they are."""
        name = f"{segment}+{low}"
        found = open_sidecar(self.path / FOLDER, name, 0, self.read)
        return self._made(name, 0, low, low + SHARE) if found is None else found

    def _made(self, name: str, size: int, base: int, end: int) -> Sidecar | None:
        try:
            return make(self.path / FOLDER, name, size, base, end, self._parts(base, end))
        except (OSError, OffsetGone):
            return None  # a disk that is full or read-only: the log is there

    def _parts(self, first: int, end: int) -> Iterator[tuple[list[Block], list[Loose]]]:
        """Raises OffsetGone."""
        at = first
        while at < end:
            found = self._stretch(at, end)
            if found is not None:
                yield blocks_in(found)
                at += len(found)
            else:
                records, at = self._read(at, end)
                yield blocks_of(records)

    def _stretch(self, at: int, end: int) -> Stretch | None:
        """Of what lies in one segment. None where the log's own reader is asked: it knows of damage and retention."""
        if self._here is None or self._here.offset != at:
            self._here = self._find(at)
            if self._here is None:
                return None
        here = self._here
        try:
            data = self._files.read(here.segment.name, here.position, _CHUNK)
        except OSError:
            return None
        self.read.bytes += len(data)
        high = min(end, here.high)
        found = stretch_at(data, here.segment.salt, at, high) if at < high else None
        if found is None:
            self._here = None
            return None
        stretch, size = found
        self.read.rows += len(stretch)
        self._here = here._replace(offset=at + len(stretch), position=here.position + size)
        return stretch

    def _find(self, at: int) -> "_Here | None":
        """Where the record with this offset begins."""
        segments = list_segments(self._files)
        index = bisect_right(segments, at, key=lambda segment: segment.base) - 1
        high = segments[index + 1].base if index + 1 < len(segments) else self._reader.next
        if index < 0 or at >= high:
            return None
        try:
            scanner = segments[index].scanner(self._files, at, high)
            while scanner.next < at:
                if not scanner.take(at - scanner.next):
                    data = self._files.read(segments[index].name, scanner.fed, _NEAR)
                    if not data:
                        return None
                    scanner.feed(data)
        except OSError:
            return None
        return None if scanner.next != at else _Here(segments[index], high, at, scanner.end)

    def _read(self, at: int, end: int) -> tuple[list[Record], int]:
        """Where some are damaged, as many as were asked for reach further than was asked for."""
        records, following = self._reader.read(at, end - at)
        self.read.bytes += sum(len(record.event) + len(record.producer) + FIXED_BYTES for record in records)
        self.read.rows += len(records)
        while records and records[-1].offset >= end:
            records.pop()
        return records, min(following, end)


class _Here(NamedTuple):
    """Of the record to be read next; records of its segment are below `high`."""

    segment: Segment
    high: int
    offset: int
    position: int


def name_of(records: list[Record], offset: int) -> str | None:
    """Which event has this offset; None where nobody can say: it was removed, is damaged, or not for us."""
    found = [record for record in records if record.offset == offset]
    return f"{found[0].producer} {found[0].seq}" if found else None


def sample(
    read: "Callable[[int, int], tuple[list[Record], int]]", first: int, end: int, oldest: int, newest: int
) -> list[Record]:
    """Some of the oldest records, and the newest."""
    found: list[Record] = []
    for low, high in ((first, min(first + oldest, end)), (max(first + oldest, end - newest), end)):
        at = low
        while at < high:
            records, at = read(at, high - at)
            found += records
    return found


def found_in(records: list[Record], first: int, end: int, asked: Asked) -> Iterator[Found]:
    """What of the records with the offsets first .. end-1 was asked for."""
    if asked.condition is None:
        at = first
        for record in records:
            if record.offset > at:
                yield Lost(at, record.offset - 1, "damaged")
            at = record.offset + 1
        if at < end:
            yield Lost(at, end - 1, "damaged")
    yield from chosen(*blocks_of(records), asked)


def chosen(blocks: list[Block], loose: list[Loose], asked: Asked) -> Iterator[Found]:
    for block in blocks:
        some = select(block, asked.condition, asked.bounds)
        if len(some):
            yield some
    if asked.condition is not None:
        loose = [one for one in loose if one.event is not None and asked.condition.matches(one.event)]
    if loose:
        yield loose
