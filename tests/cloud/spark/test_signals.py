"""`vicinal spark ingest` ends in order and without a word when all its processes are told to, as by Ctrl-C."""

import os
import signal
from pathlib import Path

import pytest
from cloud.spark import town
from cloud.spark.test_kill import PATIENCE, Ingest, check

pytest.importorskip("pyspark")

from vicinal_cloud.log import Log, entry_of


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
@pytest.mark.skipif(not os.environ.get("VICINAL_SOAK"), reason="each start of Spark takes long: make soak")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_whole_group_is_told(tmp_path: Path, number: signal.Signals) -> None:
    events = town.drive(20, 10)
    log, out = tmp_path / "log", tmp_path / "tables"
    writer = Log(log)
    for event, received in events:
        writer.append_batch([entry_of(event)], received)
    running = Ingest(log, out, "--most", "100", "--positions-only")
    try:
        running.wait_for(1)
        os.killpg(running.process.pid, number)  # as a terminal does, and as systemd does
        code = running.process.wait(PATIENCE)
        said = running.process.stderr.read().splitlines() if running.process.stderr else []
        assert (code, [line for line in said if "JAVA_TOOL_OPTIONS" not in line]) == (0, ["starting Spark"])
    finally:
        if running.process.poll() is None:
            running.kill()
    writer.close()
    check(out, [event for event, _ in events[: sum(one["read"] for one in running.batches)]])
