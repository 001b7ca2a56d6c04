"""The host's side of a virtual device: it is the power, the cable, the watchdog and the flash chip of a MicroPython.

    device.start(), stop()         the power; also `with`
    device.reset()                 the button
    device.unplug(), plug()        the cable: the pty is gone, and comes again under another name; the device runs on
    device.cut_power_after(n)      at the n-th write to flash from the next boot on, torn in the middle
    device.put(files), files()     its file system, while it is off

One thread serves all of it. `folder` holds the flash (vfs.bin, journal.bin, rom.bin) and console.log: with the same
folder it is the same device.
"""

import contextlib
import json
import os
import pty
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import termios
import threading
import time
import tty
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vicinal.errors import LocalProtocolError

from .. import boards
from .wires import Wires

__all__ = ["DeviceError", "VirtualDevice", "find_micropython"]

HEAP = 128 * 1024
FLASH = 2 * 1024 * 1024
"""bytes of the file system, as MicroPython leaves for it on an ESP32 with 4 MiB"""
BLOCK = 4096
# What the fakes take of the heap, and a little more: the device gives back what is over (onboard/fake_board.py).
_FAKES = 40 * 1024
_FD = 3
_PACKET = 512
_POWER_ON, _HARD, _WDT, _SOFT = 1, 2, 3, 5
# Seconds: how often the loop looks at what may come by itself.
_TICK = 0.01
_IDLE = 0.2
# A program that neither sleeps nor asks is interrupted by a signal after so long.
_INSIST = 0.5
_ONBOARD = Path(__file__).parent / "onboard"
_REPOSITORY = Path(__file__).parents[3]


class DeviceError(Exception):
    """The virtual device cannot be, or did not do what was waited for."""


def find_micropython() -> Path:
    """VICINAL_MICROPYTHON, what tools/get_micropython.sh got, or the machine's own."""
    named = os.environ.get("VICINAL_MICROPYTHON") or shutil.which("micropython")
    got = _REPOSITORY / ".tools" / "micropython" / "micropython"
    for path in (os.environ.get("VICINAL_MICROPYTHON"), got, named):
        if path is not None and Path(path).exists():
            return Path(path).resolve()
    raise DeviceError(
        "MicroPython is not there: run tools/get_micropython.sh, or name a unix build of 1.25 or later in "
        "VICINAL_MICROPYTHON"
    )


class VirtualDevice:
    def __init__(
        self,
        folder: Path,
        *,
        board: str = "esp32",
        heap: int = HEAP,
        flash: int = FLASH,
        rom: int = 0,
        link: Path | None = None,
        can: str | None = None,
        bitrate: int = 500_000,
        ble: str | None = None,
        at: tuple[int, int] = (0, 0),
        wifi: dict[str, str] | None = None,
    ) -> None:
        """`heap`, `flash` and `rom` in bytes: its firmware has a ROMFS of `rom`, or none. `link` is a name for the port
        that stays, whatever pty it is. `can` and `ble` are names of a virtual bus and a virtual radio, `at` where it is
        (1e-7 degrees). `wifi` are networks and their passwords, None: any will do."""
        self.board = boards.board(board)
        if self.board.kind != "micropython":
            raise LocalProtocolError(f"board {board!r} runs Linux: a virtual device is one of MicroPython's")
        self.folder = folder
        self.heap = heap
        self.flash = flash
        self.rom = rom
        self.link = link
        self.port = ""
        """the pty; empty while the cable is unplugged"""
        self.boots = 0
        self.bites = 0
        """of the watchdog"""
        self.cuts = 0
        self._micropython = find_micropython()
        self._wires = Wires(self._send, can, bitrate, ble, at, wifi)
        self._cable: tuple[int, int] | None = None  # master, slave
        self._console = -1  # the master of the interpreter's own pty
        self._wire: socket.socket | None = None
        self._is_up = False  # what is typed before waits in the cable
        self._busy = False  # a program runs
        self._insist_at: float | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._writes_left = -1
        self._watchdog: tuple[float, float] | None = None  # patience, when it bites
        self._said = bytearray()
        self._news = threading.Condition()
        self._lock = threading.RLock()
        self._running = False
        self._thread: threading.Thread | None = None
        self._log: Any = None

    def __enter__(self) -> "VirtualDevice":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # What a person does

    def start(self) -> None:
        self._make_flash()
        self._log = (self.folder / "console.log").open("ab", buffering=0)
        self.plug()
        self._running = True
        self._boot(_POWER_ON)
        self._thread = threading.Thread(target=self._serve, name="virtual device", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """The power is off, and the port is gone."""
        self._running = False
        if self._thread is not None:
            self._thread.join(10)
            self._thread = None
        with self._lock:
            self._power_off()
            self.unplug()
            self._wires.close()
            if self._log is not None:
                self._log.close()
                self._log = None

    def reset(self) -> None:
        with self._lock:
            self._boot(_HARD)

    def unplug(self) -> None:
        with self._lock:
            if self._cable is not None:
                for end in self._cable:
                    os.close(end)
                self._cable, self.port = None, ""
                if self.link is not None:
                    self.link.unlink(missing_ok=True)

    def plug(self) -> None:
        with self._lock:
            if self._cable is not None:
                return
            master, slave = pty.openpty()
            tty.setraw(slave)
            os.set_blocking(master, False)
            self._cable, self.port = (master, slave), os.ttyname(slave)
            if self.link is not None:
                self.link.unlink(missing_ok=True)
                self.link.symlink_to(self.port)

    def cut_power_after(self, writes: int) -> None:
        """Of the next boot; -1: not at all. After it the device starts again, with power that stays."""
        self._writes_left = writes

    def set_pin(self, number: int, level: int) -> None:
        self._wires.pins[number] = level

    def set_adc(self, number: int, value: int) -> None:
        self._wires.adc[number] = value

    def set_register(self, address: int, register: int, data: bytes) -> None:
        self._wires.registers[address, register] = data

    # Its flash, while it is off

    def put(self, files: Mapping[str, bytes]) -> None:
        """Files onto its file system, by their path there; others stay."""
        with tempfile.TemporaryDirectory() as folder:
            for name, data in files.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            self._load("in", folder)

    def files(self) -> dict[str, bytes]:
        """All that is on its file system."""
        with tempfile.TemporaryDirectory() as folder:
            self._load("out", folder)
            root = Path(folder)
            return {p.relative_to(root).as_posix(): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}

    def _load(self, way: str, folder: str) -> None:
        if self._running:
            raise DeviceError("the device runs: stop() it before its flash is read or written from here")
        self._make_flash()
        command = [str(self._micropython), "-X", "heapsize=8M", str(_ONBOARD / "fake_loader.py"), way]
        done = subprocess.run(
            [*command, str(self.folder / "vfs.bin"), folder], capture_output=True, text=True, check=False, timeout=120
        )
        if done.returncode:
            raise DeviceError(f"the flash could not be {'written' if way == 'in' else 'read'}: {done.stdout.strip()}")

    def _make_flash(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, size in (("vfs", self.flash), ("journal", 16 * BLOCK), ("rom", self.rom)):
            path = self.folder / f"{name}.bin"
            if size and not path.exists():
                path.write_bytes(b"\xff" * (size // BLOCK * BLOCK))

    # What it says

    @property
    def console(self) -> str:
        """All that it said since the start."""
        with self._news:
            return self._said.decode(errors="replace")

    @property
    def mark(self) -> int:
        """Where its console is now, for wait_for()."""
        with self._news:
            return len(self._said)

    def wait_for(self, text: str, after: int = 0, patience: float = 60.0) -> int:
        """Until its console has `text` behind the mark `after`; gives the mark where that ends."""
        end = time.monotonic() + patience
        wanted = text.encode()
        with self._news:
            while (at := self._said.find(wanted, after)) < 0:
                left = end - time.monotonic()
                if left <= 0 or not self._running:
                    said = self._said[-2000:].decode(errors="replace")
                    raise DeviceError(f"the device did not say {text!r}; its last words: {said}")
                self._news.wait(min(left, 0.5))
            return at + len(wanted)

    def hello(self, after: int = 0, patience: float = 60.0) -> dict[str, Any]:
        """What an agent says of itself when it has started (vicinal_edge.agent.main)."""
        start = self.wait_for("hello {", after, patience) - 1
        end = self.wait_for("}", start, patience)
        with self._news:
            found: dict[str, Any] = json.loads(self._said[start:end])
        return found

    # The power

    def _boot(self, cause: int, start: str = "main") -> None:
        watchdog = self._watchdog if cause == _SOFT else None  # it outlives a soft reset
        self._power_off()
        self._watchdog = watchdog
        self.boots += 1
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        master, slave = pty.openpty()
        # Ctrl-C is no signal of the terminal's: see _interrupt().
        modes = termios.tcgetattr(slave)
        modes[0] = 0
        modes[1] = termios.OPOST | termios.ONLCR  # as a board's console
        modes[3] = 0
        termios.tcsetattr(slave, termios.TCSANOW, modes)
        writes, self._writes_left = self._writes_left, -1
        arguments = [
            str(self._micropython), "-X", f"heapsize={self.heap + _FAKES}", str(_ONBOARD / "fake_board.py"),
            self.board.chip.upper(), str(cause), str(self.heap), str(writes), start,
        ]  # fmt: skip

        def before() -> None:
            os.setsid()
            tty_ = os.open(os.ttyname(slave), os.O_RDWR)  # the first terminal that a leader opens is its own
            for number in (0, 1, 2):
                os.dup2(tty_, number)
            os.dup2(theirs.fileno(), _FD)
            os.set_inheritable(_FD, True)

        self._process = subprocess.Popen(
            arguments,
            cwd=self.folder,
            env={"MICROPYPATH": f".frozen:{_ONBOARD}", "HOME": str(self.folder), "TERM": "dumb"},
            pass_fds=sorted({_FD, slave, theirs.fileno()}),
            preexec_fn=before,
        )
        os.close(slave)
        theirs.close()
        os.set_blocking(master, False)
        self._console, self._wire, self._is_up = master, ours, False
        self._busy, self._insist_at = start == "main", None

    def _power_off(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
            self._read_console()
            os.close(self._console)
            self._console = -1
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        self._watchdog = None
        self._wires.switched_off()

    # The thread

    def _serve(self) -> None:
        while self._running:
            with self._lock:
                readable = [self._console] if self._console >= 0 else []
                if self._cable is not None and self._is_up:
                    readable.append(self._cable[0])
                if self._wire is not None:
                    readable.append(self._wire.fileno())
                patience = _TICK if self._wires.busy else _IDLE
                if self._watchdog is not None:
                    patience = min(patience, max(0.0, self._watchdog[1] - time.monotonic()))
            try:
                ready = select.select(readable, [], [], patience)[0]
            except (OSError, ValueError):
                continue  # unplugged meanwhile
            with self._lock:
                self._turn(ready)

    def _turn(self, ready: list[int]) -> None:
        if self._wire is not None and self._wire.fileno() in ready:
            self._read_wire()
        if self._console in ready:
            self._read_console()
        if self._cable is not None and self._cable[0] in ready:
            self._read_cable()
        self._wires.service()
        if self._insist_at is not None and time.monotonic() >= self._insist_at and self._process is not None:
            self._insist_at = None
            os.kill(self._process.pid, signal.SIGINT)
        if self._watchdog is not None and time.monotonic() >= self._watchdog[1]:
            self.bites += 1
            self._say(b"\r\nrst:0x8 (TG1WDT_SYS_RESET)\r\n")
            self._boot(_WDT)
        elif self._process is not None and self._process.poll() is not None:
            self._ended()

    def _ended(self) -> None:
        """The interpreter has crashed, or a program ended it: a board would start again."""
        self._read_console()
        self._boot(_HARD)

    def _interrupt(self) -> None:
        """Told, and if it does not listen, by a signal: that may come in the middle of anything."""
        self._send(b"K".ljust(64, b"\x00"))
        self._insist_at = time.monotonic() + _INSIST

    def _send(self, packet: bytes) -> None:
        if self._wire is not None:
            with contextlib.suppress(OSError):
                self._wire.send(packet)

    def _read_wire(self) -> None:
        wire = self._wire
        while wire is not None and wire is self._wire:
            try:
                packet = wire.recv(_PACKET, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                wire.close()
                self._wire = None
                return
            kind = packet[:1]
            if kind == b"Y":
                self._is_up = True
            elif kind == b"R":
                self._read_console()
                self._boot(_HARD)
            elif kind == b"D":
                self._read_console()
                self._say(b"MPY: soft reboot\r\n")
                self._boot(_SOFT, "raw" if packet[2:] == b"\x01" else "main")
            elif kind == b"C":
                self.cuts += 1
                self._boot(_POWER_ON)
            elif kind == b"W":
                patience = int.from_bytes(packet[2:6], "big") / 1000
                self._watchdog = (patience, time.monotonic() + patience)
            elif kind in (b"G", b"Q", b"k"):
                self._busy = kind == b"G" or (kind == b"k" and self._busy)
                self._insist_at = None
            elif kind == b"F":
                if self._watchdog is not None:
                    self._watchdog = (self._watchdog[0], time.monotonic() + self._watchdog[0])
            else:
                self._wires.answer(packet)

    def _read_console(self) -> None:
        try:
            while data := os.read(self._console, 4096):
                self._say(data)
        except OSError:
            return  # nothing there, or it has ended

    def _say(self, data: bytes) -> None:
        if self._log is not None:
            self._log.write(data)
        with self._news:
            self._said += data
            self._news.notify_all()
        if self._cable is not None:
            # Who does not read loses, as on a serial line.
            end = time.monotonic() + 1.0
            while data:
                try:
                    data = data[os.write(self._cable[0], data) :]
                except BlockingIOError:
                    if time.monotonic() > end or not select.select([], [self._cable[0]], [], 0.05)[1]:
                        return

    def _read_cable(self) -> None:
        assert self._cable is not None
        try:
            data = os.read(self._cable[0], 4096)
        except OSError:
            return
        if b"\x03" in data and self._busy:
            self._interrupt()
        while data and self._console >= 0:
            try:
                data = data[os.write(self._console, data) :]
            except BlockingIOError:
                # It does not read: a program is busy. What it said meanwhile must go, or both wait for ever.
                self._read_console()
                select.select([], [self._console], [], 0.05)
            except OSError:
                return
