"""The same answers on Spark: wherever micro-batches end, and each once, whatever is killed when."""

import os
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cloud.spark.linear_road.helpers import Row, by_key, history_of, run
from cloud.spark.linear_road.test_rules import HISTORY, cuts
from cloud.spark.linear_road.traffic import traffic

from vicinal_cloud.spark.linear_road.answers import FILES
from vicinal_cloud.spark.linear_road.office import Office
from vicinal_cloud.spark.linear_road.rows import COLUMNS
from vicinal_cloud.spark.linear_road.sink import Sink
from vicinal_cloud.spark.linear_road.streaming import END, ROWS, Batch, each_batch, found_in

_SCHEMA = pa.schema(
    [(name, pa.int64() if kind == "long" else pa.int32()) for name, kind in (one.split() for one in ROWS.split(", "))]
)


class Killed(Exception):
    pass


def write_batches(folder: Path, rows: Sequence[Row], places: Sequence[int], seed: int) -> None:
    """One file a micro-batch, its rows in no order."""
    folder.mkdir()
    random = Random(seed)
    numbered = [dict(zip(COLUMNS, row), n=n) for n, row in enumerate(rows)]
    numbered.append({**dict.fromkeys(COLUMNS, -1), "type": END, "n": len(rows)})
    ends = [0, *places, len(numbered)]
    for number, (begin, end) in enumerate(zip(ends, ends[1:])):  # noqa: RUF007
        some = numbered[begin:end]
        random.shuffle(some)
        table = pa.Table.from_pylist([{name: row[name] for name in _SCHEMA.names} for row in some], _SCHEMA)
        path = folder / f"{number:04}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_000_000 + number, 1_000_000 + number))  # Spark takes the oldest first


def start(spark: Any, folder: Path, office: Office, kill: Any = lambda number: None) -> None:
    """Until all files are read, or `kill` raises."""
    rows = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))

    def do(number: int, batch: Batch) -> None:
        kill(2 * number)
        office.do(number, batch)
        kill(2 * number + 1)

    query = (
        found_in(rows)
        .writeStream.foreachBatch(each_batch(do))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def lines_in(folder: Path) -> list[str]:
    return [line for name in FILES for line in (folder / name).read_text().splitlines(keepends=True)]


def test_answers_are_those_of_one_process(spark: Any, tmp_path: Path) -> None:
    seed = next(seed for seed in range(1000) if len(alerts_and_tolls(seed)) == 3)
    rows = traffic(seed)
    write_batches(tmp_path / "in", rows, cuts(seed, rows)[:5], seed)
    sink = Sink(tmp_path / "out", tmp_path / "state.sqlite")
    office = Office(sink, history_of(HISTORY))
    start(spark, tmp_path, office)
    assert office.ended.is_set()
    sink.close()
    wanted = run(rows, (), history_of(HISTORY))
    assert by_key(lines_in(tmp_path / "out")) == by_key(wanted)
    assert sum(office.answered) == len(wanted)


def test_a_run_that_is_killed_and_started_again_gives_each_answer_once(spark: Any, tmp_path: Path) -> None:
    """After the operator's state was made and before it is in the files; and after that, before Spark knows of it."""
    seed = next(seed for seed in range(2000, 3000) if len(alerts_and_tolls(seed)) == 3)
    rows = traffic(seed)
    write_batches(tmp_path / "in", rows, [len(rows) // 4, len(rows) // 2, len(rows) * 3 // 4], seed)

    def kill_at(place: int) -> Any:
        def kill(number: int) -> None:
            if number == place:
                raise Killed(str(number))

        return kill

    for place in (1, 4, 5, None):
        sink = Sink(tmp_path / "out", tmp_path / "state.sqlite")
        office = Office(sink, history_of(HISTORY))
        if place is None:
            start(spark, tmp_path, office)
            assert office.ended.is_set()
        else:
            with pytest.raises(Exception, match=f"Killed: {place}"):
                start(spark, tmp_path, office, kill_at(place))
            with (tmp_path / "out" / "type0.csv").open("a") as file:
                file.write("0,1,2,3,")  # half a row, of a commit that never came
        sink.close()
    assert by_key(lines_in(tmp_path / "out")) == by_key(run(rows, (), history_of(HISTORY)))


def alerts_and_tolls(seed: int) -> set[str]:
    """Whether this traffic has what a test needs: an alert, a toll, a balance that is not 0."""
    answers = by_key(run(traffic(seed)))
    return {
        *("alert" for key, _ in answers if key[0] == 1),
        *("toll" for key, says in answers if key[0] == 0 and says[1]),
        *("balance" for key, says in answers if key[0] == 2 and says[1]),
    }
