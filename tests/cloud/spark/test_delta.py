"""The tables as Delta tables: what another library reads there is what the store says, whenever a writer is killed.

Files as Spark writes them, made without it: their rows and the words for their schema are all that counts here.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq

from vicinal.errors import VicinalError
from vicinal_cloud.spark.traffic import delta, store
from vicinal_cloud.spark.traffic.store import Store


class Frame:
    """As much of a DataFrame as the store asks of one: rows that are written by day and area."""

    def __init__(self, rows: Sequence[tuple[int, str, str]], extra: bool = False) -> None:
        self.rows = rows
        self.extra = extra
        self.columns = ["seq", "day", "area"]

    def coalesce(self, parts: int) -> "Frame":
        return self

    write = property(lambda self: self)

    @property
    def schema(self) -> Any:
        from pyspark.sql.types import LongType, StringType, StructType

        found = StructType().add("seq", LongType())
        return (found.add("note", StringType()) if self.extra else found).add("day", "string").add("area", "string")

    def mode(self, what: str) -> "Frame":
        return self

    def partitionBy(self, *names: str) -> "Frame":  # noqa: N802 - Spark's name
        return self

    def option(self, *what: str) -> "Frame":
        return self

    def parquet(self, where: str) -> None:
        for at, (day, area) in enumerate(sorted({row[1:] for row in self.rows})):
            folder = Path(where, f"day={day}", f"area={area.replace(':', '%3A')}")
            folder.mkdir(parents=True)
            fields: list[dict[str, Any]] = [{"name": "seq", "type": "long", "nullable": True, "metadata": {}}]
            columns: dict[str, Any] = {
                "seq": pa.array([row[0] for row in self.rows if row[1:] == (day, area)], pa.int64())
            }
            if self.extra:
                fields.append({"name": "note", "type": "string", "nullable": True, "metadata": {}})
                columns["note"] = pa.array(["x"] * len(columns["seq"]))
            said = json.dumps({"type": "struct", "fields": fields})
            table = pa.table(columns).replace_schema_metadata({"org.apache.spark.sql.parquet.row.metadata": said})
            pq.write_table(table, folder / f"part-{at}.parquet")


def commit(found: Store, batch: int | None, seqs: Sequence[int], table: str = "positions", **more: Any) -> None:
    extra = more.pop("extra", False)
    rows = [(seq, f"2026-11-{10 + seq % 3}", ("old-town", "a:b c")[seq % 2]) for seq in seqs]
    found.commit(batch, found.stage({table: Frame(rows, extra)}), **more)  # type: ignore[dict-item]


def read(out: Path, table: str = "positions") -> list[tuple[int, str, str]]:
    found = deltalake.DeltaTable(str(out / table)).to_pyarrow_table().to_pylist()
    return sorted((row["seq"], row["day"], row["area"]) for row in found)


def test_another_library_reads_what_was_committed(tmp_path: Path) -> None:
    with Store(tmp_path, "q", delta=True) as found:
        commit(found, 0, range(10))
        commit(found, 1, range(10, 25))
        assert [row[0] for row in read(tmp_path)] == list(range(25))
        assert read(tmp_path)[1] == (1, "2026-11-11", "a:b c")
        assert found._delta["positions"].version == 1
    # Opened without being asked for it: a log that is there would else say what was.
    with Store(tmp_path, "q") as found:
        commit(found, 2, [99])
    assert [row[0] for row in read(tmp_path)] == [*range(25), 99]


def test_what_is_replaced_is_gone(tmp_path: Path) -> None:
    with Store(tmp_path, "q", delta=True) as found:
        commit(found, 0, range(10), "trips")
        commit(found, None, range(3), "trips", replaced={"trips": found.files("trips")})
    assert [row[0] for row in read(tmp_path, "trips")] == [0, 1, 2]
    last = (tmp_path / "trips" / "_delta_log" / f"{1:020d}.json").read_text().splitlines()
    changes = [action["remove"]["dataChange"] for action in map(json.loads, last) if "remove" in action]
    assert changes == [True] * 7, "other rows; of those that are put together they are the same"


def test_a_store_of_parquet_becomes_delta(tmp_path: Path) -> None:
    with Store(tmp_path, "q") as found:
        commit(found, 0, range(10))
    assert not (tmp_path / "positions" / "_delta_log").exists()
    with Store(tmp_path, "q", delta=True):
        assert [row[0] for row in read(tmp_path)] == list(range(10))
    with Store(tmp_path, "q") as found:  # nothing was committed meanwhile
        commit(found, 1, [10])
    assert [row[0] for row in read(tmp_path)] == list(range(11))


def test_a_column_that_is_new(tmp_path: Path) -> None:
    with Store(tmp_path, "q", delta=True) as found:
        commit(found, 0, [1])
        commit(found, 1, [2], extra=True)
    table = deltalake.DeltaTable(str(tmp_path / "positions")).to_pyarrow_table()
    assert sorted((row["seq"], row["note"]) for row in table.to_pylist()) == [(1, None), (2, "x")]


def test_small_batches_are_written_without_spark(tmp_path: Path) -> None:
    """As `vicinal spark ingest` does with each: all that a position has, and what comes from Spark beside it."""
    from vicinal_cloud.spark.traffic.reports import JUDGED

    kinds = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64(), "boolean": pa.bool_()}
    kinds["timestamp"] = pa.timestamp("us", "UTC")
    columns = {name: pa.nulls(1, kinds[kind]) for name, kind in (part.split() for part in JUDGED.split(", "))}
    columns |= {"seq": pa.array([7]), "day": pa.array(["d"]), "area": pa.array(["a"])}
    with Store(tmp_path, "q", delta=True) as found:
        found.commit(0, found.stage({"positions": pa.table(columns)}))
        found.commit(1, found.stage({"positions": pa.table({**columns, "seq": pa.array([8])})}))
    table = deltalake.DeltaTable(str(tmp_path / "positions")).to_pyarrow_table()
    assert sorted(table.column("seq").to_pylist()) == [7, 8]
    assert set(table.schema.names) == set(columns)
    with pytest.raises(VicinalError, match="column 'x' is list"), Store(tmp_path / "other", "q", delta=True) as found:
        found.commit(0, found.stage({"t": pa.table({"x": [[1]], "day": ["d"], "area": ["a"]})}))


class Killed(BaseException):
    pass


@pytest.mark.parametrize("at", range(0, 40, 1 if os.environ.get("VICINAL_SOAK") else 4))
def test_killed_at_any_call_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Whatever a commit was doing: opened again, the store and the Delta table say the same, a batch or none of it."""
    with Store(tmp_path, "q", delta=True) as found:
        commit(found, 0, range(10))
    left = at

    def counted(function: Any) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return function(*arguments, **more)

        return call

    found = Store(tmp_path, "q")
    with monkeypatch.context() as patched:
        for module in (store.os, delta.os):
            for name in ("fsync", "link"):
                patched.setattr(module, name, counted(getattr(os, name)))
        for name in ("replace", "unlink", "mkdir"):
            patched.setattr(Path, name, counted(getattr(Path, name)))
        try:
            commit(found, 1, range(10, 20), replaced={"positions": found.files("positions")[:2]})
        except Killed:
            pass
        finally:
            os.close(found._lock)
    with Store(tmp_path, "q") as again:
        assert again.batch in (0, 1)
        rows = sum(pq.read_metadata(file).num_rows for file in again.files("positions"))
        assert len(read(tmp_path)) == rows == again.rows("positions")
        assert [row[0] for row in read(tmp_path)] == sorted(
            seq for file in again.files("positions") for seq in pq.ParquetFile(file).read().column("seq").to_pylist()
        )


def test_checkpoints_are_made_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta, "_CHECKPOINT_EVERY", 4)
    with Store(tmp_path, "q", delta=True) as found:
        for number in range(6):
            commit(found, number, [number])
    assert list((tmp_path / "positions" / "_delta_log").glob("*.checkpoint.parquet"))
    with Store(tmp_path, "q") as found:
        commit(found, 6, [6])
    assert [row[0] for row in read(tmp_path)] == list(range(7))


def test_a_version_of_somebody_else_is_not_written_over(tmp_path: Path) -> None:
    with Store(tmp_path, "q", delta=True) as found:
        commit(found, 0, [1])
        (tmp_path / "positions" / "_delta_log" / f"{1:020d}.json").write_text("{}\n")
        with pytest.raises(VicinalError, match="another program writes this Delta table"):
            commit(found, 1, [2])


def test_without_the_library_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta, "find_spec", lambda name: None)
    with pytest.raises(VicinalError, match=r"pip install 'vicinal\[delta\]'"):
        Store(tmp_path / "new", "q", delta=True)
    assert not (tmp_path / "new").exists()
