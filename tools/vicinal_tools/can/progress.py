"""A bar on stderr, for people who wait: not where there is no terminal, and not while the output is one."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .logs import Log

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["Bar"]


class Bar:
    def __init__(self, log: Log, what: str, wanted: bool) -> None:
        self._bar: Progress | None = None
        if wanted and log.size is not None and sys.stderr.isatty():
            self._bar = _bar(what, log)

    def __enter__(self) -> "Bar":
        if self._bar is not None:
            self._bar.start()
        return self

    def __call__(self, position: int) -> None:
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=position)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def _bar(what: str, log: Log) -> "Progress":
    # Loaded only where there is something to see: it takes as long as reading 50,000 frames.
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    found = Progress(*columns, console=Console(stderr=True), transient=True)
    found.add_task(f"{what} {Path(log.name).name}", total=log.size)
    return found
