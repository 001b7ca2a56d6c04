"""What can be wrong with a log, below vicinal.errors.

    VicinalError
    └── LogError
        ├── LogInUse          another process writes it (path, pid)
        ├── LogFailed         a sync failed: what is on disk is not known, and nothing more is written
        ├── LogClosed
        ├── LogVersionError   written by a version of the format that this one does not know (name, version)
        ├── AppendRefused     one event was not stored, and why (reason)
        ├── OffsetGone        retention has removed it (offset, first)
        └── OffsetAhead       nobody has written it yet (offset, next)

A damaged record is none of these: it is counted, and reading goes on behind it.
"""

from vicinal.errors import VicinalError

__all__ = [
    "AppendRefused",
    "LogClosed",
    "LogError",
    "LogFailed",
    "LogInUse",
    "LogVersionError",
    "OffsetAhead",
    "OffsetGone",
]


class LogError(VicinalError):
    pass


class LogInUse(LogError):
    def __init__(self, path: object, pid: int | None) -> None:
        who = "another process" if pid is None else f"process {pid}"
        super().__init__(f"log {path} is already written by {who}; one log has one writer")
        self.path = path
        self.pid = pid


class LogFailed(LogError):
    """The caller does not know whether what it appended last is stored: after opening again, appending it again
    finds out."""


class LogClosed(LogError):
    pass


class LogVersionError(LogError):
    def __init__(self, name: str, version: int, known: int) -> None:
        super().__init__(f"{name} is of format version {version}, this program knows {known}")
        self.name = name
        self.version = version


class AppendRefused(LogError):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class OffsetGone(LogError):
    def __init__(self, offset: int, first: int) -> None:
        super().__init__(f"offset {offset} has been removed by retention, the first is {first}")
        self.offset = offset
        self.first = first


class OffsetAhead(LogError):
    def __init__(self, offset: int, next_offset: int) -> None:
        super().__init__(f"offset {offset} has not been written, the next is {next_offset}")
        self.offset = offset
        self.next = next_offset
