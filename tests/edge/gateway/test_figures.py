"""Figures 5.4, 5.5 and 5.6 of the dissertation with real processes and unlike services.

    A ── G1 ── B ── G2 ── C          A, C, D on mosquitto under prefixes of their own, B our brokers,
               │                     E a CAN bus with arbitration, where a car says its speed as 5.8.2 has it
               G3 ── D ── G4 ── E

The client at A uses the adapter's code to speak control events, as 5.3.5 proposes.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import can
import pytest
from can_helpers import TOML as MAPPING
from cloud.broker.brokers import Brokers, Process, until
from edge.gateways import GatewayProcess, Gateways
from edge.servers import Mosquitto

from vicinal.control import SUBJECT, Subscription, Unsubscription
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal_edge.adapters.mqtt import MqttAdapter
from vicinal_edge.contract import RecordingPort, settings

FAST = "subject = 'Speed' AND rate > 30"
TRANSPARENT = f"""
[[request]]
type = "subscribe"
source = "A"
to = "E"
filter = "{FAST}"
"""


class Figure:
    def __init__(self, gateways: Gateways, mosquitto: Mosquitto, broker: Process, channel: str) -> None:
        self.gateways = gateways
        self.mosquitto = mosquitto
        self.broker = broker
        self.channel = channel

    def start(self, name: str, *services: str, more: str = "") -> GatewayProcess:
        return self.gateways.start(name, "".join(self.service(one, name) for one in services) + more)

    def service(self, name: str, gateway: str) -> str:
        head = f'[[service]]\nname = "{name}"\n'
        if name == "B":
            return head + f'type = "siena"\naddress = "{self.broker.address}"\n'
        if name == "E":
            file = self.gateways.folder / gateway
            file.mkdir(exist_ok=True)
            (file / "speed.toml").write_text(MAPPING)
            return (
                head + f'type = "cosmic"\ninterface = "vicinal"\nchannel = "{self.channel}"\nmapping = "speed.toml"\n'
            )
        return head + f'type = "mqtt"\naddress = "{self.mosquitto.address}"\nprefix = "{name}/"\n'

    @asynccontextmanager
    async def consumer(self) -> AsyncIterator["Consumer"]:
        adapter = MqttAdapter("A", settings({"address": self.mosquitto.address, "prefix": "A/"}))
        port = RecordingPort("A", self.gateways.folder)
        await adapter.connect(port)
        try:
            await adapter.subscribe(Filter("subject = 'Speed'"))
            await adapter.subscribe(Filter(f"subject = '{SUBJECT}' AND Type = 6"))
            yield Consumer(adapter, port)
        finally:
            await adapter.disconnect()


class Consumer:
    def __init__(self, adapter: MqttAdapter, port: RecordingPort) -> None:
        self.adapter = adapter
        self.port = port
        self._seq = 0

    async def ask(self, message: Any) -> None:
        self._seq += 1
        done = await self.adapter.publish(message.to_event().stamp("consumer", self._seq))
        if done is not None:
            await done

    @property
    def answers(self) -> list[tuple[str, str]]:
        found = [event for event in self.port.events if event.get("Type") == 6]
        return [(one["Source"], one.get("Reason", "")) for one in found if one["RequestProducer"] == "consumer"]

    @property
    def speeds(self) -> list[Any]:
        return [event["rate"] for event in self.port.events if event.subject == "Speed"]


class Car:
    """A node on the bus of service E."""

    def __init__(self, channel: str) -> None:
        self.bus = can.Bus(interface="vicinal", channel=channel)

    def say(self, rate: int) -> None:
        self.bus.send(can.Message(arbitration_id=12345, is_extended_id=True, data=b"00D1234" + bytes([rate])))

    def close(self) -> None:
        self.bus.shutdown()


@asynccontextmanager
async def figure(
    gateways: Gateways, brokers: Brokers, folder: Path, more: str = ""
) -> AsyncIterator[tuple[Figure, Car]]:
    with Mosquitto(folder / "mosquitto") as mosquitto:
        made = Figure(gateways, mosquitto, brokers.start("b1"), f"figure-{folder.name}")
        car = Car(made.channel)
        try:
            made.start("G1", "A", "B", more=more)
            made.start("G2", "B", "C")
            made.start("G3", "B", "D")
            made.start("G4", "D", "E")
            await until(lambda: all(one.up for one in gateways.made), "all services are up")
            await until(lambda: len(gateways.made[0].status()["gateways"]) == 4, "G1 knows all")
            yield made, car
        finally:
            gateways.stop()
            car.close()


async def arrives(consumer: Consumer, car: Car) -> None:
    """What is fast comes to A, once; what is slow does not."""
    consumer.port.events.clear()
    for rate in (20, 57, 30, 31):
        car.say(rate)
    await until(lambda: len(consumer.speeds) >= 2, "the fast ones are at A")
    await asyncio.sleep(0.3)
    assert consumer.speeds == [57.0, 31.0]
    event = next(event for event in consumer.port.events if event.subject == "Speed")
    assert event["license_no"] == "00D1234"
    assert event.attrs["Source"] == "E"


def test_opaque_subscription_publication_and_unsubscription(
    gateways: Gateways, brokers: Brokers, tmp_path: Path
) -> None:
    async def work() -> None:
        async with figure(gateways, brokers, tmp_path) as (made, car), made.consumer() as consumer:
            await consumer.ask(Subscription("E", "A", FAST))
            await until(lambda: ("E", "") in consumer.answers, "the answer of E")
            await arrives(consumer, car)
            # What the gateway beside E filters never leaves it: two of the four.
            passed = gateways.made[3].status()
            assert {one["name"]: one["out"]["accepted"] for one in passed["services"]}["D"] == 2
            await consumer.ask(Unsubscription("E", "A", FAST))
            await until(lambda: consumer.answers.count(("E", "")) >= 1, "the answer to the second")
            await until(lambda: not gateways.made[3].status()["notes"], "G4 has forgotten it")
            consumer.port.events.clear()
            car.say(99)
            await asyncio.sleep(0.5)
            assert consumer.speeds == []

    asyncio.run(work())


@pytest.mark.parametrize("killed", ["G3", None])
def test_transparent_subscription_with_a_loop_and_with_a_gateway_killed(
    gateways: Gateways, brokers: Brokers, tmp_path: Path, killed: str | None
) -> None:
    """G5 between C and D closes a loop beside G3: harmless, and the way when G3 is killed."""

    async def work() -> None:
        async with figure(gateways, brokers, tmp_path, TRANSPARENT) as (made, car), made.consumer() as consumer:
            made.start("G5", "C", "D")
            await until(lambda: len(gateways.made[0].status()["gateways"]) == 5, "G1 knows G5")
            await until(lambda: gateways.made[0].applied, "the request is applied")
            await arrives(consumer, car)
            if killed is not None:
                gateways.made[2].kill()
                await until(lambda: len(gateways.made[0].status()["gateways"]) == 4, "G1 misses G3")
                await until(lambda: gateways.made[0].applied, "the request is applied")
                await until(lambda: "G3" not in str(gateways.made[3].status()["gateways"]), "G4 misses G3")
                await arrives(consumer, car)

    asyncio.run(work())


def test_an_event_of_the_figure(tmp_path: Path) -> None:
    """The bytes of 5.8.2."""
    from vicinal.cosmic.mapping_toml_cpython import loads

    frame = loads(MAPPING).encode(Event("Speed", [("license_no", "00D1234"), ("rate", 57.0)]))
    assert (frame.id, frame.data) == (12345, b"00D1234\x39")
