"""Plug-ins that raise, hang, lie and go away: the gateway stays up, says what happened, and loses nothing by it."""

import asyncio
from collections.abc import Iterator
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from edge.gateway.faulty import FaultyAdapter
from edge.gateway.within import Ear, applied, balanced, gateway, until

from vicinal.event import Event
from vicinal_edge.adapters.memory import spaces
from vicinal_edge.gateway import config, service
from vicinal_edge.gateway.status import status

PAIR = """
[[service]]
name = "bus"
type = "memory"
[[service]]
name = "office"
type = "faulty"
store = {store}
[[request]]
type = "subscribe"
source = "office"
to = "bus"
filter = "subject = 'Speed'"
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The faulty adapter as a plug-in, and times of a test."""
    plug_in = EntryPoint("faulty", "edge.gateway.faulty:FaultyAdapter", "vicinal.adapters")
    real = config.entry_points

    def found(**params: Any) -> Any:
        return [plug_in] if params.get("name") == "faulty" else real(**params)

    monkeypatch.setattr(config, "entry_points", found)
    for name in ("CONNECT", "REQUEST", "PUBLISH", "ACKNOWLEDGE", "DISCONNECT"):
        monkeypatch.setattr(service, name, 0.3)
    monkeypatch.setattr(service, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(service, "LAST_WAIT", 0.05)
    FaultyAdapter.plans.clear()
    FaultyAdapter.made.clear()
    spaces.clear()
    yield
    spaces.clear()


def speed(n: int) -> Event:
    return Event("Speed", [("n", n)], producer="car-7", seq=n)


FAULTS = [
    {"connect": ["raise", "hang", "away", "raise"]},
    {"publish": ["raise"]},
    {"publish": ["hang", "", "hang"]},
    {"publish": ["", "away", "", "away"]},
    {"publish": ["lost", "raise", "lost"]},
    {"acknowledge": ["yes", "", "yes"]},
    {"announce": ["raise"], "publish": ["", "raise"]},
    {"disconnect": ["raise", "hang"], "publish": ["away", "away"]},
    {"construct": ["", "", "", "yes"], "publish": ["away"]},
    {"connect": ["cancel", "exit"], "publish": ["cancel", "", "exit"]},
    {"disconnect": ["cancel", "exit"], "announce": ["exit"], "publish": ["away", "away"]},
    {"acknowledge": ["never", "", "never"]},
]


@pytest.mark.parametrize("store", ["true", "false"])
@pytest.mark.parametrize("plan", FAULTS, ids=lambda plan: "+".join(plan))
def test_whatever_an_adapter_does_every_event_arrives_in_order(
    plan: dict[str, list[str]], store: str, tmp_path: Path
) -> None:
    async def work() -> None:
        FaultyAdapter.plans["office"] = {verb: list(faults) for verb, faults in plan.items()}
        async with gateway(tmp_path, PAIR.format(store=store)) as node:
            bus, office = Ear("bus"), Ear("office")
            await until(lambda: applied(node), "the request is applied")
            for n in range(1, 21):
                bus.publish(speed(n))
                await asyncio.sleep(0.002)
            await until(lambda: len({event["n"] for event in office.of("Speed")}) == 20, "all arrive")
            assert balanced(node)
            found = [event["n"] for event in office.of("Speed")]
            first = [n for at, n in enumerate(found) if n not in found[:at]]
            if "acknowledge" not in plan:  # a service that takes what comes after what it has not taken breaks order
                assert first == list(range(1, 21))

    asyncio.run(work())


def test_one_that_fails_again_and_again_is_left_alone_and_others_go_on(tmp_path: Path) -> None:
    async def work() -> None:
        FaultyAdapter.plans["office"] = {"connect": ["raise"] * 100}
        more = PAIR.format(store="true") + '[[service]]\nname = "other"\ntype = "memory"\n'
        more += '[[request]]\ntype = "subscribe"\nsource = "other"\nto = "bus"\nfilter = "subject = \'Speed\'"\n'
        async with gateway(tmp_path, more) as node:
            bus, other = Ear("bus"), Ear("other")
            await until(lambda: node.services["office"].state == "quarantined", "quarantined")
            made = FaultyAdapter.made["office"]
            await until(lambda: node.engine.services["bus"].match(speed(1)) == ["office", "other"], "both asked")
            bus.publish(speed(1))
            await until(lambda: other.of("Speed"), "the other has it")
            await asyncio.sleep(0.2)
            assert FaultyAdapter.made["office"] == made, "it is left alone"
            shown = {one["name"]: one for one in status(node)["services"]}
            assert "connect went wrong" in shown["office"]["reason"]
            assert shown["office"]["out"]["stored"] == 1, "what is for it is kept"
            assert balanced(node)

    asyncio.run(work())


def test_a_refusal_is_an_answer_and_not_a_fault(tmp_path: Path) -> None:
    async def work() -> None:
        FaultyAdapter.plans["office"] = {"subscribe": ["refuse"], "publish": ["refuse"]}
        more = PAIR.format(store="false")
        more += '[[request]]\ntype = "subscribe"\nsource = "bus"\nto = "office"\nfilter = "rate > 1"\n'
        async with gateway(tmp_path, more) as node:
            bus, office = Ear("bus"), Ear("office")

            def goals() -> dict[str, Any]:
                return {one["what"]: one["services"] for one in node.engine.requests.report()}

            await until(lambda: goals().get("rate > 1", {}).get("office", {}).get("state") == "refused", "refused")
            assert goals()["rate > 1"]["office"]["reason"] == "refused: subscribe is not for me"
            await until(lambda: goals()["subject = 'Speed'"]["bus"]["state"] == "applied", "the other is applied")
            bus.publish(speed(1))
            bus.publish(speed(2))
            await until(lambda: office.of("Speed"), "the second arrives")
            assert [event["n"] for event in office.of("Speed")] == [2]
            assert status(node)["dropped"] == {"refused by the service": 1}
            assert node.services["office"].lives == 1
            assert balanced(node)

    asyncio.run(work())


def test_malformed_input_is_counted_and_a_broken_status_is_no_fault(tmp_path: Path) -> None:
    async def work() -> None:
        FaultyAdapter.plans["office"] = {"status": ["yes"]}
        async with gateway(tmp_path, PAIR.format(store="false")) as node:
            await until(lambda: node.services["office"].state == "up", "up")
            for _ in range(1000):
                node.services["office"].malformed("not an event")
            shown = {one["name"]: one for one in status(node)["services"]}
            assert shown["office"]["adapter"] == {}
            assert shown["office"]["in"]["dropped"] == {"malformed": 1000}
            assert {one["name"]: one for one in status(node)["services"]}["office"]["adapter"] == {"faulty": 1}

    asyncio.run(work())


def test_a_slow_service_is_not_one_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What forty events take together is more than the time in which something must be said."""
    monkeypatch.setattr(service, "ACKNOWLEDGE", 0.6)
    last = asyncio.Lock()

    async def publish(self: FaultyAdapter, event: Event) -> "asyncio.Future[None]":
        async def say() -> None:
            async with last:
                await asyncio.sleep(0.05)
            self.space.publish(event, self)

        return asyncio.ensure_future(say())

    async def work() -> None:
        monkeypatch.setattr(FaultyAdapter, "publish", publish)
        async with gateway(tmp_path, PAIR.format(store="true")) as node:
            bus, office = Ear("bus"), Ear("office")
            await until(lambda: applied(node), "the request is applied")
            for n in range(1, 41):
                bus.publish(speed(n))
            await until(lambda: len(office.of("Speed")) == 40, "all arrive")
            assert node.services["office"].lives == 1

    asyncio.run(work())


def test_one_whose_acknowledgement_fails_is_started_anew(tmp_path: Path) -> None:
    async def work() -> None:
        async with gateway(tmp_path, PAIR.format(store="true")) as node:
            await until(lambda: applied(node), "the request is applied")
            told: list[int] = []

            def taken(n: int) -> None:
                told.append(n)
                if n == 1:
                    raise RuntimeError("not this one")

            bus = node.services["bus"]
            for n in (1, 2):
                bus.received(speed(n), partial(taken, n))
            await until(lambda: told == [1, 2], "the second is told, too")
            await until(lambda: bus.lives == 2 and bus.state == "up", "it lives again")

    asyncio.run(work())
