"""Linear Road: tuples a second by the rules alone, and through a broker and Spark; and paced, how late answers are.

Plain Python here is the same rules in one process, reading the file among it. A script that others have measured does
65,000 tuples a second and core. Through the broker every tuple is an event, on disk before it is acknowledged.

    python -m vicinal_tools.bench.linear_road [--most L]      paced with 1, 2, 3 ... expressways, until one is too late

Paced it is the busiest minutes of the benchmark's three hours, with the traffic of that time on its way as they
begin: 2,000 tuples a second an expressway.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from . import Row

if TYPE_CHECKING:
    from vicinal_cloud.spark.linear_road.run import Result

__all__ = ["rows"]

PLAIN_OF_OTHERS = 65_000
BOUND = 5
_SECONDS = 120
_DAY = 10_800


def rows(seconds: int = _SECONDS, folder: Path | None = None) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="bench-linear-road-", dir=folder) as name:
        place = Path(name)
        path = _input(place, 1, seconds)
        plain = max(_plain(path) for _ in range(3))
        yield Row(
            "Linear Road, the rules in one process",
            f"{plain:,.0f} tuples/s of CPU",
            f"plain Python of others {PLAIN_OF_OTHERS:,}/s",
            f"{plain / PLAIN_OF_OTHERS:.1f} x",
            f"{PLAIN_OF_OTHERS:,}/s",
            plain >= PLAIN_OF_OTHERS,
        )
        done = _run(path, place / "fast", paced=False)
        rate = done.fed / done.seconds
        yield Row(
            "Linear Road, each tuple an event through broker and Spark",
            f"{rate:,.0f} tuples/s",
            f"the rules in one process {plain:,.0f}/s",
            f"{rate / plain:.2f} x",
        )
        done = _run(path, place / "paced", paced=True)
        late = _latest(done)
        yield Row(
            f"Linear Road, L = 1 paced, its busiest {seconds} s: the last answer",
            f"{late:.1f} s",
            f"limit {BOUND} s",
            f"{late / BOUND:.2f} of it",
            "under the limit",
            late <= BOUND,
        )


def highest(most: int, seconds: int = _SECONDS) -> Iterator[tuple[int, float]]:
    """L and the latest answer, up to the first that is too late."""
    for expressways in range(1, most + 1):
        with tempfile.TemporaryDirectory(prefix="bench-linear-road-") as name:
            path = _input(Path(name), expressways, seconds)
            late = _latest(_run(path, Path(name, "out"), paced=True))
        yield expressways, late
        if late > BOUND:
            return


def _input(place: Path, expressways: int, seconds: int) -> Path:
    from vicinal_cloud.spark.linear_road.generate import Generator, write_input

    path = place / "input.csv"
    sum(write_input(path, Generator(expressways, 1, _DAY - seconds), seconds))
    return path


def _plain(path: Path) -> float:
    from vicinal_cloud.spark.linear_road.plain import LinearRoad
    from vicinal_cloud.spark.linear_road.reading import read
    from vicinal_cloud.spark.linear_road.rows import LeftOut

    road, count, began = LinearRoad(), 0, time.process_time()
    for table in read(path, LeftOut()):
        road.feed(table)
        count += len(table)
    road.finish()
    return count / (time.process_time() - began)


def _run(path: Path, out: Path, paced: bool) -> "Result":
    from vicinal_cloud.spark.linear_road.run import SETTINGS, prepare, run
    from vicinal_cloud.spark.session import session
    from vicinal_cloud.spark.source import register

    from ..spark._broker import broker

    spark = session("linear-road", None, SETTINGS, "2g")
    register(spark)
    with broker(prepare(path, out)) as address:
        return run(spark, path, out, address, None, paced)


def _latest(done: "Result") -> float:
    return max(done.delays.most(kind) for kind in range(4))


def main() -> int:
    from ..spark._hardware import describe

    most = int(sys.argv[sys.argv.index("--most") + 1]) if "--most" in sys.argv else 16
    holds = 0
    for expressways, late in highest(most):
        holds = expressways if late <= BOUND else holds
        print(f"L = {expressways}: the last answer after {late:.1f} s of {BOUND} s", flush=True)
    print(f"highest L that holds: {holds}, for the busiest {_SECONDS} s of three hours, on {describe()}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
