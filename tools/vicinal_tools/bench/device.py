"""What the language costs on a device: bytes of heap, on the 32-bit MicroPython with the tree as it is staged.

The programs are compiled too, as on a device, so that the compiler's own leavings are not counted.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..romfs import image
from ..stage import SOURCE, compile_file, stage
from . import Row

HEAP = "96k"
_BOOT = """
import sys, vfs
with open("image", "rb") as file:
    vfs.mount(vfs.VfsRom(file.read()), "/rom")
sys.path[:] = [".frozen", "/rom/lib", "/rom"]
import program
"""
ROOM_LIMIT = 60 * 1024
ONE_EVENT_LIMIT = 1024

ROOM = """
import gc, vicinal, vicinal.event, vicinal.wire, vicinal.filter, vicinal.distlist
gc.collect()
print(gc.mem_free())
"""

ONE_EVENT = """
import gc
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.wire import encode

condition = Filter("subject = 'Speed' AND rate > 30")

def work(plate, rate):
    event = Event("Speed", (("license_no", plate), ("rate", rate)), (("Priority", 3),), "car-7", 12)
    data = encode(event)
    return condition.matches(event) and len(data)

if not work("00D12345", 57.2):  # not assert: -O3 leaves those out
    raise SystemExit("the filter does not match")
gc.collect()
gc.disable()
before = gc.mem_alloc()
work("00D12345", 57.2)
print(gc.mem_alloc() - before)
"""


def measure(micropython: Path, program: str, rom: bool = False) -> int:
    """The number that a program prints. With `rom` tree and program lie in a ROMFS, as in a board's flash. Here the
    image is in the heap, which is so much larger; a program that counts from its start does not see it."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        stage(tree)
        source = Path(folder) / "program.py"
        source.write_text(program)
        compile_file(source, tree / "program.mpy", source.name)
        path, start, heap = f".frozen:{tree}/lib:{tree}", ["-m", "program"], HEAP
        if rom:
            (Path(folder) / "image").write_bytes(image(tree))
            (Path(folder) / "boot.py").write_text(_BOOT)
            path, start, heap = ".frozen", ["boot.py"], "1M"
        done = subprocess.run(
            [micropython.resolve(), "-X", f"heapsize={heap}", *start],
            cwd=folder,
            env={**os.environ, "MICROPYPATH": path},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"MicroPython failed: {done.stdout}{done.stderr}")
    return int(done.stdout)


def rows() -> Iterator[Row]:
    micropython = SOURCE.parents[1] / ".tools" / "micropython" / "micropython"
    if not micropython.exists():
        yield Row("on a device", "not measured", "MicroPython is not there: run tools/get_micropython.sh")
        return
    room = measure(micropython, ROOM)
    yield Row(
        "heap left after import, of 96 KiB",
        f"{room / 1024:.1f} KiB",
        f"wanted {ROOM_LIMIT // 1024} KiB",
        f"{room / ROOM_LIMIT:.2f} of it",
        "60 KiB or more",
        room >= ROOM_LIMIT,
    )
    spent = measure(micropython, ONE_EVENT)
    yield Row(
        "make, encode and filter one event",
        f"{spent} bytes",
        f"limit {ONE_EVENT_LIMIT} bytes",
        f"{spent / ONE_EVENT_LIMIT:.2f} of it",
        "under the limit",
        spent < ONE_EVENT_LIMIT,
    )
