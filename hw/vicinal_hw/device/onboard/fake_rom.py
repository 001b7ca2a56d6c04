"""A fake of the ROMFS partition that a board may have: a file of the host's, mapped into memory as flash is.

    rom_ioctl(1)          how many there are
    rom_ioctl(2, 0)       the partition: blocks to erase and to program, and a buffer with what is there

As in MicroPython's port to the ESP32, where it is an esp32.Partition with the label "romfs". What is mounted on it is
MicroPython's own VfsRom. Like flash: erasing sets the bits of a block, programming clears bits and sets none, and both
are torn when the power goes.
"""

import fake_flash
import ffi
import uctypes
import vfs as _vfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BLOCK: int = fake_flash.SIZE
_EINVAL = 22
_READ_WRITE, _BOTH, _SHARED = 2, 3, 1
_memory: "Any" = None
_partition: "Any" = None


class RomPartition(memoryview):  # type: ignore[misc] # MicroPython's can have children, and they are buffers
    def readblocks(self, number: int, into: bytearray, offset: int = 0) -> None:
        at = number * BLOCK + offset
        into[:] = _memory[at : at + len(into)]

    def writeblocks(self, number: int, data: "Any", offset: "int | None" = None) -> None:
        if offset is None:
            self._erase(number)
            offset = 0
        at, length, cut = number * BLOCK + offset, len(data), fake_flash.power_goes()
        if at + length > len(_memory):
            raise OSError(_EINVAL)
        for each in range(length // 2 if cut else length):
            _memory[at + each] &= data[each]
        if cut:
            _memory[at + length // 2] &= data[length // 2] | 0x5A
            fake_flash.power_off()

    def _erase(self, number: int) -> None:
        cut, at = fake_flash.power_goes(), number * BLOCK
        blank = b"\xff" * (BLOCK // 2)
        if at + BLOCK > len(_memory):
            raise OSError(_EINVAL)
        _memory[at : at + len(blank)] = blank
        if cut:
            fake_flash.power_off()
        _memory[at + len(blank) : at + 2 * len(blank)] = blank

    def ioctl(self, what: int, value: int) -> int:
        if what == fake_flash.ERASE:
            self._erase(value)
        if what == fake_flash.COUNT:
            return len(_memory) // BLOCK
        return BLOCK if what == fake_flash.BLOCK_SIZE else 0


class Vfs:
    """`vfs` of a board whose firmware has a ROMFS."""

    def rom_ioctl(self, what: int, number: int = 0, *_: int) -> "Any":
        if what == 1:
            return 1
        return _partition if what == 2 and number == 0 else -_EINVAL

    def __getattr__(self, name: str) -> "Any":
        return getattr(_vfs, name)


def open_(path: str, size: int) -> None:
    global _memory, _partition
    libc = ffi.open(None)
    opened = libc.func("i", "open", "si")(path, _READ_WRITE)
    address = libc.func("p", "mmap", "pLiiil")(0, size, _BOTH, _SHARED, opened, 0)
    _memory = uctypes.bytearray_at(address, size)
    _partition = RomPartition(_memory)


def mount() -> "list[str]":
    """MicroPython does so when it starts, if there is something to mount; gives what is on the path then."""
    try:
        _vfs.mount(_vfs.VfsRom(memoryview(_partition)), "/rom")
    except OSError:
        return []
    return ["/rom", "/rom/lib"]
