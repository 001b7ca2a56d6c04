"""Starts the writer, and judges what it leaves behind."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cloud.log.checker import History, Verdict, check
from cloud.log.workload import read_all
from cloud.log.writer import SHARED_BYTES, WINDOW, event_of, name_of
from numbers_in_memory import numbers
from nursery import Nursery

from vicinal_cloud.log import Log, LogReader


class Shared:
    """What the clients know, in memory that outlives the writer."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "acknowledged"
        self.path.write_bytes(bytes(SHARED_BYTES))
        _, self._numbers = numbers(self.path)

    def acknowledged(self) -> list[int]:
        return self._numbers.tolist()


@contextmanager
def writer(children: Nursery, log: Path, shared: Shared, mutant: str | None = None) -> Iterator[int]:
    """Its process id. Killed at the end, as nothing else stops it."""
    pid = children.start(log, shared.path, mutant)
    try:
        yield pid
    finally:
        assert children.signal(pid, signal.SIGKILL) == -signal.SIGKILL, "the writer had ended by itself"


def wait_for_progress(children: Nursery, pid: int, shared: Shared, events: int) -> None:
    """Until so many more are acknowledged."""
    goal = sum(shared.acknowledged()) + events
    give_up = time.monotonic() + 60
    while sum(shared.acknowledged()) < goal:
        assert children.signal(pid, 0) is None, "the writer has ended by itself"
        assert time.monotonic() < give_up, f"stuck at {shared.acknowledged()}"
        time.sleep(0.001)


def judge(log: Log | LogReader, acknowledged: list[int], since: list[int] | None = None, first: int = 0) -> Verdict:
    """`since`: judge only what came after these, from the offset `first` on."""
    history = History()
    for number, top in enumerate(acknowledged):
        low = since[number] if since else 0
        for seq in range(low, top + 3 * WINDOW):
            history.attempt(name_of(number), seq, event_of(number, seq))
            if seq < top:
                history.acknowledged[name_of(number), seq] = None
    records = read_all(log, first)
    if since:
        lows = {name_of(number): low for number, low in enumerate(since)}
        records = [record for record in records if record.seq >= lows[record.producer]]
    return check(history, records)
