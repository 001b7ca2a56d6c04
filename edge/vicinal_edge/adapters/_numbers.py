"""Numbers that never come twice, whatever happens to the process: a few at a time are reserved on disk first.

    live.numbers     "5120": all below it may be in use, none from there on is

After a crash the rest of a block is skipped. A gap costs nothing; a number used twice costs an event.
"""

import os
from pathlib import Path

from ..adapter import Unavailable

__all__ = ["Numbers", "kept_text", "replace"]

BLOCK = 4096
"""numbers for one sync of the disk: at 20,000 events a second five a second"""


def replace(file: Path, text: str) -> None:
    """The old or the new, whole, and on disk."""
    new = file.with_name(file.name + ".new")
    with new.open("w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    new.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


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
            replace(self._file, str(self._next + BLOCK))
            self._end = self._next + BLOCK
        self._next += 1
        return self._next - 1
