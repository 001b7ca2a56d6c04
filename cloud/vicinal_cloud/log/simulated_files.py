"""A disk in memory whose power can be cut: what a log is tested on, at every write and every sync.

It is as unkind as POSIX allows. What was not synced may be on disk or not, sector by sector and name by name, in any
mixture. A sync that failed has lost what it should have written, and the next one does not know (ext4 and XFS do so).
Only the process that wrote sees its writes until then.

    files = SimulatedFiles(seed=1)
    files.cut(at=17, when=TORN)         the 17th operation from now raises PowerCut
    try: ...work...
    except PowerCut: pass
    files.power_on(TORN)                what was on disk, or happened to be; another boot
    files.restart()                     or only the process died: the kernel keeps what it has
"""

import errno
import os
import random
from collections.abc import Callable

from .errors import LogInUse

__all__ = ["AFTER", "BEFORE", "KEPT", "LOST", "TORN", "PowerCut", "SimulatedFiles"]

BEFORE = "before"
AFTER = "after"
TORN = "torn"
LOST = "lost"
KEPT = "kept"


class PowerCut(BaseException):
    """Not an Exception: no program can handle it."""


class _File:
    def __init__(self) -> None:
        self.cache = bytearray()
        self.disk = bytearray()
        self.dirty: set[int] = set()  # sectors written since the last sync
        self.size_dirty = False


class SimulatedFiles:
    def __init__(self, seed: int = 0, sector: int = 512, capacity: int | None = None) -> None:
        self.sector = sector
        self.capacity = capacity
        self.writeback = 0.0
        """how likely the kernel brings a write to disk at once, unasked; a truncate does not undo it there"""
        self.operations = 0
        """writes, syncs and changes of names so far"""
        self.fault: Callable[[int, str, str], OSError | None] | None = None
        """asked with the number of the operation, its kind and the name; a write that fails has written a part"""
        self._random = random.Random(seed)
        self._names: dict[str, _File] = {}
        self._durable: dict[str, _File] = {}
        self._boot = 0
        self._locked = False
        self._cut_at: int | None = None
        self._cut_when = BEFORE

    # The failures

    def cut(self, at: int, when: str = BEFORE) -> None:
        self._cut_at = self.operations + at
        self._cut_when = when

    def power_on(self, fate: str = LOST) -> None:
        """After a cut. LOST: nothing that was not synced is there; KEPT: all of it is; TORN: by chance."""
        names: dict[str, _File] = {}
        for name in sorted(self._names.keys() | self._durable.keys()):
            kept = self._names if self._keeps(fate) else self._durable
            if name in kept:
                names[name] = kept[name]
        for file in {id(file): file for file in names.values()}.values():
            self._settle(file, fate)
        self._names = names
        self._durable = dict(names)
        self._boot += 1
        self.restart()

    def restart(self) -> None:
        """The process has died; what it wrote is in the kernel's memory."""
        self._locked = False
        self._cut_at = None
        self.fault = None

    def flip(self, name: str, bit: int) -> None:
        """Rot: in memory and on disk."""
        file = self._names[name]
        for data in (file.cache, file.disk):
            if bit // 8 < len(data):
                data[bit // 8] ^= 1 << bit % 8

    def chop(self, name: str, size: int) -> None:
        """Rot that takes the end of a file away."""
        file = self._names[name]
        del file.cache[size:], file.disk[size:]

    def _keeps(self, fate: str) -> bool:
        return fate == KEPT or (fate == TORN and self._random.random() < 0.5)

    def _settle(self, file: _File, fate: str) -> None:
        size = len(file.cache) if file.size_dirty and self._keeps(fate) else len(file.disk)
        if fate == TORN and file.size_dirty and size < len(file.cache):
            size = self._random.randint(size, len(file.cache))
        data = bytearray(file.disk[:size]) + bytes(max(0, size - len(file.disk)))
        for number in sorted(file.dirty):
            if self._keeps(fate):
                start = number * self.sector
                end = min(start + self.sector, size, len(file.cache))
                data[start:end] = file.cache[start:end]
        file.cache = data
        file.disk = bytearray(data)
        file.dirty.clear()
        file.size_dirty = False

    def _operation(self, kind: str, name: str, act: Callable[[float], None]) -> None:
        """act(share) does it, or a part of it."""
        self.operations += 1
        if self._cut_at is not None and self.operations >= self._cut_at:
            if self._cut_when == AFTER:
                act(1)
            elif self._cut_when == TORN and kind in ("append", "write_at"):
                act(self._random.random())
            raise PowerCut(f"operation {self.operations}: {kind} {name}")
        error = self.fault(self.operations, kind, name) if self.fault is not None else None
        if error is not None:
            if kind in ("append", "write_at"):
                act(self._random.random())
            elif kind == "sync":
                self._forget_dirty(self._file(name))
            raise error
        act(1)

    def _forget_dirty(self, file: _File) -> None:
        file.dirty.clear()
        file.size_dirty = False

    # The operations (files.Files)

    def lock(self) -> None:
        if self._locked:
            raise LogInUse("(simulated)", os.getpid())
        self._locked = True

    def names(self) -> list[str]:
        return sorted(self._names)

    def size(self, name: str) -> int:
        return len(self._file(name).cache)

    def read(self, name: str, position: int, size: int) -> bytes:
        return bytes(self._file(name).cache[position : position + size])

    def create(self, name: str) -> None:
        if name in self._names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)

        def act(_: float) -> None:
            self._names[name] = _File()

        self._operation("create", name, act)

    def append(self, name: str, data: bytes) -> None:
        self._write("append", name, len(self._file(name).cache), data)

    def write_at(self, name: str, position: int, data: bytes) -> None:
        if name not in self._names:
            self.create(name)
        self._write("write_at", name, position, data)

    def _write(self, kind: str, name: str, position: int, data: bytes) -> None:
        file = self._file(name)

        def act(share: float) -> None:
            part = data[: int(len(data) * share)]
            grows = max(0, position + len(part) - len(file.cache))
            room = grows if self.capacity is None else max(0, self.capacity - self.used())
            fits = part[: len(part) - max(0, grows - room)]
            if fits:
                file.cache[position : position + len(fits)] = fits
                file.dirty.update(range(position // self.sector, (position + len(fits) - 1) // self.sector + 1))
                file.size_dirty = True
                if self._random.random() < self.writeback:
                    self._flush(file)
            if len(fits) < len(part):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)

        self._operation(kind, name, act)

    def used(self) -> int:
        return sum(len(file.cache) for file in self._names.values())

    def sync(self, name: str) -> None:
        file = self._file(name)

        def act(_: float) -> None:
            self._flush(file)

        self._operation("sync", name, act)

    def _flush(self, file: _File) -> None:
        if file.size_dirty:
            del file.disk[len(file.cache) :]
            file.disk.extend(bytes(len(file.cache) - len(file.disk)))
        for number in file.dirty:
            start, end = number * self.sector, min((number + 1) * self.sector, len(file.disk))
            file.disk[start:end] = file.cache[start:end]
        self._forget_dirty(file)

    def sync_directory(self) -> None:
        def act(_: float) -> None:
            self._durable = dict(self._names)

        self._operation("sync_directory", "", act)

    def truncate(self, name: str, size: int) -> None:
        file = self._file(name)

        def act(_: float) -> None:
            del file.cache[size:]
            file.cache.extend(bytes(size - len(file.cache)))
            file.size_dirty = True

        self._operation("truncate", name, act)

    def remove(self, name: str) -> None:
        self._file(name)

        def act(_: float) -> None:
            del self._names[name]

        self._operation("remove", name, act)

    def rename(self, old: str, new: str) -> None:
        self._file(old)

        def act(_: float) -> None:
            self._names[new] = self._names.pop(old)

        self._operation("rename", old, act)

    def release(self, name: str) -> None:
        pass

    def boot(self) -> bytes:
        return self._boot.to_bytes(16, "big")

    def close(self) -> None:
        self._locked = False

    def _file(self, name: str) -> _File:
        try:
            return self._names[name]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name) from None
