"""A gateway whose name and configuration come from a fleet: named once, new versions on trial, the last good one back.

The fleet is the test here, on a service in memory; tests/cloud/fleet has the real one.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from edge.gateway.within import Ear, until

from vicinal.event import Event
from vicinal.federation.provisioning import HELLO, GatewayConfig, GatewayHello
from vicinal_edge.adapters.memory import spaces
from vicinal_edge.gateway import managed as managed_module
from vicinal_edge.gateway.config import load
from vicinal_edge.gateway.managed import Managed

INSTALLED = """
[gateway]
[[service]]
name = "office"
type = "memory"
[fleet]
service = "office"
trial_s = 1
"""
NEXT = (
    INSTALLED
    + '[[service]]\nname = "bus"\ntype = "memory"\n'
    + "[[request]]\ntype = 'subscribe'\nsource = 'office'\nto = 'bus'\nfilter = 'rate > 30'\n"
)


class Fleet(Ear):
    """Answers every hello with what it is told to."""

    def __init__(self) -> None:
        super().__init__("office")
        self.name = "gw-7"
        self.version = 0
        self.text = b""
        self.count = 0
        self.hellos: list[GatewayHello] = []

    def hear(self, event: Event) -> None:
        if event.subject != HELLO:
            return
        hello = GatewayHello.from_event(event)
        self.hellos.append(hello)
        text = self.text if self.version and hello.version != self.version else None
        self.count += 1
        answer = GatewayConfig(hello.uid, self.name, self.version, text, hello.failed).to_event()
        asyncio.get_running_loop().call_soon(self.publish, answer.stamp("fleet", self.count))


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(managed_module, "_LOOK", 0.05)
    spaces.clear()
    yield
    spaces.clear()


@asynccontextmanager
async def managed(folder: Path) -> AsyncIterator[Managed]:
    file = folder / "gateway.toml"
    file.write_text(INSTALLED)
    made = Managed(load(file), lambda server: None)
    # Not by moving a hello that is due: an answer that is under way just then puts it off again.
    made.provisioning.hello_ms = 200
    stop = asyncio.Event()
    task = asyncio.get_running_loop().create_task(made.run(stop))
    try:
        yield made
    finally:
        stop.set()
        await task


def name_of(made: Managed) -> str:
    return "" if made.server is None else made.server.node.name


def services_of(made: Managed) -> list[str]:
    return [] if made.server is None else list(made.server.node.services)


def test_a_name_is_given_once_and_kept(tmp_path: Path) -> None:
    async def work() -> None:
        fleet = Fleet()
        async with managed(tmp_path) as made:
            await until(lambda: name_of(made) == "gw-7", "the name is used")
            uid = made.uid
        assert fleet.hellos[0].name == ""
        fleet.hellos.clear()
        async with managed(tmp_path) as made:
            await until(lambda: fleet.hellos, "it says hello")
            assert (name_of(made), made.uid) == ("gw-7", uid)
            assert (fleet.hellos[0].name, fleet.hellos[0].uid) == ("gw-7", uid)

    asyncio.run(work())


def test_a_new_configuration_passes_its_trial_and_a_bad_one_is_rolled_back(tmp_path: Path) -> None:
    async def work() -> None:
        fleet = Fleet()
        async with managed(tmp_path) as made:
            fleet.version, fleet.text = 3, NEXT.encode()
            await until(lambda: services_of(made) == ["office", "bus"], "version 3 runs")
            await until(lambda: made.provisioning.good == 3, "it has passed")
            assert made.provisioning.state == "settled"
            fleet.version, fleet.text = 4, NEXT.replace("memory", "nothing").encode()
            await until(lambda: [one for one in fleet.hellos if one.failed == 4], "the failure is told")
            assert (made.provisioning.good, services_of(made)) == (3, ["office", "bus"])
            assert "for which there is no adapter" in next(one for one in fleet.hellos if one.failed == 4).health
            fleet.version, fleet.text = 5, NEXT.replace('[fleet]\nservice = "office"\ntrial_s = 1\n', "").encode()
            await until(lambda: [one for one in fleet.hellos if one.failed == 5], "the failure is told")
            assert made.provisioning.good == 3
        assert json.loads((tmp_path / "state" / "fleet" / "state.json").read_text())["bad"] == [4, 5]
        assert sorted(file.name for file in (tmp_path / "state" / "fleet").glob("*.toml")) == ["3.toml"]
        async with managed(tmp_path) as made:
            await until(lambda: services_of(made) == ["office", "bus"], "the last good one, after a restart")

    asyncio.run(work())


def test_a_configuration_that_is_not_healthy_is_rolled_back(tmp_path: Path) -> None:
    async def work() -> None:
        fleet = Fleet()
        async with managed(tmp_path) as made:
            made.provisioning.patience_ms = 2000
            await until(lambda: name_of(made) == "gw-7")
            away = NEXT.replace(
                'name = "bus"\ntype = "memory"', 'name = "bus"\ntype = "mqtt"\naddress = "mqtt://127.0.0.1:1"'
            )
            fleet.version, fleet.text = 3, away.encode()
            await until(lambda: [one for one in fleet.hellos if one.failed == 3], "the failure is told")
            assert services_of(made) == ["office"]
            assert "bus is" in next(one for one in fleet.hellos if one.failed == 3).health

    asyncio.run(work())
