"""The code of a release as an image in the ROMFS of a board, block by block, in the half of the slot that does not run.

A block that is there with the right hash is not sent, one that the other half has is copied on the device: so an
interrupted copy goes on where it was. A block that was cut in the middle has another hash. Nothing counts before
slots.py has found the hash of the whole image right, on the device.
"""

import base64
import hashlib
from collections.abc import Callable

from .errors import FlashError
from .link import CHUNK, Link

__all__ = ["Copied", "padded", "write", "write_boot"]

# Of an image: what says that it is one.
_MAGIC = 3
_ROM = """
import vfs
try: vfs.umount("/rom")
except OSError: pass
def _blocks(slot, count):
    v, b = _s.rom.view(slot), _s.rom.block
    for n in range(count):
        print(str(hexlify(sha256(v[n * b:n * b + b]).digest()), "ascii")); _fed()
def _program(slot, n, at, data):
    d = _s.rom.device
    n += _s.rom.first(slot)
    if not at: d.ioctl(6, n)
    d.writeblocks(n, data, at)
    _fed()
def _again(old, m, new, n):
    v, b = _s.rom.view(old), _s.rom.block
    for at in range(0, b, 512): _program(new, n, at, bytes(v[m * b + at:m * b + at + 512]))
"""


class Copied:
    """How many blocks."""

    def __init__(self) -> None:
        self.sent = self.copied = self.kept = 0


def padded(image: bytes, block: int) -> bytes:
    """To whole blocks, as flash is when it is blank."""
    return image + b"\xff" * (-len(image) % block)


def write_boot(link: Link, image: bytes, block: int, room: int) -> None:
    """The image that the partition begins with, and MicroPython mounts. It is none until its first bytes are written,
    last; meanwhile the board starts with the same module from its file system."""
    link.run(_ROM)
    if len(image) > room:
        raise FlashError(f"the boot part has {len(image)} bytes, the ROMFS has {room} for it")
    wanted = hashlib.sha256(image).hexdigest()
    if _boot_digest(link, 0, len(image)) == wanted:
        return
    # Before anything is erased: of an erasure that is cut off the first bytes may be left, and they alone.
    _program(link, 0, bytes(_MAGIC), block)
    for number in range(-(-len(image) // block)):
        link.run(f"_s.rom.device.ioctl(6, {number}); _fed()")
    for at in range(0, len(image), CHUNK):
        _program(link, max(at, _MAGIC), image[max(at, _MAGIC) : at + CHUNK], block)
    if _boot_digest(link, _MAGIC, len(image)) == hashlib.sha256(image[_MAGIC:]).hexdigest():
        _program(link, 0, image[:_MAGIC], block)
    if _boot_digest(link, 0, len(image)) != wanted:
        raise FlashError("the boot part in the ROMFS is not what was sent: is the cable bad? The old agent stays")


def _program(link: Link, at: int, data: bytes, block: int) -> None:
    """`at` in the partition; `data` does not go beyond the block."""
    text = base64.b64encode(data).decode()
    link.run(f"_s.rom.device.writeblocks({at // block}, _a({text!r}), {at % block}); _fed()")


def _boot_digest(link: Link, start: int, end: int) -> str:
    found: str = link.ask(f"str(hexlify(sha256(memoryview(_s.rom.device)[{start}:{end}]).digest()), 'ascii')")
    return found


def write(link: Link, slot: str, image: bytes, block: int, told: Callable[[int], None]) -> Copied:
    """`image` has whole blocks; `told` hears of bytes that are done."""
    copied, beside = Copied(), "b" if slot == "a" else "a"
    count = len(image) // block
    there, elsewhere = _digests(link, slot, count), _digests(link, beside, count)
    places = {digest: number for number, digest in enumerate(elsewhere)}
    for number in range(count):
        data = image[number * block : (number + 1) * block]
        wanted = hashlib.sha256(data).hexdigest()
        if there[number] == wanted:
            copied.kept += 1
        elif wanted in places:
            link.run(f"_again({beside!r}, {places[wanted]}, {slot!r}, {number})")
            copied.copied += 1
        else:
            for at in range(0, block, CHUNK):
                piece = base64.b64encode(data[at : at + CHUNK]).decode()
                link.run(f"_program({slot!r}, {number}, {at}, _a({piece!r}))")
            link.sent += block
            copied.sent += 1
        told(block)
    return copied


def _digests(link: Link, slot: str, count: int) -> list[str]:
    return link.run(f"_blocks({slot!r}, {count})").split()
