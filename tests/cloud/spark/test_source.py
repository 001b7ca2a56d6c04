"""The data source in Spark: batch and streaming, from a directory and from a broker."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cloud.broker.brokers import Brokers
from cloud.spark import fleet

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal_cloud.broker.client import connect
from vicinal_cloud.log import Log, LogOptions, entry
from vicinal_cloud.spark.source import Settings, VicinalStreamReader

COUNT = 6000
SCHEMA = (
    "subject string, _producer string, _seq bigint, _offset bigint, rate double, heading int, "
    "lat bigint, `$Time` bigint, _error string"
)


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return fleet.positions(COUNT)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory, events: list[Event]) -> Path:
    return fleet.write(tmp_path_factory.mktemp("source") / "log", events, segment_bytes=200_000)


@pytest.fixture(scope="module")
def ready(spark: Any) -> Any:
    from vicinal_cloud.spark.source import register

    register(spark)
    return spark


@pytest.fixture(scope="module")
def plain(ready: Any, log: Path) -> Iterator[Any]:
    """The same rows, of no source that could leave out any."""
    frame = ready.createDataFrame(read(ready, log, columns="false").toPandas()).persist()
    yield frame
    frame.unpersist()


def read(spark: Any, path: Path, schema: str | None = SCHEMA, **options: str) -> Any:
    reader = spark.read.format("vicinal").option("path", str(path))
    for name, value in options.items():
        reader = reader.option(name, value)
    return (reader if schema is None else reader.schema(schema)).load()


def test_batch_gives_every_event_once(ready: Any, log: Path, events: list[Event]) -> None:
    rows = sorted(read(ready, log).collect(), key=lambda row: row["_offset"])
    assert len(rows) == COUNT
    for row, event in zip(rows, events):
        assert (row["subject"], row["_producer"], row["_seq"]) == (event.subject, event.producer, event.seq)
        assert (row["rate"], row["heading"], row["lat"]) == (event["rate"], event["heading"], event["lat"])
        assert row["$Time"] == event.attrs["Time"]
        assert row["_error"] is None


@pytest.mark.parametrize(
    "text", ["subject = 'Position' AND rate > 30", "within(521002500, 44002500, 300)", "rate IS NULL"]
)
def test_the_option_filter_is_the_filter(ready: Any, log: Path, events: list[Event], text: str) -> None:
    found = {row["_offset"] for row in read(ready, log, filter=text).select("_offset").collect()}
    assert found == {at for at, event in enumerate(events) if Filter(text).matches(event)}


@pytest.mark.parametrize(
    "text",
    [
        "rate > 39",
        "heading = 90 and rate <= 20.5",
        "_producer = 'car-7'",
        "_producer in ('car-1', 'car-2') and _offset < 1500",
        "subject = 'Position' and lat between 521000000 and 521020000",
        "subject = 'Nothing'",
        "_offset >= 5999 or rate < 0.3",
    ],
)
def test_what_spark_pushes_down_changes_nothing(ready: Any, log: Path, plain: Any, text: str) -> None:
    found = read(ready, log).where(text).select("_offset").collect()
    assert sorted(found) == sorted(plain.where(text).select("_offset").collect())


def test_a_schema_is_learned(ready: Any, log: Path) -> None:
    found = dict(read(ready, log, None).dtypes)
    assert found["rate"] == "double"
    assert found["heading"] == found["$Time"] == found["_offset"] == "bigint"
    assert found["_error"] == "string"


ODD_SCHEMA = "rate double, _offset bigint, _error string"


def append_odd(log: Log) -> None:
    """A parameter retyped, one added, one that no number is, a giant event, no event at all."""
    fleet.append(
        log,
        [
            Event("Speed", {"rate": 30.5}, {}, "a", 1),
            Event("Speed", {"rate": 30}, {}, "a", 2),
            Event("Speed", {"rate": "fast"}, {}, "a", 3),
            Event("Speed", {"rate": 31.5, "added": True}, {}, "a", 4),
            Event("Speed", {"rate": float("nan")}, {}, "a", 5),
            Event("Speed", {"blob": b"x" * 65_000}, {}, "a", 6),
        ],
    )
    log.append_batch([entry(b"\x85garbage", "stranger", 1)], 5)


def check_odd(found: list[Any]) -> None:
    rows = sorted(found, key=lambda row: row["_offset"])
    assert [row["rate"] for row in rows[:4]] == [30.5, 30.0, None, 31.5]
    assert rows[4]["rate"] != rows[4]["rate"]
    assert rows[2]["_error"] == "rate is a text, want double"
    assert rows[6]["_error"].startswith("not an event: ")
    assert [row["_error"] for row in rows].count(None) == 5
    assert len(rows) == 7


def test_values_that_are_not_of_the_columns_type_say_so(ready: Any, tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    append_odd(log)
    log.close()
    check_odd(read(ready, tmp_path / "log", ODD_SCHEMA).collect())
    assert read(ready, tmp_path / "log", "rate double", mode="dropmalformed").count() == 5
    with pytest.raises(Exception, match="rate is a text, want double"):
        read(ready, tmp_path / "log", "rate double", mode="failfast").collect()


def test_a_stream_outlives_what_goes_wrong(ready: Any, tmp_path: Path) -> None:
    """It begins with nothing; then all that is odd, and it goes on."""
    log = Log(tmp_path / "log")
    reader = ready.readStream.format("vicinal").schema(ODD_SCHEMA).option("path", str(tmp_path / "log"))
    query = (
        reader.option("startingOffsets", "earliest")
        .load()
        .writeStream.format("memory")
        .queryName("outlives")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        assert ready.table("outlives").count() == 0
        append_odd(log)
        query.processAllAvailable()
        check_odd(ready.table("outlives").collect())
        fleet.append(log, [Event("Speed", {"rate": 40.0}, {}, "a", 7)])
        query.processAllAvailable()
        assert sorted(row["_offset"] for row in ready.table("outlives").collect()) == list(range(8))
        assert query.isActive
    finally:
        query.stop()
        log.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"filter": "rate >"}, "want a name or a value"),
        ({"paht": "x"}, "option 'paht' is unknown"),
        ({"mode": "loose"}, "option mode is 'loose', want one of permissive"),
        ({"startingOffsets": "0"}, "want earliest, latest or"),
        ({"maxOffsetsPerTrigger": "0"}, "want a number, 1 or more"),
    ],
)
def test_what_is_wrong_is_said(log: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises(Exception, match=said):
        Settings({"path": str(log), **options}).offsets("startingOffsets", "earliest")


def test_a_log_that_is_not_there_and_an_empty_one(ready: Any, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="there is no event log"):
        read(ready, tmp_path / "none").collect()
    Log(tmp_path / "empty").close()
    assert read(ready, tmp_path / "empty").count() == 0
    with pytest.raises(Exception, match="no event to learn the columns from"):
        read(ready, tmp_path / "empty", None)


# Streaming


def stream(spark: Any, path: Path, folder: Path, **options: str) -> list[Any]:
    """AvailableNow into memory; the rows it has by then."""
    reader = spark.readStream.format("vicinal").schema(SCHEMA).option("path", str(path))
    for name, value in {"startingOffsets": "earliest", **options}.items():
        reader = reader.option(name, value)
    query = (
        reader.load()
        .writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    return list(spark.read.schema(SCHEMA).parquet(str(folder / "out")).collect())


def test_streaming_goes_on_where_it_was(ready: Any, tmp_path: Path, events: list[Event]) -> None:
    log = Log(tmp_path / "log", LogOptions(segment_bytes=200_000))
    fleet.append(log, events[:4000])
    assert len(stream(ready, tmp_path / "log", tmp_path, maxOffsetsPerTrigger="1500")) == 4000
    fleet.append(log, events[4000:])
    found = stream(ready, tmp_path / "log", tmp_path)
    assert sorted(row["_offset"] for row in found) == list(range(COUNT))
    log.close()


def test_retention_ahead_of_a_query_is_an_error_or_a_counted_gap(
    ready: Any, tmp_path: Path, events: list[Event]
) -> None:
    log = Log(tmp_path / "log", LogOptions(segment_bytes=100_000))
    fleet.append(log, events[:100])
    assert len(stream(ready, tmp_path / "log", tmp_path)) == 100
    fleet.append(log, events[100:6000])
    log.close()
    for segment in sorted((tmp_path / "log").glob("*.segment"))[:2]:
        segment.unlink()
    first = int(sorted((tmp_path / "log").glob("*.segment"))[0].name[:20])
    with pytest.raises(Exception, match=f"{first - 100} events, offsets 100 to {first - 1}, were removed by retention"):
        stream(ready, tmp_path / "log", tmp_path)
    found = stream(ready, tmp_path / "log", tmp_path, failOnDataLoss="false")
    gaps = [row for row in found if row["_error"]]
    assert [row["_error"] for row in gaps] == [
        f"removed by retention: {first - 100} events, offsets 100 to {first - 1}"
    ]
    assert len(found) == 100 + 1 + 6000 - first


def test_limits_are_shared_and_never_passed(tmp_path: Path, events: list[Event]) -> None:
    from pyspark.sql.streaming.datasource import ReadMaxRows
    from pyspark.sql.types import StructType

    for name, count in (("a", 10), ("b", 500), ("c", 0)):
        fleet.write(tmp_path / name, events[:count])
    where = [str(tmp_path / name) for name in "abc"]
    reader = VicinalStreamReader(Settings({"path": ",".join(where), "startingOffsets": "earliest"}), StructType())
    at = reader.initialOffset()
    seen = []
    while True:
        following = reader.latestOffset(at, ReadMaxRows(100))
        if following == at:
            break
        seen.append(sum(following[one] - at[one] for one in where))
        at = following
    assert [at[one] for one in where] == [10, 500, 0]
    assert seen[:-1] == [100] * 5


def test_a_log_that_was_begun_anew_is_not_gone_on_with(ready: Any, tmp_path: Path, events: list[Event]) -> None:
    """As long as the old one, longer, or shorter: what is in it would be taken for what was read."""

    def read(name: str) -> None:
        query = (
            ready.readStream.format("vicinal").schema("_seq bigint").option("path", str(tmp_path / "log"))
            .option("startingOffsets", "earliest").load()
            .writeStream.format("noop").option("checkpointLocation", str(tmp_path / name)).trigger(availableNow=True)
            .start()
        )  # fmt: skip
        query.awaitTermination(120)

    for number, (before, after) in enumerate(((10, 10), (10, 12), (10, 4), (10, 0))):
        fleet.write(tmp_path / "log", events[:before])
        read(f"c{number}")
        read(f"c{number}")  # the same log: nothing new
        shutil.rmtree(tmp_path / "log")
        fleet.write(tmp_path / "log", events[20 : 20 + after])
        with pytest.raises(StreamingQueryException, match="this is another log than the one that was read"):
            read(f"c{number}")
        shutil.rmtree(tmp_path / "log")


# Over the network


def publish(address: str, events: list[Event], name: str = "") -> None:
    async def run() -> None:
        by_car: dict[str, list[Event]] = {}
        for event in events:
            by_car.setdefault(event.producer or "", []).append(event)
        for car, some in by_car.items():
            async with await connect(address, car) as client:
                advertisement = await client.advertise("subject IS NOT NULL")
                assert await (await client.submit_many(some, advertisement)) == {}

    asyncio.run(run())


@pytest.fixture
def brokers(tmp_path: Path) -> Any:
    found = Brokers(tmp_path)
    yield found
    found.stop()


def test_a_brokers_log_over_the_network(ready: Any, brokers: Brokers, events: list[Event]) -> None:
    broker = brokers.start("b1", log=True)
    publish(broker.address, events[:3000])
    frame = ready.read.format("vicinal").option("brokers", broker.address).option("offsetsPerPartition", "1000")
    found = frame.schema(SCHEMA).load().collect()
    assert sorted((row["_producer"], row["_seq"], row["rate"]) for row in found) == sorted(
        (event.producer, event.seq, event["rate"]) for event in events[:3000]
    )
    condition = "rate > 30 AND heading < 90"
    some = frame.option("filter", condition).schema(SCHEMA).load().count()
    assert some == sum(Filter(condition).matches(event) for event in events[:3000])


def test_a_broker_may_be_killed_and_come_back_under_a_query(
    ready: Any, brokers: Brokers, tmp_path: Path, events: list[Event]
) -> None:
    broker = brokers.start("b1", log=True)
    publish(broker.address, events[:500])
    reader = ready.readStream.format("vicinal").schema(SCHEMA).option("brokers", broker.address)
    query = (
        reader.option("startingOffsets", "earliest")
        .load()
        .writeStream.format("memory")
        .queryName("restarted")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        assert ready.table("restarted").count() == 500
        broker.kill()
        again = brokers.start("b1", listen=broker.address, log=True)
        assert again.address == broker.address
        # The same cars go on: what they had said is known by its number.
        publish(again.address, events[:1000])
        query.processAllAvailable()
        found = sorted((row["_producer"], row["_seq"]) for row in ready.table("restarted").collect())
        assert found == sorted((event.producer, event.seq) for event in events[:1000])
    finally:
        query.stop()


@pytest.mark.spec("OVER-48")
def test_what_was_published_in_a_scope_is_not_told_to_anybody(brokers: Brokers) -> None:
    from vicinal_cloud.spark.logs import Asked, log_at

    scopes = '[[scope]]\nname = "town"\ndimension = "geography"\n'
    broker = brokers.start("b1", log=True, join=("town",), scopes=scopes)

    async def run() -> None:
        async with await connect(broker.address, "car") as client:
            inside = await client.advertise("subject = 'S'", {"geography": "town"})
            outside = await client.advertise("subject = 'T'")
            await client.publish(Event("S", {"n": 1}), inside)
            await client.publish(Event("T", {"n": 2}), outside)

    asyncio.run(run())
    log = log_at(broker.address)
    try:
        pieces = log.plan(*log.ends())
        found = [one.form.subject for piece in pieces for one in log.blocks(piece, Asked(None, None))]
        assert found == ["T"]
        assert log.hidden == 1
    finally:
        log.close()


def test_a_broker_that_is_away_is_waited_for_and_then_named(tmp_path: Path) -> None:
    from vicinal_cloud.spark.network import BrokerLog, Unreachable

    log = BrokerLog("tcp://127.0.0.1:9", {"timeout": "0.5"})
    with pytest.raises(Unreachable, match=r"tcp://127.0.0.1:9: .*waited 0.5 s"):
        log.ends()
    log.close()


# Back


def rows_of(spark: Any, count: int) -> Any:
    return spark.range(count).selectExpr(
        "'Congestion' as subject", "id as segment", "id / 2 as speed", "id % 2 = 0 as ended"
    )


def test_written_events_are_there_once_whatever_runs_again(ready: Any, brokers: Brokers) -> None:
    broker = brokers.start("b1", log=True)
    for parts in (3, 1):
        rows_of(ready, 500).repartition(parts).write.format("vicinal").option("brokers", broker.address).option(
            "name", "congestion"
        ).option("batch", "7").mode("append").save()
    found = ready.read.format("vicinal").option("brokers", broker.address).load()
    assert sorted((row["segment"], row["speed"], row["ended"]) for row in found.collect()) == sorted(
        (row["segment"], row["speed"], row["ended"]) for row in rows_of(ready, 500).collect()
    )
    assert {row["_producer"] for row in found.collect()} == {"congestion"}


def test_a_stream_of_results_goes_back(ready: Any, log: Path, tmp_path: Path, events: list[Event]) -> None:
    def run(checkpoint: str) -> None:
        fast = ready.readStream.format("vicinal").schema(SCHEMA).option("path", str(log))
        query = (
            fast.option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "4000")
            .load()
            .where("rate > 38")
            .selectExpr("'Offence' as subject", "_producer as license_no", "rate", "`$Time`")
            .writeStream.format("vicinal")
            .option("path", str(tmp_path / "out"))
            .option("name", "offences")
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)

    run("one")
    run("two")  # as after a loss of the checkpoint: all again, and nothing twice
    found = read(ready, tmp_path / "out", "license_no string, rate double, `$Time` bigint").collect()
    wanted = [(event.producer, event["rate"], event.attrs["Time"]) for event in events if event["rate"] > 38]
    assert sorted(map(tuple, found)) == sorted(wanted)


@pytest.mark.parametrize(
    ("frame", "options", "said"),
    [
        (lambda s: s.range(1), {}, "want a column `subject`"),
        (lambda s: s.range(1).selectExpr("'' as subject"), {}, "a row cannot be an event: subject"),
        (lambda s: s.range(1).selectExpr("'a' as subject", "array(1) as x"), {}, "column 'x' is list"),
        (lambda s: s.range(1), {"subject": "S", "batch": "x"}, "option batch is 'x'"),
    ],
)
def test_rows_that_are_no_events_say_why(
    ready: Any, tmp_path: Path, frame: Callable[[Any], Any], options: dict[str, str], said: str
) -> None:
    writer = frame(ready).write.format("vicinal").option("path", str(tmp_path / "out")).mode("append")
    for name, value in options.items():
        writer = writer.option(name, value)
    with pytest.raises(Exception, match=said):
        writer.save()
