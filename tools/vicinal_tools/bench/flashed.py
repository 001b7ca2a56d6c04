"""The memory of an agent that `vicinal flash` has brought onto a board with a ROMFS: of what was flashed, as it is.

The board is the virtual device with 128 KiB of heap. Its agent has a soft real-time channel on a CAN bus, a BLE group
and a gateway, which pushes five rules and a condition down to it; frames and advertisements come over the virtual bus
and the virtual radio. A boot.py beside the agent, as a user may have one, collects now and then and says what is free.

    python -m vicinal_tools.bench.flashed 2000
"""

import json
import os
import re
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from . import Row
from .agent import GOAL_FREE, HEAP, MICROPYTHON

EVENTS = 3_000
ROM = 384 * 1024
HERE = (533438000, -62546000)
RULES = [
    {"subject": "Speed", "field": "rate", "delta": 1},
    {"subject": "Door", "change": True},
    {"subject": "Rpm", "field": "rpm", "delta": 100, "every_ms": 200},
    {"subject": "Temp", "filter": "celsius > 90", "every_ms": 1000},
    {"subject": "Siren", "field": "kind", "change": True, "refresh_ms": 10000},
]
WANTED = (
    "(subject = 'FES_ControlEvent') OR (subject IN ('Speed', 'Rpm', 'Door')) OR "
    "(subject = 'Temp' AND celsius > 80) OR (subject = 'Siren')"
)
CONFIG = """
[agent]
name = "car-7"
gateway = "coap://127.0.0.1:{port}"
health_s = 2
[position]
lat = 53.3438
lon = -6.2546
[journal]
partition = "journal"
[[can]]
node = 7
[[can.event]]
etag = 300
[[ble]]
subject = "Siren"
"""
BOOT = b"""
import gc, time
_sleep, _turns = time.sleep_ms, 0
def _watched(ms):
    global _turns
    _turns += 1
    if _turns % 100 == 0:
        gc.collect()
        print("free", gc.mem_free(), "bytes")
    _sleep(ms)
time.sleep_ms = _watched
"""


class Gateway(threading.Thread):
    """Takes every event, and pushes down what it has to; nothing else of a gateway."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.subjects: dict[str, int] = {}
        self.health: dict[str, Any] = {}

    def run(self) -> None:
        from vicinal.errors import VicinalError

        while True:
            try:
                data, sender = self._socket.recvfrom(2048)
                for answer in self._answers(data):
                    self._socket.sendto(answer, sender)
            except OSError:
                return  # closed
            except VicinalError:
                continue

    def close(self) -> None:
        self._socket.close()

    def _answers(self, data: bytes) -> Iterator[bytes]:
        from vicinal import wire
        from vicinal.coap.message import ACK, CON, Message, decode, encode, uint
        from vicinal.event import Event

        message = decode(data)
        if message.code == 3:
            event = wire.decode(message.payload)
            self.subjects[event.subject] = self.subjects.get(event.subject, 0) + 1
            if event.subject == "AgentHealth":
                self.health = dict(event.params)
            yield encode(Message(ACK, 0x44, message.mid, message.token))
        elif message.code == 1 and message.uint(6) is None:
            now = str(int(time.time() * 1000)).encode()
            yield encode(Message(ACK, 0x45, message.mid, message.token, [], now))
        elif message.code == 1:
            yield encode(Message(ACK, 0x45, message.mid, message.token, [(6, uint(1))]))
            event = Event("AgentWanted", (("filter", WANTED),))
            if b"AgentRules" in [value for _, value in message.options]:
                event = Event("AgentRules", (("agent", "car-7"), ("rules", json.dumps(RULES))), (), "office", 1)
            options = [(6, uint(2)), (12, uint(60))]
            yield encode(Message(CON, 0x45, message.mid ^ 0x8000, message.token, options, wire.encode(event)))


class Quiet:
    def step(self, text: str) -> None:
        pass

    def total(self, count: int) -> None:
        pass

    def sent(self, count: int) -> None:
        pass


class Flashed(NamedTuple):
    low: int
    """bytes free at the worst moment after a collection, since events came"""
    heard: int
    """events that its agent was offered by its buses"""
    delivered: dict[str, int]
    """by subject, to the gateway"""
    slot: str
    rom: bool
    notes: list[str]


def flashed(events: int = EVENTS, patience: float = 600.0) -> Flashed:
    """Flashes an agent, and drives it until it was offered so many events."""
    from vicinal_hw.boards import board
    from vicinal_hw.device import VirtualDevice

    from ..flash.configuration import prepare
    from ..flash.flasher import flash
    from ..flash.release import build

    name, gateway = f"flashed-{os.getpid()}", Gateway()
    gateway.start()
    with tempfile.TemporaryDirectory() as made_for:
        folder = Path(made_for)
        (folder / "agent.toml").write_text(CONFIG.format(port=gateway.port))
        esp32 = board("esp32")
        device = VirtualDevice(folder / "device", heap=HEAP, rom=ROM, can=name, ble=name, at=HERE)
        with device:
            device.wait_for(">>> ")
            done = flash(device.port, esp32, build(), prepare(folder / "agent.toml", esp32), Quiet())
        device.put({"boot.py": BOOT})
        with device:
            hello = device.hello(device.mark)
            at = device.mark
            _drive(name, gateway, events, patience)
            free = [int(found) for found in re.findall(r"free (\d+) bytes", device.console[at:])]
            if not free or '"slot": ' in device.console[at:]:
                raise RuntimeError(f"the agent did not go on: {device.console[-2000:]}")
    gateway.close()
    heard = int(gateway.health["offered"])
    return Flashed(min(free), heard, gateway.subjects, hello["slot"], done.rom, done.notes)


def _drive(name: str, gateway: Gateway, events: int, patience: float) -> None:
    """The others on the bus and in the air: 200 events a second, of which the rules let a tenth go to the gateway. More
    than it takes, one at a time, would be measuring the queue."""
    import can

    from vicinal.cosmic.channels import SrtChannel
    from vicinal.cosmic.node import Node
    from vicinal.event import Event
    from vicinal.proximity import Proximity
    from vicinal.steam.node import Node as SteamNode
    from vicinal_hw.ble.virtual import VirtualRadio

    siren = SteamNode("siren", 5)
    siren.set_position(*HERE, 0)
    siren.announce("Siren", Proximity.circle(*HERE, 200), 0)
    radio = VirtualRadio(name, *HERE)
    radio.connect()
    node = Node(3, 500_000)
    channel = SrtChannel(node, 300, 20_000)
    channel.announce(0)
    start, number = time.monotonic(), 0
    with can.Bus(interface="vicinal", channel=name, bitrate=500_000) as bus:
        while gateway.health.get("offered", 0) < events:
            now = int((time.monotonic() - start) * 1000)
            if now > patience * 1000:
                raise RuntimeError(f"{gateway.health} after {patience} s")
            number += 1
            subject, field, value = (
                ("Speed", "rate", 50 + number // 40 % 30),
                ("Rpm", "rpm", 800 + number * 7 % 3000),
                ("Temp", "celsius", 85 + number % 20),
                ("Door", "open", number // 200 % 2),
            )[number % 4]
            channel.publish(Event(subject, ((field, value),)), now * 1000)
            while (frame := node.frame_to_send(now * 1000)) is not None:
                bus.send(can.Message(arbitration_id=frame.id, data=frame.data, is_extended_id=frame.extended))
                node.frame_sent(frame, now * 1000)
            if number % 50 == 0:
                siren.publish(Event("Siren", (("kind", number // 50 % 3),)), now)
            if (due := siren.next_timeout()) is not None and due <= now:
                siren.handle_timeout(now)
            if (data := siren.advertisement(now)) is not None:
                radio.advertise(data)
            time.sleep(0.005)
    radio.shut()


def rows() -> Iterator[Row]:
    if not MICROPYTHON.exists():
        yield Row("agent as it is flashed", "not measured", "MicroPython is not there: run tools/get_micropython.sh")
        return
    found = flashed()
    yield Row(
        f"agent as `vicinal flash` brings it into a ROMFS: CAN, BLE, CoAP, five rules, {found.heard:,} events",
        f"{found.low / 1024:.1f} KiB free at worst",
        "of 128 KiB, on the virtual device, with its boot part, its fakes not counted",
        f"{found.low / GOAL_FREE:.2f} of 40 KiB",
        "40 KiB or more",
        found.low >= GOAL_FREE,
    )


if __name__ == "__main__":
    print(flashed(int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS))
