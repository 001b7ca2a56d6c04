"""`vicinal spark ingest`, killed with SIGKILL again and again: nothing lost, nothing twice."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from cloud.broker.brokers import Brokers, Process
from cloud.spark import town

pytest.importorskip("pyspark")

from vicinal.event import Event
from vicinal_cloud.broker.client import connect

KILLS = int(os.environ.get("VICINAL_SPARK_KILLS", "20" if os.environ.get("VICINAL_SOAK") else "0"))
COMMAND = [sys.executable, "-c", "from vicinal_tools.main import main; main()"]
PATIENCE = 300.0


class Ingest:
    """In a process group of its own, with its JVM and its workers."""

    def __init__(self, source: "str | Path", out: Path, *more: str) -> None:
        """The address of a broker, or the folder of a log."""
        self.process = subprocess.Popen(
            [
                *COMMAND,
                "spark",
                "ingest",
                "--path" if isinstance(source, Path) else "--brokers",
                str(source),
                "--out",
                str(out),
                "--json",
                "--master",
                "local[2]",
                *more,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"},
        )
        self.batches: list[dict[str, Any]] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.batches.append(json.loads(line))

    def wait_for(self, count: int) -> None:
        limit = time.monotonic() + PATIENCE
        while len(self.batches) < count:
            assert self.process.poll() is None, self.process.stderr.read() if self.process.stderr else ""
            if time.monotonic() > limit:
                self.kill()
                said = self.process.stderr.read() if self.process.stderr else ""
                pytest.fail(f"{len(self.batches)} of {count} batches in {PATIENCE} s: {said}")
            time.sleep(0.02)

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Town:
    """Cars that publish through a broker, which is killed too, now and then, and comes back where it was."""

    def __init__(self, folder: Path) -> None:
        self.events = [event for event, _ in town.drive(40, 25)]
        self.brokers = Brokers(folder)
        self.broker: Process = self.brokers.start("b1", log=True)
        self.said = 0

    def publish(self, count: int) -> None:
        """As of now: what is older than a quarter of an hour would be late."""
        some, now = self.events[self.said : self.said + count], time.time_ns() // 1_000_000
        self.said += len(some)
        by_car: dict[str, list[Event]] = {}
        for event in some:
            stamped = Event(event.subject, event.params, {"Time": now}, event.producer, event.seq)
            by_car.setdefault(event.producer or "", []).append(stamped)

        async def run() -> None:
            for car, events in by_car.items():
                async with await connect(self.broker.address, car) as client:
                    advertisement = await client.advertise("subject IS NOT NULL")
                    assert await (await client.submit_many(events, advertisement)) == {}

        asyncio.run(run())

    def kill_broker(self) -> None:
        self.broker.kill()
        self.broker = self.brokers.start("b1", listen=self.broker.address, log=True)


@pytest.mark.slow
@pytest.mark.skipif(not KILLS, reason="each start of Spark takes long: make soak, or VICINAL_SPARK_KILLS=2")
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("derived", [False, True])
def test_killed_at_random_the_tables_are_the_truth(tmp_path: Path, derived: bool) -> None:
    """Positions alone, whose batches are quick; and with all that follows from them, refreshed with each batch."""
    chance = random.Random(9)
    cars = Town(tmp_path)
    kills = max(2, KILLS // 4) if derived else KILLS
    what = ("--refresh", "0") if derived else ("--positions-only",)
    share = len(cars.events) // (3 * kills + 1)
    out = tmp_path / "tables"
    try:
        for kill in range(kills):
            cars.publish(share)
            running = Ingest(cars.broker.address, out, "--most", str(share // 3), *what)
            try:
                # Anywhere: before the first batch, and in the middle of any of its steps.
                if chance.random() < 0.85:
                    running.wait_for(chance.randrange(1, 4))
                    cars.publish(share)
                    if kill % 4 == 1:
                        cars.kill_broker()
                        cars.publish(share)
                        running.wait_for(len(running.batches) + 1)
                # A refresh takes some seconds, a batch of positions some tenths of one.
                time.sleep(chance.uniform(0, 8 if derived else 1.5))
            finally:
                running.kill()
        cars.publish(len(cars.events))
        last = Ingest(cars.broker.address, out, "--once", *what)
        assert last.process.wait(PATIENCE) == 0, last.process.stderr.read() if last.process.stderr else ""
        if derived:
            at_once = [*COMMAND, "spark", "traffic", "--brokers", cars.broker.address, "--master", "local[2]"]
            subprocess.run([*at_once, "--out", str(tmp_path / "again")], check=True, capture_output=True)
    finally:
        cars.brokers.stop()
    check(out, cars.events)
    if derived:
        same(out, tmp_path / "again")


def same(out: Path, other: Path) -> None:
    """What follows from positions is what a batch makes of the same log."""
    from vicinal_cloud.spark.traffic.reading import read
    from vicinal_cloud.spark.traffic.run import DERIVED

    (_, found), (_, wanted) = read(out, *DERIVED), read(other, *DERIVED)
    assert len(wanted["trips"])
    assert len(wanted["offences"])
    for name in DERIVED:
        columns = sorted(wanted[name].columns)
        assert rows(found[name], columns) == rows(wanted[name], columns), name


def rows(frame: Any, columns: list[str]) -> list[str]:
    return sorted(map(str, frame.reindex(columns=columns).itertuples(index=False)))


def check(out: Path, events: list[Event]) -> None:
    """Read as anybody would, and as the store has it."""
    import pandas as pd

    frame = pd.read_parquet(out / "positions", columns=["vehicle_id", "seq"])
    found = sorted(frame.itertuples(index=False, name=None))
    assert found == sorted((event.producer, event.seq) for event in events)
    state = json.loads((out / "_vicinal" / "state.json").read_text())
    assert state["notes"]["counts"]["read"] == state["notes"]["counts"]["position"] == len(events)
    assert not [one for one in out.rglob("*.parquet") if one.stat().st_size == 0]
    for name, files in state["files"].items():
        assert {one.relative_to(out).as_posix() for one in (out / name).rglob("*.parquet")} == set(files)
