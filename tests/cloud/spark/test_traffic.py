"""Traffic tables: from one definition in batch and streaming, equal to what plain Python makes of the same events."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cloud.spark import town
from cloud.spark.town import places

pytest.importorskip("pyspark")

import numpy as np

from vicinal.errors import VicinalError
from vicinal.event import Event
from vicinal_cloud.log import Log, LogOptions, Stored, entry, entry_of
from vicinal_cloud.spark.logs import DirectoryLog
from vicinal_cloud.spark.traffic.refresh import Days
from vicinal_cloud.spark.traffic.reports import EVENTS
from vicinal_cloud.spark.traffic.run import DERIVED, Tables, batch, stream
from vicinal_cloud.spark.traffic.store import Store
from vicinal_cloud.traffic.tariff import DEFAULT

SECONDS, VEHICLES = 100, 30


@pytest.fixture(scope="module")
def happened() -> list[tuple[Event, int]]:
    found = town.drive(SECONDS, VEHICLES)
    found += [(event, received) for event, received, _ in town.bad()]
    # Passed on by a second gateway, under its own name: the same report twice.
    for at, (event, received) in enumerate(found[:50]):
        attrs = {**event.attrs, "OriginProducer": event.producer, "OriginSeq": event.seq}
        found.append((Event(event.subject, event.params, attrs, "gateway-2", at), received))
    return sorted(found, key=lambda one: one[1])


def fill(log: Log, events: list[tuple[Event, int]]) -> None:
    """As received: a batch of the log has one time."""
    at = 0
    while at < len(events):
        end = at
        while end < len(events) and events[end][1] == events[at][1]:
            end += 1
        done = log.append_batch([entry_of(event) for event, _ in events[at:end]], events[at][1])
        assert all(isinstance(one, Stored) for one in done)
        at = end


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory, happened: list[tuple[Event, int]]) -> Path:
    folder = tmp_path_factory.mktemp("traffic") / "log"
    made = Log(folder, LogOptions(segment_bytes=300_000))
    fill(made, happened)
    made.append_batch([entry(b"\x85\x00", "stranger", 1)], town.START)
    made.close()
    return folder


def part(spark: Any, log: Path, low: int, high: int) -> Any:
    """Events with the offsets low .. high-1."""
    reader = spark.read.format("vicinal").schema(EVENTS).option("path", str(log))
    for name, at in (("startingOffsets", low), ("endingOffsets", high)):
        reader = reader.option(name, json.dumps({str(log): at}))
    return reader.load()


@pytest.fixture(scope="module")
def ready(spark: Any) -> Any:
    from vicinal_cloud.spark.source import register

    register(spark)
    return spark


@pytest.fixture(scope="module")
def done(ready: Any, log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("batch") / "tables"
    batch(ready, {"path": str(log)}, out, places())
    return out


def rows(out: Path, table: str) -> list[tuple[Any, ...]]:
    """By another reader: pandas."""
    import pandas as pd

    if not (out / table).exists():
        return []
    frame = pd.read_parquet(out / table)
    frame = frame.astype({name: "str" for name in frame.columns if str(frame[name].dtype) == "category"})
    frame = frame.reindex(sorted(frame.columns), axis=1)
    return sorted(map(str, frame.itertuples(index=False)))  # type: ignore[arg-type]


def test_of_nothing_there_are_no_rows_and_no_error(ready: Any, tmp_path: Path) -> None:
    Log(tmp_path / "log").close()
    counts = batch(ready, {"path": str(tmp_path / "log")}, tmp_path / "tables", places())
    assert counts["read"] == 0 == sum(counts.values())
    duckdb = pytest.importorskip("duckdb")
    for table in ("positions", "late", "quarantine", "speeding", *DERIVED):
        assert rows(tmp_path / "tables", table) == []
        assert duckdb.read_parquet(f"{tmp_path}/tables/{table}/**/*.parquet").fetchall() == []
    with pytest.raises(VicinalError, match="there is no event log"):
        batch(ready, {"path": str(tmp_path)}, tmp_path / "other", places())


@pytest.mark.parametrize("small", [True, False])
def test_a_vehicle_that_counts_anew_is_heard(ready: Any, tmp_path: Path, small: bool) -> None:
    """The same number at another time is another report, in one batch and in two; the same at the same time is not."""

    def report(at: int, seq: int) -> Event:
        lat, lon = next(iter(places().network.roads)).points[0]
        attrs = {"Time": town.START + at, "OriginProducer": "v", "OriginSeq": 7}
        return Event("Position", {"lat": lat, "lon": lon, "rate": 20.0}, attrs, "gateway", seq)

    log = Log(tmp_path / "log")
    fill(log, [(report(at, seq), town.START + at) for seq, at in enumerate((0, 0, 60_000, 60_000))])
    log.close()
    found = []
    for edges in ([0, 4], [0, 2, 4], [0, 1, 3, 4]):
        out = tmp_path / f"tables-{len(edges)}"
        tables = Tables(ready, out, places(), query="test", derived=())
        for number, (low, high) in enumerate(pairwise(edges)):
            tables.ingest(part(ready, tmp_path / "log", low, high), number, small)
        found.append((tables.store.notes["counts"]["duplicate"], rows(out, "positions")))
        tables.close()
    assert found[0][0] == 2
    assert found[0] == found[1] == found[2]


def test_tables_without_offences_are_not_gone_on_with_for_offences(ready: Any, tmp_path: Path) -> None:
    Log(tmp_path / "log").close()
    tables = Tables(ready, tmp_path / "t", places(), query="ingest", derived=())
    tables.ingest(ready.read.format("vicinal").schema(EVENTS).option("path", str(tmp_path / "log")).load(), 0)
    tables.close()
    with pytest.raises(VicinalError, match="begun without offences"):
        Tables(ready, tmp_path / "t", places(), query="ingest")
    Tables(ready, tmp_path / "t", places(), query="ingest", derived=()).close()


def test_what_retention_took_is_counted(ready: Any, tmp_path: Path, happened: list[tuple[Event, int]]) -> None:
    """In the tables too: as many as were lost, and not one gap."""
    log = Log(tmp_path / "log", LogOptions(segment_bytes=20_000))
    fill(log, happened)
    log.close()
    segments = sorted((tmp_path / "log").glob("*.segment"))
    for one in segments[:-1]:
        one.unlink()
    first = DirectoryLog(tmp_path / "log").ends()[0]
    assert first > 100
    tables = Tables(ready, tmp_path / "t", places(), query="ingest", derived=())
    options = {"path": str(tmp_path / "log"), "failOnDataLoss": "false"}
    options["startingOffsets"] = json.dumps({options["path"]: 0})
    query = stream(ready, options, tables, {"availableNow": True})
    assert query.awaitTermination(240)
    counts = tables.store.notes["counts"]
    tables.close()
    assert counts["quarantine: lost before it was read"] == first
    assert counts["read"] == len(happened)


def test_everything_is_accounted_for(done: Path, happened: list[tuple[Event, int]]) -> None:
    with Store(done) as store:
        counts = store.notes["counts"]
        assert counts["read"] == len(happened) + 1
        assert counts["read"] == sum(counts[name] for name in ("position", "duplicate", "late", "quarantine", "other"))
        assert counts["duplicate"] == 50
        wanted = Counter(what for _, _, what in town.bad())
        assert counts["late"] == wanted.pop("late") == store.rows("late")
        assert counts["other"] == wanted.pop("other")
        wanted["malformed"] += 1  # what is no event
        assert {name: counts[f"quarantine: {name}"] for name in wanted} == wanted
        assert store.rows("quarantine") == sum(wanted.values())
        assert store.rows("positions") == counts["position"]


def test_positions_are_those_that_were_sent(done: Path, happened: list[tuple[Event, int]]) -> None:
    import pandas as pd

    frame = pd.read_parquet(done / "positions")
    good = {
        (event.producer, event.seq): event for event, _ in happened if event.producer not in ("car-bad", "gateway-2")
    }
    assert len(frame) == len(good)
    for row in frame.itertuples():
        event = good.pop((row.vehicle_id, row.seq))
        assert row.event_time.value // 1_000_000 == event.attrs["Time"]
        if "lat" in event.params:
            assert round(row.lat_deg * 1e7) == event["lat"]
            assert row.segment_id is not None
    assert not good


def test_segment_speeds_are_means_by_hand(done: Path, happened: list[tuple[Event, int]]) -> None:
    import pandas as pd

    positions = pd.read_parquet(done / "positions")
    positions["ms"] = positions["event_time"].astype("int64") // (
        10**3 if "us" in str(positions["event_time"].dtype) else 10**6
    )
    speeds: dict[tuple[str, int], float] = {}
    for row in positions.itertuples():
        if row.speed_kmh == row.speed_kmh:
            speeds[row.vehicle_id, row.ms] = row.speed_kmh
    groups: dict[tuple[str, str, int], list[tuple[str, float]]] = {}
    for row in positions.itertuples():
        if row.lat_deg == row.lat_deg and row.segment_id is not None:
            speed = row.speed_kmh if row.speed_kmh == row.speed_kmh else speeds[row.vehicle_id, row.ms]
            key = (row.segment_id, row.direction or "unknown", row.ms // 60_000)
            groups.setdefault(key, []).append((row.vehicle_id, speed))
    found = pd.read_parquet(done / "segment_speeds")
    assert len(found) == len(groups)
    for row in found.itertuples():
        some = groups[row.segment_id, row.direction, int(row.minute_time.timestamp()) // 60]
        assert row.reports == len(some)
        assert row.vehicles == len({vehicle for vehicle, _ in some})
        assert row.mean_kmh == pytest.approx(sum(speed for _, speed in some) / len(some), abs=1e-3)
        assert row.p50_kmh == pytest.approx(float(np.percentile([speed for _, speed in some], 50)))
        assert row.confidence == min(1.0, row.vehicles / 5)


def test_offences_carry_the_limit_in_force_at_the_time(done: Path) -> None:
    import pandas as pd

    found = pd.read_parquet(done / "offences")
    assert len(found)
    limits = places().limits
    for row in found.itertuples():
        limit = limits.in_force(row.area, int(row.event_time.timestamp() * 1000))
        assert limit is not None
        assert (row.limit_kmh, row.limit_source.partition(";")[0]) == (limit.value, limit.source)
        assert row.over_kmh == DEFAULT.over(row.speed_kmh, limit.value) > 0
        assert row.start_time <= row.event_time <= row.end_time
        assert row.vehicle_id == f"car-{row.plate}"
    assert {source.partition(";")[0] for source in found["limit_source"]} == {"network", "council"}


def test_a_stream_makes_the_same_tables(
    ready: Any, log: Path, done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In some batches, small and large ones in turn, with a refresh between, and after a new start."""
    ingest = Tables.ingest
    taken: list[int] = []

    def in_turn(self: Tables, events: Any, number: int, small: bool) -> None:
        assert small
        ingest(self, events, number, number % 2 == 0)
        taken.append(number)
        if number == 0:
            self.refresh()

    monkeypatch.setattr(Tables, "ingest", in_turn)
    for _ in range(2):
        tables = Tables(ready, tmp_path / "tables", places(), query="stream", refresh_s=600)
        try:
            query = stream(ready, {"path": str(log), "maxOffsetsPerTrigger": "1700"}, tables, {"availableNow": True})
            assert query.awaitTermination(240)
        finally:
            tables.close()
    assert taken == list(range(len(taken)))
    assert len(taken) >= 3
    with_all = Tables(ready, tmp_path / "tables", places(), query="stream")
    with_all.refresh(ended=True)
    with_all.close()
    for table in ("positions", "speeding", "late", "quarantine", *DERIVED):
        assert rows(tmp_path / "tables", table) == rows(done, table), table


def test_batches_go_on_while_tables_are_refreshed(
    ready: Any, log: Path, done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of it: nothing that it reads is removed, what they bring stays, and is due again."""
    tables = Tables(ready, tmp_path / "tables", places(), query="stream", refresh_s=0)
    end = DirectoryLog(log).ends()[1]
    edges = [end * part // 12 for part in range(13)]

    def ingest(number: int) -> None:
        tables.ingest(part(ready, log, edges[number], edges[number + 1]), number, small=True)

    for number in range(3):
        ingest(number)
    staged = Days.staged

    def crowded(self: Days, derived: Any) -> Any:
        found = staged(self, derived)
        for number in range(3, 12):
            ingest(number)
        return found

    monkeypatch.setattr(Days, "staged", crowded)
    files = tables.store.files("positions")
    tables.tick()
    monkeypatch.undo()
    try:
        assert tables.store.batch == 11
        assert {*files} < {*tables.store.files("positions")}
        assert tables.store.notes["dirty"]
        tables.refresh(ended=True)
    finally:
        tables.close()
    for table in ("positions", "speeding", "late", "quarantine", *DERIVED):
        assert rows(tmp_path / "tables", table) == rows(done, table), table


def test_tables_are_for_other_readers(done: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    with Store(done) as store:
        for table in ("positions", "segment_speeds", "trips"):
            files = f"read_parquet('{done}/{table}/**/*.parquet', hive_partitioning=true)"
            ((found,),) = duckdb.sql(f"select count(*) from {files} where day is not null").fetchall()
            assert found == store.rows(table) > 0
    assert not [one for one in done.rglob("*.parquet") if one.stat().st_size == 0]


def test_a_lost_checkpoint_is_not_taken_for_a_new_one(ready: Any, log: Path, tmp_path: Path) -> None:
    tables = Tables(ready, tmp_path / "t", places(), query="stream", derived=())
    try:
        tables.store.commit(0, tables.store.stage({}))
        with pytest.raises(VicinalError, match=r"its checkpoint .* is gone"):
            stream(ready, {"path": str(log)}, tables)
    finally:
        tables.close()
