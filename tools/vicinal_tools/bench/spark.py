"""Spark: the same query over the same positions, from our log, from Parquet (the limit) and from a Python source.

Our log is read as one would (`events`, which leaves to Spark what Spark does best) and by the data source alone
(format("vicinal"), which a stream has, and where Spark makes rows of what a Python source gives it).

Wall-clock time of the query on all cores, the sources taking turns, best of the rounds. Beside it, as this machine may
have other things to do, the CPU time of Spark and its workers. The first read of our log, which makes the columns, is a
row of its own. VICINAL_BENCH_KEEP=DIR keeps the log, 1.3 GB, for the next run.

    python -m vicinal_tools.bench.spark [EVENTS]      these alone
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vicinal.errors import VicinalError
from vicinal.filter import Filter

from . import Row
from .spark_log import START, make_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GOAL_PARQUET, GOAL_ROWS, GOAL_BYTES = 0.5, 3.0, 0.05
_EVENTS = 10_000_000
# Of the row source, which takes minutes for all of them: the beginning of the same log, and rates are compared.
_ROW_EVENTS = 2_000_000
_ROUNDS = 5
_SCHEMA = "_producer string, lat bigint, lon bigint, rate double, heading bigint, `$Time` bigint"
# Spark tells a Python source no columns that a query needs: one names them, as one would.
_NAMED = "lat bigint, rate double, `$Time` bigint"
_MINUTE = "`$Time` div 60000 as minute"


class Spent(NamedTuple):
    wall: float
    cpu: float


def rows(events: int = _EVENTS, rounds: int = _ROUNDS, row_events: int = _ROW_EVENTS) -> Iterator[Row]:
    try:
        from vicinal_cloud.spark.session import session
        from vicinal_cloud.spark.source import register

        spark = session("vicinal bench", "local[*]", memory="3g")
    except (ImportError, VicinalError) as error:
        yield Row("Spark", f"not measured: {error}")
        return
    register(spark)
    Path("build").mkdir(exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir="build", prefix="bench-spark-") as place:
            log = make_log(Path(os.environ.get("VICINAL_BENCH_KEEP", place), f"positions-{events}"), events)
            yield from _measured(spark, log, Path(place), events, rounds, min(events, row_events))
            yield from _pushed(log)
    finally:
        spark.stop()


def _measured(
    spark: "SparkSession", log: Path, place: Path, events: int, rounds: int, row_events: int
) -> Iterator[Row]:
    from vicinal_cloud.spark.events import events as events_of

    from .spark_rows import RowSource

    spark.dataSource.register(RowSource)

    def ours(schema: str) -> "Callable[[], DataFrame]":
        return lambda: spark.read.format("vicinal").schema(schema).option("path", str(log)).load()

    def plain() -> "DataFrame":
        return spark.read.format("vicinal-bench-rows").option("path", str(log)).option("end", row_events).load()

    first = _spent(lambda: events_of(spark, path=str(log)))
    ours(_SCHEMA)().write.parquet(str(place / "parquet"))
    sources: dict[str, Callable[[], DataFrame]] = {
        "events": lambda: events_of(spark, _NAMED, path=str(log)),
        "learned": lambda: events_of(spark, path=str(log)),
        "ours": ours(_NAMED),
        "every": ours(_SCHEMA),
        "parquet": lambda: spark.read.parquet(str(place / "parquet")),
    }

    def best_of(query: Query) -> dict[str, Spent]:
        spent = [{name: _spent(one, query) for name, one in sources.items()} for _ in range(rounds)]
        return {name: Spent(*map(min, zip(*(one[name] for one in spent)))) for name in sources}

    best = best_of(_aggregate)
    by_row = min(_spent(plain) for _ in range(2))
    rate = {name: events / one.wall for name, one in best.items()} | {"rows": row_events / by_row.wall}
    for name, what in (
        ("events", "`events`, the columns it needs named"),
        ("learned", "`events`, the columns learned from the log"),
        ("ours", 'format("vicinal"), the columns it needs named'),
        ("every", 'format("vicinal"), every column asked for'),
    ):
        ratio, cpu = rate[name] / rate["parquet"], best["parquet"].cpu / best[name].cpu
        yield Row(
            f"Spark: aggregate over {events:,} positions, {what}",
            f"{rate[name]:,.0f} events/s",
            f"native Parquet {rate['parquet']:,.0f}/s (by CPU time {cpu:.2f} x)",
            f"{ratio:.2f} x",
            f"{GOAL_PARQUET} x" if name != "every" else "",
            ratio >= GOAL_PARQUET if name != "every" else None,
        )
    percentiles = best_of(_percentiles)
    for name, what in (("events", "`events`"), ("ours", 'format("vicinal")')):
        ratio = percentiles["parquet"].wall / percentiles[name].wall
        yield Row(
            f"Spark: percentiles of speed by minute and place over the same, {what}, the columns named",
            f"{events / percentiles[name].wall:,.0f} events/s",
            f"native Parquet {events / percentiles['parquet'].wall:,.0f}/s "
            f"(by CPU time {percentiles['parquet'].cpu / percentiles[name].cpu:.2f} x)",
            f"{ratio:.2f} x",
            f"{GOAL_PARQUET} x",
            ratio >= GOAL_PARQUET,
        )
    by_rows = rate["ours"] / rate["rows"]
    yield Row(
        "Spark: the same from a plain Python row source",
        f"{rate['rows']:,.0f} events/s",
        'format("vicinal") as above',
        f"{by_rows:.1f} x",
        f"{GOAL_ROWS:g} x",
        by_rows >= GOAL_ROWS,
    )
    yield Row(
        "Spark: the first read, which makes the columns",
        f"{events / first.wall:,.0f} events/s",
        "the row source",
        f"{events / first.wall / rate['rows']:.1f} x",
    )


Query = Callable[["DataFrame"], "DataFrame"]


def _aggregate(frame: "DataFrame") -> "DataFrame":
    """Little to do: what is measured is reading."""
    from pyspark.sql import functions

    grouped = frame.selectExpr(_MINUTE, "rate", "lat").groupBy("minute")
    return grouped.agg(functions.count("*"), functions.avg("rate"), functions.max("lat"))


def _percentiles(frame: "DataFrame") -> "DataFrame":
    """What segment_speeds asks, by rows of a grid."""
    from pyspark.sql import functions

    grouped = frame.selectExpr(_MINUTE, "lat div 1000000 as row", "rate").groupBy("minute", "row")
    return grouped.agg(
        functions.count("*"), functions.avg("rate"), functions.percentile_approx("rate", [0.15, 0.5, 0.85])
    )


def _spent(source: "Callable[[], DataFrame]", query: Query = _aggregate) -> Spent:
    begin, cpu = time.perf_counter(), _cpu_of_all()
    query(source()).collect()
    return Spent(time.perf_counter() - begin, _cpu_of_all() - cpu)


def _cpu_of_all() -> float:
    """Seconds, of this process and all below it: Spark's JVM, and its workers."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for one in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = one.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        pid = int(one.parent.name)
        parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    found = 0
    for pid, used in ticks.items():
        at = pid
        while at in parents and at != os.getpid():
            at = parents[at]
        found += used if at == os.getpid() else 0
    return found / os.sysconf("SC_CLK_TCK")


def _pushed(log: Path) -> Iterator[Row]:
    """Bytes that are read and decoded, of the log's: no Spark is needed to count them."""
    from vicinal_cloud.spark.forms import Block
    from vicinal_cloud.spark.logs import Asked, DirectoryLog

    size = sum(one.stat().st_size for one in log.glob("*.segment"))
    for what, text in (
        ("one area of a hundred", "lat < 520100000"),
        ("one minute of a hundred", f"$Time < {START + 600_000}"),
        ("one report of a hundred, by speed, from any car at any time", "rate > 59.4"),
        ("one report of a hundred, by heading", "heading = 300"),
    ):
        parts = []
        for _ in range(2):  # who asks for a value first makes the order by it
            source = DirectoryLog(log)
            kept = 0
            for piece in source.plan(*source.ends()):
                for one in source.blocks(piece, Asked(None, Filter(text))):
                    kept += len(one) if isinstance(one, Block) else 0
            parts.append(source.read.bytes / size)
        yield Row(
            f"Spark: bytes read for {what}",
            f"{parts[1]:.1%} of the log",
            f"{kept:,} events kept, {kept / source.ends()[1]:.1%}; asked for the first time {parts[0]:.1%}",
            "",
            f"{GOAL_BYTES:.0%}",
            parts[1] <= GOAL_BYTES,
        )


if __name__ == "__main__":
    for row in rows(*map(int, sys.argv[1:])):
        print(" | ".join(str(one) for one in row), flush=True)
