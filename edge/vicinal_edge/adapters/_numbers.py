"""Numbers that never come twice, whatever happens to the process: a few at a time are reserved on disk first.

    live.numbers     "5120": all below it may be in use, none from there on is

After a crash the rest of a block is skipped. A gap costs nothing; a number used twice costs an event.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path

from ..adapter import Unavailable

__all__ = ["Numbers", "kept_text", "replace", "replace_number"]

BLOCK = 4096
"""numbers for one sync of the disk: at 20,000 events a second five a second"""


def replace(file: Path, text: str) -> None:
    """The old or the new, whole, and on disk."""
    new = file.with_name(file.name + ".new")
    try:
        with new.open("w") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        new.replace(file)
    except OSError:
        with suppress(OSError):
            new.unlink()
        raise
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def replace_number(file: Path, number: int) -> None:
    """As `replace`. On a disk that is full, where it is: the same few bytes of a block that the file has, which a disk
    writes whole or not at all. To go without numbers would be to stand still until somebody makes room."""
    try:
        replace(file, str(number))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not file.exists():
            raise
        with file.open("r+b", buffering=0) as out:
            if os.fstat(out.fileno()).st_size != len(str(number)):
                raise
            out.write(str(number).encode())
            os.fsync(out.fileno())


def kept_text(file: Path, make: str) -> str:
    """What the file holds, or `make`, which it holds from now on."""
    try:
        found = file.read_text().strip()
    except FileNotFoundError:
        found = ""
    if not found:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace(file, make)
        return make
    return found


class Numbers:
    def __init__(self, file: Path, least: int = 0) -> None:
        """Above all that were given before, and from `least` on. A file that cannot be read is an error that names it:
        to begin again at 0 would use numbers twice."""
        try:
            text = file.read_text().strip()
        except FileNotFoundError:
            text = "0"
            # Now, while there is room: what is there can be written on a full disk, too.
            with suppress(OSError):
                file.parent.mkdir(parents=True, exist_ok=True)
                replace(file, str(least))
        if not text.isdecimal():
            raise Unavailable(
                f"{file} holds {text[:40]!r}, want a number: remove it if the clock of this machine is right"
            )
        self._file = file
        self._next = max(int(text), least)
        self._end = self._next

    def next(self) -> int:
        """Waits for the disk once in BLOCK calls."""
        if self._next >= self._end:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            replace_number(self._file, self._next + BLOCK)
            self._end = self._next + BLOCK
        self._next += 1
        return self._next - 1
