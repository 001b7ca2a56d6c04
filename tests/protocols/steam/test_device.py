"""STEAM on a device: the same program on both interpreters says the same, and it fits beside the language."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vicinal_tools.bench import device, steam_device

ROOT = Path(__file__).parent.parent.parent.parent
MICROPYTHON = ROOT / ".tools" / "micropython" / "micropython"

# Two producers and two consumers with losses, areas that move and one that is elastic; every byte and value printed.
BOTH = """
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.proximity import Proximity
from vicinal.steam.node import Node

HERE = (533438000, -62546000)

def saying(name):
    return lambda *what: print(name, what)

def member(name):
    return lambda what, group, now: print(name, what, group.id, group.subject, str(group.area), now)

car, rsu, near, far = nodes = [Node(name, number, room) for name, number, room in (
    ("car", 1, 28), ("rsu", 0xABCDEF, 31), ("near", 3, 28), ("far", 4, 254))]
for node in nodes:
    node.set_position(HERE[0], HERE[1], 0)
for node in (near, far):
    node.on_member = member(node.name)
    node.subscribe("Speed", Filter("rate > 30"), saying(node.name), ("plate", "rate"))
    node.subscribe("Light", None, saying(node.name))
car.announce("Speed", Proximity.circle(0, 0, 200, True), 0, ("plate", "rate"), 500)
least = Proximity.rectangle(HERE[0], HERE[1], 40, 30)
most = Proximity.rectangle(HERE[0], HERE[1], 400, 300)
rsu.announce("Light", most, 0, minimum=least, on_adapt=saying("adapt"), validity=1000)
for step in range(160):
    now = step * 100
    if step % 20 == 3:
        car.publish(Event("Speed", (("plate", "00D%d" % step), ("rate", step)), {"Priority": 3}), now)
    if step % 50 == 5 and step < 120:
        rsu.publish(Event("Light", (("red", step % 100 == 5), ("text", "long enough for some pieces"))), now)
    if step == 120:
        rsu.unannounce("Light", now)
    car.set_position(HERE[0] + step * 300, HERE[1], now)
    far.set_position(HERE[0] - step * 200, HERE[1] + step, now)
    for place, node in enumerate(nodes):
        due = node.next_timeout()
        if due is not None and due <= now:
            node.handle_timeout(now)
        data = node.advertisement(now)
        if data is not None:
            print(node.name, now, data)
            for other in nodes:
                if other is not node and (step * 7 + place) % 11:
                    other.receive(b"\\x02\\x01\\x06" + data, -60, now)
for node in nodes:
    print(sorted(node.counters.items()), node.stored, node.pending)
    print([(heard.group, heard.inside, str(heard.beacon.area)) for heard in node.heard()])
"""


@pytest.mark.micropython
@pytest.mark.parametrize(
    ("rom", "more"),
    [(False, ""), (True, ""), (True, "moving"), (True, "pieces")],
    ids=["files, on top of the language", "ROMFS, from nothing", "the same, moving", "the same, several pieces"],
)
def test_a_scanner_a_group_and_an_announcement_in_under_24_kib(rom: bool, more: str) -> None:
    """As files the language has its own budget: see test_two_interpreters.py."""
    program = steam_device.program(not rom, more == "moving", more == "pieces")
    assert 0 < device.measure(MICROPYTHON, program, rom) < steam_device.LIMIT


@pytest.mark.micropython
def test_both_interpreters_say_the_same(micropython: Callable[..., str], tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(BOTH)
    done = subprocess.run(
        [sys.executable, str(program)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "protocols")},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    for wanted in (
        "near joined",
        "far left",
        "near (Event('Speed'",
        "near (Event('Light'",
        "in dropped: outside",
        "adapt (",
    ):
        assert wanted in done.stdout
    assert micropython(program) == done.stdout
