"""Logs that are wrong in one way each. A suite that does not tell them from the right one proves nothing."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from vicinal_cloud.log import Refused, Result, _batch, _record, _recovery, _tail, log, reader
from vicinal_cloud.log._active import Active, Synced
from vicinal_cloud.log._batch import Plan
from vicinal_cloud.log._producers import ProducerIndex
from vicinal_cloud.log.files import DirectoryFiles, Files
from vicinal_cloud.log.simulated_files import SimulatedFiles

MUTANTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {}


def mutant(function: Callable[[], Iterator[None]]) -> None:
    MUTANTS[function.__name__] = contextmanager(function)


@contextmanager
def apply(name: str | None) -> Iterator[None]:
    if name is None:
        yield
    else:
        with MUTANTS[name]():
            yield


@mutant
def no_fsync() -> Iterator[None]:
    with (
        patch.object(SimulatedFiles, "sync", lambda self, name: None),
        patch.object(DirectoryFiles, "sync", lambda self, name: None),
        patch.object(DirectoryFiles, "sync_directory", lambda self: None),
    ):
        yield


@mutant
def acknowledge_first() -> Iterator[None]:
    """The sync comes with the next batch."""

    def commit(self: Active, data: bytes) -> Synced:
        self.sync()
        self._files.append(self.name, data)
        self.size += len(data)
        return Synced(self.name, self.size)

    with patch.object(Active, "commit", commit):
        yield


@mutant
def dedup_not_persisted() -> Iterator[None]:
    right = log.recover

    def recover(files: Files, window: int, most: int, counters: Any) -> Any:
        return right(files, window, most, counters)._replace(producers=ProducerIndex(window, most))

    with patch.object(log, "recover", recover):
        yield


class _EqualsAll(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


@mutant
def no_crc_check() -> Iterator[None]:
    right = _record.crc
    with patch.object(_record, "crc", lambda data, salt: _EqualsAll(right(data, salt))):
        yield


@mutant
def no_order_check() -> Iterator[None]:
    right = Plan._seen

    def seen(self: Plan, entry: Any, top: int) -> Result:
        result = right(self, entry, top)
        return self._store(entry) if isinstance(result, Refused) else result

    with patch.object(Plan, "_seen", seen):
        yield


@mutant
def no_dedup() -> Iterator[None]:
    with patch.object(Plan, "_seen", lambda self, entry, top: self._store(entry)):
        yield


@mutant
def no_directory_sync() -> Iterator[None]:
    with patch.object(SimulatedFiles, "sync_directory", lambda self: None):
        yield


@mutant
def fsync_tried_again() -> Iterator[None]:
    """The mistake PostgreSQL made until 2018."""

    def sync(self: Active) -> None:
        try:
            self._files.sync(self.name)
        except OSError:
            self._files.sync(self.name)

    with patch.object(Active, "sync", sync):
        yield


@mutant
def no_sync_on_opening() -> Iterator[None]:
    def make_durable(files: Files, last: Any, tail: Any, committed: Any) -> Active:
        if tail.size > tail.end:
            files.truncate(last.name, tail.end)
        return Active(files, last.base, last.salt, tail.end)

    with patch.object(_recovery, "_make_durable", make_durable):
        yield


@mutant
def tail_not_written_again() -> Iterator[None]:
    right = _recovery._make_durable
    with patch.object(_recovery, "_make_durable", lambda files, last, tail, committed: right(files, last, tail, None)):
        yield


@mutant
def keeps_what_lies_behind_a_hole() -> Iterator[None]:
    right = _tail.inspect

    def inspect(files: Files, segment: Any, start: int, position: int, committed: int, note: Any) -> Any:
        return right(files, segment, start, position, 1 << 62, note)

    with patch.object(_recovery, "inspect", inspect):
        yield


@mutant
def readers_see_what_is_not_committed() -> Iterator[None]:
    """They decide themselves what counts, as after a restart of the machine."""
    right, looks = reader.read_committed, itertools.count()

    def read_committed(files: Files) -> Any:
        committed = right(files)
        return committed and committed._replace(boot=b"%016d" % next(looks))

    with patch.object(reader, "read_committed", read_committed):
        yield


@mutant
def refused_not_taken_back() -> Iterator[None]:
    with patch.object(Active, "_undo", lambda self, cause: setattr(self, "size", self._files.size(self.name))):
        yield


@mutant
def undo_not_synced() -> Iterator[None]:
    def undo(self: Active, cause: OSError) -> None:
        self._files.truncate(self.name, self.size)

    with patch.object(Active, "_undo", undo):
        yield


@mutant
def acknowledges_what_was_refused() -> Iterator[None]:
    right: Callable[..., Any] = _batch.Plan.refuse

    def refuse(self: Plan, reason: str, message: str) -> Any:
        right(self, reason, message)
        return self._results

    with patch.object(Plan, "refuse", refuse):
        yield
