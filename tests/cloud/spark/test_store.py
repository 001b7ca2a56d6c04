"""Tables as folders: commits that are whole, small files that become few, a small batch without Spark."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from vicinal.errors import VicinalError
from vicinal_cloud.spark.traffic.small import TOGETHER_FROM, together
from vicinal_cloud.spark.traffic.store import Store, StoreInUse


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


def test_small_files_become_one(spark: Any, tmp_path: Path) -> None:
    with Store(tmp_path / "t") as store:
        for number in range(9):
            frame = spark.range(10).selectExpr(f"id + {number * 10} as n", "'d' as day", "'a/b=1' as area")
            store.commit(number, store.stage({"t": frame if number % 2 else frame.toArrow()}))
        store.commit(9, store.stage({"t": spark.range(1).selectExpr("id + 90 as n", "'e' as day", "'a/b=1' as area")}))
        assert len(store.files("t")) == 11  # one of them has no rows
        assert store.compact("t") == 8
        assert store.compact("t") == 0
        assert len(list((tmp_path / "t" / "t").rglob("*.parquet"))) == 3
        found = store.read(spark, "t")
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


def test_a_store_has_one_writer_and_one_query(tmp_path: Path, spark: Any) -> None:
    with Store(tmp_path / "t", "one") as store:
        store.commit(0, store.stage({"t": spark.range(1).selectExpr("id", "'d' as day", "'a' as area")}))
        with pytest.raises(StoreInUse, match="another program writes"):
            Store(tmp_path / "t")
    with pytest.raises(VicinalError, match="filled by another query"):
        Store(tmp_path / "t", "two")


def test_a_commit_that_was_cut_off_is_finished_or_never_was(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = spark.range(10).selectExpr("id", "'d' as day", "'a' as area")
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
