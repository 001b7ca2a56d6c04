"""`vicinal kafka mirror` and `status`, of a real broker into a real Kafka."""

import asyncio
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("confluent_kafka")

from cloud.broker.brokers import Brokers
from cloud.kafka.server import Kafka
from cloud.kafka.topics import append, in_topic, judge
from nursery import environment

from vicinal.event import Event
from vicinal_cloud.broker.client import connect
from vicinal_cloud.log import Log
from vicinal_tools.main import cli

COMMAND = [sys.executable, "-c", "from vicinal_tools.main import main; main()", "kafka"]


def publish(address: str, numbers: range) -> None:
    async def run() -> None:
        async with await connect(address, "car-7") as client:
            advertisement = await client.advertise("subject IS NOT NULL")
            events = [Event("Speed", {"rate": one}, producer="car-7", seq=one) for one in numbers]
            assert await (await client.submit_many(events, advertisement)) == {}

    asyncio.run(run())


def test_a_broker_over_the_network(server: Kafka, topic: str, tmp_path: Path) -> None:
    """The broker is killed meanwhile, and comes back."""
    brokers = Brokers(tmp_path)
    broker = brokers.start("b1", log=True)
    address = broker.address
    publish(address, range(300))
    where = ["--kafka", server.servers, "--topic", topic]
    mirror = subprocess.Popen(
        [*COMMAND, "mirror", *where, "--broker", address, "--log", "b1", "--json", "--partitions", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        assert _until(mirror, 300)["mirrored"] == 300
        broker.kill()
        broker = brokers.start("b1", listen=address, log=True)
        publish(address, range(300, 500))
        assert _until(mirror, 500) == {
            "log": "b1",
            "next": 500,
            "mirrored": 500,
            "hidden": 0,
            "lost": 0,
            "last": [499, "car-7", 499],
        }
        mirror.send_signal(signal.SIGTERM)
        _, said = mirror.communicate(timeout=60)
        assert (mirror.returncode, said) == (0, "")
        # In process: what a person sees.
        runner = CliRunner()
        done = runner.invoke(cli, ["kafka", "status", *where])
        assert done.exit_code == 0, done.output
        assert "b1: up to offset 500: 500 mirrored, 0 hidden, 0 lost" in done.output
        told: dict[str, Any] = json.loads(runner.invoke(cli, ["kafka", "status", *where, "--json"]).output)
        assert told["logs"]["b1"]["next"] == 500
        assert set(told["partitions"]) == {"0", "1"}
        # Another log by the same name.
        broker.kill()
        shutil.rmtree(tmp_path / "b1.log")
        broker = brokers.start("b1", log=True)
        publish(broker.address, range(20))
        done = runner.invoke(cli, ["kafka", "mirror", *where, "--broker", broker.address, "--log", "b1", "--once"])
        assert done.exit_code == 2
        assert "500 of b1 are mirrored, and it has 20: another log has this name now" in done.output
    finally:
        if mirror.poll() is None:
            mirror.kill()
        brokers.stop()
    found = [record.seq for some in in_topic(server.servers, topic).values() for record in some]
    assert found == list(range(500)), "one producer: one partition, in its order"


def _until(mirror: "subprocess.Popen[str]", following: int) -> dict[str, Any]:
    assert mirror.stdout is not None
    for line in mirror.stdout:
        said: dict[str, Any] = json.loads(line)
        if said.get("next", 0) >= following:
            return said
    raise AssertionError(mirror.stderr.read() if mirror.stderr else "")


def test_a_directory(server: Kafka, topic: str, tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    append(log, range(50))
    log.close()
    where = ["--kafka", server.servers, "--topic", topic, "--path", str(tmp_path / "log")]
    done = CliRunner().invoke(cli, ["kafka", "mirror", *where, "--once"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"{tmp_path / 'log'} up to offset 50: 50 mirrored (")
    judge(tmp_path / "log", server.servers, topic)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--path", "nowhere"], "--path nowhere: there is no such directory"),
        (["--scoped"], "--scoped goes with --path"),
        (["--kafka-config", "bad.conf", "--path", "."], "bad.conf, line 2: 'what', want name=value"),
    ],
)
def test_what_cannot_be_asked(more: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.conf").write_text("# a comment\nwhat\n")
    done = CliRunner().invoke(cli, ["kafka", "mirror", "--kafka", "127.0.0.1:1", "--topic", "t", *more])
    assert done.exit_code == 2
    assert said in done.output
