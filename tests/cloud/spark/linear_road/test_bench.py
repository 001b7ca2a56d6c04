"""The benchmark of Linear Road measures what it says, on little; its long rows are for `make bench`."""

from pathlib import Path

from vicinal_cloud.spark.linear_road.reading import read_rows
from vicinal_cloud.spark.linear_road.rows import LeftOut
from vicinal_tools.bench import linear_road


def test_the_input_is_the_busiest_end_of_the_day(tmp_path: Path) -> None:
    path = linear_road._input(tmp_path, 2, 3)
    rows = list(read_rows(path, LeftOut()))
    assert {row[1] for row in rows} == {10_797, 10_798, 10_799}
    assert 3600 < len(rows) / 3 < 4400
    assert {row[4] for row in rows if row[0] == 0} == {0, 1}


def test_the_rules_alone_are_measured(tmp_path: Path) -> None:
    assert linear_road._plain(linear_road._input(tmp_path, 1, 2)) > 0
