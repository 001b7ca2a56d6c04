"""The log: one writer, any number of readers.

    log = Log("/var/lib/vicinal/log")
    results = log.append_batch([entry(data, "car-7", 12), ...], now)     on disk when it returns
    records, offset = log.read(0, 100, Filter("subject = 'Speed'"))

Everything here is synchronous. A broker wraps it in GroupCommit (group_commit.py), which makes batches of what
arrives while the disk is busy. One thread appends at a time; others may read at the same time, and see what is
committed and nothing else.
"""

import os
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vicinal.filter import Filter

from ._active import Active, NotWritten, create
from ._batch import NO_SPACE, SYNC_FAILED, WRITE_FAILED, Duplicate, Plan, Refused, Result, check_batch
from ._checkpoint import (
    CHECKPOINT,
    CHECKPOINT_NEW,
    COMMITTED,
    Committed,
    Place,
    encode_checkpoint,
    encode_committed,
)
from ._record import Entry, Record
from ._recovery import recover
from ._retention import Extent, removable
from ._scan import Damage
from ._segments import Segment, last_record, read
from ._select import selector
from .counters import Counters
from .errors import LogClosed, LogFailed, OffsetAhead, OffsetGone
from .files import DirectoryFiles, Files
from .limits import DEDUP_WINDOW, MAX_PRODUCERS, SEGMENT_BYTES

__all__ = ["Log", "LogOptions"]

_SELECTORS = 256


@dataclass(frozen=True)
class LogOptions:
    segment_bytes: int = SEGMENT_BYTES
    """a segment that is larger is closed before the next batch"""
    max_age_ms: int | None = None
    max_bytes: int | None = None
    """retention; None keeps everything"""
    window: int = DEDUP_WINDOW
    max_producers: int = MAX_PRODUCERS


def _salt() -> int:
    return secrets.randbits(32)


class Log:
    def __init__(
        self,
        where: str | os.PathLike[str] | Files,
        options: LogOptions | None = None,
        salt: Callable[[], int] = _salt,
    ) -> None:
        """Locks the directory, repairs what a crash has left, and syncs: then all that is in it is committed.
        `salt` gives 32 random bits for each new segment."""
        self.options = options or LogOptions()
        self.counters = Counters()
        self.failed: LogFailed | None = None
        self.closed = False
        self._files: Files = DirectoryFiles(where) if isinstance(where, str | os.PathLike) else where
        self._salt = salt
        self._writing = threading.Lock()
        self._reporting = threading.Lock()
        self._selectors: dict[Filter, Callable[[Record], bool]] = {}
        self._times: dict[int, int] = {}  # newest time of a closed segment, by base
        self._files.lock()
        try:
            self._segments, self._active, self._next, self._producers, self.damage = recover(
                self._files, self.options.window, self.options.max_producers, self.counters
            )
        except BaseException:
            self._files.close()
            raise
        self._publish()
        self._sync_published()

    @property
    def first(self) -> int:
        """The first offset that retention has left."""
        segments = self._segments
        return segments[0].base if segments else self._next

    @property
    def next(self) -> int:
        """The offset of the next record; all before it are committed."""
        return self._next

    @property
    def bytes(self) -> int:
        return sum(self._files.size(segment.name) for segment in self._segments)

    def highest(self, producer: str) -> int:
        """The highest seq stored of a producer, or -1: from here it goes on after its link was broken."""
        return self._producers.highest(producer)

    # Appending

    def append_batch(self, entries: Sequence[Entry], now: int) -> list[Result]:
        """One result for each entry, in order. What is Stored or Duplicate is on disk. What is Refused is not, and
        will not be; a producer that goes on with a higher seq can not append the refused one any more.

        Raises LogFailed when the disk did not say whether it has the batch, and from then on."""
        check_batch(entries)
        with self._writing:
            self._check()
            self.counters.accepted += len(entries)
            try:
                results = self._append(entries, now)
            except BaseException as error:
                # Also when a person interrupts it: what is in the file is no longer what this object believes.
                self.failed = error if isinstance(error, LogFailed) else LogFailed(f"appending ended with {error!r}")
                self.counters.refuse(SYNC_FAILED, len(entries))
                raise
            for result in results:
                if isinstance(result, Refused):
                    self.counters.refuse(result.reason)
                elif isinstance(result, Duplicate):
                    self.counters.duplicates += 1
                else:
                    self.counters.stored += 1
            return results

    def _append(self, entries: Sequence[Entry], now: int) -> list[Result]:
        plan = self._plan(entries, now)
        if not plan.records:
            return plan.acknowledge(None)
        try:
            active = self._active_with_room(now)
            synced = active.commit(plan.data_for(active))
        except NotWritten as error:
            return plan.refuse(NO_SPACE if error.no_space else WRITE_FAILED, str(error))
        results = plan.acknowledge(synced)
        self._next += len(plan.records)
        self._publish()
        return results

    def _plan(self, entries: Sequence[Entry], now: int) -> Plan:
        producers = self._producers
        if len(producers) + len(entries) > producers.most:
            self.counters.forgotten_producers += producers.forget_before(self.first)
        return Plan(entries, producers, self._next, now)

    def _active_with_room(self, now: int) -> Active:
        active = self._active
        if active is not None and active.size < self.options.segment_bytes:
            return active
        if active is not None:
            self._checkpoint()
            self._files.release(active.name)
        self._active = create(self._files, self._next, self._salt(), now)
        self._segments = [*self._segments, Segment(self._active.base, self._active.salt)]
        self._retain(now)
        return self._active

    def _publish(self) -> None:
        """Tells readers in other processes. Nothing is lost when that fails: they see it with the next commit."""
        try:
            self._files.write_at(COMMITTED, 0, encode_committed(Committed(self._next, self._files.boot())))
        except OSError:
            self.counters.unpublished += 1

    def _sync_published(self) -> None:
        """On opening and closing: so that offsets found damaged at the end are not given again after a power cut."""
        try:
            self._files.sync(COMMITTED)
            self._files.sync_directory()
        except OSError:
            self.counters.unpublished += 1

    def _check(self) -> None:
        if self.closed:
            raise LogClosed("the log is closed")
        if self.failed is not None:
            raise LogFailed(f"the log is read-only since: {self.failed}")

    # Reading

    def read(self, offset: int, limit: int, filter: Filter | None = None) -> tuple[list[Record], int]:
        """Up to `limit` records from `offset` on for which the filter is true, and the offset to go on with. No records
        does not mean the end: `next` is the end, and one call looks at MAX_READ_BYTES at most."""
        while True:
            first, following, segments = self.first, self._next, self._segments
            if offset < first:
                raise OffsetGone(offset, first)
            if offset > following:
                raise OffsetAhead(offset, following)
            try:
                return read(self._files, segments, offset, following, limit, self._select(filter), self._report)
            except FileNotFoundError:
                if segments is self._segments:  # removed, but not by retention
                    raise

    def _select(self, filter: Filter | None) -> Callable[[Record], bool] | None:
        if filter is None:
            return None
        select = self._selectors.get(filter)
        if select is None:
            if len(self._selectors) >= _SELECTORS:
                self._selectors.clear()
            select = self._selectors[filter] = selector(filter)
        return select

    def _report(self, segment: Segment, damage: Damage) -> None:
        key = segment.base, damage.position
        with self._reporting:
            if key not in self.damage:
                self.damage[key] = damage
                self.counters.damaged += damage.last - damage.first + 1
                self.counters.damaged_bytes += damage.bytes

    # Keeping

    def retain(self, now: int) -> int:
        """Removes the segments that the options let go; gives how many. Rolling does it too: call it now and then where
        age matters and little arrives."""
        with self._writing:
            self._check()
            return self._retain(now)

    def _retain(self, now: int) -> int:
        options = self.options
        if options.max_age_ms is None and options.max_bytes is None:
            return 0
        extents = [
            Extent(segment.base, self._files.size(segment.name), self._time(segment)) for segment in self._segments
        ]
        gone = removable(extents, now, options.max_age_ms, options.max_bytes)
        for _, reason in gone:
            segment, *rest = self._segments
            try:
                self._files.remove(segment.name)
                # One at a time: a power cut may bring back the newest of the removed, never leave a hole.
                self._files.sync_directory()
            except OSError:
                self.counters.removals_failed += 1
                break
            self._segments = rest
            self.counters.gone[reason] = self.counters.gone.get(reason, 0) + rest[0].base - segment.base
            self._times.pop(segment.base, None)
        return len(gone)

    def _time(self, segment: Segment) -> int:
        if self._active is not None and segment.base == self._active.base:
            return 0  # never removed
        time = self._times.get(segment.base)
        if time is None:
            record = last_record(self._files, segment)
            time = self._times[segment.base] = 0 if record is None else record.time
        return time

    def checkpoint(self) -> None:
        """So that opening is fast. Rolling and closing do it too."""
        with self._writing:
            self._check()
            self._checkpoint()

    def _checkpoint(self) -> None:
        active = self._active
        if active is None:
            return
        data = encode_checkpoint(Place(self._next, active.base, active.salt, active.size), self._producers)
        files = self._files
        try:
            if CHECKPOINT_NEW in files.names():
                files.remove(CHECKPOINT_NEW)
            files.create(CHECKPOINT_NEW)
            files.append(CHECKPOINT_NEW, data)
            files.sync(CHECKPOINT_NEW)
            files.rename(CHECKPOINT_NEW, CHECKPOINT)
            files.sync_directory()
        except OSError:
            self.counters.checkpoints_failed += 1

    def close(self) -> None:
        with self._writing:
            if not self.closed:
                self.closed = True
                if self.failed is None:
                    self._checkpoint()
                    self._sync_published()
                self._files.close()
