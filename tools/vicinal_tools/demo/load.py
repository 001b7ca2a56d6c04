"""The demo under load: a thousand vehicles in scaled time, real monitors, brokers and office, and exact accounts."""

import shutil
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from ..traffic.tracks import shipped
from .city import City, DemoError, get
from .files import GAP_MS, write
from .judge import read_truth
from .offences import Expected, Offence, expected, found
from .show import Show, Summary

__all__ = ["Loaded", "load"]

PATIENCE = 600.0


class Loaded(NamedTuple):
    summary: Summary
    offences: list[Offence]
    """that the office has"""
    expected: Expected
    scale: float
    """seconds of the clock that a second of the town took"""

    @property
    def exact(self) -> bool:
        return self.summary.holds and self.offences == self.expected.offences and not self.expected.unjust


def load(vehicles: int = 1000, seconds: int = 20, scale: float = 5.0, seed: int = 1, change: bool = True) -> Loaded:
    """`seconds` of the town's time, each at least `scale` seconds long. In the middle of it a limit is lowered."""
    folder = Path(tempfile.mkdtemp(prefix="vicinal-"))
    plan = write(folder, shipped(), vehicles, 0.3, seed, 0, None, scale=scale)
    city = City(plan)
    show = Show(city)
    try:
        show.start()
        begun, first = time.monotonic(), _town_time(folder)
        _run(show, folder, first + seconds * 500)
        if change:
            city.set_limit("old-town", 20)
        _run(show, folder, first + seconds * 1000)
        took = (time.monotonic() - begun) / (_town_time(folder) - first) * 1000
        summary = show.finish()
        truth = read_truth(folder / "truth.jsonl")
        limits = get(f"{city.address}/api/limits")
        cases = get(f"{city.address}/api/cases")["cases"]
        want = expected(plan.network, plan.key, truth, show.heard, limits, round(GAP_MS * scale))
        return Loaded(summary, found(cases), want, took)
    finally:
        city.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _town_time(folder: Path) -> int:
    try:
        return int((folder / "town.time").read_text() or 0)
    except (FileNotFoundError, ValueError):  # it is being written
        return 0


def _run(show: Show, folder: Path, until: int) -> None:
    end = time.monotonic() + PATIENCE
    while _town_time(folder) < until:
        if time.monotonic() > end:
            raise DemoError(f"the town came to {_town_time(folder)} of {until} ms in {PATIENCE:.0f} s")
        show.run(0.5)
