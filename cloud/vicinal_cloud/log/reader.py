"""Reading a log that another process writes. Nothing is locked and nothing is changed.

While a writer runs, or has run since the machine started, `committed` says how far the log is on disk, and nothing
beyond is seen: what a power cut could take back is never given out. After a restart of the machine, or in a copy,
until a writer opens the log, the reader itself decides what of the end counts, as the writer would.
"""

import os
from collections.abc import Callable

from vicinal.filter import Filter

from ._checkpoint import Committed
from ._record import HEAD_BYTES, Record, decode_head
from ._recovery import read_committed, settle
from ._scan import Damage
from ._segments import Segment, list_segments, read
from ._select import selector
from .errors import OffsetAhead, OffsetGone
from .files import DirectoryFiles, Files

__all__ = ["LogReader"]


class LogReader:
    """By offset, with filters. Not for several threads at once: open one for each, it is cheap."""

    def __init__(self, where: str | os.PathLike[str] | Files) -> None:
        self._files: Files = DirectoryFiles(where, make=False) if isinstance(where, str | os.PathLike) else where
        self._segments: list[Segment] = []
        self._next = 0
        self._seen: Committed | None = None
        self._looked = False
        self._selectors: dict[Filter, Callable[[Record], bool]] = {}
        self.damage: dict[tuple[int, int], Damage] = {}
        self.refresh()

    def refresh(self) -> None:
        """Looks again at what is there. `next` and `read` do it by themselves."""
        committed = read_committed(self._files)
        if self._looked and (committed is None or committed == self._seen):
            return  # None: caught while it was written, the next look will be better
        self._looked = True
        self._seen = committed
        self._relist()
        last = self._segments[-1] if self._segments else None
        if committed is not None and committed.boot == self._files.boot():
            self._next = max(self._next, committed.next)
        elif last is not None:
            acknowledged = committed.next if committed is not None else 0
            self._next = max(acknowledged, settle(self._files, last, None, acknowledged, lambda _: None).next)

    def _relist(self) -> None:
        known = {segment.name: segment for segment in self._segments}
        found = []
        for segment in list_segments(self._files):
            if segment.name not in known:
                try:  # for its version; a damaged head does no harm
                    decode_head(self._files.read(segment.name, 0, HEAD_BYTES), segment.name)
                except FileNotFoundError:
                    continue  # retention was faster
            found.append(known.get(segment.name, segment))
        self._segments = found

    @property
    def first(self) -> int:
        self._relist()
        return self._segments[0].base if self._segments else self._next

    @property
    def next(self) -> int:
        self.refresh()
        return self._next

    def read(self, offset: int, limit: int, filter: Filter | None = None) -> tuple[list[Record], int]:
        """As Log.read."""
        self.refresh()
        select = None
        if filter is not None:
            select = self._selectors.get(filter)
            if select is None:
                select = self._selectors[filter] = selector(filter)
        while True:
            segments = self._segments
            first = segments[0].base if segments else self._next
            if offset < first:
                raise OffsetGone(offset, first)
            if offset > self._next:
                raise OffsetAhead(offset, self._next)
            try:
                return read(self._files, segments, offset, self._next, limit, select, self._report)
            except FileNotFoundError:
                self._relist()
                if [segment.name for segment in self._segments] == [segment.name for segment in segments]:
                    raise

    def _report(self, segment: Segment, damage: Damage) -> None:
        self.damage[segment.base, damage.position] = damage

    def close(self) -> None:
        self._files.close()
