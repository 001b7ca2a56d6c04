"""A partition of a board's flash, as MicroPython's block devices have it: esp32.Partition, or a slice of another.

    from esp32 import Partition
    flash = PartitionFlash(Partition.find(Partition.TYPE_DATA, label="journal")[0])

Written with an offset, such a device does not erase by itself (micropython docs, os.AbstractBlockDev).
"""

from vicinal.errors import LocalProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["PartitionFlash"]

_BLOCK_COUNT, _BLOCK_SIZE, _BLOCK_ERASE = 4, 5, 6


class PartitionFlash:
    def __init__(self, device: "Any", sectors: "int | None" = None) -> None:
        """`sectors` of it, from the start; None: all."""
        self._device = device
        there = device.ioctl(_BLOCK_COUNT, 0)
        self.size: int = device.ioctl(_BLOCK_SIZE, 0)
        self.sectors: int = there if sectors is None else sectors
        if self.sectors > there:
            raise LocalProtocolError(f"{self.sectors} sectors are wanted, the partition has {there}")

    def read(self, sector: int, offset: int, length: int) -> bytes:
        found = bytearray(length)
        self._device.readblocks(sector, found, offset)
        return bytes(found)

    def program(self, sector: int, offset: int, data: bytes) -> None:
        self._device.writeblocks(sector, data, offset)

    def erase(self, sector: int) -> None:
        self._device.ioctl(_BLOCK_ERASE, sector)
