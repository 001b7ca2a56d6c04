"""Where a log's bytes lie: the few operations it needs of a directory, and nothing else.

`DirectoryFiles` is a directory of the machine. `simulated_files.SimulatedFiles` is one in memory whose power can be
cut. Names are plain, without folders. Errors are OSError, as the system raises them.
"""

import errno
import fcntl
import os
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

from .errors import LogInUse

__all__ = ["DirectoryFiles", "Files"]

LOCK = "lock"


class Files(Protocol):
    def lock(self) -> None:
        """For the writer, until close(); raises LogInUse."""

    def names(self) -> list[str]: ...

    def size(self, name: str) -> int: ...

    def read(self, name: str, position: int, size: int) -> bytes:
        """Fewer bytes only at the end of the file."""

    def create(self, name: str) -> None:
        """A new, empty file; FileExistsError if there is one."""

    def append(self, name: str, data: bytes) -> None:
        """All of it, or an error with some of it written."""

    def write_at(self, name: str, position: int, data: bytes) -> None:
        """Over what is there, within the file or at its end; makes the file if there is none."""

    def sync(self, name: str) -> None:
        """fdatasync: when it returns, the file's bytes and its size are on disk."""

    def sync_directory(self) -> None:
        """When it returns, names made, changed and removed are on disk."""

    def truncate(self, name: str, size: int) -> None: ...

    def remove(self, name: str) -> None: ...

    def rename(self, old: str, new: str) -> None:
        """Replaces `new`, all at once."""

    def release(self, name: str) -> None:
        """It will not be written any more."""

    def boot(self) -> bytes:
        """16 bytes that change when the machine starts anew, and in a copy of the directory: then what only the
        kernel's memory held is gone."""

    def close(self) -> None: ...


class DirectoryFiles:
    """A directory of the machine. Descriptors are kept for the files that are written, until they are closed."""

    def __init__(self, path: str | os.PathLike[str], make: bool = True) -> None:
        self.path = Path(path)
        if make:
            _make(self.path)
        self._writing: dict[str, int] = {}
        self._lock = -1
        self._boot = b""

    def lock(self) -> None:
        descriptor = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            text = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            raise LogInUse(self.path, int(text) if text.isdigit() else None) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._lock = descriptor

    def names(self) -> list[str]:
        return sorted(path.name for path in self.path.iterdir())

    def size(self, name: str) -> int:
        return (self.path / name).stat().st_size

    def read(self, name: str, position: int, size: int) -> bytes:
        # Opened for every call: 5 us against any number of threads that read while segments come and go.
        descriptor = os.open(self.path / name, os.O_RDONLY)
        try:
            data = os.pread(descriptor, size, position)
            while len(data) < size:
                more = os.pread(descriptor, size - len(data), position + len(data))
                if not more:
                    break
                data += more
            return data
        finally:
            os.close(descriptor)

    def create(self, name: str) -> None:
        self._writing[name] = os.open(self.path / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)

    def append(self, name: str, data: bytes) -> None:
        descriptor = self._writer(name)
        position = os.fstat(descriptor).st_size
        self._write(descriptor, position, data)

    def write_at(self, name: str, position: int, data: bytes) -> None:
        self._write(self._writer(name, os.O_CREAT), position, data)

    def _write(self, descriptor: int, position: int, data: bytes) -> None:
        view = memoryview(data)
        while view:  # a short write is legal: the next one says why
            written = os.pwrite(descriptor, view, position)
            position += written
            view = view[written:]

    def sync(self, name: str) -> None:
        os.fdatasync(self._writer(name))

    def sync_directory(self) -> None:
        _sync_directory(self.path)

    def truncate(self, name: str, size: int) -> None:
        os.ftruncate(self._writer(name), size)

    def remove(self, name: str) -> None:
        self._forget(name)
        (self.path / name).unlink()

    def rename(self, old: str, new: str) -> None:
        self._forget(old)
        self._forget(new)
        (self.path / old).replace(self.path / new)

    def release(self, name: str) -> None:
        self._forget(name)

    def boot(self) -> bytes:
        if not self._boot:
            try:
                boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
            except OSError:
                boot = b""  # a system without: then what `committed` says is believed across a restart
            place = self.path.stat()
            self._boot = blake2b(boot + b"%d %d" % (place.st_dev, place.st_ino), digest_size=16).digest()
        return self._boot

    def close(self) -> None:
        for descriptor in self._writing.values():
            os.close(descriptor)
        self._writing.clear()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _writer(self, name: str, flags: int = 0) -> int:
        descriptor = self._writing.get(name)
        if descriptor is None:
            descriptor = self._writing[name] = os.open(self.path / name, os.O_WRONLY | flags, 0o644)
        return descriptor

    def _forget(self, name: str) -> None:
        descriptor = self._writing.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)


def _make(path: Path) -> None:
    """The directory and those above it, each on disk: a log whose directory a power cut takes away is lost too."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        _sync_directory(folder.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
