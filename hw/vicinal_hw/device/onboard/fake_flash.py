"""A file of the host's in the place of a board's flash: a block device that MicroPython's own littlefs is mounted on.

Power can go in the middle of a write: the host says at which one, and only half of it is there.
"""

import fake_host as _host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

SIZE = 4096
COUNT, BLOCK_SIZE, ERASE = 4, 5, 6
writes_left = -1
"""until the power goes; -1: it stays"""


class FileBlocks:
    def __init__(self, path: str) -> None:
        self._file: Any = open(path, "r+b")  # noqa: PTH123, SIM115 - as long as the device is on
        self.size = SIZE
        self.count: int = self._file.seek(0, 2) // SIZE

    def readblocks(self, number: int, into: bytearray, offset: int = 0) -> None:
        self._file.seek(number * SIZE + offset)
        self._file.readinto(into)

    def writeblocks(self, number: int, data: "bytes | bytearray", offset: "int | None" = None) -> None:
        if offset is None:
            self._erase(number)
            offset = 0
        self._file.seek(number * SIZE + offset)
        if power_goes():
            self._file.write(memoryview(data)[: len(data) // 2])
            power_off()
        self._file.write(data)

    def _erase(self, number: int) -> None:
        self._file.seek(number * SIZE)
        blank = b"\xff" * 256
        for _ in range(SIZE // 256):
            self._file.write(blank)

    def ioctl(self, what: int, value: int) -> "int | None":
        if what == COUNT:
            return self.count
        if what == BLOCK_SIZE:
            return SIZE
        if what == ERASE:
            self._erase(value)
        return 0


def power_off() -> "NoReturn":
    _host.tell(b"C")
    while True:
        _host.serve(1000)


def power_goes() -> bool:
    global writes_left
    if writes_left < 0:
        return False
    writes_left -= 1
    return writes_left < 0
