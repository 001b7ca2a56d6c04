"""The segment that is written: write, then sync, in one step that cannot be had by halves."""

import errno
from typing import NamedTuple

from ._record import Head, encode_head, segment_name
from .errors import LogFailed
from .files import Files

__all__ = ["Active", "NotWritten", "Synced", "create"]


class Synced(NamedTuple):
    """The first `size` bytes of the segment `name` are on disk. Made by Active.commit, by nobody else."""

    name: str
    size: int


class NotWritten(Exception):
    """Nothing of it is in the log, and nothing will be. The log goes on."""

    def __init__(self, error: OSError, what: str) -> None:
        super().__init__(f"{what}: {error.strerror or error}")
        self.no_space = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Active:
    def __init__(self, files: Files, base: int, salt: int, size: int) -> None:
        self._files = files
        self.base = base
        self.salt = salt
        self.size = size
        self.name = segment_name(base, salt)

    def commit(self, data: bytes) -> Synced:
        try:
            self._files.append(self.name, data)
        except OSError as error:
            self._undo(error)
            raise NotWritten(error, f"{len(data)} bytes to {self.name}") from error
        self.sync()
        self.size += len(data)
        return Synced(self.name, self.size)

    def sync(self) -> None:
        try:
            self._files.sync(self.name)
        except OSError as error:
            # The kernel may have dropped what it could not write, and a second sync would say that all is well.
            raise LogFailed(f"sync of {self.name} failed: {error.strerror or error}; open the log again") from error

    def _undo(self, cause: OSError) -> None:
        """Takes away what was written of a batch that will be refused, also on disk: a refused record that a power
        cut brings back would be stored twice."""
        try:
            self._files.truncate(self.name, self.size)
        except OSError as error:
            raise LogFailed(f"{self.name}: {cause.strerror}, then truncate to {self.size}: {error.strerror}") from error
        self.sync()


def create(files: Files, base: int, salt: int, now: int) -> Active:
    """A new segment, on disk with its name before anything is acknowledged from it."""
    head = encode_head(Head(salt, base, now))
    active = Active(files, base, salt, len(head))
    try:
        files.create(active.name)
        files.append(active.name, head)
    except OSError as error:
        try:
            files.remove(active.name)
        except FileNotFoundError:
            pass
        except OSError as second:
            raise LogFailed(f"new segment {active.name}: {error.strerror}, then remove: {second.strerror}") from error
        raise NotWritten(error, f"new segment {active.name}") from error
    active.sync()
    try:
        files.sync_directory()
    except OSError as error:
        raise LogFailed(
            f"sync of the directory for {active.name} failed: {error.strerror}; open the log again"
        ) from error
    return active
