"""Starts writer.py, and judges what it leaves behind."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cloud.log.checker import History, Verdict, check
from cloud.log.workload import read_all
from cloud.log.writer import SHARED_BYTES, WINDOW, event_of, name_of
from numbers_in_memory import environment, numbers

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
def writer(log: Path, shared: Shared, mutant: str | None = None) -> "Iterator[subprocess.Popen[bytes]]":
    """Killed at the end, as nothing else stops it."""
    command = [sys.executable, str(Path(__file__).with_name("writer.py")), str(log), str(shared.path)]
    process = subprocess.Popen([*command, *([mutant] if mutant else [])], stderr=subprocess.PIPE, env=environment())
    try:
        yield process
    finally:
        process.kill()
        error = process.communicate()[1]
        assert process.returncode == -9, error.decode()


def wait_for_progress(process: "subprocess.Popen[bytes]", shared: Shared, events: int) -> None:
    """Until so many more are acknowledged."""
    goal = sum(shared.acknowledged()) + events
    give_up = time.monotonic() + 60
    while sum(shared.acknowledged()) < goal:
        assert process.poll() is None, process.communicate()[1].decode()
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
