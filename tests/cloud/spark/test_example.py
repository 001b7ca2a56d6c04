"""The example that an analyst starts from, and the commands on what it has made."""

import runpy
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("pyspark")

from vicinal_cloud.log import Log
from vicinal_cloud.spark.traffic.store import Store
from vicinal_tools.main import cli

EXAMPLE = Path(__file__).parents[3] / "tools" / "examples" / "fleet_tables" / "fleet.py"


def test_it_runs(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLE))
    said = capsys.readouterr().out
    assert "'position': 3600" in said
    assert (tmp_path / "tables" / "offences").is_dir()
    html = (tmp_path / "report.html").read_text()
    assert html.count("<svg") >= 1
    assert "3,600 positions" in html
    assert "http" not in html  # nothing to load from anywhere
    done = CliRunner().invoke(cli, ["spark", "report", "tables", "--html", "again.html"])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "again.html").read_text() == html


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["spark", "traffic", "--out", "x"], "want --path DIR, --brokers ADDRESSES or --kafka HOST:PORT"),
        (["spark", "traffic", "--out", "x", "--path", "none"], "--path none: there is no such directory"),
        (["spark", "ingest", "--out", "x", "--path", "log", "--filter", "rate >"], "--filter: "),
        (["spark", "ingest", "--out", "x", "--path", "log", "--network", "none.geojson"], "none.geojson"),
        (["spark", "ingest", "--out", "x", "--path", "log", "--path", "none"], "--path none: there is no such"),
        (["spark", "ingest", "--out", "x", "--path", "log", "--brokers", "tcp://h:1"], "one of them"),
        (["spark", "ingest", "--out", "x", "--brokers", "b1.log"], "--brokers b1.log: want an address"),
        (["spark", "ingest", "--out", "x", "--path", "log", "--token-file", "none"], "--token-file none: there is no"),
        (["spark", "ingest", "--out", "x", "--path", "log", "--office", "none.toml"], "none.toml: No such file"),
        (["spark", "ingest", "--out", "x", "--path", "log", "--every", "-1"], "-1.0 is not in the range"),
        (["spark", "ingest", "--out", "x", "--path", "log", "--refresh", "inf"], "inf is not in the range"),
        (["spark", "traffic", "--out", "x", "--path", "."], "there is no event log"),
        (["spark", "traffic", "--out", "made", "--path", "log"], "--out made has tables already: give another"),
        (["spark", "report", "."], "no tables: want the --out of"),
    ],
)
def test_bad_input_is_named_before_anything_is_started(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Log(tmp_path / "log").close()
    with Store(tmp_path / "made") as store:
        store.commit(0, store.stage({}))
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 2
    assert said in done.output
    assert {one.name for one in tmp_path.iterdir()} == {"log", "made"}
