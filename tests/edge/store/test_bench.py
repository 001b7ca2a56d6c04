"""The benchmark runs; what it measures is for `make bench`."""

from pathlib import Path

from vicinal_tools.bench import store_forward


def test_its_rows(tmp_path: Path) -> None:
    rows = list(store_forward.rows(events=1000, rounds=1, folder=tmp_path))
    assert [row.met is None for row in rows] == [False, False, False, True, False, True]
    assert list(tmp_path.iterdir()) == []
