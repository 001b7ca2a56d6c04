"""`events` gives the rows of format("vicinal"), whichever way they come."""

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from cloud.spark import fleet
from cloud.spark.test_columns import some_events
from strategies import Grammar, Seeded

pytest.importorskip("pyspark")

from vicinal.errors import VicinalError
from vicinal.event import Event
from vicinal_cloud.log import Log, LogOptions, entry, entry_of
from vicinal_cloud.spark.events import events
from vicinal_cloud.spark.sidecar import FOLDER

SCHEMA = (
    "subject string, _producer string, _seq bigint, _log string, _offset bigint, _received_ms bigint, rate double, "
    "heading tinyint, lat bigint, lon float, note string, flag boolean, blob binary, `$Time` bigint, _error string"
)


@pytest.fixture(scope="module")
def ready(spark: Any) -> Any:
    from vicinal_cloud.spark.source import register

    register(spark)
    return spark


def as_is(spark: Any, schema: str = SCHEMA, **options: str) -> Any:
    """From the log itself, without columns."""
    return spark.read.format("vicinal").schema(schema).options(**{"columns": "false", **options}).load()


def same(one: Any, other: Any) -> None:
    assert one.schema == other.schema
    # repr: NaN is itself, and -0.0 is not 0.0.
    assert Counter(map(repr, one.collect())) == Counter(map(repr, other.collect()))


def ways(frame: Any) -> tuple[int, bool]:
    """How many scans are Spark's own, and whether our source is asked too."""
    plan = frame._jdf.queryExecution().analyzed().toString()
    return plan.count("parquet"), "vicinal" in plan.lower().replace("vicinal-", "")


def make(folder: Path, found: list[Event], segment_bytes: int = 40_000) -> Path:
    """With what is no event between them, and the last segment still open."""
    log = Log(folder, LogOptions(segment_bytes=segment_bytes))
    for at in range(0, len(found), 100):
        log.append_batch([entry_of(event) for event in found[at : at + 100]], fleet.START + at)
        log.append_batch([entry(b"\x85garbage", "stranger", at + 1)], 5)
    log.close()
    return folder


def town(count: int = 2500) -> list[Event]:
    """Positions; of other types, too large for their columns, added, events in events, NaN, of other subjects."""
    found = fleet.positions(count)
    for at in range(0, count, 7):
        event = found[at]
        params: dict[str, Any] = [
            {**event.params, "rate": at},
            {**event.params, "rate": "fast", "lat": "north", "flag": True},
            {"heading": 1000 + at, "blob": b"\x00\xff", "note": "n"},
            {"note": "nested", "inner": Event("x")},
            {"rate": float("nan"), "note": "n"},
            {"subject": "other", "_seq": 7, "rate": -0.0},
        ][at // 7 % 6]
        found[at] = Event("Note" if at // 42 % 2 else "Position", params, event.attrs, event.producer, event.seq)
    return found


@pytest.fixture(scope="module")
def log(ready: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its name is a pattern and a partition, to those who look for such; its columns have been made."""
    folder = make(tmp_path_factory.mktemp("events") / "log=1 {a}[b]*?", town())
    events(ready, SCHEMA, path=str(folder)).count()
    return folder


def test_the_first_makes_columns_and_the_next_reads_them(ready: Any, tmp_path: Path) -> None:
    folder = make(tmp_path / "log", town(1500))
    wanted = as_is(ready, path=str(folder))
    first = events(ready, SCHEMA, path=str(folder))
    assert ways(first) == (0, True)
    same(first, wanted)
    second = events(ready, SCHEMA, path=str(folder))
    assert ways(second)[0] > 0
    same(second, wanted)


@pytest.mark.parametrize(
    ("condition", "native"),
    [
        ("subject = 'Position'", True),
        ("subject IN ('Note', 'Other') AND note IS NOT NULL", True),
        ("subject = 'Other'", True),
        ("rate IS NULL OR subject = 'Note'", True),
        ("rate > 20", False),
        ("subject = 'Note' OR rate > 20", True),
        ("NOT (subject = 'Position' AND heading < 90)", True),
        ("within(521002500, 44002500, 300)", False),
    ],
)
def test_a_filter_is_the_filter(ready: Any, log: Path, condition: str, native: bool) -> None:
    found = events(ready, SCHEMA, path=str(log), filter=condition)
    same(found, as_is(ready, path=str(log), filter=condition))
    if condition != "subject = 'Other'":
        assert (ways(found)[0] > 0) == native


@pytest.mark.parametrize("schema", ["_log string", "rate int, _error string", "_error string", "heading smallint"])
def test_columns_are_those_that_are_asked_for(ready: Any, log: Path, schema: str) -> None:
    same(events(ready, schema, path=str(log)), as_is(ready, schema, path=str(log)))


def test_a_schema_is_learned(ready: Any, log: Path) -> None:
    learned = ready.read.format("vicinal").option("path", str(log)).load()
    assert events(ready, path=str(log)).schema == learned.schema


def test_a_part_of_the_log(ready: Any, log: Path) -> None:
    part = {"startingOffsets": f'{{"{log}": 700}}', "endingOffsets": f'{{"{log}": 2222}}'}
    found = events(ready, SCHEMA, path=str(log), **part)
    assert ways(found)[0] > 0
    same(found, as_is(ready, path=str(log), **part))


@pytest.mark.parametrize(
    "options",
    [{"mode": "dropmalformed"}, {"failOnDataLoss": "false"}, {"columns": "false"}],
    ids=lambda one: next(iter(one)),
)
def test_what_only_our_source_can_do_is_left_to_it(ready: Any, log: Path, options: dict[str, str]) -> None:
    found = events(ready, SCHEMA, path=str(log), **options)
    assert ways(found) == (0, True)
    same(found, as_is(ready, path=str(log), **options))


def test_bytes_of_events_are_those_of_the_log(ready: Any, log: Path) -> None:
    found = events(ready, "_event binary", path=str(log))
    same(found, as_is(ready, "_event binary", path=str(log)))


def test_several_logs_with_names_as_they_are_given(ready: Any, tmp_path: Path) -> None:
    for name in "ab":
        make(tmp_path / name, town(800))
    path = f"{tmp_path}/a/,{tmp_path}/./b"
    for _ in range(2):
        same(events(ready, SCHEMA, path=path), as_is(ready, path=path))


@pytest.mark.parametrize("seed", range(20 if os.environ.get("VICINAL_SOAK") else 2))
def test_any_log_and_any_filter(ready: Any, tmp_path: Path, seed: int) -> None:
    """Some bytes of it changed, the columns of one segment damaged, those of another gone."""
    source = Seeded(seed)
    found = some_events(source, 700, typed=bool(seed % 2))
    folder = make(tmp_path / "log", found, segment_bytes=20_000)
    segments = sorted(folder.glob("*.segment"))
    for segment in segments[1:4]:
        data = bytearray(segment.read_bytes())
        for _ in range(3):
            data[source.random.randrange(200, len(data))] ^= 1 << source.random.randrange(8)
        segment.write_bytes(data)
    seen: dict[str, str] = {}
    kinds = {int: "bigint", float: "double", str: "string", bool: "boolean", bytes: "binary"}
    for event in found[:40]:
        for name, value in event.params.items():
            if type(value) in kinds and name.isidentifier() and not name.startswith("_") and name != "subject":
                seen.setdefault(name, source.one((kinds[type(value)], "int")))
    schema = ", ".join(["subject string, _offset bigint, _error string", *(f"`{k}` {v}" for k, v in seen.items())])
    events(ready, schema, path=str(folder)).count()
    made = sorted((folder / FOLDER).iterdir())
    (made[0] / "forms.json").write_text("{")
    shutil.rmtree(made[-1])
    whole = events(ready, schema, path=str(folder))
    assert ways(whole)[0] > 0
    same(whole, as_is(ready, schema, path=str(folder)))
    options = {"path": str(folder), "filter": Grammar(source).condition()}
    same(events(ready, schema, **options), as_is(ready, schema, **options))


def test_spark_reads_what_it_needs_of_the_columns(ready: Any, log: Path) -> None:
    found = events(ready, path=str(log), filter="subject = 'Position'").where("lat < 521005000").select("rate")
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "LessThan(`p.lat`,521005000)" in plan
    assert "p.lon" not in plan


def test_what_is_gone_by_then_is_an_error_and_never_fewer_rows(ready: Any, tmp_path: Path) -> None:
    folder = fleet.write(tmp_path / "log", fleet.positions(1500), segment_bytes=40_000)
    first, *_, last = sorted(folder.glob("*.segment"))
    events(ready, SCHEMA, path=str(folder)).count()
    planned = events(ready, SCHEMA, path=str(folder))
    closed = events(ready, SCHEMA, path=str(folder), endingOffsets=f'{{"{folder}": {int(last.name[:20])}}}')
    assert ways(planned) == (1, True)
    assert ways(closed) == (1, False)
    first.unlink()
    assert closed.count() == int(last.name[:20])  # the columns are still there
    with pytest.raises(Exception, match=r"removed by retention|FILE_NOT_EXIST"):
        planned.collect()
    shutil.rmtree(folder / FOLDER / first.name, ignore_errors=True)
    ready.conf.set("spark.sql.files.ignoreMissingFiles", "true")  # a session may have it so
    try:
        with pytest.raises(Exception, match=r"FILE_NOT_EXIST"):
            closed.collect()
    finally:
        ready.conf.unset("spark.sql.files.ignoreMissingFiles")
    same(events(ready, SCHEMA, path=str(folder)), as_is(ready, path=str(folder)))


def test_of_many_forms_those_with_the_most_rows_are_scanned(
    ready: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vicinal_cloud.spark.events.MAX_SCANS", 2)
    found = [Event(f"S{min(at % 10, 3)}", {"rate": at}, {}, "car", at) for at in range(1500)]
    folder = fleet.write(tmp_path / "log", found, segment_bytes=40_000)
    events(ready, SCHEMA, path=str(folder)).count()
    some = events(ready, SCHEMA, path=str(folder))
    assert ways(some) == (2, True)
    assert "S3" in some._jdf.queryExecution().analyzed().toString()
    same(some, as_is(ready, path=str(folder)))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "want option"),
        ({"path": "nowhere"}, "nowhere: there is no event log"),
        ({"path": ".", "paht": "x"}, "option 'paht' is unknown"),
    ],
)
def test_what_is_wrong_is_said_at_once(ready: Any, options: dict[str, str], said: str) -> None:
    with pytest.raises(VicinalError, match=said):
        events(ready, SCHEMA, **options)
