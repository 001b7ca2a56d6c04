"""The template of an adapter, as a user has it: installed from its folder, its tests run, and a gateway with it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from edge.gateways import Gateways

TEMPLATE = Path(__file__).parents[2] / "edge" / "template"
PATIENCE = 60.0
PAIR = """
[[service]]
name = "notes"
type = "lines"
path = "notes.jsonl"
[[service]]
name = "fast"
type = "lines"
path = "fast.jsonl"
poll_ms = 20
[[request]]
type = "subscribe"
source = "fast"
to = "notes"
filter = "subject = 'Speed' AND rate > 30"
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip has put it; from the folder alone, with no network."""
    target = tmp_path_factory.mktemp("installed")
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(TEMPLATE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (target / "vicinal_lines" / "__init__.py").exists()
    return target


def test_its_own_tests_pass(installed: Path, tmp_path: Path) -> None:
    copy = tmp_path / "test_lines.py"  # away from the folder: what is tested is what was installed
    copy.write_text((TEMPLATE / "test_lines.py").read_text())
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(copy)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "passed" in done.stdout


def test_a_gateway_with_it(installed: Path, gateways: Gateways) -> None:
    one = gateways.start("g1", PAIR, {"PYTHONPATH": str(installed)})
    wait(lambda: one.up and one.applied, one.log)
    notes, fast = (gateways.folder / "g1" / f"{name}.jsonl" for name in ("notes", "fast"))
    with notes.open("a") as file:
        for rate in (20, 57, 58):
            file.write(json.dumps({"subject": "Speed", "params": {"rate": rate}}) + "\n")
    wait(lambda: len(fast.read_text().splitlines()) == 2, one.log)
    found = [json.loads(line) for line in fast.read_text().splitlines()]
    assert [event["params"]["rate"] for event in found] == [57, 58]
    assert {event["attrs"]["Source"] for event in found} == {"notes"}
    with notes.open("a") as file:
        file.write("hello\n")
    wait(lambda: one.status()["services"][0]["in"]["malformed"] == 1, one.log)
    assert one.up


def wait(condition, log) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, log()
        time.sleep(0.05)
