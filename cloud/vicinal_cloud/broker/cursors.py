"""How far this broker has come in the logs of others: kept on disk, after what comes before.

    marks = Cursors(directory / "cursors.json", engine.cursors)
    marks.putting(future)              something is on its way to a log of a durable subscription
    marks.mark("b2", 4711)             all of b2 before 4711 has come: the cursor, once all that is on its way is there

A cursor that lags costs a repetition. One that is ahead of the disk would cost events: after a failed write none moves
any more until the broker is started anew.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

from .files import replace

__all__ = ["Cursors"]

# Seconds between two writes.
_PAUSE = 0.2


class Cursors:
    def __init__(self, file: Path, cursors: dict[str, int]) -> None:
        """Fills `cursors`, and keeps it."""
        self.cursors = cursors
        self.frozen = False
        self._file = file
        self._putting: set[asyncio.Future[Any]] = set()
        self._task: asyncio.Task[None] | None = None
        self._dirty = False
        if file.exists():
            cursors.update(json.loads(file.read_text()))

    def putting(self, done: "asyncio.Future[Any]") -> None:
        self._putting.add(done)
        done.add_done_callback(self._putting.discard)

    def freeze(self) -> None:
        """Something that was to be put is not on disk: what comes after it must not count either."""
        self.frozen = True

    def clear(self) -> None:
        """There are no durable subscriptions any more: the next begins anew."""
        self.cursors.clear()
        self._written_soon()

    def mark(self, source: str, offset: int) -> None:
        waiting = len(self._putting)
        if not waiting:
            self._move(source, offset)
            return

        def one_less(_: object) -> None:
            nonlocal waiting
            waiting -= 1
            if not waiting:
                self._move(source, offset)

        for done in list(self._putting):
            done.add_done_callback(one_less)

    def _move(self, source: str, offset: int) -> None:
        if self.frozen or self.cursors.get(source) == offset:
            return
        self.cursors[source] = offset
        self._written_soon()

    def _written_soon(self) -> None:
        self._dirty = True
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._dirty:
            self._dirty = False
            await loop.run_in_executor(None, replace, self._file, json.dumps(self.cursors))
            await asyncio.sleep(_PAUSE)
        self._task = None

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._dirty:
            replace(self._file, json.dumps(self.cursors))
