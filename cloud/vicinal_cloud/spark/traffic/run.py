"""The tables from a log: of before in one batch, of now in many. Both go through `Tables.ingest`.

events ──▶ judged ──┬─▶ positions (without those that are there)     ──▶ every `refresh_s`: the days that have changed
                    ├─▶ speeding: what may be over a limit                 observed ──▶ segment_speeds, ... trips
                    ├─▶ late                                               speeding ──▶ offences
                    ├─▶ quarantine, with the reason
                    └─▶ counts: read = positions + duplicates + late + quarantine + other

What follows from positions (refresh.py) is made beside the batches, which do not wait for it.
"""

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from vicinal.errors import VicinalError

from ...traffic.control import Settings
from .offences import SPEEDING
from .places import Places
from .refresh import DERIVED, FAST, OFFENCES, Days, beside
from .reports import EVENTS, JUDGED, KEPT, LATE, OTHER, POSITION, QUARANTINE, judged
from .rules import Known
from .small import MOST, SAME, counted, first_seen
from .store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["DERIVED", "Tables", "all_of", "batch", "stream"]

Said = Callable[[dict[str, Any]], None]


class Tables:
    """A folder of tables, open for writing."""

    def __init__(
        self,
        spark: "SparkSession",
        out: Path,
        places: Places,
        settings: Settings | None = None,
        query: str = "",
        refresh_s: float = 60.0,
        derived: "tuple[str, ...]" = DERIVED,
        said: Said | None = None,
        delta: bool = False,
        limits: Callable[[], Known] | None = None,
    ) -> None:
        """`settings` are those of the office; `limits` says which hold, as of when it is asked: before each batch and
        each refresh, so that all that were set before a report was received are known when it is judged."""
        self.spark = spark
        self.store = Store(out, query, delta)
        before = self.store.notes.get("offences")
        if before not in (None, OFFENCES in derived):
            self.store.close()
            with_or = "with" if before else "without"
            raise VicinalError(
                f"{out} was begun {with_or} offences, and can only be gone on with so: what they are made of is kept "
                "from the start or not at all. Give another folder; the log has all that is in these tables"
            )
        self._places = places
        self._settings = settings or Settings()
        self._limits = limits
        self._refresh_s = refresh_s
        self._derived = derived
        self._refreshed = time.monotonic()
        self._said = said or (lambda progress: None)
        self._beside = beside(spark)
        self._changing, self._refreshing = threading.Lock(), threading.Lock()
        self._changed: set[str] = set()
        """days, since the last refresh began"""
        self._read = False
        """by a refresh, just now: no file of positions may be removed"""

    def ingest(self, events: "DataFrame", number: int, small: bool = False) -> None:
        """One batch; nothing if it is there. A `small` one has no more rows than small.MOST."""
        with self._changing:
            if number > self.store.batch:
                self._ingest(events, number, small)

    def _ingest(self, events: "DataFrame", number: int, small: bool) -> None:
        begun = time.monotonic()
        rows = judged(events, self._known_places(), self._settings)
        if small:
            self._ingest_small(rows.toArrow(), number)
        else:
            self._ingest_large(rows.persist(), number)
        self._said({"batch": number, "seconds": round(time.monotonic() - begun, 3), **self.store.notes["last"]})
        for table in () if self._read else ("positions", "late", "quarantine"):
            self.store.compact(table)

    def _known_places(self) -> Places:
        if self._limits is not None:
            self._places = self._places.under(self._limits())
        return self._places

    def _ingest_small(self, rows: "pa.Table", number: int) -> None:
        counts, fresh = _tallied(counted(rows))
        positions = rows.filter(_is(POSITION))
        if fresh:
            low, high = min(one[1] for one in fresh), max(one[2] for one in fresh)
            positions = first_seen(positions, self.store.overlapping("positions", low, high), low, high)
        chosen = {name: rows.filter(_is(name)) for name in (LATE, QUARANTINE)}
        chosen |= {POSITION: positions, FAST: rows.filter(pc.field("fast"))}
        self._commit(chosen, len(positions), counts, fresh, number)

    def _ingest_large(self, rows: "DataFrame", number: int) -> None:
        try:
            counts, fresh = self._counted(rows)
            positions = self._first_seen(rows.where(f"outcome = '{POSITION}'"), fresh).persist()
            try:
                kept = positions.count() if counts[POSITION] else 0
                chosen = {name: rows.where(f"outcome = '{name}'") for name in (LATE, QUARANTINE)}
                chosen |= {POSITION: positions, FAST: rows.where("fast")}
                self._commit(chosen, kept, counts, fresh, number)
            finally:
                positions.unpersist()
        finally:
            rows.unpersist()

    def _counted(self, rows: "DataFrame") -> tuple[dict[str, int], list[tuple[str, int, int]]]:
        """By outcome and by reason; and the days of positions with their least and greatest time in ms."""
        grouped = rows.groupBy("outcome", "reason", "day")
        wanted = [_sql(f"{what}(unix_millis(event_time))") for what in ("min", "max")]
        found = grouped.agg(_sql("sum(events)"), *wanted).collect()
        return _tallied([tuple(row) for row in found])

    def _first_seen(self, positions: "DataFrame", days: list[tuple[str, int, int]]) -> "DataFrame":
        """Without what is twice in the batch, or there from an earlier one. The same event has the same time, so only
        files with such times are looked at."""
        first = positions.selectExpr(
            "*", f"row_number() over (partition by {', '.join(SAME)} order by received_time, log, log_offset) as copy"
        ).where("copy = 1")
        first = first.drop("copy")
        if not days:
            return first
        low, high = min(one[1] for one in days), max(one[2] for one in days)
        there = self.store.read(self.spark, "positions", self.store.overlapping("positions", low, high))
        if there is None:
            return first
        known = there.where(f"unix_millis(event_time) between {low} and {high}").select(*SAME)
        return first.join(known, SAME, "left_anti")

    def _commit(self, rows: dict[str, Any], kept: int, counts: dict[str, int], days: list[Any], number: int) -> None:
        """`rows` by outcome are DataFrames or Arrow's tables. A table that has none yet is begun, also without rows."""
        sizes = {"positions": kept, "late": counts[LATE], "quarantine": counts[QUARANTINE], FAST: counts[POSITION]}
        quarantine = [name for name in JUDGED_NAMES if name not in _NOT_SAID]
        wanted = {"positions": (POSITION, KEPT), "late": (LATE, KEPT), "quarantine": (QUARANTINE, quarantine)}
        if OFFENCES in self._derived:
            wanted[FAST] = (FAST, SPEEDING)
        tables = {
            table: _only(rows[name], columns)
            for table, (name, columns) in wanted.items()
            if sizes[table] or not self.store.files(table)
        }
        outcomes = {"duplicate": counts[POSITION] - kept, **counts, POSITION: kept}
        outcomes["read"] = counts[POSITION] + counts[LATE] + counts[QUARANTINE] + counts[OTHER]
        totals = dict(self.store.notes.get("counts", {}))
        for name, count in outcomes.items():
            totals[name] = totals.get(name, 0) + count
        changed = {one[0] for one in days}
        self._changed |= changed
        dirty = sorted({*self.store.notes.get("dirty", []), *changed})
        staged = self.store.stage(tables, sizes)
        zone = str(self._places.network.timezone)
        with_offences = OFFENCES in self._derived
        notes = {"counts": totals, "dirty": dirty, "last": outcomes, "timezone": zone, "offences": with_offences}
        self.store.commit(number, staged, notes=notes)

    def refresh(self, ended: bool = False) -> None:
        """What follows from the positions of the days that have changed. `ended`: nothing comes any more."""
        with self._refreshing:
            self._refresh(self.spark, ended)

    def tick(self) -> None:
        """Now and then, from any thread but that of the batches, which go on meanwhile."""
        if time.monotonic() - self._refreshed >= self._refresh_s and self._refreshing.acquire(blocking=False):
            try:
                self._refresh(self._beside, ended=False)
            finally:
                self._refreshing.release()

    def _refresh(self, spark: "SparkSession", ended: bool) -> None:
        try:
            with self._changing:
                dirty = self.store.notes.get("dirty", [])
                missing = ended and any(not self.store.files(name) for name in self._derived)
                if not self._derived or not (dirty or missing):
                    return
                days = sorted({*dirty, *self.store.notes.get("undecided", [])})
                work = Days(spark, self.store, days, self._known_places(), self._settings, ended)
                self._changed, self._read = set(), True
            staged, notes = work.staged(self._derived)
            with self._changing:
                # Days that batches have changed meanwhile are due again.
                self.store.commit(None, staged, work.replaced(self._derived), {**notes, "dirty": sorted(self._changed)})
        finally:
            self._read = False
            self._refreshed = time.monotonic()

    def close(self) -> None:
        self.store.close()


# Of what is in quarantine.
_NOT_SAID = ("outcome", "events", "plate", "fast", "segment_id", "direction")
JUDGED_NAMES = [part.split()[0] for part in JUDGED.split(", ")]


def _tallied(found: "Iterable[tuple[Any, ...]]") -> tuple[dict[str, int], list[tuple[str, int, int]]]:
    """Of outcome, reason, day, count, least and greatest time."""
    counts: dict[str, int] = {POSITION: 0, LATE: 0, QUARANTINE: 0, OTHER: 0}
    days = []
    for outcome, reason, day, count, low, high in found:
        counts[outcome] += count
        if outcome == QUARANTINE:
            counts[f"{QUARANTINE}: {reason}"] = counts.get(f"{QUARANTINE}: {reason}", 0) + count
        if outcome == POSITION:
            days.append((day, low, high))
    return counts, days


def _only(rows: Any, names: list[str]) -> Any:
    return rows.select(names) if isinstance(rows, pa.Table) else rows.select(*names)


def _is(outcome: str) -> Any:
    return pc.field("outcome") == outcome


def _sql(text: str) -> Any:
    from pyspark.sql import functions

    return functions.expr(text)


def all_of(spark: "SparkSession", options: dict[str, str]) -> "DataFrame":
    """With the option `kafka`, of a topic (kafka.py), else of logs (events.py)."""
    from .. import kafka
    from ..events import events

    return kafka.events(spark.read, options, EVENTS) if "kafka" in options else events(spark, EVENTS, **options)


def _stream_of(spark: "SparkSession", options: dict[str, str]) -> "DataFrame":
    """As `all_of`; of logs by source.py."""
    from .. import kafka

    reader = spark.readStream
    if "kafka" in options:
        return kafka.events(reader, options, EVENTS)
    return reader.format("vicinal").schema(EVENTS).options(**options).load()


def batch(
    spark: "SparkSession",
    options: dict[str, str],
    out: Path,
    places: Places,
    settings: Settings | None = None,
    delta: bool = False,
) -> dict[str, int]:
    """All that is in the logs, into a folder that is new. The counts."""
    tables = Tables(spark, out, places, settings, "batch", delta=delta)
    try:
        if tables.store.batch >= 0:
            raise VicinalError(f"{out} has tables already: a batch begins with none")
        tables.ingest(all_of(spark, options), 0)
        tables.refresh(ended=True)
        counts: dict[str, int] = tables.store.notes["counts"]
        return counts
    finally:
        tables.close()


def stream(
    spark: "SparkSession",
    options: dict[str, str],
    tables: Tables,
    trigger: "dict[str, Any] | None" = None,
    checkpoint: Path | None = None,
) -> "StreamingQuery":
    """Goes on where it was: the checkpoint lies with the tables, and lives as long as they do."""
    where = checkpoint or tables.store.root / "_vicinal" / "checkpoint"
    if tables.store.batch >= 0 and not (where / "offsets").exists():
        raise VicinalError(
            f"{tables.store.root} has tables, and its checkpoint {where} is gone: batches would be counted anew, and "
            "taken for those that are there. Give another folder, or remove this one"
        )
    # A backlog of millions is read in many batches, each small.
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(MOST), **options}
    small = int(options["maxOffsetsPerTrigger"]) <= MOST
    events = _stream_of(spark, options)
    return (
        events.writeStream.foreachBatch(lambda frame, number: tables.ingest(frame, number, small))
        .option("checkpointLocation", str(where))
        .trigger(**(trigger or {"processingTime": "0 seconds"}))
        .start()
    )
