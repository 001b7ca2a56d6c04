"""Input a line at a time, from a file or stdin, knowing for each line where it stands."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from vicinal.errors import VicinalError

from .complain import BadInput

__all__ = ["MAX_LINE_BYTES", "Line", "read_lines"]

# The JSON form of the largest event: 64 KiB of text of which every byte is written \u0000, with room for the names.
MAX_LINE_BYTES = 1 << 20

T = TypeVar("T")


class Line(NamedTuple):
    raw: bytes
    """as it came, with its line end if it has one"""
    source: str
    number: int

    def read(self, reader: Callable[[str], T]) -> T:
        """What the reader makes of the text; what is wrong with it is said with the place."""
        try:
            return reader(self.raw.decode("utf-8").strip())
        except UnicodeDecodeError as error:
            raise self.bad(f"not UTF-8 at byte {error.start}") from error
        except VicinalError as error:
            raise self.bad(str(error)) from error

    def bad(self, message: str) -> BadInput:
        return BadInput(f"{self.source}:{self.number}: {message}")


def read_lines(path: str | None) -> Iterator[Line]:
    """The lines that are not blank, each as soon as it has come. None and "-" are stdin."""
    if path is None or path == "-":
        yield from _lines(sys.stdin.buffer, "stdin")
        return
    try:
        with Path(path).open("rb") as file:
            yield from _lines(file, path)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error


def _lines(file: BinaryIO, source: str) -> Iterator[Line]:
    number = 0
    while raw := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        line = Line(raw, source, number)
        if len(raw) > MAX_LINE_BYTES:
            raise line.bad(f"more than {MAX_LINE_BYTES} bytes without a line end")
        if raw.strip():
            yield line
