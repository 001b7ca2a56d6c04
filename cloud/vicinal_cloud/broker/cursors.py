"""How far this broker has come in the logs of others: kept on disk, after what comes before.

    marks = Cursors(directory / "cursors.json", engine.cursors)
    marks.putting(future)              something is on its way to a log of a durable subscription
    marks.mark("b2", 4711)             all of b2 before 4711 has come: the cursor, once all that is on its way is there

A cursor that lags costs a repetition. One that is ahead of the disk would cost events: after a failed write none moves
until what was missed is on its way again, and marks that came before never count. The first of a source is on disk
before it is named to anybody: a source that was told one forgets where it began, and to ask it without one again, after
a death, is to ask for what comes from then on.
"""

import asyncio
import json
import logging
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from .files import replace

__all__ = ["Cursors"]

_log = logging.getLogger("vicinal.broker")

# Seconds between two writes.
_PAUSE = 0.2


class Cursors:
    def __init__(self, file: Path, cursors: dict[str, int]) -> None:
        """Within a running loop. Fills `cursors`, and keeps it."""
        self.cursors = cursors
        self.frozen = False
        self.failed = 0
        """writes of the file; each is tried again"""
        self.damaged = False
        """the file cannot be read: how far this broker had come is not known"""
        self._file = file
        self._putting: set[asyncio.Future[Any]] = set()
        self._turn = 0  # marks of an earlier turn do not count
        self._task: asyncio.Task[None] | None = None
        self._dirty = False
        self._stop = asyncio.Event()
        self._storing = threading.Lock()
        try:
            cursors.update(_checked(json.loads(file.read_text())))
        except FileNotFoundError:
            pass
        except ValueError as error:
            self.damaged = True
            _log.error("%s cannot be read, all that is in the logs is read again: %s", file, error)

    def putting(self, done: "asyncio.Future[Any]") -> None:
        self._putting.add(done)
        done.add_done_callback(self._putting.discard)

    def freeze(self) -> None:
        """Something that was to be put is not on disk: what comes after it must not count either."""
        self.frozen = True
        self._turn += 1

    def thaw(self) -> None:
        """What was missed has been asked for, from where the cursors are."""
        self.frozen = False

    def clear(self) -> None:
        """There are no durable subscriptions any more: the next begins anew."""
        self._turn += 1
        self.frozen = False
        self.cursors.clear()
        self._written_soon()

    def begin(self, source: str, offset: int) -> None:
        """On disk when it returns, unless there was one."""
        if source not in self.cursors:
            with self._storing:
                replace(self._file, json.dumps({**self.cursors, source: offset}))
                self.cursors[source] = offset

    def rewind(self, cursors: dict[str, int]) -> None:
        """Back to where these are; on disk when it returns."""
        self._turn += 1
        for source, offset in cursors.items():
            self.cursors[source] = min(offset, self.cursors.get(source, offset))
        self._store()

    def mark(self, source: str, offset: int) -> None:
        waiting, turn = len(self._putting), self._turn
        if not waiting:
            self._move(source, offset)
            return

        def one_less(_: object) -> None:
            nonlocal waiting
            waiting -= 1
            if not waiting and turn == self._turn:
                self._move(source, offset)

        for done in list(self._putting):
            done.add_done_callback(one_less)

    def _move(self, source: str, offset: int) -> None:
        if self.frozen or self.cursors.get(source) == offset:
            return
        if source not in self.cursors:
            try:
                self.begin(source, offset)
            except OSError as error:
                self._complain(error)
                asyncio.get_running_loop().call_later(_PAUSE, self._begin_again, source, offset, self._turn)
            return
        self.cursors[source] = offset
        self._written_soon()

    def _begin_again(self, source: str, offset: int, turn: int) -> None:
        if turn == self._turn and source not in self.cursors and not self._stop.is_set():
            self._move(source, offset)

    def _written_soon(self) -> None:
        self._dirty = True
        if self._task is None and not self._stop.is_set():
            self._task = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        while self._dirty:
            await self._write_once()
            if self._stop.is_set():
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE):
                    await self._stop.wait()
        self._task = None

    async def _write_once(self) -> None:
        self._dirty = False
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._store)
        except OSError as error:
            self._dirty = True
            self._complain(error)

    def _complain(self, error: OSError) -> None:
        self.failed += 1
        if self.failed == 1:
            _log.error("%s cannot be written, it is tried again: %s", self._file, error)

    def _store(self) -> None:
        with self._storing:  # one at a time, and never an older state after a newer one
            replace(self._file, json.dumps(dict(self.cursors)))

    async def close(self) -> None:
        self._stop.set()
        if self._task is not None:
            await self._task
        if self._dirty:
            await self._write_once()


def _checked(found: Any) -> dict[str, int]:
    if not isinstance(found, dict) or not all(type(one) is int and one >= 0 for one in found.values()):
        raise ValueError("want an object of offsets")
    return found
