"""COSMIC on a device: the same program on both interpreters says the same, and three channels fit into 24 KiB."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vicinal_tools.bench import cosmic, device

ROOT = Path(__file__).parent.parent.parent.parent
MICROPYTHON = ROOT / ".tools" / "micropython" / "micropython"

# All classes of channels between two nodes, with a lost frame and a late one; every value printed.
BOTH = """
from vicinal.cosmic.bits import frame_bits
from vicinal.cosmic.calendar import Calendar, Refused
from vicinal.cosmic.channels import NrtChannel, Raw, SrtChannel
from vicinal.cosmic.faults import Budgets, Recovery
from vicinal.cosmic.frame import Frame
from vicinal.cosmic.hrt import HrtChannel
from vicinal.cosmic.node import Node
from vicinal.event import Event

calendar = Calendar(500000, 20)
for name, period, size, omissions in (("a", 10000, 8, 1), ("b", 5000, 4, 0), ("c", 7000, 8, 1), ("d", 20000, 30, 0)):
    try:
        slot = calendar.reserve(name, period, size, omissions)
        print(slot.channel, slot.phase, slot.window, slot.length, slot.latency)
    except Refused as error:
        print(error)
print([(start, slot.channel) for start, slot in calendar.entries()], calendar.free(), calendar.reserved())

a, b = Node(1, 500000), Node(2, 500000)
b.budgets = Budgets(1000, 50)

def saying(name):
    return lambda what, detail, now: print(name, what, detail, now)

channels = []
for node, name in ((a, "a"), (b, "b")):
    mine = [
        HrtChannel(node, 200, calendar.slots[0], Raw),
        HrtChannel(node, 201, calendar.slots[2], Raw),
        SrtChannel(node, 202, 2000, 9000),
        NrtChannel(node, 203, 251),
    ]
    channels.append(mine)
    for channel in mine:
        if node is a:
            channel.announce(0, saying("a failed"))
        else:
            channel.subscribe(saying("b got"), 0, saying("b lost"))

brake, long, speed, notes = channels[0]
now = 0
for step in range(400):
    if step % 50 == 1:
        brake.publish(b"brake%d" % (step % 7), now)
        long.publish(b"thirty bytes in one slot: %d" % (step % 7), now)
    if step % 80 == 0:
        speed.publish(Event("Speed", (("rate", step), ("plate", "00D"))), now)
        notes.publish(Event("Note", (("text", "long enough for many fragments" * 3),)), now)
    if step == 235:
        a.set_silent(True, now)
    if step == 290:
        a.set_silent(False, now)
    frame = a.frame_to_send(now)
    for node in (a, b):
        due = node.next_timeout()
        if due is not None and due <= now:
            node.handle_timeout(now)
    now += 200
    if frame is not None:
        print(frame.id, frame.data, frame_bits(frame))
        if step % 13 == 5:
            a.transmit_error(now, frame)
        else:
            a.frame_sent(frame, now)
            b.receive_frame(frame, now)
for node in (a, b):
    print(sorted(node.counters.items()), node.stored, node.held)
recovery = Recovery(a)
print([recovery.report(state, 0) for state in ("active", "bus-off", "bus-off", "active")])
"""


@pytest.mark.micropython
def test_three_channels_open_in_under_24_kib() -> None:
    assert 0 < device.measure(MICROPYTHON, cosmic.OPEN) < cosmic.GOAL_HEAP


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
    for wanted in ("b got", "b lost missing", "a failed expired", "a failed bus-off", "does not fit", "out late"):
        assert wanted in done.stdout
    assert micropython(program) == done.stdout
