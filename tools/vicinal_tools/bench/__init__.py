"""`make bench`: every figure we promise, measured against a peer or a limit in the same run.

Machines are noisy, so that a time alone says little: each row carries a ratio, both sides measured in turn, in CPU
time, the best of several rounds. Rows with a goal are met or missed; the run fails when one is missed.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["Row", "cpu_time"]


class Row(NamedTuple):
    what: str
    figure: str
    against: str = ""
    """the peer or the limit, with its own figure"""
    ratio: str = ""
    goal: str = ""
    met: bool | None = None


def cpu_time(*works: Callable[[], object], seconds: float = 0.2, rounds: int = 5) -> list[float]:
    """Seconds of CPU that one call of each takes. They take turns, so that a slow moment slows all of them."""
    counts = [_count(work, seconds / rounds) for work in works]
    best = [float("inf")] * len(works)
    for _ in range(rounds):
        for i, work in enumerate(works):
            start = time.process_time()
            for _ in range(counts[i]):
                work()
            best[i] = min(best[i], (time.process_time() - start) / counts[i])
    return best


def _count(work: Callable[[], object], seconds: float) -> int:
    """How often the work can be done in so much time."""
    count = 1
    while True:
        start = time.process_time()
        for _ in range(count):
            work()
        spent = time.process_time() - start
        if spent >= seconds / 4:
            return max(1, int(count * seconds / spent))
        count *= 4
