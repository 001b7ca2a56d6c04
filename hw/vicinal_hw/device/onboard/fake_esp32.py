"""A fake of MicroPython's `esp32`: partitions, each a file of the host's in the place of flash."""

from fake_flash import FileBlocks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

partitions: "dict[str, FileBlocks]" = {}


class Partition:
    TYPE_APP, TYPE_DATA = 0, 1

    def __init__(self, label: str) -> None:
        self._blocks = partitions[label]
        self._label = label

    @staticmethod
    def find(type: int = TYPE_APP, subtype: int = 255, label: "str | None" = None) -> "list[Partition]":
        if type != Partition.TYPE_DATA:
            return []
        return [Partition(name) for name in sorted(partitions) if label in (None, name)]

    def info(self) -> "tuple[Any, ...]":
        return (1, 129, 0, self._blocks.count * self._blocks.size, self._label, False)

    def readblocks(self, number: int, into: bytearray, offset: int = 0) -> None:
        self._blocks.readblocks(number, into, offset)

    def writeblocks(self, number: int, data: "bytes | bytearray", offset: "int | None" = None) -> None:
        self._blocks.writeblocks(number, data, offset)

    def ioctl(self, what: int, value: int) -> "int | None":
        found: int | None = self._blocks.ioctl(what, value)
        return found
