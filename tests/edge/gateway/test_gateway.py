"""One gateway in the test's process: flow, mapping, tunnels, context, what survives a restart, what is shown."""

import asyncio
import json
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from edge.gateway.within import Ear, applied, balanced, gateway, until
from spec_helpers import spec

from vicinal.control import SUBJECT, Answer, Echo, Publication, Subscription
from vicinal.event import Event
from vicinal.federation.capabilities import Capabilities
from vicinal.proximity import Proximity
from vicinal.tables_cpython import ConfigError
from vicinal_edge.adapters.memory import MemoryAdapter, spaces
from vicinal_edge.contract import RecordingPort, settings
from vicinal_edge.gateway.config import load, loads
from vicinal_edge.gateway.run import Server
from vicinal_edge.gateway.status import metrics, status

PAIR = """
[[service]]
name = "A"
type = "memory"
{a}
[[service]]
name = "B"
type = "memory"
{b}
[[request]]
type = "subscribe"
source = "B"
to = "A"
filter = "{filter}"
{more}
"""


def pair(a: str = "", b: str = "", filter: str = "subject = 'Speed'", more: str = "") -> str:
    return PAIR.format(a=a, b=b, filter=filter, more=more)


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    spaces.clear()
    yield
    spaces.clear()


def speed(n: int, **attrs: Any) -> Event:
    return Event("Speed", [("n", n)], attrs, producer="car-7", seq=n)


def numbers(ear: Ear) -> list[Any]:
    return [event["n"] for event in ear.of("Speed")]


def shown(node: Any, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in status(node)["services"] if one["name"] == name)
    return found


def test_a_bus_is_not_flooded_and_what_is_too_much_is_counted(tmp_path: Path) -> None:
    async def work() -> None:
        flow = "[service.flow]\nin_rate = 1\nin_count = 5\n"
        async with gateway(tmp_path, pair(a=flow)) as node:
            bus, other = Ear("A"), Ear("B")
            await until(lambda: applied(node))
            start = shown(node, "A")["in"]["received"]
            for n in range(1, 21):
                bus.publish(speed(n))
            found = shown(node, "A")["in"]
            assert found["received"] - start == 20
            assert found["waiting"] == 5
            assert found["dropped"]["faster than in_rate"] in (14, 15)
            await until(lambda: numbers(other), "the first has passed")

        async with gateway(
            tmp_path / "out", pair(b="[service.flow]\nout_rate = 1\nout_count = 5\nout_burst = 1\n")
        ) as node:
            bus, other = Ear("A"), Ear("B")
            await until(lambda: applied(node))
            for n in range(1, 21):
                bus.publish(speed(n))
            await until(lambda: numbers(other), "the first has passed")
            found = shown(node, "B")["out"]
            assert sum(found["dropped"].values()) >= 14
            assert len(numbers(other)) <= 3
            assert balanced(node)

    asyncio.run(work())


def test_what_gateways_say_does_not_flood_a_bus_either(tmp_path: Path) -> None:
    """Echoes of somebody behind another gateway, and the answers to them."""

    async def work() -> None:
        async with gateway(tmp_path, pair(b="[service.flow]\nout_rate = 1\nout_burst = 5\n")) as node:
            other = Ear("B")
            await until(lambda: applied(node))
            start, heard = node.now(), len(other.heard)
            for n in range(200):
                other.publish(Echo("A", "B").to_event().stamp("app", n + 1))
            await until(lambda: [one for one in other.of(SUBJECT) if one["Type"] == 6], "the first is answered")
            await until(lambda: node.now() > start + 1000)
            assert len(other.heard) - heard <= 5 + (node.now() - start) // 1000 + 1
            assert balanced(node)

    asyncio.run(work())


def test_events_and_filters_are_mapped(tmp_path: Path) -> None:
    async def work() -> None:
        names = '[[service.map]]\nsubject = "Speed"\nas = "vehicle.speed"\nrename = { n = "v" }\n'
        async with gateway(tmp_path, pair(a=names, filter="subject = 'Speed' AND n > 3")) as node:
            bus, other = Ear("A"), Ear("B")
            await until(lambda: applied(node))
            for n in (2, 5):
                bus.publish(Event("vehicle.speed", [("v", n)], producer="car-7", seq=n))
            await until(lambda: numbers(other))
            assert numbers(other) == [5]
        async with gateway(tmp_path / "other", pair(b=names)) as node:
            bus, other = Ear("A"), Ear("B")
            await until(lambda: applied(node))
            bus.publish(speed(9))
            await until(lambda: other.of("vehicle.speed"))
            assert other.of("vehicle.speed")[0]["v"] == 9

    asyncio.run(work())


def test_two_filters_that_are_one_on_the_other_side(tmp_path: Path) -> None:
    async def work() -> None:
        names = '[[service.map]]\nsubject = "Speed"\nas = "vehicle.speed"\ndrop = ["n", "driver"]\n'
        condition = "subject = 'Speed' AND driver IS NULL"
        second = f'[[request]]\ntype = "subscribe"\nsource = "B"\nto = "A"\nfilter = "{condition}"\n'
        async with gateway(tmp_path, pair(a=names, filter="subject = 'Speed' AND n IS NULL", more=second)) as node:
            bus, other = Ear("A"), Ear("B")
            await until(lambda: applied(node), "both are applied")
            node.engine.ask(Subscription.undo("A", "B", condition), node.now())
            node.turn()
            await until(lambda: len(node.engine.requests.standing) == 1, "one is taken back")
            await until(lambda: not node.services["A"]._commands)
            bus.publish(Event("vehicle.speed", [("v", 5)], producer="car-7", seq=1))
            await until(lambda: other.of("Speed"), "the other still stands")

    asyncio.run(work())


def test_what_is_not_of_its_declared_type_is_dropped_and_counted(tmp_path: Path) -> None:
    async def work() -> None:
        kind = '[[type]]\nsubject = "Speed"\nversion = 1\nparams = { n = "int" }\n'
        async with gateway(tmp_path, pair(more=kind)) as node:
            bus, other = Ear("A"), Ear("B")
            await until(lambda: applied(node))
            bus.publish(Event("Speed", [("n", "fast")], producer="car-7", seq=1))
            bus.publish(speed(2))
            await until(lambda: numbers(other))
            assert numbers(other) == [2]
            assert shown(node, "A")["in"]["dropped"] == {"not of its type": 1}

    asyncio.run(work())


@spec("FED-25")
def test_what_cannot_be_represented_is_refused_when_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryAdapter, "capabilities", Capabilities(types=("int",), filter="content"))

    async def work() -> None:
        kinds = '[[type]]\nsubject = "Raw"\nparams = { data = "bytes" }\n'
        kinds += '[[type]]\nsubject = "Speed"\nparams = { n = "int" }\n'
        ask = '[[request]]\ntype = "subscribe"\nsource = "B"\nto = "A"\nfilter = "{}"\n'
        more = kinds + ask.format("subject = 'Raw'") + ask.format("subject IN ('Raw', 'Speed')") + ask.format("n > 1")
        async with gateway(tmp_path, pair(more=more)) as node:
            asked = {one["what"] for one in node.engine.requests.report()}
            assert asked == {"subject = 'Speed'", "subject IN ('Raw', 'Speed')", "n > 1"}
            client = Ear("B")
            adapter = node.services["B"].adapter
            assert isinstance(adapter, MemoryAdapter)
            await until(lambda: len(adapter.index), "it listens for control events")
            client.publish(Subscription("A", "B", "subject = 'Raw' AND data IS NOT NULL").to_event().stamp("app", 1))
            await until(lambda: [one for one in client.of(SUBJECT) if one["Type"] == 6])
            answer = next(one for one in client.of(SUBJECT) if one["Type"] == 6)
            assert answer["Reason"] == "refused: parameter 'data' of 'Raw' is a bytes, which this service cannot carry"

    asyncio.run(work())


def test_bytes_pass_a_tunnel_unchanged(tmp_path: Path) -> None:
    async def work() -> None:
        tunnel = '[[request]]\ntype = "tunnel"\nsource = "B"\nto = "A"\n'
        async with gateway(tmp_path, pair(more=tunnel)) as node:
            await until(lambda: applied(node))
            far = MemoryAdapter("far", settings({"space": "B"}))
            port = RecordingPort("far", tmp_path)
            await far.connect(port)
            await far.tunnel(True)
            bus = Ear("A")
            odd = Event("Odd", [("raw", b"\x00\xff"), ("x", 1.5)], {"Custom": "kept"}, "car-7", 4)
            bus.publish(odd)
            await until(lambda: port.packets)
            from vicinal import wire

            assert wire.decode(port.packets[0]) == odd
            await far.disconnect()

    asyncio.run(work())


def test_context_survives_and_is_respected(tmp_path: Path) -> None:
    """Priority decides the order, Expires and Proximity whether it goes at all."""

    async def work() -> None:
        place = "[location]\nfixed = [53.3438, -6.2546]\n"
        async with gateway(tmp_path, pair(more=place)) as node:
            bus, other = Ear("A"), Ear("B")
            await until(lambda: applied(node))
            service = node.services["B"]
            service._asked.clear()  # as if its adapter were busy with a request
            node.services["B"].queue.outbox.located = True
            here = Proximity.circle(533438000, -62546000, 500)
            away = Proximity.circle(523438000, -62546000, 500)
            now = node.now()
            sent = [
                Event("Speed", [("n", 1)], producer="p1", seq=1),
                Event("Speed", [("n", 2)], {"Expires": now - 1}, producer="p2", seq=1),
                Event("Speed", [("n", 3)], {"Priority": 5, "Deadline": now + 9000}, producer="p3", seq=1),
                Event("Speed", [("n", 4)], {"Proximity": away}, producer="p4", seq=1),
                Event("Speed", [("n", 5)], {"Proximity": here, "Expires": now + 60_000}, producer="p5", seq=1),
            ]
            for event in sent:
                bus.publish(event)
            service._asked.set()
            await until(lambda: len(numbers(other)) == 3)
            assert set(numbers(other)) == {1, 3, 5}
            assert status(node)["dropped"] == {"expired": 1, "outside its proximity": 1}
            arrived = {event["n"]: event.attrs for event in other.of("Speed")}
            assert (arrived[3]["Priority"], arrived[3]["Deadline"]) == (5, now + 9000)
            assert arrived[5]["Proximity"] == here
            assert balanced(node)

    asyncio.run(work())


def test_the_urgent_go_first(tmp_path: Path) -> None:
    async def work() -> None:
        async with gateway(tmp_path, pair(b="[service.flow]\nout_rate = 20\nout_burst = 1\n")) as node:
            bus, other = Ear("A"), Ear("B")
            await until(lambda: applied(node))
            for n in range(1, 11):
                bus.publish(Event("Speed", [("n", n)], {"Priority": n}, producer=f"p{n}", seq=1))
            await until(lambda: len(numbers(other)) == 10)
            found = numbers(other)
            assert found[1:] == sorted(found[1:], reverse=True)

    asyncio.run(work())


def test_a_clients_request_survives_a_restart(tmp_path: Path) -> None:
    async def work() -> None:
        text = '[[service]]\nname = "A"\ntype = "memory"\n[[service]]\nname = "B"\ntype = "memory"\n'
        async with gateway(tmp_path, text) as node:
            client = Ear("B")
            await until(lambda: node.engine.topology.way("A"))
            await until(
                lambda: node.services["B"].state == "up" and "FES" in str(node.services["B"].adapter.index._terms)
            )
            client.publish(Subscription("A", "B", "subject = 'Speed'").to_event().stamp("app", 1))
            await until(lambda: [one for one in client.of(SUBJECT) if one["Type"] == 6])
            answer = next(one for one in client.of(SUBJECT) if one["Type"] == 6)
            assert (answer["Accepted"], answer["Source"], answer["RequestSeq"]) == (True, "A", 1)
        async with gateway(tmp_path, text) as node:
            bus, other = Ear("A"), Ear("B")
            await until(lambda: applied(node), "the request is there again")
            bus.publish(speed(1))
            await until(lambda: numbers(other))
            other.publish(Subscription.undo("A", "B", "subject = 'Speed'").to_event().stamp("app", 2))
            await until(lambda: not node.engine.requests.standing)
        async with gateway(tmp_path, text) as node:
            assert node.engine.requests.standing == {}

    asyncio.run(work())


def test_a_request_is_on_disk_before_it_is_answered(tmp_path: Path) -> None:
    kept: list[bool] = []

    class Client(Ear):
        def hear(self, event: Event) -> None:
            super().hear(event)
            if event.get("Type") == Answer.type:
                file = tmp_path / "state" / "requests.jsonl"
                kept.append(file.exists() and f"n > {event['RequestSeq']}" in file.read_text())

    async def work() -> None:
        async with gateway(tmp_path, pair()) as node:
            client = Client("B")
            await until(lambda: applied(node))
            for n in range(1, 21):
                client.publish(Subscription("A", "B", f"n > {n}").to_event().stamp("app", n))
                await asyncio.sleep(0)
            await until(lambda: len(kept) == 20)
        assert all(kept)

    asyncio.run(work())


def test_no_number_is_used_twice(tmp_path: Path) -> None:
    async def work() -> None:
        seen: list[Any] = []
        for _ in range(3):
            async with gateway(tmp_path, pair()) as node:
                bus, other = Ear("A"), Ear("B")
                await until(lambda: applied(node))
                bus.publish(Event("Speed", [("n", 1)]))
                await until(lambda heard=other: numbers(heard))
                seen += [event.identity for event in other.of("Speed")]
            spaces.clear()
        assert len(seen) == len(set(seen)) == 3
        assert {producer for producer, _ in seen} == {"g1/A"}

    asyncio.run(work())


def test_what_it_shows(tmp_path: Path) -> None:
    async def work() -> None:
        file = tmp_path / "gateway.toml"
        file.write_text('[gateway]\nname = "g1"\n[status]\naddress = "http://127.0.0.1:0"\n' + pair())
        server = await Server.start(load(file))
        try:
            bus = Ear("A")
            await until(lambda: applied(server.node))
            bus.publish(speed(1))

            def get(page: str) -> str:
                with urllib.request.urlopen(f"{server.status_address}{page}", timeout=30) as answer:
                    return str(answer.read(), "utf-8")

            await until(lambda: status(server.node)["delivered"] == 1)
            page, found, text = [await asyncio.to_thread(get, one) for one in ("/", "/status", "/metrics")]
            assert "<title>Vicinal gateway</title>" in page
            assert json.loads(found)["delivered"] == 1
            lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
            for name in ("A", "B"):
                got = {
                    key: sum(int(value) for line, value in lines.items() if line.startswith(f"vicinal_gateway_{key}{{")
                             and f'service="{name}"' in line)
                    for key in ("accepted_total", "delivered_total", "stored", "dropped_total")
                }  # fmt: skip
                assert got["accepted_total"] == got["delivered_total"] + got["stored"] + got["dropped_total"]
            assert lines['vicinal_gateway_delivered_total{service="B"}'] == "1"
            assert lines['vicinal_gateway_received_total{service="A"}'] == "1"
            assert lines['vicinal_gateway_service_state{service="A",state="up"}'] == "1"
            assert metrics(status(server.node)).startswith("# TYPE vicinal_gateway_accepted_total counter")
        finally:
            await server.stop()

    asyncio.run(work())


ONE = "[[service]]\nname = 'a'\ntype = 'memory'\n"
WRONG = [
    ("[gateway]\nnam = 'x'\n", "[gateway] nam is not known here: is 'name' meant?"),
    ("[gateways]\n", "[gateways] is not known: want gateway, service"),
    ("", "[gateway] name is missing, and there is no [fleet] to give one"),
    ("[gateway]\nname = 'a/b'\n", "[gateway] name is 'a/b', want 1 to"),
    ("[[service]]\nname = 'a'\ntype = 'mqqt'\n", "[service a] type is 'mqqt', for which there is no adapter: is"),
    ("[[service]]\nname = 'numbers'\ntype = 'memory'\n", "[service] name is 'numbers', which is a file of the state"),
    ("[[service]]\nname = '..'\ntype = 'memory'\n", "[service] name is '..', which is a file of the state"),
    ("[[service]]\nname = 'a,b'\ntype = 'memory'\n", "want one without comma"),
    (ONE + "spce = 'x'\n", "[service a] spce is not known here: is 'space' meant?"),
    (ONE * 2, "[service] name 'a' is given twice"),
    (ONE + "[service.flow]\nout_rate = -1\n", "out_rate is -1, want at least 0"),
    ("[[request]]\ntype = 'subscribe'\nsource = 'b'\nto = 'a'\nfilter = 'x > 1'\n", "source is 'b', want a service of"),
    (
        ONE + "[[request]]\ntype = 'subscribe'\nsource = 'a'\nto = 'b'\nfilter = 'x >'\n",
        "[request] filter is 'x >': want a name or a value, got the end (column 4)",
    ),
    ("[[request]]\ntype = 'publish'\n", "[request] type is 'publish', want one of subscribe, announce, tunnel"),
    ("[location]\nfixed = [1]\n", "[location] fixed is [1], want [latitude, longitude] in degrees"),
    ("[location]\ngpsd = 'here'\n", "[location] gpsd is 'here', want HOST:PORT"),
    ("[status]\naddress = 'tcp://x'\n", "[status] address is 'tcp://x', want http://HOST:PORT"),
    ("[store]\nmax_mb = 0\n", "[store] max_mb is 0, want at least 1"),
    ("[gateway\n", "not TOML"),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[message[:30] for _, message in WRONG])
def test_what_is_wrong_is_said_with_its_place(text: str, message: str) -> None:
    if "gateway" not in text and text:
        text = "[gateway]\nname = 'g1'\n" + text
    with pytest.raises(ConfigError) as error:
        loads(text.encode(), Path("pi.toml"))
    assert message in str(error.value)
    assert str(error.value).startswith("pi.toml: ")


def test_what_another_gateway_passes_on_is_acknowledged_when_it_is_on_disk(tmp_path: Path) -> None:
    """And it is one event when that gateway's service says it again after a restart."""
    text = '[[service]]\nname = "A"\ntype = "memory"\n[[service]]\nname = "B"\ntype = "memory"\nstore = true\n'
    message = Publication("B", "Z", speed(7)).to_event().stamp("g0", 5).replace(attrs={"Hops": 30})

    async def work() -> None:
        told: list[str] = []
        async with gateway(tmp_path, text) as node:
            await until(lambda: all(one.state == "up" for one in node.services.values()))
            await node.services["B"]._turn.acquire()  # as if its adapter were busy
            disk, apply = threading.Event(), node.store._database.apply
            node.store._database.apply = lambda work: disk.wait(60) and apply(work)  # type: ignore[method-assign]
            node.services["A"].received(message, lambda: told.append("first"))
            await asyncio.sleep(0.1)
            too_early = list(told)
            disk.set()
            await until(lambda: told == ["first"])
            assert too_early == []
            assert shown(node, "B")["out"]["stored"] == 1
        async with gateway(tmp_path, text) as node:
            await until(lambda: all(one.state == "up" for one in node.services.values()))
            other = Ear("B")
            node.services["A"].received(message, lambda: told.append("again"))
            await until(lambda: told == ["first", "again"])
            await until(lambda: shown(node, "B")["out"]["delivered"] == 1)
            assert shown(node, "B")["out"]["accepted"] == 1
            assert numbers(other) in ([], [7])

    asyncio.run(work())
