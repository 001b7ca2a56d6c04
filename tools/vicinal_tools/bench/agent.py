"""The agent on a device: memory after a million events, the size of its tree, and what filters at the source save.

The device is the 32-bit MicroPython, its code in a ROMFS as on a board with one. The image lies beside the heap, as in
flash, and the collector does not look through it. A program on the device plays the car: a COSMIC node that receives
soft real-time frames, a STEAM node that hears advertisements, a CoAP client whose gateway answers at once, five rules
that were pushed down, subscriptions that were, and flash that is emulated.

    python -m vicinal_tools.bench.agent 1000000
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..romfs import image
from ..stage import SOURCE, compile_file, stage_agent
from . import Row

HEAP = 128 * 1024
GOAL_FREE = 40 * 1024
GOAL_TREE = 150 * 1024
GOAL_SHARE = 0.05
EVENTS = 1_000_000
MICROPYTHON = SOURCE.parents[1] / ".tools" / "micropython" / "micropython"
HW = SOURCE.parents[1] / "hw" / "vicinal_hw"

_BOOT = """
import ffi, os, sys, uctypes, vfs
size = os.stat("image")[6]
data = uctypes.bytearray_at(ffi.open(None).func("p", "malloc", "I")(size), size)
with open("image", "rb") as file:
    file.readinto(data)
vfs.mount(vfs.VfsRom(data), "/rom")
sys.path[:] = [".frozen", "/rom/lib", "/rom"]
import program
program.run({events}, {ways})
"""

PROGRAM = """
import gc, json
gc.threshold(16384)  # as main.py of the agent does
from vicinal import wire
from vicinal.coap.message import ACK, CON, Message, decode, encode, uint
from vicinal.cosmic.channels import SrtChannel
from vicinal.cosmic.node import Node
from vicinal.event import Event
from vicinal.proximity import Proximity
from vicinal.steam.node import Node as SteamNode
from vicinal_edge.agent.config import Config
from vicinal_edge.agent.core import Agent
from vicinal_edge.agent.journal import Journal
from vicinal_edge.agent.parts import BlePart, CanPart

HERE = (533438000, -62546000)
RULES = [
    {"subject": "Speed", "field": "rate", "delta": 1},
    {"subject": "Door", "change": True},
    {"subject": "Rpm", "field": "rpm", "delta": 100, "every_ms": 200},
    {"subject": "Temp", "filter": "celsius > 90", "every_ms": 1000},
    {"subject": "Siren", "field": "kind", "change": True, "refresh_ms": 10000},
]

# What a gateway wants of it, two subscribers beside those that control events are for.
WANTED = ("(subject = 'FES_ControlEvent') OR (subject IN ('Speed', 'Rpm', 'Door')) OR "
    "(subject = 'Temp' AND celsius > 80) OR (subject = 'Siren')")

class Flash:
    # Emulated, and small: what the gateway takes at once is not written.
    def __init__(self):
        self.sectors, self.size = 3, 256
        self.memory = [bytearray(b"\\xff" * 256) for _ in range(3)]
        self.erases = 0
    def read(self, sector, offset, length):
        return bytes(self.memory[sector][offset:offset + length])
    def program(self, sector, offset, data):
        self.memory[sector][offset:offset + len(data)] = data
    def erase(self, sector):
        self.erases += 1
        self.memory[sector][:] = b"\\xff" * 256

class Controller:
    def __init__(self):
        self.inbox = []
    def receive(self):
        return self.inbox.pop(0) if self.inbox else None
    def load(self, frame): pass
    def sent(self): return True
    def abort(self): return False
    def state(self): return "active"
    def recover(self): pass

class Radio:
    def __init__(self):
        self.inbox = []
    def receive(self):
        return self.inbox.pop(0) if self.inbox else None
    def advertise(self, data): pass

def answer(agent, data, now):
    message = decode(data)
    if message.code == 3:
        agent.client.receive_data(encode(Message(ACK, 0x44, message.mid, message.token)), now)
        return 1
    if message.code == 1:
        options = [(6, uint(1))] if message.uint(6) is not None else []
        payload = b"" if options else b"%d" % (1700000000000 + now)
        agent.client.receive_data(encode(Message(ACK, 0x45, message.mid, message.token, options, payload)), now)
        if options:
            event = Event("AgentWanted", (("filter", WANTED),))
            if b"AgentRules" in [value for _, value in message.options]:
                event = Event("AgentRules", (("agent", "car-7"), ("rules", json.dumps(RULES))), (), "office", 1)
            note = Message(CON, 0x45, 77 + agent.client.observing, message.token, [(6, uint(2)), (12, uint(60))],
                wire.encode(event))
            agent.client.receive_data(encode(note), now)
    return 0

# And back again, where that is asked for: what it hears on the bus goes into the air, and the other way round.
WAYS = [
    {"subject": "Speed", "on": "ble", "field": "rate", "delta": 1, "every_ms": 500},
    {"subject": "Siren", "on": "can", "etag": 301},
]

def run(count, ways):
    tables = {"agent": {"name": "car-7", "gateway": "coap://127.0.0.1", "health_s": 60},
              "can": [{"node": 7, "event": [{"etag": 300}]}], "ble": [{"subject": "Siren"}]}
    if ways:
        tables["publish"] = WAYS
        tables["position"] = {"lat": 53.3438, "lon": -6.2546}
    config = Config(tables)
    agent = Agent(config, Journal(Flash()), b"abcdefgh", "1", 0)
    controller, radio = Controller(), Radio()
    can = CanPart(config.ports[0], controller, agent.offer, 0)
    ble = BlePart([config.ports[1]], radio, 9, "car-7", HERE, agent.offer, 0)
    if ways:
        can.offer = lambda event, now: agent.offer(event, now, "can 1")
        agent.ways.opened("can 1", can, 0)
        agent.ways.opened("ble", ble, 0)
    # The others on the bus and in the air, whose frames are made before.
    frames = []
    for number in range(12):
        node = Node(3, 500000)
        channel = SrtChannel(node, 300, 20000)
        channel.announce(0)
        subject = ("Speed", "Speed", "Rpm", "Temp")[number % 4]
        name, value = (
            ("rate", 50 + number // 4), ("rate", 50), ("rpm", 800 + number * 7), ("celsius", 85 + number)
        )[number % 4]
        channel.publish(Event(subject, ((name, value),)), 0)
        while True:
            frame = node.frame_to_send(0)
            if frame is None:
                break
            frames.append(frame)
            node.frame_sent(frame, 0)
    other = SteamNode("siren", 5)
    other.set_position(HERE[0], HERE[1], 0)
    other.announce("Siren", Proximity.circle(HERE[0], HERE[1], 200), 0)
    del node, channel, frame
    gc.collect()
    now = taken = step = 0
    offered = agent.counters
    low, first = 1 << 30, 0
    while offered.get("offered", 0) < count:
        step += 1
        now += 2
        for _ in range(4):
            controller.inbox.append(frames[0])
            frames.append(frames.pop(0))
        if step % 50 == 0:
            if step % 500 == 0:
                other.publish(Event("Siren", (("kind", step // 500 % 3),)), now)
            due = other.next_timeout()
            if due is not None and due <= now:
                other.handle_timeout(now)
            data = other.advertisement(now)
            if data is not None:
                radio.inbox.append((data, -60))
        can.service(now)
        ble.service(now)
        agent.service(now)
        while True:
            data = agent.client.data_to_send()
            if data is None:
                break
            taken += answer(agent, data, now)
        if step % 5000 == 0 or step == 50:
            gc.collect()
            free = gc.mem_free()
            if step == 5000:
                first = free
            low = min(low, free)
            # A block that is still to be had says that the memory is not in pieces.
            block = bytearray(8192)
            del block
    gc.collect()
    out = 0
    for book in agent.ways.report().values() if ways else ():
        if book["accepted"] != book["delivered"] + book["stored"] + sum(book["dropped"].values()):
            raise ValueError(str(book))
        out += book["delivered"]
    print(json.dumps({"out": out, "taken": taken,
        "offered": offered["offered"], "delivered": offered.get("delivered", 0),
        "wanted": len(agent.wanted.text), "stored": agent.journal.stored,
        "dropped": agent.dropped, "rules": len(agent.rules.rules), "low": low,
        "first": first, "last": gc.mem_free(), "sirens": ble.node.counters.get("in delivered", 0)}))
"""


class Device(NamedTuple):
    offered: int
    delivered: int
    low: int
    """bytes free at the worst moment after a collection"""
    first: int
    last: int
    rules: int
    sirens: int
    out: int
    """events that went out on the bus and in the air"""
    wanted: int
    """characters of the condition by which the gateway says what it wants"""
    tree: int
    """bytes of .mpy"""


@cache
def _built() -> tuple[bytes, int]:
    """The image with everything in it, and the bytes of .mpy that are the agent's."""
    with tempfile.TemporaryDirectory() as folder:
        tree, source = Path(folder) / "tree", Path(folder) / "program.py"
        staged = sum(file.staged_bytes for file in stage_agent(tree))
        source.write_text(PROGRAM)
        compile_file(source, tree / "program.mpy", source.name)
        return image(tree), staged


def device(events: int, ways: bool = False) -> Device:
    """`ways`: it also publishes, on its bus and in the air."""
    data, staged = _built()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "image").write_bytes(data)
        boot = _BOOT.replace("{events}", str(events)).replace("{ways}", str(ways))
        (Path(folder) / "boot.py").write_text(boot)
        done = subprocess.run(
            [MICROPYTHON.resolve(), "-X", f"heapsize={HEAP}", "boot.py"],
            cwd=folder,
            env={**os.environ, "MICROPYPATH": ".frozen"},
            capture_output=True,
            text=True,
            check=False,
            timeout=7200,
        )
    if done.returncode:
        raise RuntimeError(f"MicroPython failed: {done.stdout}{done.stderr}")
    found = json.loads(done.stdout)
    if found["delivered"] + found["stored"] + found["dropped"] < found["taken"] or found["dropped"]:
        raise RuntimeError(f"the accounts do not add up: {found}")
    numbers = {name: int(found[name]) for name in Device._fields if name != "tree"}
    return Device(**numbers, tree=staged)


class Drive(NamedTuple):
    frames: int
    """of the speed, in the capture"""
    all_frames: int
    sent: int
    off: float
    """km/h that the speed held by who hears us is off, at worst"""


def drive(log: Path, dbc: Path, delta: float = 1.0) -> Drive:
    """The capture of a car through the agent's rule: on change of 1 km/h."""
    import can

    from vicinal.cosmic.frame import Frame
    from vicinal_edge.agent.rules import Rule
    from vicinal_hw.can.dbc import load

    mapping = load(dbc, only=["EngVehicleSpThrottle2"])
    rule = Rule("EngVehicleSpThrottle2", None, "Veh_V_ActlEng", delta)
    frames = every = sent = 0
    held, off = None, 0.0
    for message in can.CanutilsLogReader(log):
        every += 1
        event = mapping.decode(Frame(message.arbitration_id, bytes(message.data), message.is_extended_id))
        if event is None:
            continue
        frames += 1
        speed = event["Veh_V_ActlEng"]
        assert isinstance(speed, float | int)
        if rule.offer(event, int(message.timestamp * 1000)) is not None:
            sent += 1
            held = speed
        assert held is not None
        off = max(off, abs(held - speed))
    return Drive(frames, every, sent, off)


def rows(events: int = EVENTS) -> Iterator[Row]:
    if not MICROPYTHON.exists():
        yield Row("agent on a device", "not measured", "MicroPython is not there: run tools/get_micropython.sh")
        return
    found = device(events)
    yield Row(
        f"agent on a device: CAN, BLE, CoAP, five rules, {found.offered:,} events",
        f"{found.low / 1024:.1f} KiB free at worst",
        f"of 128 KiB, code in flash; {(found.first - found.last) / 1024:.1f} KiB less at the end than at the start",
        f"{found.low / GOAL_FREE:.2f} of 40 KiB",
        "40 KiB or more, no growth",
        found.low >= GOAL_FREE and found.first - found.last < 1024,
    )
    more = device(min(events, 20_000), ways=True)
    yield Row(
        "the same, which also publishes on its bus and in the air",
        f"{more.low / 1024:.1f} KiB free at worst",
        f"{more.out:,} events went out beside {more.delivered:,} to the gateway",
        f"{more.low / GOAL_FREE:.2f} of 40 KiB",
        "40 KiB or more",
        more.low >= GOAL_FREE,
    )
    yield Row(
        "its tree",
        f"{found.tree / 1024:.0f} KiB of .mpy",
        "limit 150 KiB",
        f"{found.tree / GOAL_TREE:.2f} of it",
        "under the limit",
        found.tree < GOAL_TREE,
    )


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS
    print(device(count))
