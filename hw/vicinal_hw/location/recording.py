"""Recorded tracks as files, for track.py: read_recording(path) knows the form by the name. CPython only.

    .csv              time,lat,lon,speed,heading,accuracy     a header, the last three columns optional, any order;
                      2026-03-23T12:00:25Z,53.3438,-6.2546,11.5,84.4,5      degrees, m/s, degrees, m; or time in ms
    .gpx              <trkpt lat= lon=><time>, as every GPS program writes
    .nmea .log .txt   what a receiver said, byte by byte
    .jsonl            {"time": 1774267225000, "lat": 533438000, "lon": -62546000, "speed": 11500}
                      ours: the integers of Fix, without what is None; write_recording() makes it

A file that somebody made is read whole or refused with its line. A log of a receiver has what a wire has: what is wrong
in it is left out and counted in `dropped`, by the reasons of nmea.py and these: fixes before the first date, and fixes
that are not later than the one before.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO
from xml.parsers import expat

from vicinal.errors import LocalProtocolError

from ._text import instant, shifted
from .fix import Fix
from .nmea import Nmea

__all__ = ["MAX_FIXES", "Recording", "read_recording", "write_recording"]

# A day and a night, ten times a second, come to 864,000; a fix takes some 300 bytes of memory.
MAX_FIXES = 1_000_000
MAX_LINE_CHARS = 4096
"""of CSV and JSON lines: a line with every column has 100"""

_FIELDS = ("time", "lat", "lon", "speed", "heading", "accuracy")
_PLACES = {"lat": 7, "lon": 7, "speed": 3, "heading": 2, "accuracy": 3}
_NOT_DROPPED = ("started", "used", "other")


class Recording(NamedTuple):
    fixes: list[Fix]
    dropped: dict[str, int]
    """by reason; empty but for logs of receivers"""


def read_recording(path: Path) -> Recording:
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise LocalProtocolError(f"{path} ends in {path.suffix!r}, want one of {' '.join(_READERS)}")
    dropped: dict[str, int] = {}
    fixes: list[Fix] = []
    for place, fix in reader(path, dropped):
        if fixes and _time(fix) <= _time(fixes[-1]):
            if reader is not _nmea:
                raise LocalProtocolError(f"{path}:{place}: time is {fix.time}, not after {fixes[-1].time}")
            dropped["time not later"] = dropped.get("time not later", 0) + 1
            continue
        if len(fixes) == MAX_FIXES:
            raise LocalProtocolError(f"{path}:{place}: a recording has at most {MAX_FIXES} fixes")
        fixes.append(fix)
    if not fixes:
        raise LocalProtocolError(f"{path} has no fix with a time" + (f"; left out: {dropped}" if dropped else ""))
    return Recording(fixes, dropped)


def write_recording(path: Path, fixes: Iterable[Fix]) -> None:
    """As .jsonl, whatever the name."""
    with path.open("w", encoding="utf-8") as out:
        for fix in fixes:
            row = {name: getattr(fix, name) for name in _FIELDS}
            out.write(json.dumps({name: value for name, value in row.items() if value is not None}) + "\n")


def _time(fix: Fix) -> int:
    assert fix.time is not None
    return fix.time


Rows = Iterator[tuple[int, Fix]]


def _lines(path: Path, file: TextIO) -> Iterator[tuple[int, str]]:
    number = 0
    while line := file.readline(MAX_LINE_CHARS + 1):
        number += 1
        if len(line) > MAX_LINE_CHARS:
            raise LocalProtocolError(f"{path}:{number}: longer than {MAX_LINE_CHARS} characters")
        yield number, line


def _csv(path: Path, dropped: dict[str, int]) -> Rows:
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        names: list[str] = []
        for number, line in _lines(path, file):
            try:
                cells = [cell.strip() for cell in next(csv.reader([line]), [])]
            except csv.Error as error:
                raise LocalProtocolError(f"{path}:{number}: {error}") from error
            if not any(cells):
                continue
            if not names:
                names = [cell.lower() for cell in cells]
                missing = [name for name in _FIELDS[:3] if name not in names]
                if missing:
                    raise LocalProtocolError(f"{path}:{number}: the header has no {', '.join(missing)}: {line.strip()}")
                continue
            if len(cells) != len(names):
                raise LocalProtocolError(f"{path}:{number}: {len(cells)} cells, the header has {len(names)}")
            yield number, _fix_of_text(path, number, dict(zip(names, cells)))


def _gpx(path: Path, dropped: dict[str, int]) -> Rows:
    """Entities are nothing that a track needs: a file that declares some is refused."""
    found: list[tuple[int, Fix]] = []
    point: dict[str, str] = {}
    within: list[str] = []
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def start(tag: str, attributes: dict[str, str]) -> None:
        within.append(tag.rpartition(":")[2])
        if len(within) > 32:
            raise LocalProtocolError(f"{path}:{parser.CurrentLineNumber}: elements 33 deep, GPX has no more than 10")
        if within[-1] == "trkpt":
            point.clear()
            point.update({name: attributes[name] for name in ("lat", "lon") if name in attributes})

    def text(data: str) -> None:
        if within[-2:] == ["trkpt", "time"]:
            point["time"] = point.get("time", "") + data

    def end(tag: str) -> None:
        if within.pop() == "trkpt":
            found.append((parser.CurrentLineNumber, _fix_of_text(path, parser.CurrentLineNumber, point)))

    def doctype(*_: object) -> None:
        raise LocalProtocolError(f"{path}:{parser.CurrentLineNumber}: a document type, which GPX has none of")

    parser.StartElementHandler = start
    parser.CharacterDataHandler = text
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = doctype
    try:
        with path.open("rb") as file:
            while data := file.read(65536):
                parser.Parse(data, False)
                yield from found
                found.clear()
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise LocalProtocolError(f"{path}: {error}") from error
    yield from found


def _fix_of_text(path: Path, number: int, cells: dict[str, str]) -> Fix:
    values: dict[str, int] = {}
    for name in _FIELDS:
        cell = cells.get(name, "").strip()
        if not cell:
            if name in _FIELDS[:3]:
                raise LocalProtocolError(f"{path}:{number}: no {name}")
            continue
        try:
            if name == "time":
                values[name] = int(cell) if cell.isascii() and cell.isdigit() and len(cell) < 16 else instant(cell)
            else:
                values[name] = shifted(cell, _PLACES[name])
        except ValueError as error:
            raise LocalProtocolError(f"{path}:{number}: {name}: {error}") from error
    if values.get("heading") == 36000:
        values["heading"] = 0
    return _fix_at(path, number, values)


def _fix_at(path: Path, number: int, values: dict[str, Any]) -> Fix:
    try:
        return Fix(**values)
    except LocalProtocolError as error:
        raise LocalProtocolError(f"{path}:{number}: {error}") from error


def _jsonl(path: Path, dropped: dict[str, int]) -> Rows:
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in _lines(path, file):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise LocalProtocolError(f"{path}:{number}: {error}") from error
            if not isinstance(row, dict) or not set(_FIELDS[:3]) <= set(row) <= set(_FIELDS):
                raise LocalProtocolError(f"{path}:{number}: want time, lat, lon and at most {', '.join(_FIELDS[3:])}")
            if row["time"] is None:
                raise LocalProtocolError(f"{path}:{number}: no time")
            yield number, _fix_at(path, number, row)


def _nmea(path: Path, dropped: dict[str, int]) -> Rows:
    """A fix is whole when the receiver's time goes on."""
    nmea = Nmea()
    whole: Fix | None = None
    epoch = place = 0

    def take() -> Rows:
        if whole is not None and whole.time is None:
            dropped["no date"] = dropped.get("no date", 0) + 1
        elif whole is not None:
            yield place, whole

    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE_CHARS):
            number += line.endswith(b"\n")
            nmea.receive_data(line, 0)
            if nmea.epoch != epoch:
                yield from take()
                epoch, place = nmea.epoch, number
            whole = nmea.fix(0)
        nmea.receive_data(b"\n", 0)
        if nmea.epoch != epoch:
            yield from take()
        whole = nmea.fix(0)
        yield from take()
    dropped.update({reason: count for reason, count in nmea.counters.items() if count and reason not in _NOT_DROPPED})


_READERS: dict[str, Callable[[Path, dict[str, int]], Rows]] = {
    ".csv": _csv,
    ".gpx": _gpx,
    ".nmea": _nmea,
    ".log": _nmea,
    ".txt": _nmea,
    ".jsonl": _jsonl,
}
