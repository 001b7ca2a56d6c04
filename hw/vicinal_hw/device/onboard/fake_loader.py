"""Copies files between a folder of the host's and the flash of a virtual device that is off.

micropython fake_loader.py in|out vfs.bin FOLDER
"""

import os as _os
import sys

import vfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

os: "Any" = _os
SIZE = 4096


class Blocks:
    def __init__(self, path: str) -> None:
        self._file: Any = open(path, "r+b")  # noqa: PTH123, SIM115
        self._count = self._file.seek(0, 2) // SIZE

    def readblocks(self, number: int, into: bytearray, offset: int = 0) -> None:
        self._file.seek(number * SIZE + offset)
        self._file.readinto(into)

    def writeblocks(self, number: int, data: bytes, offset: int = 0) -> None:
        self._file.seek(number * SIZE + offset)
        self._file.write(data)

    def ioctl(self, what: int, value: int) -> int:
        if what == 6:
            self.writeblocks(value, b"\xff" * SIZE)
        return {4: self._count, 5: SIZE}.get(what, 0)


def _copy(source: str, target: str) -> None:
    for name in os.listdir(source):
        path, into = f"{source}/{name}", f"{target}/{name}"
        if os.stat(path)[0] & 0x4000:
            try:
                os.mkdir(into)
            except OSError:
                pass  # it is there
            _copy(path, into)
        else:
            with open(path, "rb") as file, open(into, "wb") as copy:  # noqa: PTH123
                copy.write(file.read())


def _main(way: str, image: str, folder: str) -> None:
    blocks = Blocks(image)
    try:
        system = vfs.VfsLfs2(blocks)
    except OSError:
        vfs.VfsLfs2.mkfs(blocks)
        system = vfs.VfsLfs2(blocks)
    vfs.mount(system, "/flash")
    if way == "in":
        _copy(folder, "/flash")
    else:
        _copy("/flash", folder)
    vfs.umount("/flash")


_main(sys.argv[1], sys.argv[2], sys.argv[3])
