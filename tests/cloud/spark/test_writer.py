"""What the writer publishes is there once, and is never taken for a repetition of something else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cloud.broker.brokers import Brokers
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql import Row
from pyspark.sql.types import LongType, StringType, StructField, StructType

from vicinal_cloud.log import Log, LogReader, event_of
from vicinal_cloud.spark.network import BrokerLog
from vicinal_cloud.spark.writer import NotPublished, _Target

SCHEMA = StructType([StructField("subject", StringType()), StructField("n", LongType())])


def publish(options: dict[str, str], numbers: list[int], batch: int, parts: int = 1) -> None:
    target = _Target({"name": "offences", **options}, SCHEMA, stream=True)
    rows = [Row(subject="Offence", n=number) for number in numbers]
    target.publish([target.encoded(iter(rows[part::parts])) for part in range(parts)], batch)


def numbers_in(log: Path) -> list[Any]:
    reader = LogReader(log)
    try:
        return [event_of(record)["n"] for record in reader.read(0, 1 << 20)[0]]
    finally:
        reader.close()


@settings(max_examples=60, deadline=None)
@given(
    runs=st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from([1, 2, 3, 70, 200]),  # the log knows the last 64 to 128 one by one
            st.integers(1, 2),
        ),
        max_size=8,
    )
)
def test_a_batch_is_published_once_or_refused(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[int, int, int]]
) -> None:
    """A model: what is there of each batch."""
    folder = tmp_path_factory.mktemp("log")
    Log(folder).close()
    there: dict[int, list[int]] = {}
    for batch, count, kind in runs:
        numbers = [kind * 1000 + one for one in range(count)]
        if there.get(batch) == numbers or batch > max(there, default=-1):
            publish({"path": str(folder)}, numbers, batch, parts=kind)
            there[batch] = numbers
        else:
            with pytest.raises(NotPublished, match="offences"):
                publish({"path": str(folder)}, numbers, batch)
        assert sorted(numbers_in(folder)) == sorted(one for some in there.values() for one in some)


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    made = Brokers(tmp_path)
    yield made
    made.stop()


def test_the_second_day_is_not_dropped_for_the_first(brokers: Brokers, tmp_path: Path) -> None:
    """Over the network, as df.write without `batch` twice, and as a stream whose checkpoint is gone."""
    broker = brokers.start("b1", log=True)
    options = {"brokers": broker.address}
    publish(options, list(range(300)), 0)
    publish(options, list(range(300)), 0, parts=3)
    for numbers in ([7], list(range(1, 301)), list(range(301))):
        with pytest.raises(NotPublished, match=r"batch 0 of 'offences' was published before.*option\(\"batch\""):
            publish(options, numbers, 0)
    publish(options, [1, 2], 1)
    publish(options, list(range(300)), 0)
    with pytest.raises(NotPublished, match="with other rows"):
        publish(options, [5], 0)
    log = BrokerLog(broker.address, {})
    try:
        assert log.ends() == (0, 302)
    finally:
        log.close()


def test_a_broker_without_a_log_drops_nothing(brokers: Brokers) -> None:
    broker = brokers.start("b1")
    publish({"brokers": broker.address}, [1, 2], 0)
