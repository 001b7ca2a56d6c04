"""The board's radio with a fake of MicroPython's `bluetooth`: the same suite on CPython and on the 32-bit one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import run_suite
from broken import broken_copy
from hw.ble import device_suite

from vicinal_tools.stage import compile_file

ROOT = Path(__file__).parents[3]
HW = ROOT / "hw"
MICROPYTHON = ROOT / ".tools" / "micropython" / "micropython"
DEVICE_FILES = ["__init__", "ble/__init__", "ble/device_radio", "ble/turns", "location/__init__", "location/fix"]
TESTS = sorted(name for name in vars(device_suite) if name.startswith("test_"))


@pytest.mark.parametrize("name", TESTS)
def test_on_cpython(name: str) -> None:
    getattr(device_suite, name)()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in DEVICE_FILES:
        compile_file(HW / "vicinal_hw" / f"{name}.py", tmp_path / "vicinal_hw" / f"{name}.mpy", name)
    return tmp_path


def on_micropython(tree: Path, staged: Path, heap: str, *command: object) -> str:
    done = subprocess.run(
        [str(MICROPYTHON), "-X", f"heapsize={heap}", *map(str, command)],
        env={**os.environ, "MICROPYPATH": f".frozen:{tree}:{staged / 'lib'}"},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.micropython
def test_on_micropython(tree: Path, staged: Path) -> None:
    printed = on_micropython(tree, staged, "512K", run_suite.__file__, device_suite.__file__)
    assert printed.endswith(f"{len(TESTS)} passed, 0 failed\n"), printed


ROOM = """
import gc
from vicinal.steam.node import Node
from vicinal.proximity import Proximity
class Ble:
    def active(self, on): pass
    def irq(self, handler): pass
    def gap_scan(self, *a): pass
    def gap_advertise(self, *a, connectable=True): pass
node = Node("car", 1)
node.set_position(533438000, -62546000, 0)
node.announce("Speed", Proximity.circle(533438000, -62546000, 200), 0)
node.subscribe("Limit", None, print)
gc.collect()
before = gc.mem_alloc()
from vicinal_hw.ble.device_radio import DeviceRadio, DeviceShell
shell = DeviceShell(node, DeviceRadio(Ble()))
shell.service(0)
gc.collect()
print(gc.mem_alloc() - before)
"""


@pytest.mark.micropython
def test_a_radio_has_room_on_a_board(tree: Path, staged: Path, tmp_path: Path) -> None:
    """What the radio and its shell take, beside the node."""
    script = tmp_path / "room.py"
    script.write_text(ROOM)
    assert int(on_micropython(tree, staged, "256K", script)) < 4 * 1024


@pytest.mark.parametrize(
    ("file", "old", "new", "red"),
    [
        ("device_radio", "advertisement = bytes(data[4])", "advertisement = data[4]", "test_ours_are_copied"),
        ("device_radio", "connectable=False", "connectable=True", "test_it_scans_and_advertises"),
        ("device_radio", "self._queue.pop(0)", "self._queue.pop()", "test_the_queue_is_bounded"),
        ("turns", "if now >= self._turn:", "if True:", "test_service_says_when"),
        ("turns", "node.handle_timeout(now)", "pass", "test_service_says_when"),
    ],
)
def test_the_suite_can_fail(tmp_path: Path, file: str, old: str, new: str, red: str) -> None:
    """One thing broken in a copy, and the test that must notice."""
    broken_copy(HW / "vicinal_hw", tmp_path, f"ble/{file}.py", old, new)
    done = subprocess.run(
        [sys.executable, run_suite.__file__, device_suite.__file__],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT / 'protocols'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert f"FAILED {red}" in done.stdout, done.stdout + done.stderr
