"""The same tables from Kafka as from the log: Spark's own connector reads what a mirror has put there."""

import itertools
import os
from pathlib import Path
from typing import Any

import pytest
from cloud.spark import town
from kafka_server import kafka

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

from cloud.kafka.server import Kafka
from cloud.kafka.topics import mirrored
from jars import Missing
from spark_session import kafka_connector

from vicinal.errors import VicinalError
from vicinal.event import Event
from vicinal.wire import encode
from vicinal_cloud.kafka.cursor import Cursor
from vicinal_cloud.kafka.message import Message
from vicinal_cloud.kafka.writer import KafkaWriter
from vicinal_cloud.log import Log, LogOptions, entry, entry_of
from vicinal_cloud.spark.kafka import connector, events
from vicinal_cloud.spark.source import register
from vicinal_cloud.spark.traffic.places import Places
from vicinal_cloud.spark.traffic.run import DERIVED, Tables, all_of, stream
from vicinal_cloud.traffic.limits import Limits

SCHEMA = "subject string, _producer string, _seq bigint, _log string, _offset bigint, _received_ms bigint, "
SCHEMA += "_error string, rate double, lat bigint, `$Time` bigint"
_NUMBERS = itertools.count()
# All that follows from positions follows in the same way, and each takes seconds.
FOLLOWING = DERIVED if os.environ.get("VICINAL_SOAK") else ("segment_speeds",)


@pytest.fixture(scope="module")
def ready(spark: Any) -> Any:
    try:
        kafka_connector()
    except Missing as error:
        pytest.skip(f"SPARK'S KAFKA CONNECTOR IS MISSING, TESTS SKIPPED: {error}")
    register(spark)
    return spark


@pytest.fixture(scope="module")
def server(ready: Any) -> Kafka:
    return kafka()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A town, what goes wrong in it, bytes that are no event, and what retention has taken."""
    folder = tmp_path_factory.mktemp("log") / "log"
    made = Log(folder, LogOptions(segment_bytes=20_000, max_bytes=152_000))
    made.append_batch([entry_of(Event("Old", {}, {}, "old", at)) for at in range(2000)], town.START)
    happened = town.drive(40, 20) + [(event, received) for event, received, _ in town.bad()]
    for event, received in sorted(happened, key=lambda one: one[1]):
        made.append_batch([entry_of(event)], received)
    made.append_batch([entry(b"\x85\x00", "stranger", 1)], town.START)
    assert made.first == 2000, "the old ones, and none of the others"
    made.close()
    return folder


@pytest.fixture(scope="module")
def topic(server: Kafka, log: Path) -> str:
    name = f"town-{next(_NUMBERS)}"
    mirrored(log, server.servers, name, str(log), skip_lost=True)
    return name


def options(server: Kafka, topic: str, **more: str) -> dict[str, str]:
    return {"kafka": server.servers, "topic": topic, **more}


def places() -> Places:
    network = town.network()
    return Places(network, Limits(network.timezone))


def rows(frame: Any) -> list[str]:
    return sorted(map(str, frame.collect()))


@pytest.mark.parametrize("condition", [None, "subject = 'Speed' AND rate > 30", "lat IS NULL OR rate = 40"])
def test_the_same_rows_as_from_the_log(ready: Any, server: Kafka, log: Path, topic: str, condition: str | None) -> None:
    more = {} if condition is None else {"filter": condition}
    source = ready.read.format("vicinal").schema(SCHEMA).option("path", str(log)).option("failOnDataLoss", "false")
    source = source.option("startingOffsets", f'{{"{log}": 0}}')
    if condition is not None:
        source = source.option("filter", condition)
    wanted = rows(source.load())
    found = rows(events(ready.read, options(server, topic, **more), SCHEMA))
    assert len(found) > 100
    assert found == wanted


def tables(out: Path) -> dict[str, list[str]]:
    """By another reader: pandas."""
    import pandas as pd

    found = {}
    for folder in sorted(one for one in out.iterdir() if one.is_dir() and one.name != "_vicinal"):
        frame = pd.read_parquet(folder)
        frame = frame.reindex(sorted(frame.columns), axis=1)
        found[folder.name] = sorted(map(str, frame.itertuples(index=False)))
    return found


def test_the_same_tables_as_from_the_log(ready: Any, server: Kafka, log: Path, topic: str, tmp_path: Path) -> None:
    """From the log at once, from Kafka in small batches."""
    from_log = {"path": str(log), "failOnDataLoss": "false", "startingOffsets": f'{{"{log}": 0}}'}
    at_once = Tables(ready, tmp_path / "log", places(), query="batch", derived=FOLLOWING)
    at_once.ingest(all_of(ready, from_log), 0)
    at_once.refresh()
    counts = at_once.store.notes["counts"]
    at_once.close()
    made = Tables(ready, tmp_path / "kafka", places(), query="ingest", derived=FOLLOWING)
    query = stream(ready, options(server, topic, maxOffsetsPerTrigger="600"), made, {"availableNow": True})
    query.awaitTermination()
    made.refresh()
    assert made.store.batch >= 1, "several batches"
    assert {name: count for name, count in made.store.notes["counts"].items() if count} == {
        name: count for name, count in counts.items() if count
    }
    made.close()
    wanted = tables(tmp_path / "log")
    assert {"positions", "late", "quarantine", "segment_speeds"} <= set(wanted)
    assert tables(tmp_path / "kafka") == wanted


def test_what_no_mirror_has_put_there(ready: Any, server: Kafka) -> None:
    name = f"strangers-{next(_NUMBERS)}"
    good = encode(Event("Speed", {"rate": 7.5}, {"Time": 3}, "car-1", 4))
    with KafkaWriter(server.servers, name, "x", partitions=1) as writer:
        said = [Message(b"k", good, 99, []), Message(b"\xff", b"hello", 99, [("vicinal-offset", b"many")])]
        writer.append([*said, Message(b"", None, 99, [])], Cursor(3))
    found = {row["_offset"]: row for row in events(ready.read, options(server, name), SCHEMA).collect()}
    assert (found[0]["rate"], found[0]["_producer"], found[0]["_seq"], found[0]["_log"]) == (
        7.5,
        "car-1",
        4,
        f"{name}/0",
    )
    assert (found[0]["_received_ms"], found[0]["_error"]) == (99, None)
    assert "not an event" in found[1]["_error"]
    assert "a message without a value: 1 events, offsets 2 to 2" in found[2]["_error"]


def test_only_what_is_committed_is_read(ready: Any, server: Kafka) -> None:
    name = f"pending-{next(_NUMBERS)}"
    data = encode(Event("Speed", {"rate": 1}, {}, "car-1", 4))
    with KafkaWriter(server.servers, name, "x", partitions=1) as writer:
        writer.append([Message(b"k", data, 99, [])], Cursor(1))
        writer._producer.begin_transaction()
        writer._produce(Message(b"k", data, 99, []))
        writer._producer.flush(30)
        found = events(ready.read, options(server, name), SCHEMA).count()
        writer._producer.abort_transaction(30)
        assert found == events(ready.read, options(server, name), SCHEMA).count() == 1


def test_options_are_checked(ready: Any) -> None:
    with pytest.raises(VicinalError, match="option 'topic' is missing"):
        events(ready.read, {"kafka": "x:1"}, SCHEMA)
    with pytest.raises(VicinalError, match="option 'brokers' is unknown"):
        events(ready.read, {"kafka": "x:1", "topic": "t", "brokers": "y"}, SCHEMA)


def test_the_connector_is_the_one_of_this_spark() -> None:
    import pyspark

    assert connector() == {"spark.jars.packages": f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--kafka", "x:1"], "--kafka HOST:PORT and --topic TOPIC go together"),
        (["--kafka", "x:1", "--topic", "t", "--kafka-option", "what"], "--kafka-option what: want NAME=VALUE"),
        (["--path", ".", "--kafka", "x:1", "--topic", "t"], "one of them"),
        (["--kafka", "x:1", "--topic", "t", "--jars", "nowhere/*.jar"], "--jars nowhere/*.jar: there is no such file"),
    ],
)
def test_what_cannot_be_asked(more: list[str], said: str, tmp_path: Path) -> None:
    """Before anything is started."""
    from click.testing import CliRunner

    from vicinal_tools.main import cli

    done = CliRunner().invoke(cli, ["spark", "traffic", "--out", str(tmp_path / "out"), *more])
    assert done.exit_code == 2
    assert said in done.output
