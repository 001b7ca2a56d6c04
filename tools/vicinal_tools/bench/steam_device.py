"""What STEAM takes on a device: a scanner, a group that was joined and an event from it, a subject announced and an
event of it on the air. Bytes of heap on the 32-bit MicroPython, with the tree as it is staged.

Two ways to have the tree on a board, and two places to count from:

    files      what is imported is copied into the heap, code and all
    ROMFS      code stays in flash (vicinal_tools/romfs.py); MicroPython 1.25 and later, where a board has the space
    from nothing, or on top of the language, which a node that does more than this has loaded in any case
"""

from collections.abc import Iterator
from pathlib import Path

from vicinal.event import Event
from vicinal.proximity import Proximity
from vicinal.steam.node import Node

from ..stage import SOURCE
from . import Row
from .device import measure

LIMIT = 24 * 1024

_LANGUAGE = "import vicinal.event, vicinal.wire, vicinal._cbor_read, vicinal.filter, vicinal.proximity\n"
_PROGRAM = """
import gc
from binascii import unhexlify
LANGUAGE
gc.collect()
before = gc.mem_alloc()
from vicinal.event import Event
from vicinal.proximity import Proximity
from vicinal.steam.node import Node

got = []
node = Node("car-7", 7)
node.set_position(533438000, -62546000, 0)
node.subscribe("Speed", CONDITION, lambda event, now: got.append(event["rate"]), ("rate", "text"))
node.announce("Light", Proximity.circle(AREA), 0, ("red",))
node.publish(Event("Light", (("red", True),)), 0)
MOVE
for data in DATA:
    node.receive(unhexlify(data), -60, 1000)
sent = [node.advertisement(now) for now in (1000, 1100, 1200)]
if got != [57] or None in sent or len(node.groups()) != 1:
    raise SystemExit(str((got, sent, node.counters)))
gc.collect()
print(gc.mem_alloc() - before)
"""


def program(language: bool = False, moving: bool = False, pieces: bool = False, filtered: bool = False) -> str:
    """`language`: it is loaded before, and not counted. Beyond the plain scene: both areas move, and so does the node;
    the event heard has several pieces; it passes a content filter."""
    speaker = Node("s", 9)
    speaker.set_position(533438000, -62546000, 0)
    area = Proximity.circle(0, 0, 300, True) if moving else Proximity.circle(533438000, -62546000, 300)
    speaker.set_position(533438000, -62546000, 0, (1344, 0) if moving else None)
    speaker.announce("Speed", area, 0, ("rate", "text"))
    speaker.publish(Event("Speed", (("rate", 57), ("text", "of more than one piece" if pieces else ""))), 0)
    heard = [speaker.advertisement(now) for now in range(0, 600 if pieces else 200, 100)]
    found = _PROGRAM.replace("LANGUAGE\n", _LANGUAGE if language else "")
    found = found.replace("AREA", "0, 0, 300, True" if moving else "533438000, -62546000, 300")
    found = found.replace("MOVE", "node.set_position(533438500, -62546500, 1000)" if moving else "")
    found = found.replace(
        "CONDITION", "__import__('vicinal.filter').filter.Filter('rate > 30')" if filtered else "None"
    )
    return found.replace("DATA", repr([data.hex() for data in heard if data is not None]))


def rows() -> Iterator[Row]:
    micropython = SOURCE.parents[1] / ".tools" / "micropython" / "micropython"
    if not micropython.exists():
        yield Row("STEAM on a device", "not measured", "MicroPython is not there: run tools/get_micropython.sh")
        return
    yield _row(micropython, "from ROMFS, with the language", True, program())
    yield _row(micropython, "from files, on top of the language", False, program(language=True))
    plain = measure(micropython, program())
    more = {
        "areas that move": measure(micropython, program(moving=True)),
        "an event of several pieces": measure(micropython, program(pieces=True)),
        "a content filter": measure(micropython, program(filtered=True)),
    }
    said = ", ".join(f"{what} {(size - plain) / 1024:.1f}" for what, size in more.items())
    yield Row("STEAM on a device, from files, with the language", f"{plain / 1024:.1f} KiB", f"more KiB for: {said}")


def _row(micropython: Path, how: str, rom: bool, text: str) -> Row:
    size = measure(micropython, text, rom)
    return Row(
        f"STEAM on a device, {how}",
        f"{size / 1024:.1f} KiB",
        f"limit {LIMIT // 1024} KiB",
        f"{size / LIMIT:.2f} of it",
        "under the limit",
        size < LIMIT,
    )
