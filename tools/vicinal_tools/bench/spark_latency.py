"""Spark, end to end: from the moment an event is published until its row is in a table that anybody can read.

A process of its own appends 10,000 events a second to a log, each with the time at which it was made; `positions`
follows it. A row is there when its file has been moved to its place, which the file system remembers. Wall-clock time:
all of it runs on this machine, the publisher and Spark, on all cores.

    python -m vicinal_tools.bench.spark_latency [RATE SECONDS]      this alone
"""

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vicinal.errors import VicinalError

from . import Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOAL_S = 3.0
RATE = 10_000
_SECONDS = 40
# Of the beginning at the full rate, which is not counted: batches are compiled while they run.
_WARM_S = 15
# Batches at a trickle before that, while Spark's processes start.
_BATCHES = 5
_CARS = 500
_STEP_S = 0.05


def rows(rate: int = RATE, seconds: int = _SECONDS) -> Iterator[Row]:
    try:
        from vicinal_cloud.spark.session import session
        from vicinal_cloud.spark.source import register

        spark = session("vicinal bench", "local[*]", memory="3g")
    except (ImportError, VicinalError) as error:
        yield Row("Spark, end to end", f"not measured: {error}")
        return
    register(spark)
    Path("build").mkdir(exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir="build", prefix="bench-spark-") as place:
            yield _measured(spark, Path(place), rate, seconds)
    finally:
        spark.stop()


def _measured(spark: "SparkSession", place: Path, rate: int, seconds: int) -> Row:
    from vicinal_cloud.spark.traffic.places import read_places
    from vicinal_cloud.spark.traffic.run import Tables, stream

    from ..traffic import tracks

    context = multiprocessing.get_context("spawn")
    go = context.Event()
    publisher = context.Process(target=_publish, args=(str(place / "log"), rate, seconds, go))
    places = read_places(Path(tracks.__file__).with_name("aldermere.geojson"))
    came: dict[Path, float] = {}
    (place / "kept").mkdir()

    def said(progress: dict[str, Any]) -> None:
        """After each batch: its files, kept under another name for when they have been made one with others."""
        since = time.time() - progress["seconds"] - 0.5
        for file in tables.store.files("positions"):
            moved = file.stat().st_ctime
            if moved >= since:
                kept = place / "kept" / f"{len(came)}.parquet"
                os.link(file, kept)
                came[kept] = moved

    tables = Tables(spark, place / "tables", places, query="bench", derived=(), said=said)
    publisher.start()
    try:
        while not (place / "log" / "committed").exists():
            time.sleep(0.1)
        query = stream(spark, {"path": str(place / "log")}, tables)
        while tables.store.batch < _BATCHES and query.isActive:
            time.sleep(0.1)
        begin = time.time()
        go.set()
        publisher.join()
        query.processAllAvailable()
        query.stop()
    finally:
        publisher.terminate()
        tables.close()
    late = _latencies(came, begin + _WARM_S)
    p50, p99 = late[len(late) // 2], late[len(late) * 99 // 100]
    return Row(
        f"Spark: published to row in a table, {rate:,} events/s, p99",
        f"{p99:.2f} s",
        f"p50 {p50:.2f} s, {len(late):,} events",
        "",
        f"under {GOAL_S:g} s",
        p99 < GOAL_S,
    )


def _latencies(came: dict[Path, float], since: float) -> list[float]:
    """Of events that were made since then."""
    import pyarrow.parquet as pq

    found: dict[tuple[str, int], float] = {}
    for file, moved in came.items():
        table = pq.read_table(file, columns=["vehicle_id", "seq", "event_time"], partitioning=None)
        for vehicle, seq, made in zip(*(column.to_pylist() for column in table.columns)):
            if made.timestamp() >= since:
                found[vehicle, seq] = min(moved - made.timestamp(), found.get((vehicle, seq), 1e9))
    return sorted(found.values())


def _publish(log: str, rate: int, seconds: int, go: Any) -> None:
    from vicinal.event import Event
    from vicinal_cloud.log import Log, entry_of

    from ..traffic.tracks import shipped
    from ..traffic.world import World

    world = World(shipped(), 1, 100)
    spots = [one.place for one in world.vehicles]
    writer = Log(log)
    number = 0

    def publish(count: int) -> None:
        nonlocal number
        now = time.time_ns() // 1_000_000
        entries = []
        for _ in range(count):
            car = number % _CARS
            lat, lon = spots[car % len(spots)]
            params = {"lat": lat, "lon": lon, "rate": 30.0 + car % 20 / 7}
            entries.append(entry_of(Event("Position", params, {"Time": now}, f"car-{car}", number)))
            number += 1
        writer.append_batch(entries, now)

    while not go.wait(_STEP_S):
        publish(10)
    begin = time.time()
    for turn in range(round(seconds / _STEP_S)):
        time.sleep(max(0.0, begin + turn * _STEP_S - time.time()))
        publish(round(rate * _STEP_S))
    writer.close()


if __name__ == "__main__":
    for row in rows(*map(int, sys.argv[1:])):
        print(" | ".join(str(one) for one in row), flush=True)
