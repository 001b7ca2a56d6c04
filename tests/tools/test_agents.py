"""vicinal agents: what agents said, from a broker's log and as they say it; and telling them to update."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cloud.broker.brokers import COMMAND, PATIENCE, Brokers, Process
from rich.console import Console

from vicinal.event import Event
from vicinal_cloud.broker.client import connect
from vicinal_tools.agents import Agents, ago, table_of
from vicinal_tools.main import cli


def health(name: str, seq: int, **more: Any) -> Event:
    values = {"agent": name, "version": "0.1.0", "mode": "normal", "uptime_s": 5, "delivered": 7, "stored": 1} | more
    return Event("AgentHealth", list(values.items()), (), name, seq)


def test_the_newest_counts_and_strange_events_do_not() -> None:
    agents = Agents()
    assert agents.take(health("b", 5), 1000) is not None
    assert agents.take(health("b", 4, version="0.0.9"), 2000) is None  # it came late
    assert agents.take(health("b", 6, version="0.2.0", update="0.2.0", update_result="confirmed"), 3000) is not None
    assert agents.take(health("a", 1, mode="safe", why="OSError: x"), 3000) is not None
    for event in (Event("AgentHealth"), Event("AgentHealth", [("agent", 5)]), Event("Speed", [("agent", "x")])):
        assert agents.take(event, 4000) is None
    assert agents.strange == 3
    odd = Event("AgentHealth", [("agent", "c"), ("version", 7), ("delivered", "x"), ("free", True)], (), "c", 1)
    assert agents.take(odd, 5000) is not None
    a, b, c = agents.all()
    assert (a.agent, a.is_well, b.agent, b.version, b.is_well) == ("a", False, "b", "0.2.0", True)
    assert (c.version, c.counted["delivered"], c.free) == ("", 0, None)
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(table_of(agents.all(), 125.0))
    text = console.export_text()
    assert "safe: OSError: x" in text
    assert "0.2.0 confirmed" in text
    assert "2 min ago" in text
    assert [ago(seconds) for seconds in (-1, 5, 119, 120, 7200, 200000)] == [
        "0 s ago", "5 s ago", "119 s ago", "2 min ago", "2 h ago", "2 d ago",
    ]  # fmt: skip


@pytest.mark.parametrize("result", ["refused", "went back", "interrupted"])
def test_who_is_not_well(result: str) -> None:
    agents = Agents()
    agents.take(health("a", 1, update="0.2.0", update_result=result, update_why="x"), 1)
    assert not agents.all()[0].is_well


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    found = Brokers(tmp_path_factory.mktemp("brokers"))
    yield found
    found.stop()


@pytest.fixture(scope="module")
def logged(brokers: Brokers) -> Process:
    """A broker with a log, at which three agents have said how they are, among other events."""
    broker = brokers.start("b1", log=True)

    async def publish() -> None:
        for name, last in (
            ("car-7", {"update": "0.2.0", "update_result": "went back", "update_why": "ImportError: x"}),
            ("car-8", {"version": "0.2.0", "update": "0.2.0", "update_result": "confirmed"}),
            ("pi-1", {}),
        ):
            async with await connect(broker.address, name) as client:
                advertisement = await client.advertise("TRUE")
                for seq in range(1, 4):
                    await client.publish(Event("Other", [("n", seq)]), advertisement)
                await client.publish(health(name, 1).replace(producer=None, seq=None), advertisement)
                await client.publish(health(name, 2, **last).replace(producer=None, seq=None), advertisement)

    asyncio.run(publish())
    return broker


def run(broker: Process, *words: str) -> Result:
    return CliRunner().invoke(cli, ["agents", *words, "--broker", broker.address])


def test_from_the_log(logged: Process) -> None:
    found = run(logged, "--json")
    assert found.exit_code == 1, found.output  # one of them is not well
    seen = {one["agent"]: one for one in json.loads(found.stdout)}
    assert sorted(seen) == ["car-7", "car-8", "pi-1"]
    assert seen["car-7"]["update_why"] == "ImportError: x"
    assert (seen["car-8"]["version"], seen["car-8"]["is_well"]) == ("0.2.0", True)
    assert seen["pi-1"]["delivered"] == 7
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(cli, ["agents", "--broker", logged.address])
    assert "0.2.0 went back: ImportError: x" in shown.stdout
    # Only the last records: of the last agent alone.
    last = json.loads(run(logged, "--json", "--back", "2").stdout)
    assert [one["agent"] for one in last] == ["pi-1"]


def test_without_a_log_it_listens(brokers: Brokers) -> None:
    broker = brokers.start("b2")
    found = run(broker, "--for", "0.2")
    assert found.exit_code == 0
    assert "no agent was heard of at b2" in found.stdout
    assert "has no [log]" in found.stderr
    assert "listening for 0 s" in found.stderr
    assert "[[request]]" in found.stderr


def test_following_and_telling(logged: Process) -> None:
    """--follow shows what is said; update tells an agent, and waits for the word on that order and no other."""
    words = ["agents", "--follow", "--json", "--back", "0", "--broker", logged.address]
    follower = subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, text=True)
    words = ["agents", "update", "car-7", "--version", "0.3.0", "--wait", str(PATIENCE), "--json"]
    told: subprocess.Popen[str] | None = None
    try:

        async def agent() -> None:
            nonlocal told
            async with await connect(logged.address, "car-7") as client:
                orders = await client.subscribe("subject = 'AgentUpdate' AND agent = 'car-7'")
                advertisement = await client.advertise("subject = 'AgentHealth'")
                told = subprocess.Popen(
                    [*COMMAND, *words, "--broker", logged.address], stdout=subprocess.PIPE, text=True
                )
                async with asyncio.timeout(PATIENCE):
                    order = (await anext(aiter(orders))).event
                assert order["version"] == "0.3.0"
                old = {"update": "0.2.0", "update_result": "confirmed", "update_order": "somebody 1"}
                new = {"update": "0.3.0", "update_result": "refused", "update_why": "the signature"}
                of = {"update_order": f"{order.producer} {order.seq}"}
                for more in (old, old | of | {"update_result": "fetching"}, new | of):
                    event = health("car-7", 0, **more).replace(producer=None, seq=None)
                    await client.publish(event, advertisement)

        asyncio.run(agent())
        assert told is not None
        out, _ = told.communicate(timeout=PATIENCE)
        assert told.returncode == 1
        ends = [json.loads(line) for line in out.splitlines()]
        assert [(one["update"], one["update_result"]) for one in ends] == [("0.3.0", "refused")]
        assert follower.stdout is not None
        results = [json.loads(follower.stdout.readline())["update_result"] for _ in range(3)]
        assert results == ["confirmed", "fetching", "refused"]
    finally:
        follower.kill()
        follower.communicate()
        if told is not None:
            told.kill()
            told.communicate()


def test_who_does_not_answer(logged: Process) -> None:
    found = run(logged, "update", "car-9")
    assert (found.exit_code, "told car-9" in found.stdout) == (0, True)
    found = run(logged, "update", "car-9", "--wait", "0.3")
    assert found.exit_code == 1
    assert "no word of how it ended from car-9 within 0.3 s" in found.stderr
    found = run(logged, "update", "car-9", "--version", "new")
    assert (found.exit_code, "--version: version 'new'" in found.stderr) == (2, True)


def test_without_a_broker(tmp_path: Path) -> None:
    found = CliRunner().invoke(cli, ["agents", "--broker", "tcp://127.0.0.1:1"])
    assert found.exit_code == 1
    assert "vicinal broker run" in found.stderr
