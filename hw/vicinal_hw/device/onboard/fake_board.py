"""What the interpreter runs first on a virtual device: puts the fakes in place, mounts the flash, starts as a board.

    micropython fake_board.py CHIP CAUSE HEAP WRITES START        START: main, prompt or raw

From here on there is nothing of the host's but its sockets: the root is a littlefs, `machine`, `bluetooth`, `network`
and `esp32` are fakes, and so are the names of the platform in `sys` and, of a device with rom.bin, `vfs.rom_ioctl`
(fake_rom.py). The fakes lie in the heap, which is made so much
larger: what is left is HEAP bytes. boot.py and main.py are run if they are there, then comes the prompt (fake_repl.py).
"""

import gc as _gc
import os as _os
import sys as _sys
import time as _time
from collections import namedtuple

import fake_bluetooth
import fake_esp32
import fake_flash
import fake_host
import fake_machine
import fake_network
import fake_repl
import vfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# MicroPython's have more than CPython's, which is what type checkers know.
gc: "Any" = _gc
os: "Any" = _os
_real_sys: "Any" = _sys
_real_time: "Any" = _time


class Sys:
    """`sys` of a board: the interpreter's own, with another platform."""

    def __init__(self, chip: str) -> None:
        real = _real_sys.implementation
        self.platform = "esp32"
        implementation: Any = namedtuple("implementation", ("name", "version", "_machine", "_mpy"))  # type: ignore[misc]
        self.implementation = implementation(real.name, real.version, f"Virtual device with {chip}", real._mpy)
        self.argv: list[str] = []

    def __getattr__(self, name: str) -> "Any":
        return getattr(_real_sys, name)


class Time:
    """`time` of a board: while a program sleeps, the interrupts of its radio come."""

    def sleep_ms(self, ms: int) -> None:
        fake_host.serve(ms)

    def sleep(self, seconds: float) -> None:
        fake_host.serve(int(seconds * 1000))

    def __getattr__(self, name: str) -> "Any":
        return getattr(_real_time, name)


def _mount() -> None:
    for name in ("vfs", "journal"):
        fake_esp32.partitions[name] = fake_flash.FileBlocks(f"{name}.bin")
    modules = _real_sys.modules
    try:
        size = os.stat("rom.bin")[6]
    except OSError:
        size = 0
    if size:
        import fake_rom

        fake_rom.open_("rom.bin", size)
        modules["vfs"] = fake_rom.Vfs()
    flash = fake_esp32.partitions["vfs"]
    try:
        system = vfs.VfsLfs2(flash)
    except OSError:
        vfs.VfsLfs2.mkfs(flash)  # blank, as a board at its first start
        system = vfs.VfsLfs2(flash)
    vfs.umount("/")
    vfs.mount(system, "/")
    os.chdir("/")
    _real_sys.path[:] = ["", ".frozen", "/lib"] + (fake_rom.mount() if size else [])


def _prepare() -> "tuple[int, str]":
    chip, cause, heap, writes, start = _real_sys.argv[1:6]
    fake_machine.cause = int(cause)
    _mount()
    fake_flash.writes_left = int(writes)
    modules = _real_sys.modules
    modules["machine"], modules["bluetooth"] = fake_machine, fake_bluetooth
    modules["network"], modules["esp32"] = fake_network, fake_esp32
    modules["sys"], modules["time"] = Sys(chip), Time()
    return int(heap), start


_heap, _start = _prepare()
_names: "dict[str, Any]" = {"__name__": "__main__"}
_repl = fake_repl.Repl(_names)
gc.collect()
if gc.mem_free() < _heap:
    print(f"virtual device: the fakes leave {gc.mem_free()} bytes of heap, {_heap} are wanted")
_ballast = bytearray(max(0, gc.mem_free() - _heap - 16))


def _run_programs() -> None:
    for name in ("boot.py", "main.py"):
        try:
            with open(name) as opened:  # noqa: PTH123
                text = opened.read()
        except OSError:
            continue
        try:
            exec(compile(text, name, "exec"), _names)
        except BaseException as error:
            _real_sys.print_exception(error)
            return


fake_host.tell(b"Y")  # from here on it hears its console
try:
    if _start == "main":
        _run_programs()
        fake_host.end()
except KeyboardInterrupt:
    pass
while True:
    try:
        _repl.run(_start == "raw")
    except KeyboardInterrupt:
        pass
