"""The files of an update on a board with a ROMFS: they become the image in the half of the slot that does not run.

    files = RomFiles(slots)              as update_files.py, which has what is beside the image: manifest, configuration
    files.room_of(file)                  of each file, in the order of the manifest: from that the image is laid out
    files.expect(file)                   in the same order: what digest(), copy(), begin() and write() are about now

The image is written from its beginning to its end. A file stays if it and what stands before it are there already, so
that an attempt goes on where the last was cut off; else it is written anew from the block that it begins in, with what
other files have of that block. Power may go at any time: what is torn has another hash.
"""

from hashlib import sha256

from vicinal.errors import RemoteProtocolError
from vicinal_hw.flash.romfs import Layout

from .update_files import UpdateFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from vicinal.release import File

__all__ = ["RomFiles"]

_BLANK = b"\xff" * 64


class RomFiles(UpdateFiles):
    def __init__(self, slots: "Any") -> None:
        super().__init__(slots)
        self._rom = slots.rom
        self._view = slots.rom.view(self._slot)
        self._layout = Layout()
        self._start = self._at = 0
        """of the file: where what stands before it begins; and where it ends, as far as it is there"""
        self._head = b""
        self._code: str = slots.code

    def _path(self, name: str, running: bool = False) -> str:
        if running and name.startswith("lib/"):
            return self._code + name[3:]
        return super()._path(name, running)

    # The image

    def room_of(self, file: "File") -> int:
        try:
            return self._layout.add(file.name, file.size)
        except ValueError as error:
            raise RemoteProtocolError(str(error))

    def free(self) -> int:
        self._layout = Layout()
        found: int = self._rom.size - self._layout.total
        return found

    def expect(self, file: "File") -> None:
        self._start, self._head = self._layout.place(file.name, file.size)
        self._at = self._start + len(self._head) + file.size

    def begin(self, name: str) -> None:
        if not name.startswith("lib/"):
            super().begin(name)
            return
        self.close()
        block = self._rom.block
        number, over = divmod(self._start, block)
        self._at = self._start
        if over and not self._is_blank(self._start, (number + 1) * block):
            held = bytes(self._view[number * block : self._start])
            self._at = number * block
            self.write(held)
            del held
        self.write(self._head)

    def write(self, data: "Any") -> None:
        if self._file is not None:
            super().write(data)
            return
        rom, block, data = self._rom, self._rom.block, memoryview(data)
        while len(data):
            number, over = divmod(self._at, block)
            if not over and not self._is_blank(self._at, self._at + block):
                rom.device.ioctl(6, rom.first(self._slot) + number)
            piece = data[: block - over]
            rom.device.writeblocks(rom.first(self._slot) + number, piece, over)
            self._at += len(piece)
            data = data[len(piece) :]

    def _is_blank(self, at: int, end: int) -> bool:
        for start in range(at, end, len(_BLANK)):
            if self._view[start : min(end, start + len(_BLANK))] != _BLANK[: end - start]:
                return False
        return True

    def remove(self, name: str) -> None:
        self.close()  # with its hash it does not stay

    def digest(self, name: str, running: bool = False) -> "tuple[int, bytes]":
        if running:
            return super().digest(name, True)
        start = self._start + len(self._head)
        if self._view[self._start : start] != self._head:
            return -1, b""
        return self._at - start, sha256(self._view[start : self._at]).digest()

    # The slot

    def clear(self) -> None:
        super().clear()
        self._layout.rewind()

    def __contains__(self, name: str) -> bool:
        return name == "manifest"

    def seal(self, version: str, files: "Iterator[File]") -> None:
        self._slots.image_is(self._slot, self._layout.total)
        super().seal(version, iter(()))
