"""A log as a broker writes it, of millions of reports of a fleet, made at once and not event by event.

Reports are of one form, so their bytes are a matrix: half a minute for ten million, which are 1.3 GB.
"""

import secrets
import shutil
import zlib
from itertools import repeat
from pathlib import Path
from typing import Any

from vicinal.event import Event
from vicinal.wire import encode

__all__ = ["CARS", "START", "make_log"]

START = 1_700_000_000_000
CARS = 1000
_SEGMENT = 500_000
_DONE = "whole"


def make_log(folder: Path, count: int) -> Path:
    """One that is there and whole is taken as it is, without what was made beside it."""
    import numpy as np

    from vicinal_cloud.log import Record
    from vicinal_cloud.log._checkpoint import COMMITTED, Committed, encode_committed
    from vicinal_cloud.log._record import CHECKED_FROM, FIXED_BYTES, Head, encode_head, encode_record, segment_name
    from vicinal_cloud.log.files import DirectoryFiles

    if (folder / _DONE).exists():
        shutil.rmtree(folder / "columns", ignore_errors=True)
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    files = DirectoryFiles(folder)
    chance = np.random.default_rng(1)
    values = {"lat": 520_000_000, "lon": 43_000_000, "rate": 57.123, "heading": 300}
    event = encode(Event("Position", values, {"Time": START}, "car-1000", 1 << 20))
    sample = Record(0, START, "car-1000", 1 << 20, event)
    template = np.frombuffer(encode_record(sample, 0), np.uint8)
    width, inside = len(template), len(template) - len(event)

    def place(of: bytes, size: int) -> slice:
        at = inside + event.index(of) + len(of)
        return slice(at, at + size)

    lat, lon = place(b"clat\x1a", 4), place(b"clon\x1a", 4)
    rate, heading = place(b"drate\xfb", 8), place(b"gheading\x19", 2)
    moment, seq = place(b"\x82\x03\x1b", 8), place(b"car-1000\x1a", 4)
    name = slice(inside + event.index(b"car-1000") + 4, inside + event.index(b"car-1000") + 8)
    # The last one is still written, and so read without columns.
    bases = [*range(0, count - count // 200, _SEGMENT), count - count // 200]
    for base, end in zip(bases, [*bases[1:], count]):
        some = end - base
        number = np.arange(base, base + some, dtype=np.int64)
        car = number % CARS
        table = np.tile(template, (some, 1))

        def put(where: slice, column: Any, kind: str, table: Any = table, some: int = some) -> None:
            table[:, where] = np.ascontiguousarray(column.astype(kind)).view(np.uint8).reshape(some, -1)

        digits = np.char.zfill((1000 + car).astype(str), 4).astype("S4").view(np.uint8).reshape(some, 4)
        table[:, name] = digits
        table[:, FIXED_BYTES + 4 : FIXED_BYTES + 8] = digits
        seqs = (1 << 20) + number // CARS
        times = START + number * 6  # 60,000 s for ten million
        put(lat, 520_000_000 + car * 10_000 + chance.integers(0, 9000, some), ">u4")
        put(lon, 43_000_000 + car * 10_000 + chance.integers(0, 9000, some), ">u4")
        put(rate, chance.uniform(0, 60, some), ">f8")
        put(heading, chance.integers(256, 360, some), ">u2")
        put(moment, times, ">u8")
        put(seq, seqs, ">u4")
        put(slice(12, 20), number, ">u8")
        put(slice(20, 28), times, ">i8")
        put(slice(28, 36), seqs, ">i8")
        salt = secrets.randbits(32)
        data = table.tobytes()
        places = map(slice, range(CHECKED_FROM, len(data), width), range(width, len(data) + 1, width))
        sums = np.fromiter(map(zlib.crc32, map(data.__getitem__, places), repeat(salt)), np.uint32, some)
        put(slice(4, 8), sums, ">u4")
        file = segment_name(base, salt)
        files.create(file)
        files.append(file, encode_head(Head(salt, base, START)) + table.tobytes())
        files.release(file)
    files.write_at(COMMITTED, 0, encode_committed(Committed(count, files.boot())))
    files.close()
    (folder / _DONE).touch()
    return folder
