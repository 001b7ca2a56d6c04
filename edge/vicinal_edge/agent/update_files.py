"""The files of an update: the slot that does not run is written, the one that runs is read.

files = UpdateFiles(slots)           see slots.py
files.begin_manifest()               or begin(NAME), then write(data) and close()
files.lines()                        of the manifest but the first
files.expect(file)                   it is brought next, if it is not there
files.digest(NAME)                   bytes and SHA-256 of a file there; True: of the one that runs; -1: there is none
files.seal(version, files)           everything is there: the slot is a release
"""

import os as _os
from binascii import hexlify
from hashlib import sha256

from vicinal._compat import const

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from vicinal.release import File

# MicroPython's has more than CPython's, which is what type checkers know.
os: "Any" = _os

__all__ = ["UpdateFiles"]

_MANIFEST = "manifest"
# Of vicinal.release, which is not loaded for it.
_MAX_LINE = const(256)
# Blocks that littlefs takes for a folder; and beside the files of a release: agent.json, the beginning of release.json,
# slots.json anew, and one that it works with. Bytes of a line of release.json beside the name.
_FOLDER_BLOCKS = const(2)
_SPARE_BLOCKS = const(5)
_LINE = const(80)
# Bytes that are moved at once.
_PIECE = 512


class UpdateFiles:
    def __init__(self, slots: "Any") -> None:
        self._slots = slots
        self._slot = slots.other
        self._file: Any = None
        self._block = 4096
        self._folders: list[str] = []
        self._listed = 0

    def _path(self, name: str, running: bool = False) -> str:
        found: str = self._slots.path(self._slots.active if running else self._slot, name)
        return found

    # Writing, one at a time

    def begin_manifest(self) -> None:
        self.begin(_MANIFEST)

    def begin(self, name: str) -> None:
        self.close()
        path = self._path(name)
        for at in range(1, len(path)):
            if path[at] == "/":
                try:
                    os.mkdir(path[:at])
                except OSError:
                    pass  # it is there; if it is not, opening says so
        self._file = open(path, "wb")  # noqa: PTH123, SIM115 - MicroPython has no pathlib; close() is ours

    def write(self, data: bytes) -> None:
        if self._file is not None:
            self._file.write(data)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def copy(self, name: str) -> None:
        """From the slot that runs."""
        piece = bytearray(_PIECE)
        with open(self._path(name, True), "rb") as source:  # noqa: PTH123
            self.begin(name)
            while True:
                length: int = source.readinto(piece)
                if not length:
                    break
                self.write(memoryview(piece)[:length])  # type: ignore[arg-type]
        self.close()

    def remove(self, name: str) -> None:
        self.close()
        try:
            os.remove(self._path(name))
        except OSError:
            pass  # it was not there

    # Reading

    def sha256(self) -> "Any":
        return sha256()

    def first_line(self) -> bytes:
        with open(self._path(_MANIFEST), "rb") as file:  # noqa: PTH123
            return file.readline(_MAX_LINE + 1)

    def lines(self) -> "Iterator[bytes]":
        with open(self._path(_MANIFEST), "rb") as file:  # noqa: PTH123
            file.readline(_MAX_LINE + 1)
            while True:
                line = file.readline(_MAX_LINE + 1)
                if not line:
                    return
                yield line

    def digest(self, name: str, running: bool = False) -> "tuple[int, bytes]":
        if running and self._slots.active is None:
            return -1, b""
        found, size, piece = sha256(), 0, bytearray(_PIECE)
        try:
            with open(self._path(name, running), "rb") as file:  # noqa: PTH123
                while True:
                    length: int = file.readinto(piece)
                    if not length:
                        break
                    found.update(memoryview(piece)[:length])
                    size += length
        except OSError:
            return -1, b""
        return size, found.digest()

    # Room

    def room_of(self, file: "File") -> int:
        """Asked for each file, in the order of the manifest, after free(): with the folders that it is the first of,
        and its line in release.json."""
        parts, same = file.name.split("/")[:-1], 0
        while same < min(len(parts), len(self._folders)) and parts[same] == self._folders[same]:
            same += 1
        blocks = _FOLDER_BLOCKS * (len(parts) - same) - self._listed // self._block
        self._folders, self._listed = parts, self._listed + len(file.name) + _LINE
        return self._blocks_of(file.size) + self._block * (blocks + self._listed // self._block)

    def _blocks_of(self, size: int) -> int:
        """A file takes whole blocks, and one for what is known of it."""
        return (size // self._block + 1) * self._block

    def free(self) -> int:
        """With what is in the slot, which gives way but for the manifest; without what is written beside the files."""
        try:
            found = os.statvfs(self._slots.path(self._slot))
        except OSError:
            found = os.statvfs(self._slots.folder or "/")  # the slot is not there yet
        self._block = min(4096, found[0])
        free: int = found[1] * found[4] - _SPARE_BLOCKS * self._block
        self._folders, self._listed = [], 0
        for name in self._slots.disk.files(self._slots.path(self._slot)):
            if name != _MANIFEST:
                free += self._blocks_of(os.stat(self._path(name))[6])
        return free

    def expect(self, file: "File") -> None:
        pass

    # The slot

    def clear(self) -> None:
        self._slots.clear(self._slot, self)

    def __contains__(self, name: str) -> bool:
        """Whether the manifest has it: looked for line by line, as a list of all names is some 8 KiB."""
        start = b'["%s",' % name.encode()
        return name == _MANIFEST or bool([True for line in self.lines() if line.startswith(start)])

    def seal(self, version: str, files: "Iterator[File]") -> None:
        """release.json line by line: whole it is some 10 KiB."""
        self.begin("release.json.new")
        self._file.write(b'{"version":"%s","files":{' % version.encode())
        comma = b""
        for file in files:
            self._file.write(b'%s"%s":[%d,"%s"]' % (comma, file.name.encode(), file.size, hexlify(file.digest)))
            comma = b",\n"
        self._file.write(b"}}")
        self.close()
        self.copy("agent.json")  # the configuration that runs goes on with the new release
        self._slots.seal(self._slot, version)

    def switch(self) -> None:
        self._slots.switch(self._slot)
