"""Reading an input file, plain or gzipped, in blocks: as arrays where all of a block is good, row by row where it is
not."""

import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from .errors import BadInput
from .rows import COLUMNS, LIMITS, NEEDS, LeftOut, Row, RowError, parse

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Table = npt.NDArray[np.int64]

__all__ = ["BLOCK", "open_plain_or_gzip", "read", "read_rows"]

BLOCK = 1 << 20
"""bytes read at a time: some 20,000 rows, ten seconds of one expressway at its busiest"""
_GZIP = b"\x1f\x8b"
_LONGEST_LINE = 4096


def open_plain_or_gzip(path: Path) -> IO[bytes]:
    """By what is in it, not by its name."""
    file = path.open("rb")
    start = file.read(2)
    file.seek(0)
    return gzip.open(file) if start == _GZIP else file  # type: ignore[return-value]


def read(path: Path, left_out: LeftOut, block: int = BLOCK) -> "Iterator[Table]":
    """Tables of good rows in the order of the file, fifteen columns each. What is not good goes to `left_out`. Raises
    BadInput where nothing is good, and where the file ends in the middle of its compression."""
    try:
        with open_plain_or_gzip(path) as file:
            yield from _read(path, file, left_out, block)
    except (EOFError, gzip.BadGzipFile) as error:
        raise BadInput(f"{path}: the gzip file is damaged or cut off: {error}") from error
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error


def read_rows(path: Path, left_out: LeftOut) -> Iterator[Row]:
    for table in read(path, left_out):
        yield from zip(*(column.tolist() for column in table.T))


def _read(path: Path, file: IO[bytes], left_out: LeftOut, block: int) -> "Iterator[Table]":
    line, newest, good, rest = 1, 0, 0, b""
    while True:
        more = file.read(block)
        data = rest + more
        cut = data.rfind(b"\n") + 1 if more else len(data)
        data, rest = data[:cut], data[cut:]
        if len(rest) > _LONGEST_LINE + block:
            raise BadInput(f"{path}: line {line} is longer than {_LONGEST_LINE} bytes: this is no input of Linear Road")
        if data:
            table = _fast(data, newest)
            if table is None:
                table = _slow(data, line, newest, left_out)
            line += data.count(b"\n")
            if len(table):
                newest = int(table[-1, 1])
                good += len(table)
                yield table
        if not more:
            break
    if not good:
        if not left_out.total:
            raise BadInput(f"{path}: empty, want rows of {len(COLUMNS)} integers: {', '.join(COLUMNS)}")
        raise BadInput(f"{path}: not one good row of {left_out.total:,}:\n  " + "\n  ".join(left_out.say()))


def _fast(data: bytes, newest: int) -> "Table | None":
    """None if anything is the matter: then each row is looked at."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import csv

    # What Arrow would take and `parse` would not, or the other way round.
    if b"x" in data or b"X" in data or b'"' in data or b"\n\n" in data or data.startswith(b"\n"):
        return None
    try:
        table = csv.read_csv(
            io.BytesIO(data),
            csv.ReadOptions(column_names=COLUMNS, use_threads=False, block_size=len(data) + 1),
            csv.ParseOptions(quote_char=False),
            csv.ConvertOptions(column_types=dict.fromkeys(COLUMNS, pa.int64())),
        )
    except pa.ArrowInvalid:
        return None
    if any(column.null_count for column in table.columns):
        return None
    rows = np.column_stack([column.to_numpy() for column in table.columns])
    kinds, times = rows[:, 0], rows[:, 1]
    if not np.isin(kinds, list(NEEDS)).all() or times[0] < newest or (np.diff(times) < 0).any():
        return None
    for kind, names in NEEDS.items():
        chosen = rows[kinds == kind]
        for name in names:
            least, most = LIMITS[name]
            column = chosen[:, COLUMNS.index(name)]
            if ((column < least) | (column > most)).any():
                return None
    return rows


def _slow(data: bytes, line: int, newest: int, left_out: LeftOut) -> "Table":
    import numpy as np

    good: list[Row] = []
    for number, text in enumerate(data.decode("utf-8", "backslashreplace").split("\n"), line):
        if not text.strip():
            continue
        try:
            row = parse(text)
            if row[1] < newest:
                raise RowError(
                    "out of the order of time",
                    f"time {row[1]} after {newest}: sort the input (sort -s -t, -k2,2n), or feed it in order",
                )
            if max(row) > 2**63 - 1 or min(row) < -(2**63):
                raise RowError("too large", "a number of more than 64 bits")
        except RowError as error:
            left_out.add(number, error)
        else:
            newest = row[1]
            good.append(row)
    return np.array(good, dtype=np.int64).reshape(-1, len(COLUMNS))
