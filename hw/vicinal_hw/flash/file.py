"""A file in the place of flash: on a Pi, and on a board that has no partition to spare.

What is programmed is with the file system when the call is back; whether it is on the card then is for `sync`, which
CPython's shell gives (os.fsync). MicroPython's littlefs writes what was flushed.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["FileFlash"]


class FileFlash:
    def __init__(self, path: str, sectors: int, size: int = 4096, sync: "Callable[[Any], None] | None" = None) -> None:
        self.sectors = sectors
        self.size = size
        self._sync = sync
        try:
            self._file: Any = open(path, "r+b")  # noqa: PTH123, SIM115 - MicroPython has no pathlib; open as long as we are
        except OSError:
            self._file = open(path, "w+b")  # noqa: PTH123, SIM115
        end = self._file.seek(0, 2)
        blank = b"\xff" * 256
        while end < sectors * size:
            end += self._file.write(blank[: min(256, sectors * size - end)])
        self._flush()

    def read(self, sector: int, offset: int, length: int) -> bytes:
        self._file.seek(sector * self.size + offset)
        found: bytes = self._file.read(length)
        return found

    def program(self, sector: int, offset: int, data: bytes) -> None:
        self._file.seek(sector * self.size + offset)
        self._file.write(data)
        self._flush()

    def erase(self, sector: int) -> None:
        self._file.seek(sector * self.size)
        blank = b"\xff" * 256
        for _ in range(self.size // 256):
            self._file.write(blank)
        self._file.write(blank[: self.size % 256])
        self._flush()

    def _flush(self) -> None:
        self._file.flush()
        if self._sync is not None:
            self._sync(self._file)

    def close(self) -> None:
        self._file.close()
