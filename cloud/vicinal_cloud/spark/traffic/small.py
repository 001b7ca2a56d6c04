"""A small batch, on the driver: what Spark has judged is collected in one job, and no other is needed.

A job of Spark costs a tenth of a second and more whatever it does, and one with a shuffle several times that; a
micro-batch of a live log has some thousands of rows. So its rows come here as one Arrow table, and what a large batch
does with jobs (run.py) is done at once: counted, without those that are there, written. Both give the same tables.

Each leaves a small file for each day and area, which are made one here too, some after every batch: so a stream never
waits long for it. The smallest are put together, as many as have among them no one with more rows than the others: so
a row is written again when its file at least doubles, and the files that are left alone double each other too.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

__all__ = [
    *("MOST", "NO_AREA", "NO_DAY", "SAME", "counted", "first_seen", "read_partitioned", "together", "write_empty"),
    "write_partitioned",
]

# A report is the same as another when all of these are: a vehicle may begin to count anew.
SAME = ["vehicle_id", "seq", "event_time"]
# Rows of a small batch: 60 MB on the driver.
MOST = 200_000
# Files of one day and area from which on some are made one.
TOGETHER_FROM = 8
_PARTITIONS = ("day", "area")
# Where positions are that no area has, and where what has no rows lies.
NO_AREA, NO_DAY = "none", "1970-01-01"
_TIMES = ("event_time", "start_time", "minute_time")
# What Hive, and so every reader of partitions, does not take in the name of a folder.
_ESCAPED = {*map(chr, range(1, 32)), *"\"#%'*/:=?\\\x7f{[]^"}


def counted(rows: pa.Table) -> list[tuple[str, str | None, str, int, int, int]]:
    """Outcome, reason, day, count, least and greatest time of event in ms."""
    table = rows.select(["outcome", "reason", "day", "events"]).append_column("ms", pa.array(_ms(rows)))
    found = table.group_by(["outcome", "reason", "day"]).aggregate([("events", "sum"), ("ms", "min"), ("ms", "max")])
    names = ("outcome", "reason", "day", "events_sum", "ms_min", "ms_max")
    return list(zip(*(found.column(name).to_pylist() for name in names)))


def first_seen(positions: pa.Table, there: Iterable[Path], low: int, high: int) -> pa.Table:
    """Of each (vehicle, seq, time) the one that was received first, and none that is in the files that are there."""
    numbered = positions.select([*SAME, "received_time", "log", "log_offset"])
    numbered = numbered.append_column("row", pa.array(np.arange(len(positions))))
    numbered = numbered.sort_by([(name, "ascending") for name in ("received_time", "log", "log_offset")])
    first = numbered.group_by(SAME, use_threads=False).aggregate([("row", "first")])
    known: set[tuple[str, int, int]] = set()
    for file in there:
        found = pq.read_table(file, columns=SAME, partitioning=None)
        ms = _ms(found)
        known.update(_keys(found.filter(pa.array((ms >= low) & (ms <= high)))))
    rows = first.column("row_first").to_numpy()
    if known:
        rows = rows[np.fromiter((key not in known for key in _keys(first)), np.bool_, len(first))]
    return positions if len(rows) == len(positions) else positions.take(pa.array(np.sort(rows)))


def _keys(table: pa.Table) -> "Iterable[tuple[str, int, int]]":
    return zip(table.column("vehicle_id").to_pylist(), table.column("seq").to_pylist(), _ms(table).tolist())


def _ms(table: pa.Table) -> Any:
    return table.column("event_time").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy() // 1000


def write_partitioned(table: pa.Table, place: Path) -> None:
    """As Spark's partitionBy("day", "area") does: a folder for each, and a file in it."""
    keys = table.select(list(_PARTITIONS)).group_by(list(_PARTITIONS)).aggregate([])
    for day, area in zip(*(keys.column(name).to_pylist() for name in _PARTITIONS)):
        chosen = pc.and_(pc.equal(table.column("day"), day), pc.equal(table.column("area"), area))
        folder = place / f"day={_escaped(day)}" / f"area={_escaped(area)}"
        folder.mkdir(parents=True)
        pq.write_table(table.filter(chosen).drop_columns(list(_PARTITIONS)), folder / "0.parquet", compression="zstd")


def write_empty(frame: Any, place: Path) -> Path:
    """A file with the columns of a DataFrame or of a table, and no rows, where no day is."""
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = frame.schema if isinstance(frame, pa.Table) else to_arrow_schema(frame.schema, timezone="UTC")
    file = place / f"day={NO_DAY}" / f"area={NO_AREA}" / "empty.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(schema.empty_table().drop_columns(list(_PARTITIONS)), file)
    return file


def read_partitioned(files: Sequence[Path], root: Path) -> pa.Table:
    """As they were before write_partitioned, by time."""
    schema = pa.schema([(name, pa.string()) for name in _PARTITIONS])
    table = ds.dataset(
        [str(one) for one in files],
        format="parquet",
        partitioning=ds.partitioning(schema, flavor="hive"),
        partition_base_dir=str(root),
    ).to_table()
    times = [(name, "ascending") for name in _TIMES if name in table.column_names][:1]
    return table.sort_by(times) if times else table


def together(rows: Mapping[str, int], most: int) -> list[str]:
    """Of files, folder/name and their rows, those to be made one now, with `most` rows at most: of one folder, that
    with most files."""
    folders: dict[str, list[tuple[int, str]]] = {}
    for name, count in rows.items():
        folders.setdefault(name.rpartition("/")[0], []).append((count, name))
    for files in sorted(folders.values(), key=len, reverse=True):
        files.sort()
        totals = list(accumulate(count for count, _ in files))
        for some in range(len(files), TOGETHER_FROM - 1, -1):
            total, largest = totals[some - 1], files[some - 1][0]
            if total <= most and 2 * largest <= total:
                return [name for _, name in files[:some]]
    return []


def _escaped(name: str) -> str:
    return "".join(f"%{ord(one):02X}" if one in _ESCAPED else one for one in name)
