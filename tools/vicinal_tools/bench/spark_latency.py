"""Spark, end to end: from the moment an event is to be published until its row is in a table that anybody can read.

A process of its own has 10,000 events a second, each with the time at which it is due; `positions` follows. Two ways:

    through a broker    publisher ──tcp──▶ broker, on disk ──tcp──▶ Spark ──▶ table        the whole way
    from a log          publisher ──▶ a log on this disk ──▶ Spark ──▶ table               what Spark's part of it is

Through a broker once with positions alone (`vicinal spark ingest --positions-only`), and once with all that follows
from them. A row is there when its file has been moved to its place, which the file system remembers. Wall-clock time:
all of it runs on this machine, publisher, broker and Spark, on all cores.

    python -m vicinal_tools.bench.spark_latency [RATE SECONDS]      this alone
"""

import asyncio
import contextlib
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vicinal.errors import VicinalError

from ..spark._broker import broker
from . import Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from vicinal.event import Event

THROUGH, FROM_LOG = "through a broker", "from a log on this disk"
GOAL_S = 3.0
RATE = 10_000
_SECONDS = 60
# Where all other tables are refreshed too, as they are by default: so that it happens twice.
_LONGER_S = 90
# Of the beginning at the full rate, which is not counted: batches are compiled while they run.
_WARM_S = 15
# Batches at a trickle before that, while Spark's processes start; then all other tables, for the first time.
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
        for way, derived in ((THROUGH, False), (THROUGH, True), (FROM_LOG, False)):
            with tempfile.TemporaryDirectory(dir="build", prefix="bench-spark-") as place:
                yield _measured(spark, Path(place), rate, seconds, way, derived)
    finally:
        spark.stop()


def _measured(spark: "SparkSession", place: Path, rate: int, seconds: int, way: str, derived: bool) -> Row:
    from vicinal_cloud.spark.traffic.places import read_places
    from vicinal_cloud.spark.traffic.run import DERIVED, Tables, stream

    from ..traffic import tracks

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

    what = DERIVED if derived else ()
    tables = Tables(spark, place / "tables", places, query="bench", derived=what, said=said)
    context = multiprocessing.get_context("spawn")
    go = context.Event()
    with contextlib.ExitStack() as stack:
        stack.callback(tables.close)
        log = place / "log"
        where = str(log) if way == FROM_LOG else stack.enter_context(broker(place))
        seconds += _LONGER_S if derived else 0
        publisher = context.Process(target=_publish, args=(where, rate, seconds, go))
        publisher.start()
        stack.callback(publisher.terminate)
        while way == FROM_LOG and not (log / "committed").exists():
            time.sleep(0.1)
        query = stream(spark, {"path" if way == FROM_LOG else "brokers": where}, tables)
        while tables.store.batch < _BATCHES and query.isActive:
            time.sleep(0.1)
        tables.refresh()
        begin = time.time()
        go.set()
        while publisher.is_alive():
            tables.tick()
            publisher.join(1)
        query.processAllAvailable()
        query.stop()
    late = _latencies(came, begin + _WARM_S)
    p50, p99 = late[len(late) // 2], late[len(late) * 99 // 100]
    beside = ", all other tables refreshed every minute" if derived else ""
    return Row(
        f"Spark: published to row in a table, {way}, {rate:,} events/s{beside}, p99",
        f"{p99:.2f} s",
        f"p50 {p50:.2f} s, {len(late):,} events",
        "",
        f"under {GOAL_S:g} s",
        p99 < GOAL_S,
    )


def _latencies(came: dict[Path, float], since: float) -> list[float]:
    """Of events that were made since then."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = []
    for file, moved in came.items():
        table = pq.read_table(file, columns=["vehicle_id", "seq", "event_time"], partitioning=None)
        made = table.column("event_time").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy() / 1e6
        late = table.append_column("late", pa.array(moved - made))
        tables.append(late.filter(pa.array(made >= since)))
    # A row is there from its first file on; others are made of several.
    first = pa.concat_tables(tables).group_by(["vehicle_id", "seq"]).aggregate([("late", "min")])
    return [float(one) for one in np.sort(first.column("late_min").to_numpy())]


def _publish(where: str, rate: int, seconds: int, go: Any) -> None:
    """To a log, or through the broker at this address."""
    from vicinal.event import Event

    from ..traffic.tracks import shipped
    from ..traffic.world import World

    world = World(shipped(), 1, 100)
    spots = [one.place for one in world.vehicles]
    put, close = _to_broker(where) if where.startswith("tcp://") else _to_log(where)
    number = 0

    def publish(count: int, due: float) -> None:
        nonlocal number
        events = []
        for _ in range(count):
            car = number % _CARS
            lat, lon = spots[car % len(spots)]
            params = {"lat": lat, "lon": lon, "rate": 30.0 + car % 20 / 7}
            attrs = {"Time": round(due * 1000), "OriginProducer": f"car-{car}", "OriginSeq": number}
            events.append(Event("Position", params, attrs, "fleet", number))
            number += 1
        put(events)

    while not go.wait(_STEP_S):
        publish(10, time.time())
    begin = time.time()
    for turn in range(round(seconds / _STEP_S)):
        due = begin + turn * _STEP_S
        time.sleep(max(0.0, due - time.time()))
        publish(round(rate * _STEP_S), due)
    close()


Put = tuple["Callable[[list[Event]], None]", "Callable[[], None]"]


def _to_log(folder: str) -> "Put":
    from vicinal_cloud.log import Log, entry_of

    log = Log(folder)

    def put(events: "list[Event]") -> None:
        log.append_batch([entry_of(event) for event in events], time.time_ns() // 1_000_000)

    return put, log.close


def _to_broker(address: str) -> "Put":
    """Each is on the broker's disk when the next ones are published."""
    from vicinal_cloud.broker.client import connect

    loop = asyncio.new_event_loop()
    client = loop.run_until_complete(connect(address, "fleet"))
    advertisement = loop.run_until_complete(client.advertise("subject = 'Position'"))

    async def publish(events: "list[Event]") -> None:
        refused = await (await client.submit_many(events, advertisement))
        assert not refused, refused

    return lambda events: loop.run_until_complete(publish(events)), lambda: loop.run_until_complete(client.close())


if __name__ == "__main__":
    for row in rows(*map(int, sys.argv[1:])):
        print(" | ".join(str(one) for one in row), flush=True)
