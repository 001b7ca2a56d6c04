"""Logs of CAN buses, whatever made them, as rows of text; gzipped ones as they are.

    (1487341883.960499) can0 202#0000000000125E00       candump -l: read here, many lines at a time
    ASC, BLF, TRC                                       read by python-can, and written as such rows

A row is (time, channel, identifier, FD flags, data), as candump writes them: who wants one identifier in a hundred must
not pay for the others. What is no line of candump is counted and its first few are kept, to be named; what python-can's
readers do not know in their formats they pass over without a word.
"""

import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

from ..complain import BadInput

__all__ = ["MAX_NAMED", "Log", "Row", "open_log"]

Row: TypeAlias = tuple[str, str, str, str, str]

# Broken lines that are shown; of a file that is no log at all every line is one.
MAX_NAMED = 10
# What is read at once: some thousand lines, so that the regular expression runs long and memory stays small.
_CHUNK = 1 << 17
# A CAN FD frame takes 170 characters: a "line" that is longer than this comes from another kind of file.
_MAX_LINE = 4096

_HEX = "[0-9A-Fa-f]"
_LINE = re.compile(
    # Zeros before the time would make it no JSON number: candump fills up to ten digits.
    rf"^[ \t]*\(0*(\d+\.\d+)\)[ \t]+(\S+)[ \t]+({_HEX}{{3}}|{_HEX}{{8}})#(#{_HEX})?"
    # Eight bytes are in most frames, and found fastest when they are asked for as such.
    rf"({_HEX}{{16}}|(?:{_HEX}{{2}}){{0,64}}|R{_HEX}?)(?:[ \t]+[TR])?[ \t\r]*$",
    re.MULTILINE,
)
# What nearly all lines are, with the identifier alone taken out: half the work where few of them are wanted.
_ORDINARY = re.compile(
    r"^\(\d++\.\d++\) \S++ ([0-9A-F]{3}|[0-9A-F]{8})#(?:[0-9A-F]{16}|(?:[0-9A-F]{2}){0,7}+)$", re.MULTILINE
)


class Log:
    """Read once. After the last row: `broken` lines, and `cut` if the file ends in its middle."""

    def __init__(self, name: str, kind: str, file: BinaryIO, raw: BinaryIO, size: int | None) -> None:
        self.name = name
        self.kind = kind
        self.size = size
        """bytes of the file, None of a pipe"""
        self.skipped = 0
        """frames that were not asked for"""
        self.broken = 0
        self.named: list[tuple[int, str]] = []
        self.cut = ""
        self._file = file
        self._raw = raw
        self._line = 0

    @property
    def position(self) -> int:
        """Bytes of the file that were read, of `size`."""
        if self.size is None:
            return 0
        # python-can's readers close what they have read.
        return self.size if self._raw.closed else self._raw.tell()

    def close(self) -> None:
        self._file.close()

    def batches(self, wanted: AbstractSet[str] | None = None) -> Iterator[list[Row]]:
        """Rows as they come: those of a pipe are given as soon as they are there. Of candump's text only those whose
        identifier is `wanted`, as it stands there in capitals; the others are `skipped`."""
        try:
            yield from self._candump(wanted) if self.kind == "candump" else self._by_python_can()
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            early = isinstance(error, EOFError)
            self.cut = "the gzip ends too early: the file was cut" if early else f"the gzip is damaged: {error}"

    def _candump(self, wanted: AbstractSet[str] | None) -> Iterator[list[Row]]:
        rest = b""
        while chunk := self._file.read1(_CHUNK):  # type: ignore[attr-defined]
            end = chunk.rfind(b"\n") + 1
            if end:
                yield self._rows(rest + chunk[:end], wanted)
                rest = chunk[end:]
            else:
                rest += chunk
                if len(rest) > _MAX_LINE:
                    self._bad(rest.decode("latin-1"), self._line + 1)
                    raise BadInput(f"{self.name}:{self._line + 1}: more than {_MAX_LINE} bytes without a line end")
        if rest:
            yield self._rows(rest, wanted)

    def _rows(self, lines: bytes, wanted: AbstractSet[str] | None) -> list[Row]:
        text = lines.decode("latin-1")
        count = text.count("\n") + (not text.endswith("\n"))
        if wanted is not None:
            numbers = _ORDINARY.findall(text)
            if len(numbers) == count:
                chosen = [line for line, number in zip(text.split("\n"), numbers) if number in wanted]
                self._line += count
                self.skipped += count - len(chosen)
                return _LINE.findall("\n".join(chosen))
        found: list[Row] = _LINE.findall(text)
        if len(found) != count:
            for at, line in enumerate(text.split("\n"), self._line + 1):
                if line.strip() and not _LINE.match(line):
                    self._bad(line, at)
        self._line += count
        return found

    def _bad(self, line: str, number: int) -> None:
        self.broken += 1
        if len(self.named) < MAX_NAMED:
            self.named.append((number, line.strip()))

    def _by_python_can(self) -> Iterator[list[Row]]:
        rows: list[Row] = []
        for message in self._reader():
            number = message.arbitration_id | (0x20000000 if message.is_error_frame else 0)
            wide = message.is_extended_id or message.is_error_frame
            flags = ""
            if message.is_fd:
                flags = f"#{message.bitrate_switch + 2 * message.error_state_indicator:X}"
            data = "R" if message.is_remote_frame else message.data.hex().upper()
            name = "can0" if message.channel is None else str(message.channel)
            rows.append((repr(message.timestamp), name, f"{number:08X}" if wide else f"{number:03X}", flags, data))
            if len(rows) == 1000:
                yield rows
                rows = []
        yield rows

    def _reader(self) -> Iterator[Any]:
        import can

        reader: Any = {"asc": can.ASCReader, "blf": can.BLFReader, "trc": can.TRCReader}[self.kind]
        file: Any = self._file
        if self.kind != "blf":
            file = io.TextIOWrapper(self._file, encoding="latin-1")
        try:
            opened = reader(file)
            yield from opened
            # It reads a file that was cut as if it were whole; the size of the whole is in its header.
            if self.kind == "blf" and self._file is self._raw and (self.size or 0) < opened.file_size:
                self.cut = f"it has {self.size:,} of {opened.file_size:,} bytes: the file was cut"
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise
        except Exception as error:
            # Its readers raise whatever their parsing meets: struct.error, ValueError, KeyError and their own.
            self.cut = f"python-can stopped reading it as {self.kind.upper()}: {str(error) or type(error).__name__}"


def open_log(path: str) -> Log:
    """ "-" is stdin. The kind is told from the first bytes, so that any name will do."""
    if path == "-":
        raw: BinaryIO = cast(BinaryIO, sys.stdin.buffer)
        name, size = "stdin", None
    else:
        try:
            file = Path(path)
            raw, name, size = file.open("rb"), path, file.stat().st_size
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror}") from error
    opened: Any = raw if hasattr(raw, "peek") else io.BufferedReader(cast(Any, raw))
    try:
        if opened.peek(2)[:2] == b"\x1f\x8b":
            opened = io.BufferedReader(cast(Any, gzip.GzipFile(fileobj=opened)), _CHUNK)
        start = bytes(opened.peek(64)[:64])
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(
            f"{path}: {error.strerror if isinstance(error, OSError) and error.strerror else error}"
        ) from error
    return Log(name, _kind(start), opened, raw, size)


def _kind(start: bytes) -> str:
    if start.startswith(b"LOGG"):
        return "blf"
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith(b";"):
        return "trc"
    if text.startswith((b"date ", b"base ", b"// version")):
        return "asc"
    return "candump"
