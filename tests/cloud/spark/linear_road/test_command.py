"""vicinal spark linear-road: whole runs, through a real broker and Spark, and what is said when it cannot be."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner
from cloud.spark.linear_road import reference
from cloud.spark.linear_road.helpers import by_key, lines_of
from cloud.spark.linear_road.test_streaming import lines_in

from vicinal_cloud.spark.linear_road.generate import Generator, write_history, write_input
from vicinal_cloud.spark.linear_road.history import TollHistory
from vicinal_cloud.spark.linear_road.plain import LinearRoad
from vicinal_cloud.spark.linear_road.reading import read, read_rows
from vicinal_cloud.spark.linear_road.rows import LeftOut
from vicinal_cloud.spark.linear_road.run import STATE, clean, prepare
from vicinal_tools.main import cli

COMMAND = [sys.executable, "-c", "from vicinal_tools.main import main; main()", "spark", "linear-road"]
SAMPLE = Path(__file__).with_name("data") / "original_20_seconds.dat"
SOAK = bool(os.environ.get("VICINAL_SOAK"))
KILLS = int(os.environ.get("VICINAL_LINEAR_ROAD_KILLS", "20"))

pytestmark = pytest.mark.xdist_group("spark")


def plain(path: Path, history: Path | None = None) -> list[str]:
    road = LinearRoad(None if history is None else TollHistory.load(history))
    return lines_of([*(road.feed(table) for table in read(path, LeftOut())), road.finish()])


def test_the_official_sample_is_answered_as_by_the_reference(tmp_path: Path) -> None:
    left_out = LeftOut()
    rows = list(read_rows(SAMPLE, left_out))
    assert (len(rows), left_out.total) == (280, 0)
    (tmp_path / "history").write_text("231,60,0,42\n231,60,1,43\n231,59,0,44\n")
    lines = plain(SAMPLE, tmp_path / "history")
    wanted = reference.answers(rows, {(231, 60, 0): 42, (231, 60, 1): 43, (231, 59, 0): 44})
    assert by_key(lines) == [tuple(answer) for answer in sorted(wanted)]
    # Nobody crosses into a second segment in 20 s: each vehicle is told once, nothing yet known of its segment.
    assert sum(line.startswith("0,") and line.endswith(",0,0\n") for line in lines) == len(
        {row[2] for row in rows if not row[0]}
    )
    assert [line for line in lines if line.startswith("3,")] == ["3,10,10,0,42\n"]


@pytest.mark.spark
@pytest.mark.slow
def test_a_run_gives_what_the_rules_give(tmp_path: Path) -> None:
    """With rows that are none among them, and gzipped."""
    import gzip

    generator = Generator(2, seed=5, start=1500)
    sum(write_input(tmp_path / "good.csv", generator, 90))
    write_history(tmp_path / "history.csv.gz", generator.vehicles, 2)
    lines = (tmp_path / "good.csv").read_text().splitlines(keepends=True)
    with gzip.open(tmp_path / "input", "wt") as file:
        file.writelines([*lines[:5], "1,2,3\n", *lines[5:900], "what\n", lines[0], *lines[900:]])
    where = ["--input", str(tmp_path / "input"), "--out", str(tmp_path / "out")]
    history = ["--tollhistory", str(tmp_path / "history.csv.gz")]
    done = subprocess.run(
        [*COMMAND, "--json", *where, *history],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        # Seconds of life: the better compiler would not earn what it costs.
        env={**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"},
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "2 rows left out: columns; first in line 6: 3 columns, want 15" in done.stderr
    assert "1 row left out: out of the order of time; first in line 903: " in done.stderr
    assert by_key(lines_in(tmp_path / "out")) == by_key(plain(tmp_path / "good.csv", tmp_path / "history.csv.gz"))
    said = json.loads(done.stdout)
    assert said["rows"] == len(lines)
    files = [tmp_path / "out" / f"type{kind}.csv" for kind in range(4)]
    assert said["answers"] == [len(file.read_text().splitlines()) for file in files]
    assert all(said["answers"][kind] for kind in (0, 2, 3))
    travel_times = sum(row[0] == 4 for row in read_rows(tmp_path / "good.csv", LeftOut()))
    assert sum(said["unanswered"].values()) == travel_times
    assert sorted((tmp_path / "out").iterdir()) == files


@pytest.mark.skipif(not SOAK, reason="minutes: make soak")
def test_a_run_that_is_killed_goes_on(tmp_path: Path) -> None:
    """kill -9, at random, again and again; then it is let be."""
    sum(write_input(tmp_path / "input", Generator(1, seed=6, start=7000), 120))
    random = Random(1)
    command = [*COMMAND, "--input", str(tmp_path / "input"), "--out", str(tmp_path / "out")]
    for _ in range(KILLS):
        process = subprocess.Popen(
            command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(random.uniform(10, 60))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        else:
            break
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    assert by_key(lines_in(tmp_path / "out")) == by_key(plain(tmp_path / "input"))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "empty, want rows of 15 integers"),
        (b"a,b\nc\n", "not one good row of 2"),
        (b"\x1f\x8b\x08\x00", "the gzip file is damaged or cut off"),
    ],
)
def test_what_is_no_input_is_said_before_anything_starts(tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / "input").write_bytes(data)
    done = CliRunner().invoke(
        cli, ["spark", "linear-road", "--input", str(tmp_path / "input"), "--out", str(tmp_path / "out")]
    )
    assert done.exit_code == 2
    assert says in done.output
    assert not (tmp_path / "out").exists()


def test_files_that_are_not_there_are_said(tmp_path: Path) -> None:
    ends = ["--out", str(tmp_path / "out")]
    done = CliRunner().invoke(cli, ["spark", "linear-road", "--input", str(tmp_path / "no"), *ends])
    assert done.exit_code == 2
    assert "No such file" in done.output
    history = ["--tollhistory", str(tmp_path / "none")]
    done = CliRunner().invoke(cli, ["spark", "linear-road", "--input", str(SAMPLE), *ends, *history])
    assert done.exit_code == 2
    assert "none: No such file" in done.output


def test_an_unfinished_run_of_another_input_is_not_gone_on_with(tmp_path: Path) -> None:
    prepare(SAMPLE, tmp_path / "out")
    prepare(SAMPLE, tmp_path / "out")  # the same goes on
    (tmp_path / "input").write_text(SAMPLE.read_text() * 2)
    done = CliRunner().invoke(
        cli, ["spark", "linear-road", "--input", str(tmp_path / "input"), "--out", str(tmp_path / "out")]
    )
    assert done.exit_code == 2
    assert "has an unfinished run of another input" in done.output
    assert STATE in done.output
    clean(tmp_path / "out")
    prepare(tmp_path / "input", tmp_path / "out")


def test_answers_of_a_run_that_is_done_are_not_written_over(tmp_path: Path) -> None:
    prepare(SAMPLE, tmp_path / "out")
    (tmp_path / "out" / "type0.csv").write_text("0,1,2,3,4,5\n")
    prepare(SAMPLE, tmp_path / "out")  # not done
    clean(tmp_path / "out")
    done = CliRunner().invoke(cli, ["spark", "linear-road", "--input", str(SAMPLE), "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert "has the answers of a run that is done: give another folder" in done.output
    assert (tmp_path / "out" / "type0.csv").read_text() == "0,1,2,3,4,5\n"


def test_inputs_are_made(tmp_path: Path) -> None:
    options = ["--seconds", "20", "-L", "2", "--seed", "4", "--tollhistory", str(tmp_path / "history")]
    done = CliRunner().invoke(cli, ["spark", "linear-road-input", str(tmp_path / "input.gz"), *options])
    assert done.exit_code == 0, done.output
    rows = len(list(read_rows(tmp_path / "input.gz", LeftOut())))
    assert f"input.gz: {rows:,} rows, " in done.output
    assert len(TollHistory.load(tmp_path / "history")) > 0
