"""Subscriptions pushed down, all as real processes: an application at a broker asks a gateway for things, and only they
leave the device. Beside it the device says its speed on a CAN bus, whoever wants it. What leaves the device is read on
its way to the gateway, datagram by datagram."""

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import can
import pytest
from cloud.broker.brokers import COMMAND, PATIENCE, Brokers
from edge.agent.test_coap_interop import free_port
from edge.agent.test_end_to_end import Lines, write
from edge.gateways import GatewayProcess, Gateways
from hypothesis import given
from hypothesis import strategies as st
from strategies import batch, seeds

from vicinal import wire
from vicinal.coap.message import ACK, CON, PUT, decode
from vicinal.control import SUBJECT, Subscription, Unsubscription
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal_cloud.broker.client import connect
from vicinal_edge.adapters._coap_wanted import MAX_BYTES, of_subject, wanted

CONFIG = """
[agent]
name = "pi-1"
gateway = "coap://127.0.0.1:{port}"
[journal]
sectors = 8
[[can]]
interface = "vicinal"
channel = "{bus}"
mapping = "speed.toml"
[[sensor]]
type = "file"
path = "{folder}/speed"
subject = "Speed"
name = "rate"
every_ms = 20
[[sensor]]
type = "file"
path = "{folder}/door"
subject = "Door"
every_ms = 20
[[rule]]
subject = "Speed"
change = true
[[rule]]
subject = "Door"
change = true
[[publish]]
subject = "Speed"
on = "can"
change = true
"""
MAPPING = '[[message]]\nid = 12345\nsubject = "Speed"\nfields = [{ name = "rate", bytes = 0, type = "uint" }]\n'
GATEWAY = """
[[service]]
name = "field"
type = "coap"
bind = "127.0.0.1:{port}"
[[service]]
name = "office"
type = "siena"
address = "{broker}"
[[request]]
type = "subscribe"
source = "office"
to = "field"
filter = "subject = 'AgentHealth'"
"""


class Tap:
    """A relay between one agent and its gateway that reads along."""

    def __init__(self, port: int) -> None:
        self.agent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.agent.bind(("127.0.0.1", 0))
        self.port = self.agent.getsockname()[1]
        self._gateway = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._gateway.connect(("127.0.0.1", port))
        self._from: Any = None
        self.seen: list[Event] = []
        self._told: dict[int, str] = {}
        self.knows = ""
        """what the agent has acknowledged to be wanted"""
        for work in (self._up, self._down):
            threading.Thread(target=work, daemon=True).start()

    def _up(self) -> None:
        while True:
            data, self._from = self.agent.recvfrom(2048)
            message = decode(data)
            if message.code == PUT:
                self.seen.append(wire.decode(message.payload))
            elif message.type == ACK:
                self.knows = self._told.get(message.mid, self.knows)
            self._gateway.send(data)

    def _down(self) -> None:
        while True:
            try:
                data = self._gateway.recv(2048)
            except ConnectionError:
                continue  # the gateway is not there yet
            message = decode(data)
            if message.type == CON and message.payload:
                self._told[message.mid] = str(wire.decode(message.payload)["filter"])
            self.agent.sendto(data, self._from)

    def values(self, subject: str) -> list[Any]:
        return [next(iter(event.params.values())) for event in self.seen if event.subject == subject]


def wanted_by(gateway: GatewayProcess) -> Any:
    (found,) = [one["adapter"]["wanted"] for one in gateway.status()["services"] if one["name"] == "field"]
    return found


async def until(is_so: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not await asyncio.to_thread(is_so):
        assert time.monotonic() < end, what
        await asyncio.sleep(0.02)


@pytest.mark.spec("AGENT-10", "AGENT-14", "AGENT-15")
def test_only_what_is_asked_for_leaves_the_device(tmp_path: Path, brokers: Brokers, gateways: Gateways) -> None:
    port, bus = free_port(), f"pushed-{os.getpid()}"
    broker = brokers.start("b1")
    gateway = gateways.start("gw", GATEWAY.format(port=port, broker=broker.address))
    tap = Tap(port)
    (tmp_path / "agent.toml").write_text(CONFIG.format(port=tap.port, bus=bus, folder=tmp_path))
    (tmp_path / "speed.toml").write_text(MAPPING)
    speed, door = tmp_path / "speed", tmp_path / "door"
    write(speed, 1)
    write(door, 0)
    with can.Bus(interface="vicinal", channel=bus, bitrate=500_000) as heard:
        on_bus: list[int] = []
        reader = can.Notifier(heard, [lambda frame: on_bus.append(frame.data[0])])
        agent = Lines([*COMMAND, "agent", "run", str(tmp_path / "agent.toml"), "--json"])
        try:
            asyncio.run(_ask(broker.address, gateway, tap, speed, door, on_bus))
        finally:
            reader.stop()
            said = agent.end()
    assert said == ""
    # On the bus each was said, wanted at the gateway or not.
    assert on_bus == [1, 2, 40, 20, 50, 45, 60, 70]


async def _ask(address: str, gateway: GatewayProcess, tap: Tap, speed: Path, door: Path, on_bus: list[int]) -> None:
    client = await connect(address, "app")
    events_of = await client.subscribe("subject IN ('Speed', 'Door', 'AgentHealth')")
    asking = await client.advertise(f"subject = '{SUBJECT}'")
    got: list[Event] = []

    async def read() -> None:
        async for delivery in events_of:
            got.append(delivery.event)

    reading = asyncio.get_running_loop().create_task(read())
    number = 0

    async def ask(kind: Any, condition: str, there: bool) -> None:
        nonlocal number
        number += 1
        await client.publish(kind("field", "office", condition).to_event().stamp("app", number), asking)
        await until(lambda: (condition in tap.knows) == there, f"the device to know of {condition}")
        assert wanted_by(gateway) == tap.knows

    async def drive(value: int) -> None:
        """The bus has heard it: so the agent has also decided what becomes of it."""
        write(speed, value)
        await until(lambda: on_bus[-1:] == [value], f"{value} on the bus")

    try:
        await until(lambda: [one for one in got if one.subject == "AgentHealth"], "its health")
        await until(lambda: on_bus == [1], "the bus")
        assert wanted_by(gateway) == "(subject = 'FES_ControlEvent') OR (subject = 'AgentHealth')"
        await ask(Subscription, "subject = 'Speed' AND rate > 30", True)
        del tap.seen[:]  # what went before the agent knew anything
        for value in (2, 40, 20, 50):
            await drive(value)
        await until(lambda: [one["rate"] for one in got if one.subject == "Speed"][-1:] == [50], "what was asked for")
        assert (tap.values("Speed"), tap.values("Door")) == ([40, 50], [])
        # A second subscriber: the door as it is at once, and the speed as before.
        await ask(Subscription, "subject = 'Door'", True)
        await until(lambda: tap.values("Door") == [0], "the first value")
        write(door, 1)
        await drive(45)
        await until(lambda: (tap.values("Door"), tap.values("Speed")[-1]) == ([0, 1], 45), "both")
        # The first goes: only the door is wanted.
        await ask(Unsubscription, "subject = 'Speed' AND rate > 30", False)
        before = len(tap.values("Speed"))
        await drive(60)
        await drive(70)
        write(door, 2)
        await until(lambda: tap.values("Door")[-1] == 2, "the door")
        assert len(tap.values("Speed")) == before
    finally:
        reading.cancel()
        await client.close()


@pytest.mark.spec("AGENT-14")
@given(seeds, st.integers(0, 7))
def test_what_is_wanted_is_never_narrower(seed: int, count: int) -> None:
    for *texts, several in batch(seed, count, 3):
        conditions = [Filter(text) for text in texts]
        text = wanted(conditions)
        assert len(text.encode()) <= MAX_BYTES
        condition = Filter(text)
        for event in several:
            if any(one.matches(event) for one in conditions):
                assert condition.matches(event)


def test_what_is_wanted_is_short() -> None:
    assert wanted([]) == "FALSE"
    speed, door = Filter("subject = 'Speed' AND rate > 30"), Filter("subject = 'Door'")
    assert wanted([speed, speed]) == speed.text
    assert wanted([speed, door]) == f"({speed.text}) OR ({door.text})"
    assert wanted([speed, Filter("subject = 'Speed' AND rate > 50")]) == speed.text
    # Too long: the longest as their subjects, then all.
    long = Filter("subject = 'Speed' AND (" + " OR ".join(f"rate = {n}" for n in range(60)) + ")")
    assert wanted([long, door]) == "(subject = 'Door') OR (subject IN ('Speed'))"
    many = [of_subject("Speed", Filter(f"rate = {n}")) for n in range(1000)]
    assert wanted([*many, door]) == "subject IN ('Door', 'Speed')"
    assert wanted([of_subject(f"a subject of its own {n}") for n in range(50)]) == "TRUE"
    assert wanted([Filter("rate > 3 AND " + " AND ".join(f"rate <> {n}" for n in range(60))), door]) == "TRUE"
    assert wanted([of_subject("it's")]) == "subject = 'it''s'"
