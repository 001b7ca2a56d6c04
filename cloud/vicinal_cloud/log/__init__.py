"""The event log of a broker (DESIGN 7): what is acknowledged is on disk, once, in the order of its producer.

    Log             the writer: append_batch, read, retain
    GroupCommit     the writer in an asyncio program: many appends, one sync; follow
    LogReader       readers in other processes
    entry           what is appended, checked; Record is what is read
    event_of        the event of a record, whether it is stored with its scopes or alone
    Stored, Duplicate, Refused      what became of it

README.md beside this file describes the bytes and the promises.
"""

from ._batch import Duplicate, Refused, Result, Stored
from ._record import Entry, Record, entry, entry_of
from ._scan import Damage
from .counters import Counters
from .errors import (
    AppendRefused,
    LogClosed,
    LogError,
    LogFailed,
    LogInUse,
    LogVersionError,
    OffsetAhead,
    OffsetGone,
)
from .files import DirectoryFiles, Files
from .group_commit import GroupCommit
from .log import Log, LogOptions
from .reader import LogReader
from .scoped import event_of

__all__ = [
    "AppendRefused",
    "Counters",
    "Damage",
    "DirectoryFiles",
    "Duplicate",
    "Entry",
    "Files",
    "GroupCommit",
    "Log",
    "LogClosed",
    "LogError",
    "LogFailed",
    "LogInUse",
    "LogOptions",
    "LogReader",
    "LogVersionError",
    "OffsetAhead",
    "OffsetGone",
    "Record",
    "Refused",
    "Result",
    "Stored",
    "entry",
    "entry_of",
    "event_of",
]
