"""Traffic tables: from one definition in batch and streaming, equal to what plain Python makes of the same events."""

import json
import math
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cloud.spark import town
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

import numpy as np

from vicinal.errors import VicinalError
from vicinal.event import Event
from vicinal_cloud.log import Log, LogOptions, Stored, entry, entry_of
from vicinal_cloud.spark.logs import DirectoryLog
from vicinal_cloud.spark.traffic.places import ACROSS_M, MATCH_M, Places
from vicinal_cloud.spark.traffic.refresh import Days
from vicinal_cloud.spark.traffic.reports import EVENTS
from vicinal_cloud.spark.traffic.run import DERIVED, Tables, batch, stream
from vicinal_cloud.spark.traffic.small import TOGETHER_FROM, together
from vicinal_cloud.spark.traffic.store import Store, StoreInUse
from vicinal_cloud.traffic.limits import Hours, Limits, Rule
from vicinal_cloud.traffic.tariff import DEFAULT

SECONDS, VEHICLES = 100, 30


def places() -> Places:
    network = town.network()
    limits = Limits(network.timezone)
    for area in network.areas.values():
        limits.add(Rule(area.name, area.limit, 0, source="network"))
        limits.add(Rule(area.name, max(5, area.limit - 10), town.START + 60_000, source="council"))
    return Places(network, limits)


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


# Places


def test_matching_is_what_looking_at_every_road_gives() -> None:
    where = places()
    network = where.network
    chance = np.random.default_rng(5)
    lat = chance.integers(network.south, network.north, 600)
    lon = chance.integers(network.west, network.east, 600)
    # And on the roads themselves, as cars are.
    world = town.World(network, 1, 60)
    for _ in range(20):
        world.step()
    lat = np.concatenate([lat, [one.place[0] for one in world.vehicles]])
    lon = np.concatenate([lon, [one.place[1] for one in world.vehicles]])
    heading = np.concatenate(
        [
            np.where(chance.random(600) < 0.5, np.nan, chance.uniform(0, 360, 600)),
            [one.heading for one in world.vehicles],
        ]
    )
    piece, far, along = where.match(lat, lon, heading)
    assert (piece[600:] >= 0).all()
    for row in range(len(lat)):
        wanted = _nearest(where, int(lat[row]), int(lon[row]), float(heading[row]))
        if wanted is None:
            assert piece[row] == -1
        else:
            assert where.pieces[piece[row]].segment_id == wanted[0]
            assert far[row] == pytest.approx(wanted[1], abs=1e-6)
            assert along[row] == wanted[2]


def _nearest(where: Places, lat: int, lon: int, heading: float) -> tuple[str, float, int] | None:
    plane = where.network.plane
    x, y = plane.metres(lat, lon)
    best: tuple[float, str, float, int] | None = None
    for road in sorted(where.network.roads, key=lambda one: one.ident):
        for at, (a, b) in enumerate(zip(road.points, road.points[1:])):
            (ax, ay), (bx, by) = plane.metres(*a), plane.metres(*b)
            size = (bx - ax) ** 2 + (by - ay) ** 2
            if not size:
                continue
            part = min(1.0, max(0.0, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / size))
            distance = math.hypot(x - ax - part * (bx - ax), y - ay - part * (by - ay))
            turn = math.cos(math.radians(heading) - math.atan2(bx - ax, by - ay))
            cost = distance + (0.0 if math.isnan(heading) else ACROSS_M * (1 - abs(turn)))
            sign = 0 if math.isnan(heading) else int(math.copysign(1, turn))
            if distance <= MATCH_M and (best is None or cost < best[0] - 1e-9):
                best = (cost, f"{road.ident}/{at}", distance, sign)
    return None if best is None else best[1:]


def test_areas_and_limits_are_those_of_traffic_control() -> None:
    where = places()
    where.limits.add(Rule("old-town", 20, 0, Hours.parse("00:00-12:00"))) if "old-town" in where.network.areas else None
    chance = np.random.default_rng(6)
    lat = chance.integers(where.network.south, where.network.north, 800)
    lon = chance.integers(where.network.west, where.network.east, 800)
    times = town.START + chance.integers(0, 86_400_000, 800)
    areas = where.areas(lat, lon)
    values, sources = where.limits_at(areas, times)
    for row in range(800):
        area = where.network.area_of((int(lat[row]), int(lon[row])))
        assert areas[row] == ("" if area is None else area.name)
        limit = None if area is None else where.limits.in_force(area.name, int(times[row]))
        assert (sources[row], values[row]) == (
            (limit.source, limit.value) if limit else ("", pytest.approx(math.nan, nan_ok=True))
        )


# Tables


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


def test_what_is_made_of_standing_still(spark: Any) -> None:
    """A car that stops for two minutes and a half, one that runs into it, and one that waits at a light."""
    from vicinal_cloud.spark.traffic.tables import accidents, stopped, trips

    def reports(vehicle: str, speeds: list[float], lat: float) -> Iterator[tuple[Any, ...]]:
        for at, speed in enumerate(speeds):
            yield (vehicle, at, town.START + at * 10_000, speed, lat, 5.0, "r1/0", "forward", "a", "d")

    data = [
        *reports("one", [50.0] * 3 + [0.0] * 16 + [30.0] * 3, 52.0),
        *reports("two", [50.0] * 4 + [0.5] * 15 + [30.0] * 3, 52.0001),
        *reports("light", [50.0] * 3 + [0.0] * 5 + [30.0] * 14, 52.0),
    ]
    frame = spark.createDataFrame(
        data,
        "vehicle_id string, seq bigint, ms bigint, speed_kmh double, lat_deg double, lon_deg double, "
        "segment_id string, direction string, area string, day string",
    ).selectExpr("*", "timestamp_millis(ms) as event_time")
    still = {row["vehicle_id"]: row for row in stopped(frame).collect()}
    assert {name: (row["duration_s"], row["reports"]) for name, row in still.items()} == {
        "one": (150.0, 16),
        "two": (140.0, 15),
    }
    (found,) = accidents(stopped(frame)).collect()
    assert (found["first_vehicle_id"], found["second_vehicle_id"]) == ("one", "two")
    assert found["apart_m"] == pytest.approx(11.1, abs=0.1)
    assert {row["vehicle_id"]: row["reports"] for row in trips(frame).collect()} == {"one": 6, "two": 7, "light": 17}


def test_what_is_not_heard_of_is_not_known_to_stand(spark: Any) -> None:
    """Four reports within seconds, and one an hour later elsewhere: that is no stop of an hour, and no accident. Who
    stands for long while it goes on reporting has ended a trip."""
    from vicinal_cloud.spark.traffic.tables import accidents, stopped, trips

    schema = (
        "vehicle_id string, seq bigint, ms bigint, speed_kmh double, lat_deg double, lon_deg double, "
        "segment_id string, direction string, area string, day string"
    )

    def frame(data: list[tuple[str, int, float, float]]) -> Any:
        rows = [
            (vehicle, seq, town.START + second * 1000, speed, lat, 5.0, "r1/0", "forward", "a", "d")
            for seq, (vehicle, second, speed, lat) in enumerate(data)
        ]
        return spark.createDataFrame(rows, schema).selectExpr("*", "timestamp_millis(ms) as event_time")

    silent = [(name, at, 0.0, 52.0) for name in "ab" for at in (0, 1, 2, 3)]
    elsewhere = [("a", 3600, 0.0, 52.002), ("b", 3600, 0.0, 51.998)]
    towed = [("c", at * 30, 0.0, 52.0 + at // 4 / 100) for at in range(8)]
    still = stopped(frame([*silent, *elsewhere, *towed]))
    assert [(row["vehicle_id"], row["duration_s"]) for row in still.collect()] == [("c", 90.0), ("c", 90.0)]
    assert not accidents(still).collect()
    parked = [("p", at * 60, 0.0 if 5 <= at < 50 else 40.0, 52.0 + at / 1000) for at in range(55)]
    assert sorted((row["reports"], row["duration_s"]) for row in trips(frame(parked)).collect()) == [
        (5, 240.0),
        (5, 240.0),
    ]


def test_congestion_and_its_end(spark: Any) -> None:
    from vicinal_cloud.spark.traffic.tables import congestion

    def minutes(segment: str, ratios: list[float]) -> Iterator[tuple[Any, ...]]:
        for at, ratio in enumerate(ratios):
            yield (segment, "forward", town.START + at * 60_000, 4, 50.0 * ratio, float(ratio), "d", "a")

    data = [
        *minutes("ended", [1, 0.3, 0.4, 0.9, 0.9, 0.9, 0.9, 0.2]),
        *minutes("goes on", [1, 1, 1, 1, 1, 1, 0.5, 0.5]),
        *minutes("never", [0.7] * 8),
        # Two minutes between two runs that are one; three between two that are two.
        *minutes("near", [0.3, 0.9, 0.9, 0.3, 0.9, 0.9, 0.9, 0.9]),
        *minutes("far", [0.3, 0.9, 0.9, 0.9, 0.3, 0.9, 0.9, 0.9]),
        # One vehicle alone crawls on: nobody knows that the road is free.
        *(one if at < 3 else (*one[:3], 1, *one[4:]) for at, one in enumerate(minutes("thin", [0.3] * 8))),
        *minutes("silent", [0.3, 0.3]),
    ]
    frame = spark.createDataFrame(
        data,
        "segment_id string, direction string, ms bigint, vehicles bigint, mean_kmh double, free_flow_ratio double, "
        "day string, area string",
    ).selectExpr("*", "timestamp_millis(ms) as minute_time")
    found = sorted(
        (
            row["segment_id"],
            (row["start_time"].timestamp() * 1000 - town.START) // 60_000,
            row["slow_minutes"],
            row["ended"],
        )
        for row in congestion(frame).collect()
    )
    assert found == [
        *(("ended", 1, 2, True), ("ended", 7, 1, False)),
        *(("far", 0, 1, True), ("far", 4, 1, True)),
        ("goes on", 6, 2, False),
        ("near", 0, 2, True),
        ("silent", 0, 2, True),
        ("thin", 0, 3, False),
    ]


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


@given(
    st.lists(st.integers(0, 4_000_000_000_000), min_size=1), st.sampled_from(["UTC", "Asia/Kathmandu", "Pacific/Apia"])
)
def test_a_day_is_the_towns(times: list[int], zone: str) -> None:
    network = town.network()
    network.timezone = ZoneInfo(zone)
    here = Places(network, Limits(network.timezone))
    found = here.days(np.array(times)).tolist()
    assert found == [datetime.fromtimestamp(one / 1000, network.timezone).date().isoformat() for one in times]
    for day, one in zip(found, times):
        assert here.days([here.end_of(day) - 1, here.end_of(day)])[0] == day < here.days([here.end_of(day)])[0]
        assert one < here.end_of(day)


def test_of_a_small_batch_each_report_is_taken_once(tmp_path: Path) -> None:
    """The one that was received first, and none that is there; areas may have any name."""
    import pandas as pd
    import pyarrow as pa

    from vicinal_cloud.spark.traffic.small import counted, first_seen, write_partitioned

    def times(ms: list[int]) -> Any:
        return pa.array(ms).cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))

    rows = pa.table(
        {
            "outcome": ["position", "position", "position", "late", "position"],
            "reason": pa.nulls(5, pa.string()),
            "day": ["d", "d", "d", "d", "e"],
            "area": ["a/b=1", "x", "x", "x", "x"],
            "event_time": times([1000, 2000, 2000, 500, 3000]),
            "received_time": times([9, 9, 8, 9, 9]),
            "vehicle_id": ["v", "v", "v", "v", "w"],
            "seq": [1, 2, 2, 3, 2],
            "log": ["l"] * 5,
            "log_offset": [0, 1, 2, 3, 4],
            "events": [1] * 5,
        }
    )
    assert sorted(counted(rows)) == [
        ("late", None, "d", 1, 500, 500),
        ("position", None, "d", 3, 1000, 2000),
        ("position", None, "e", 1, 3000, 3000),
    ]
    first = first_seen(rows, (), 0, 9000)
    assert first.column("log_offset").to_pylist() == [0, 2, 3, 4]
    write_partitioned(first, tmp_path / "t")
    files = list((tmp_path / "t").rglob("*.parquet"))
    found = pd.read_parquet(tmp_path / "t")
    assert sorted(zip(found["day"], found["area"], found["log_offset"])) == [
        ("d", "a/b=1", 0),
        ("d", "x", 2),
        ("d", "x", 3),
        ("e", "x", 4),
    ]
    assert len(first_seen(rows, files, 0, 9000)) == 0
    assert first_seen(rows, files, 2000, 9000).column("log_offset").to_pylist() == [0, 3]


def test_tables_are_for_other_readers(done: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    with Store(done) as store:
        for table in ("positions", "segment_speeds", "trips"):
            files = f"read_parquet('{done}/{table}/**/*.parquet', hive_partitioning=true)"
            ((found,),) = duckdb.sql(f"select count(*) from {files} where day is not null").fetchall()
            assert found == store.rows(table) > 0
    assert not [one for one in done.rglob("*.parquet") if one.stat().st_size == 0]


def test_small_files_become_one(ready: Any, tmp_path: Path) -> None:
    with Store(tmp_path / "t") as store:
        for number in range(9):
            frame = ready.range(10).selectExpr(f"id + {number * 10} as n", "'d' as day", "'a/b=1' as area")
            store.commit(number, store.stage({"t": frame if number % 2 else frame.toArrow()}))
        store.commit(9, store.stage({"t": ready.range(1).selectExpr("id + 90 as n", "'e' as day", "'a/b=1' as area")}))
        assert len(store.files("t")) == 11  # one of them has no rows
        assert store.compact("t") == 8
        assert store.compact("t") == 0
        assert len(list((tmp_path / "t" / "t").rglob("*.parquet"))) == 3
        found = store.read(ready, "t")
        assert found is not None
        assert sorted((row["n"], row["day"], row["area"]) for row in found.collect()) == [
            (n, "e" if n == 90 else "d", "a/b=1") for n in range(91)
        ]
        assert store.batch == 9


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3000)), max_size=400), st.sampled_from([10_000, 1_000_000]))
def test_few_files_are_left_and_few_rows_written_again(batches: list[tuple[int, int]], most: int) -> None:
    rows: dict[str, int] = {}
    times_written = 0
    for number, (folder, count) in enumerate(batches):
        rows[f"t/{folder}/{number}"] = count
        while chosen := together(rows, most):
            (parent,) = {name.rpartition("/")[0] for name in chosen}
            merged = sum(rows[name] for name in chosen)
            assert merged <= most
            assert all(2 * rows.pop(name) <= merged for name in chosen)
            times_written += merged
            rows[f"{parent}/c{number}-{times_written}"] = merged
    total = sum(count for _, count in batches)
    assert sum(rows.values()) == total
    assert times_written <= total * math.log2(total + 1)
    for folder in range(3):
        sizes = [count for name, count in rows.items() if name.startswith(f"t/{folder}/")]
        assert len(sizes) <= TOGETHER_FROM + math.log2(sum(sizes) + 1) + 8 * sum(sizes) / most


def test_a_store_has_one_writer_and_one_query(tmp_path: Path, ready: Any) -> None:
    with Store(tmp_path / "t", "one") as store:
        store.commit(0, store.stage({"t": ready.range(1).selectExpr("id", "'d' as day", "'a' as area")}))
        with pytest.raises(StoreInUse, match="another program writes"):
            Store(tmp_path / "t")
    with pytest.raises(VicinalError, match="filled by another query"):
        Store(tmp_path / "t", "two")


def test_a_commit_that_was_cut_off_is_finished_or_never_was(
    tmp_path: Path, ready: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = ready.range(10).selectExpr("id", "'d' as day", "'a' as area")
    store = Store(tmp_path / "t")
    monkeypatch.setattr(Store, "_finish", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        store.commit(4, store.stage({"t": frame}))
    store.close()
    monkeypatch.undo()
    assert not list((tmp_path / "t" / "t").rglob("*.parquet"))
    with Store(tmp_path / "t") as again:
        assert again.batch == 4
        assert again.rows("t") == 10
        assert len(list((tmp_path / "t" / "t").rglob("*.parquet"))) == 2


def test_a_lost_checkpoint_is_not_taken_for_a_new_one(ready: Any, log: Path, tmp_path: Path) -> None:
    tables = Tables(ready, tmp_path / "t", places(), query="stream", derived=())
    try:
        tables.store.commit(0, tables.store.stage({}))
        with pytest.raises(VicinalError, match=r"its checkpoint .* is gone"):
            stream(ready, {"path": str(log)}, tables)
    finally:
        tables.close()
