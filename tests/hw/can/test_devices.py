"""The drivers of boards: the same suite on CPython and on the 32-bit MicroPython, and two of them on a real contest."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from broken import broken_copy
from hw.can import device_suite

from vicinal.cosmic.channels import NrtChannel, Raw
from vicinal.cosmic.frame import Frame
from vicinal.cosmic.node import Node
from vicinal_hw.can.bus import Bus
from vicinal_hw.can.device_shell import DeviceShell
from vicinal_hw.can.mcp2515 import MCP2515
from vicinal_hw.can.simulated_mcp2515 import SimulatedMcp2515
from vicinal_tools.stage import compile_file

ROOT = Path(__file__).parents[3]
HW = ROOT / "hw"
MICROPYTHON = ROOT / ".tools" / "micropython" / "micropython"
DEVICE_FILES = ["__init__", "can/__init__", "can/device_shell", "can/machine_can", "can/mcp2515"]
SIMULATED = ["can/simulated_mcp2515"]
TESTS = sorted(name for name in vars(device_suite) if name.startswith("test_"))


@pytest.mark.parametrize("name", TESTS)
def test_on_cpython(name: str) -> None:
    getattr(device_suite, name)()


@pytest.fixture
def tree(staged: Path, tmp_path: Path) -> Path:
    """What goes onto a board, and the simulated chip beside it."""
    for name in DEVICE_FILES + SIMULATED:
        compile_file(HW / "vicinal_hw" / f"{name}.py", tmp_path / "vicinal_hw" / f"{name}.mpy", name)
    return tmp_path


def on_micropython(tree: Path, staged: Path, script: Path, heap: str) -> str:
    done = subprocess.run(
        [str(MICROPYTHON), "-X", f"heapsize={heap}", str(script)],
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
    printed = on_micropython(tree, staged, Path(device_suite.__file__), "512K")
    assert printed.endswith(f"{len(TESTS)} passed, 0 failed\n"), printed


@pytest.mark.micropython
def test_a_driver_has_room_on_a_board(tree: Path, staged: Path, tmp_path: Path) -> None:
    """What the driver and its shell take, beside the node."""
    script = tmp_path / "room.py"
    script.write_text(
        "import gc\nimport vicinal.cosmic.node, vicinal.cosmic.faults\ngc.collect()\nbefore = gc.mem_alloc()\n"
        "import vicinal_hw.can.mcp2515, vicinal_hw.can.device_shell\ngc.collect()\nprint(gc.mem_alloc() - before)\n"
    )
    assert int(on_micropython(tree, staged, script, "256K")) < 10 * 1024


class Board:
    """A node on a simulated chip, which is a controller of the virtual bus."""

    def __init__(self, bus: Bus, tx_node: int) -> None:
        self.bus = bus
        self.controller = bus.controller(f"board {tx_node}")
        self.chip = SimulatedMcp2515(self._request)
        self.controller.on_receive = lambda frame, now: self.chip.received(frame)
        self.controller.on_sent = lambda frame, now: self.chip.transmitted()
        self.node = Node(tx_node, bus.bitrate)
        self.shell = DeviceShell(self.node, MCP2515(self.chip, self.chip.select, 16_000_000, bus.bitrate))

    def _request(self, frame: Frame) -> None:
        if self.controller.mailbox is not None:
            self.controller.abort()  # the driver took back what it wants replaced
        self.controller.load(frame)

    def service(self) -> None:
        self.chip.on_wire = self.controller.on_wire
        self.shell.service(self.bus.now // 1000)
        if self.controller.mailbox is not None and not self.chip.registers[0x30] & 8:
            self.controller.abort()


def test_boards_on_the_virtual_bus() -> None:
    bus = Bus(500_000)
    boards = [Board(bus, number) for number in (1, 2, 3)]
    heard: list[tuple[int, bytes]] = []
    expected = []
    listen = NrtChannel(boards[0].node, 200, codec=Raw, fragmented=True)
    listen.subscribe(lambda event, tx_node, now: heard.append((tx_node, event)), 0)
    for board in boards[1:]:
        talk = NrtChannel(board.node, 200, codec=Raw, fragmented=True)
        talk.announce(0)
        for number in range(10):
            talk.publish(bytes([number]) * 30, 0)
            expected.append((board.node.tx_node, bytes([number]) * 30))
    while bus.now < 200_000_000:
        for board in boards:
            board.service()
        bus.advance(bus.now + 50_000)  # a main loop that comes round every 50 us
    assert sorted(heard) == expected
    assert [board.node.stored for board in boards] == [0, 0, 0]


@pytest.mark.parametrize(
    ("file", "old", "new", "red"),
    [
        ("mcp2515", "_LOAD_TXB0, _SEND_TXB0 = 0x40, 0x81", "_LOAD_TXB0, _SEND_TXB0 = 0x42, 0x81", "test_frames_out"),
        ("mcp2515", "self._second = self._take(1)", "pass", "test_frames_in_and_in_order"),
        ("mcp2515", "phase2 = quanta // 4", "phase2 = quanta // 2", "test_bit_timing"),
        ("mcp2515", "_MASKS = (0x20, 0x24)", "_MASKS = (0x24, 0x20)", "test_filters_in_the_chip_and_here"),
        ("mcp2515", "self._modify(_TXB0CTRL, _TXREQ, 0)\n\n", "pass\n\n", "test_a_node_on_a_board"),
        (
            "device_shell",
            "self._held = None\n        if self.recovery",
            "pass\n        if self.recovery",
            "test_a_node_on_a_board",
        ),
    ],
)
def test_the_suite_can_fail(tmp_path: Path, file: str, old: str, new: str, red: str) -> None:
    """One thing broken in a copy, and the test that must notice."""
    broken_copy(HW / "vicinal_hw", tmp_path, f"can/{file}.py", old, new)
    done = subprocess.run(
        [sys.executable, str(Path(device_suite.__file__))],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT / 'protocols'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert f"FAILED {red}" in done.stdout, done.stdout + done.stderr
