"""An update over the air on a device: what it needs of the memory beside the agent, and how much it fetches.

The device is the 32-bit MicroPython, its code loaded from files as from a slot, and its gateway answers at once. Every
file of the release is fetched, checked and written: in a boot of its own with a heap of 128 KiB, beside an agent with a
rule, a journal and a sensor, and with a release of which one file is new.

    python -m vicinal_tools.bench.update
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from . import Row
from .agent import HEAP, MICROPYTHON

GOAL_FREE = 40 * 1024
GOAL_TAKEN = 16 * 1024
GOAL_SHARE = 0.2

# The rest of the world, which is in the same heap and is not counted.
PLAYED = """
from vicinal.coap.message import ACK, Message, decode, encode, uint
from vicinal_edge.agent.parts import SensorPart

class Flash:
    sectors, size = 3, 256
    def __init__(self):
        self.memory = [bytearray(b"\\xff" * 256) for _ in range(3)]
    def read(self, sector, offset, length):
        return bytes(self.memory[sector][offset:offset + length])
    def program(self, sector, offset, data):
        self.memory[sector][offset:offset + len(data)] = data
    def erase(self, sector):
        self.memory[sector][:] = b"\\xff" * 256

class Opener:
    def flash(self, config):
        return Flash()
    def open(self, ports, loop, now):
        return SensorPart(ports[0], self, loop.agent.offer, now)
    def read(self):
        return 5

class Gateway:
    # The link of the loop, and who answers at its other end, from files of the host.
    blocks = files = told = 0
    def service(self, client, now):
        while True:
            data = client.data_to_send()
            if data is None:
                return
            reply = self.answer(decode(data))
            if reply is not None:
                client.receive_data(reply, now)
    def answer(self, message):
        if message.code == 3:
            self.told += 1
            return encode(Message(ACK, 0x44, message.mid, message.token))
        if message.code != 1:
            return None
        if message.uint(6) is not None:
            return encode(Message(ACK, 0x45, message.mid, message.token, [(6, uint(1))]))
        path = [str(value, "utf-8") for number, value in message.options if number == 11]
        if path[0] == "time":
            return encode(Message(ACK, 0x45, message.mid, message.token, [], b"1700000000000"))
        block = message.uint(23) or 0
        size = 16 << (block & 7)
        with open("offer/" + path[-1], "rb") as file:
            file.seek((block >> 4) * size)
            data = file.read(size)
            more = bool(file.read(1))
        self.blocks += 1
        self.files += len(path) > 1 and not more
        options = [(4, path[-1].encode()[:8]), (23, uint(block & ~15 | more << 3 | block & 7))]
        return encode(Message(ACK, 0x45, message.mid, message.token, options, data))
    def close(self):
        pass
"""

# The gateway takes the place of the network; {alone} is 1 for a boot that updates and does nothing else.
PROGRAM = """
import gc, json, sys
gc.threshold(16384)  # as main.py of the agent does
import vicinal_edge.agent.main
import vicinal_edge.agent.board
from vicinal_edge.agent.over_the_air import Alone, updater_of
from vicinal_edge.agent.slots import Slots

slots = Slots("root")
slots.begin()
with open("root/a/agent.json") as file:
    tables = json.loads(file.read())
if {alone}:
    from vicinal._table import Table
    from vicinal_edge.agent.updater import Settings
    agent = Alone("car-7")
    agent.version = "0.1.0"
    settings = Settings(Table("", tables["update"]))
else:
    from vicinal_edge.agent.config import Config
    from vicinal_edge.agent.loop import Loop
gc.collect()
played = gc.mem_free()
from played import Gateway, Opener
gc.collect()
played -= gc.mem_free()
gateway = Gateway()
if {alone}:
    updater = updater_of(agent, settings, slots, "root")
    def turn(now):
        gateway.service(agent.client, now)
        updater.service(now, True)
else:
    config = Config(tables)
    loop = Loop(config, Opener(), gateway, "0.1.0", b"abcdefgh", 0, "root")
    updater = loop.updater = updater_of(loop.agent, config.update, slots, "root")
    turn = loop.turn
low, now, before = 1 << 30, 0, 0
while not updater.restart and now < 600000:
    turn(now)
    now += 20
    if now % 100 == 0 or now > 5000:
        gc.collect()
        if now == 4000:
            before = gc.mem_free()
        if now > 5000:
            low = min(low, gc.mem_free())
            block = bytearray(1536)  # to be had in one piece
            del block
print(json.dumps({"before": before + played, "low": low + played, "blocks": gateway.blocks, "files": gateway.files,
    "said": updater.restart or updater.report(), "outcome": slots.outcome}))
"""


class Update(NamedTuple):
    before: int
    """bytes free while nothing is updated"""
    low: int
    """and at worst while something is"""
    files: int
    """that were fetched"""
    blocks: int
    total: int
    """files of the release"""


def update(all_of_it: bool = True, alone: bool = True) -> Update:
    """`all_of_it`: nothing of the release is on the device; else all but one file. `alone`: in a boot of its own, with
    128 KiB; else beside an agent, which has more."""
    heap = HEAP if alone else 2 * HEAP
    from cryptography.hazmat.primitives.asymmetric import ec

    from vicinal_edge.releases import Release

    from ..release import files_of, public_of, signed
    from ..stage import compile_file

    key = ec.generate_private_key(ec.SECP256R1())
    with tempfile.TemporaryDirectory() as made_for:
        folder = Path(made_for)
        files = files_of("0.2.0")
        for path, data in files.items():
            for place in (folder / "tree", *([] if all_of_it else [folder / "root" / "a"])):
                (place / path).parent.mkdir(parents=True, exist_ok=True)
                (place / path).write_bytes(data)
        if not all_of_it:
            (folder / "root" / "a" / "lib" / "vicinal" / "__init__.mpy").write_bytes(b"M\x06 another")
        offer = folder / "offer"
        offer.mkdir()
        made = folder / "made.release"
        made.write_bytes(signed(key, "0.2.0", files))
        release = Release(made)
        (offer / "release").write_bytes(release.signed)
        for one in release.files:
            (offer / one.digest.hex()).write_bytes(release.file(one.digest) or b"")
        (folder / "root" / "a").mkdir(parents=True, exist_ok=True)
        config = {
            "agent": {"name": "car-7", "gateway": "coap://127.0.0.1", "health_s": 60},
            "sensor": [{"type": "adc", "pin": 34, "subject": "Reading", "every_ms": 1000}],
            "rule": [{"subject": "Reading", "field": "value", "delta": 1}],
            "update": {"key": public_of(key)},
        }
        (folder / "root" / "a" / "agent.json").write_text(json.dumps(config))
        (folder / "root" / "a" / "release.json").write_text('{"version":"0.1.0","files":{}}')
        for name, text in (("program", PROGRAM.replace("{alone}", str(int(alone)))), ("played", PLAYED)):
            (folder / f"{name}.py").write_text(text)
            compile_file(folder / f"{name}.py", folder / "tree" / "lib" / f"{name}.mpy", f"{name}.py")
            (folder / f"{name}.py").unlink()
        done = subprocess.run(
            [MICROPYTHON.resolve(), "-X", f"heapsize={heap}", "-c", "import program"],
            cwd=folder,
            env={**os.environ, "MICROPYPATH": f".frozen:{folder / 'tree' / 'lib'}"},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        if done.returncode:
            raise RuntimeError(f"MicroPython failed: {done.stdout}{done.stderr}")
        found = json.loads(done.stdout)
        if found["said"] != "update to 0.2.0":
            raise RuntimeError(f"it was not updated: {found}")
        for path, data in files.items():
            if (folder / "root" / "b" / path).read_bytes() != data:
                raise RuntimeError(f"{path} is not what was offered")
    return Update(found["before"], found["low"], found["files"], found["blocks"], len(files))


def rows() -> Iterator[Row]:
    if not MICROPYTHON.exists():
        yield Row("update over the air", "not measured", "MicroPython is not there: run tools/get_micropython.sh")
        return
    found = update()
    yield Row(
        f"update over the air on a device, {found.files} files fetched",
        f"{found.low / 1024:.1f} KiB free at worst",
        "of 128 KiB, code loaded from files, in a boot of its own",
        f"{found.low / GOAL_FREE:.2f} of 40 KiB",
        "40 KiB or more",
        found.low >= GOAL_FREE,
    )
    beside = update(True, False)
    taken = beside.before - beside.low
    yield Row(
        "the same beside an agent",
        f"{taken / 1024:.1f} KiB",
        "limit 16 KiB",
        f"{taken / GOAL_TAKEN:.2f} of it",
        "under the limit",
        taken < GOAL_TAKEN,
    )
    small = update(False)
    yield Row(
        "the same, one file of it changed",
        f"{small.blocks} blocks fetched",
        f"{found.blocks} for all of it",
        f"{small.blocks / found.blocks:.2f} x",
        "0.2 x",
        small.blocks <= GOAL_SHARE * found.blocks,
    )


if __name__ == "__main__":
    print(update())
    print(update(True, False))
    print(update(False))
