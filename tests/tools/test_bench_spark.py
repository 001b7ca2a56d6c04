"""What the benchmark of Spark is made of, small and without Spark: the log is one, and asking it reads little."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from vicinal_cloud.log import LogReader, event_of
from vicinal_tools.bench.spark import _pushed
from vicinal_tools.bench.spark_log import CARS, START, make_log


def test_the_log_is_one_that_a_broker_could_have_written(tmp_path: Path) -> None:
    log = make_log(tmp_path / "log", 20_000)
    reader = LogReader(log)
    records, following = reader.read(0, 20_000)
    assert (following, reader.next, reader.damage) == (len(records), 20_000, {})
    for record in (records[0], records[1234], records[-1]):
        event = event_of(record)
        assert (event.producer, event.seq) == (record.producer, record.seq)
        assert event.producer == f"car-{1000 + record.offset % CARS}"
        assert event.attrs["Time"] == record.time == START + record.offset * 6
    reader.close()
    assert make_log(tmp_path / "log", 20_000) == log  # is there, and taken
    figures = {row.what: row.met for row in _pushed(log) if "minute" not in row.what}  # all of it is one of two minutes
    assert len(figures) == 3
    assert all(figures.values()), figures
