"""What comes in: files as they are, and what is wrong with them said with its line."""

import gzip
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from cloud.spark.linear_road.helpers import by_key, expenditure, lines_of, report, run
from cloud.spark.linear_road.traffic import traffic
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal_cloud.spark.linear_road.errors import BadHistory, BadInput
from vicinal_cloud.spark.linear_road.generate import HISTORY_DAYS, Generator, rate_at, write_history, write_input
from vicinal_cloud.spark.linear_road.history import TollHistory
from vicinal_cloud.spark.linear_road.plain import LinearRoad
from vicinal_cloud.spark.linear_road.reading import read, read_rows
from vicinal_cloud.spark.linear_road.rows import COLUMNS, LeftOut, RowError, parse

# What is generated takes long, and is generated once, by one worker.
pytestmark = pytest.mark.xdist_group("road")

# Linear Road's official 20-second sample has this form: the original generator's, without positions in queries.
ORIGINAL = [
    "0,0,107,32,0,0,0,10,53320,-1,-1,-1,-1,-1,-1",
    "0,0,109,20,0,0,0,19,100644,-1,-1,-1,-1,-1,-1",
    "3,10,231,-1,0,-1,-1,-1,-1,0,-1,-1,-1,-1,60",
    "2,10,231,-1,-1,-1,-1,-1,-1,1,-1,-1,-1,-1,-1",
    "4,11,231,-1,0,-1,-1,-1,-1,2,3,9,2,600,-1",
]
WALMART = [
    "0,0,107,32,0,0,0,10,53320,-1,-1,-1,-1,-1,-1",
    "2,0,107,32,0,0,0,10,53320,0,-1,-1,-1,-1,-1",
    "3,0,107,32,0,0,0,10,53320,1,-1,-1,-1,-1,17",
]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(line + "\n" for line in lines))
    return path


@pytest.mark.parametrize("lines", [ORIGINAL, WALMART], ids=["original", "Walmart"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_both_forms_are_read_plain_and_gzipped(tmp_path: Path, lines: list[str], packed: bool, end: str) -> None:
    data = ((end or "\n").join(lines) + end).encode()
    path = tmp_path / "input"
    path.write_bytes(gzip.compress(data) if packed else data)
    left_out = LeftOut()
    rows = list(read_rows(path, left_out))
    assert [",".join(map(str, row)) for row in rows] == lines
    assert left_out.total == 0


@pytest.mark.parametrize(
    ("line", "reason", "says"),
    [
        ("0,5", "columns", "2 columns, want 15"),
        ("", None, ""),
        ("0,5,1,x,0,1,0,10,53000,-1,-1,-1,-1,-1,-1", "spd is no integer", "spd is 'x', want an integer"),
        ("0,5,1,3.5,0,1,0,10,53000,-1,-1,-1,-1,-1,-1", "spd is no integer", "spd is '3.5'"),
        ("0,5,1,,0,1,0,10,53000,-1,-1,-1,-1,-1,-1", "spd is no integer", "spd is ''"),
        ("0,5,1,0x1F,0,1,0,10,53000,-1,-1,-1,-1,-1,-1", "spd is no integer", "'0x1F'"),
        ("0,5,1,1_0,0,1,0,10,53000,-1,-1,-1,-1,-1,-1", "spd is no integer", "'1_0'"),
        ("0,5,1,255,0,1,0,10,53000,-1,-1,-1,-1,-1,-1", "spd out of range", "spd is 255, want -100..200"),
        ("0,5,1,30,0,5,0,10,53000,-1,-1,-1,-1,-1,-1", "lane out of range", "lane is 5, want 0..4"),
        ("0,5,1,30,0,1,2,10,53000,-1,-1,-1,-1,-1,-1", "dir out of range", "dir is 2, want 0..1"),
        ("0,5,1,30,0,1,0,100,53000,-1,-1,-1,-1,-1,-1", "seg out of range", "seg is 100, want 0..99"),
        ("0,5,1,30,0,1,0,99,528000,-1,-1,-1,-1,-1,-1", "pos out of range", "pos is 528000"),
        ("0,-5,1,30,0,1,0,10,53000,-1,-1,-1,-1,-1,-1", "time out of range", "time is -5"),
        ("0,5,1,30,-1,1,0,10,53000,-1,-1,-1,-1,-1,-1", "xway out of range", "xway is -1"),
        ("3,5,1,-1,0,-1,-1,-1,-1,7,-1,-1,-1,-1,70", "day out of range", "day is 70, want 1..69"),
        ("2,5,1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1", "qid out of range", "qid is -1"),
        ("1,5,1,30,0,1,0,10,53000,-1,-1,-1,-1,-1,-1", "type", "type is 1, want 0, 2, 3 or 4"),
        ("0,2,1,30,0,1,0,10,53000,-1,-1,-1,-1,-1,-1", "out of the order of time", "time 2 after 3: sort"),
        ("0,5,1,30,0,1,0,10,53000,-1,-1,-1,-1,-1,99999999999999999999", "too large", "64 bits"),
        ("type,time,vid,spd,xway,lane,dir,seg,pos,qid,sinit,send,dow,tod,day", "type is no integer", "type is 'type'"),
        ("\ufeff0,5,1,30,0,1,0,10,53000,-1,-1,-1,-1,-1,-1", "type is no integer", "type is"),
    ],
)
def test_a_row_that_is_none_is_named_and_left_out(tmp_path: Path, line: str, reason: str | None, says: str) -> None:
    good = "0,3,1,30,0,1,0,10,53000,-1,-1,-1,-1,-1,-1"
    path = write(tmp_path / "input", [good, line, good])
    left_out = LeftOut()
    assert len(list(read_rows(path, left_out))) == 2
    assert dict(left_out.counts) == ({} if reason is None else {reason: 1})
    if reason is not None:
        assert left_out.say()[0].startswith(f"1 row left out: {reason}; first in line 2: ")
        assert says in left_out.say()[0]


@settings(max_examples=15)  # small blocks are slow ones
@given(st.integers(0, 2**32), st.integers(60, 3000))
def test_blocks_end_anywhere(seed: int, block: int) -> None:
    """Also in the middle of a row, and with bad rows in some of them: all are found, with their lines."""
    rows = traffic(seed)
    lines = [",".join(map(str, row)) for row in rows]
    bad = set(range(7, len(lines), 50))
    for place in bad:
        lines[place] = "broken," + lines[place]
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, "input"), lines)
        left_out = LeftOut()
        if len(lines) == len(bad):
            return
        found = [tuple(row) for table in read(path, left_out, block) for row in table.tolist()]
    assert found == [row for place, row in enumerate(rows) if place not in bad]
    assert left_out.total == len(bad)
    if bad:
        assert left_out.first["columns"].line == min(bad) + 1


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "empty, want rows of 15 integers: type, time"),
        (b"\n\n", "empty, want rows"),
        (b"hello\n", "not one good row of 1"),
        (gzip.compress(b"0,0,1\n" * 5000)[:-20], "the gzip file is damaged or cut off"),
        (gzip.compress(b""), "empty"),
        (b"0" * 3_000_000, "line 1 is longer than"),
        (b"\xff\xfe\x00bin\n", "not one good row"),
    ],
    ids=["nothing", "line ends", "words", "cut off", "nothing, packed", "a long line", "bytes"],
)
def test_what_is_no_input_is_said(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "input"
    path.write_bytes(data)
    with pytest.raises(BadInput, match="input") as caught:
        list(read(path, LeftOut()))
    assert says in str(caught.value)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        list(read(tmp_path / "nothing", LeftOut()))
    with pytest.raises(BadHistory, match="No such file"):
        TollHistory.load(tmp_path / "nothing")


@given(st.text())
def test_no_text_breaks_the_parser(line: str) -> None:
    with suppress(RowError):
        assert len(parse(line)) == len(COLUMNS)


# -- the toll history --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
def test_the_history_is_looked_up_by_vehicle_day_and_expressway(tmp_path: Path, packed: bool) -> None:
    data = b"7,1,0,10\n7,2,0,20\n7,1,1,30\n8,1,0,40\n7,2,0,21\n2147483647,69,32767,50\n"
    path = tmp_path / "history"
    path.write_bytes(gzip.compress(data) if packed else data)
    history = TollHistory.load(path)
    assert [history.toll(*key) for key in [(7, 1, 0), (7, 1, 1), (8, 1, 0), (7, 2, 0)]] == [10, 30, 40, 21]
    assert history.toll(2147483647, 69, 32767) == 50
    assert [history.toll(*key) for key in [(7, 3, 0), (9, 1, 0), (0, 0, 0), (8, 1, 1)]] == [None] * 4


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"7,1,0\n", "want rows of four integers"),
        (b"7,1,0,x\n", "want rows of four integers"),
        (b"7,1,,5\n", "want rows of four integers"),
        (b"7,1,0,5\n-7,1,0,5\n", "row 2: vid is -7, want 0..2147483647"),
        (b"7,256,0,5\n", "row 1: day is 256, want 0..255"),
        (b"7,1,40000,5\n", "row 1: xway is 40000, want 0..32767"),
    ],
)
def test_a_bad_history_is_said(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "history"
    path.write_bytes(data)
    with pytest.raises(BadHistory) as caught:
        TollHistory.load(path)
    assert says in str(caught.value)


def test_an_empty_history_answers_nothing(tmp_path: Path) -> None:
    (tmp_path / "history").write_bytes(b"")
    assert len(TollHistory.load(tmp_path / "history")) == 0
    assert run([expenditure(1, 2, 3, 4)], (), TollHistory.load(tmp_path / "history")) == []


# -- the generator -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Generator]:
    folder = tmp_path_factory.mktemp("generated")
    generator = Generator(2, seed=3, start=2000)
    sum(write_input(folder / "input.csv.gz", generator, 1500))
    write_history(folder / "history.csv", generator.vehicles, 2)
    return folder / "input.csv.gz", folder / "history.csv", generator


def test_a_generated_input_keeps_the_rules_of_reports(generated: tuple[Path, Path, Generator]) -> None:
    left_out = LeftOut()
    rows = list(read_rows(generated[0], left_out))
    assert left_out.total == 0
    last: dict[int, tuple[int, ...]] = {}
    seconds = {row[1] for row in rows}
    assert seconds == set(range(2000, 3500))
    for row in rows:
        if row[0] != 0:
            continue
        assert row[7] == row[8] // 5280
        before = last.get(row[2])
        if before is None or before[5] == 4:
            assert row[5] == 0 or row[1] < 2030
            assert before is None or row[1] - before[1] > 60
        else:
            assert row[1] - before[1] == 30
            assert (before[4], before[6]) == (row[4], row[6])
            assert (row[8] - before[8]) * (1 if row[6] == 0 else -1) >= 0 or row[3] == 0
        last[row[2]] = row
    assert {row[4] for row in last.values()} == {0, 1}
    reports = sum(row[0] == 0 for row in rows)
    wanted = 2 * sum(rate_at(second) for second in range(2000, 3500))
    assert abs(reports / wanted - 1) < 0.05
    kinds = [row[0] for row in rows if row[0]]
    assert 0.008 < len(kinds) / reports < 0.012
    assert 0.4 < kinds.count(2) / len(kinds) < 0.6
    assert 0.05 < kinds.count(3) / len(kinds) < 0.15
    assert sorted(row[9] for row in rows if row[0]) == list(range(len(kinds)))


def test_a_generated_input_has_something_to_say_of_each_type(generated: tuple[Path, Path, Generator]) -> None:
    history = TollHistory.load(generated[1])
    assert len(history) == generated[2].vehicles * HISTORY_DAYS * 2
    road = LinearRoad(history)
    answers = [road.feed(table) for table in read(generated[0], LeftOut())]
    lines = by_key(lines_of([*answers, road.finish()]))
    assert any(key[0] == 0 and says[1] > 0 for key, says in lines)
    assert any(key[0] == 1 for key, _ in lines)
    assert any(key[0] == 2 and says[1] > 0 for key, says in lines)
    expenditures = sum(row[0] == 3 for row in read_rows(generated[0], LeftOut()))
    assert sum(key[0] == 3 for key, _ in lines) == expenditures  # every vehicle has a history


def test_one_seed_one_input(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        sum(write_input(tmp_path / name, Generator(3, seed), 40))
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b != c


def test_the_position_decides_nothing_but_the_place() -> None:
    """A row whose segment is not that of its position, as in examples of others, is taken as it says."""
    rows = [report(0, 1, 5, pos=0), report(30, 1, 6, pos=0), report(60, 1, 6, pos=0)]
    assert [key for key, _ in by_key(run(rows))] == [(0, 1, 0), (0, 1, 30)]
