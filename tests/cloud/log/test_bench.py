"""The benchmark runs; what it measures is for `make bench`."""

from pathlib import Path

from vicinal_tools.bench import event_log


def test_its_rows(tmp_path: Path) -> None:
    rows = list(event_log.rows(events=400, rounds=1, folder=tmp_path))
    assert [row.met is None for row in rows] == [False, False, True]
    assert list(tmp_path.iterdir()) == []
