"""kill -9 of a real writer under load, again and again on one log, at random moments."""

import os
import random
import time
from pathlib import Path

import pytest
from cloud.log.processes import Shared, judge, wait_for_progress, writer
from cloud.log.writer import PRODUCERS
from nursery import Nursery, nursery

from vicinal_cloud.log import Log, LogReader, Record

KILLS = int(os.environ.get("VICINAL_KILLS", "3000" if os.environ.get("VICINAL_SOAK") else "60"))


def kill(folder: Path, times: int, seed: int, mutant: str | None = None) -> int:
    """Gives the number of acknowledged events; raises when one is lost, repeated, turned round or invented."""
    rng = random.Random(seed)
    shared = Shared(folder)
    log = folder / "log"
    start, first = [0] * PRODUCERS, 0
    with nursery("cloud.log.writer") as children:
        for number in range(times):
            live(children, log, shared, mutant, rng, looked_at=number % 5 == 0)
            if number % 10 == 9 or number == times - 1:
                # The log grows for ever: judge what is new since the last time, with an overlap.
                found = Log(log)
                acknowledged = shared.acknowledged()
                verdict = judge(found, acknowledged, start, first)
                assert not verdict, verdict
                counters = found.counters
                assert counters.damaged == 0, found.damage
                start, first = acknowledged, max(0, found.next - 100_000)
                found.close()
    return sum(shared.acknowledged())


def live(children: Nursery, log: Path, shared: Shared, mutant: str | None, rng: random.Random, looked_at: bool) -> None:
    """One life of the writer."""
    seen: list[Record] = []
    with writer(children, log, shared, mutant) as pid:
        wait_for_progress(children, pid, shared, 1)
        time.sleep(rng.random() ** 2 * 0.15)
        if looked_at:  # by a reader of another process
            reader = LogReader(log)
            seen = reader.read(max(reader.first, reader.next - 200), 1000)[0]
    if looked_at:
        assert LogReader(log).read(seen[0].offset, len(seen))[0] == seen


# In parts, so that the workers of a test run share them.
@pytest.mark.parametrize("part", range(4))
def test_nothing_acknowledged_is_lost_or_repeated(tmp_path: Path, part: int) -> None:
    assert kill(tmp_path, -(-KILLS // 4), part) > 100


@pytest.mark.parametrize("mutant", ["dedup_not_persisted", "no_dedup"])
def test_mutants_are_caught(tmp_path: Path, mutant: str) -> None:
    with pytest.raises(AssertionError, match=r"duplicated=\[\("):
        kill(tmp_path, 10, 1, mutant)
