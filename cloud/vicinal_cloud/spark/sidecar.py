"""Columns beside the log: a closed segment once more, as Parquet, made by the first who reads all of it.

    LOG/columns/00000000000000000000-5c1f03aa/      the segment's name: base offset and salt, so never another's
        forms.json                                  what it was made of, and of which forms each file is
        0.parquet, 1.parquet, ...                   one for each form (forms.py), by producer, then by offset
        0.by-2.parquet                              the same rows by the value of a column (orders.py)

Nothing here is the truth: the log is. A sidecar counts when it says the size of the segment as it is, and accounts for
every offset: rows + loose + damaged = records. What is not for columns (`loose`) stays in the log, and its offsets are
listed. One that is missing, half-made or of another version is made anew; removing the folder costs time, and no more.

Rows lie by producer because that is how fleets are asked: a car's rows are together, close in place and time, and so
the least and greatest of a row group say much, and 64 MiB of log become about a tenth.
"""

import json
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from vicinal.filter import Filter

from .conditions import Bound, may_match, names_in
from .forms import Block, Form, Loose, concatenated
from .orders import Read, about_file, best_of, file_name, write

__all__ = ["FOLDER", "Sidecar", "make", "open_sidecar", "sweep"]

FOLDER = "columns"
VERSION = 1
# A stranger may send a new form with every event: what is rare stays in the log.
_MAX_FORMS = 128
# What is half-made is given up when nobody has touched it for so long.
_ABANDONED_S = 3600.0


class Sidecar(NamedTuple):
    folder: Path
    forms: list[Form]
    loose: list[int]
    damaged: list[tuple[int, int]]
    """first and last offset of what could not be read"""
    files: list[Any]
    """what is known of the file of each form, or None"""
    records: int
    """of the segment"""

    def blocks(
        self,
        low: int,
        high: int,
        names: "set[str] | None",
        condition: Filter | None,
        bounds: tuple[Bound, ...],
        read: Read,
        without: tuple[int, ...] = (),
    ) -> Iterator[Block]:
        """Of the rows with low <= offset < high for which the condition is true. Columns that are neither in `names`
        nor needed to know are not read, and not in the blocks' forms; nor is any of the forms `without`."""
        wanted = None if names is None else names | (set() if condition is None else names_in(condition.node))
        within = (*bounds, Bound("_offset", ">=", low), Bound("_offset", "<", high))
        with ExitStack() as stack:
            # All are opened before the first is read: whoever removes them meanwhile takes nothing from us.
            opened = [
                best_of(self.folder, number, self.files[number], form, wanted, condition, within, read, stack)
                for number, form in enumerate(self.forms)
                if number not in without and may_match(form, {}, condition, bounds)
            ]
            for one in opened:
                yield from one.blocks(condition, within)


# Making


def make(
    folder: Path,
    segment: str,
    segment_bytes: int,
    base: int,
    end: int,
    parts: "Iterator[tuple[list[Block], list[Loose]]]",
) -> Sidecar:
    """Of the records of a closed segment, offsets base .. end-1. Raises OSError; what is half-made is removed."""
    by_form: dict[Form, list[Block]] = {}
    loose: list[int] = []
    seen = np.zeros(end - base, np.bool_)
    for blocks, others in parts:
        loose += [one.record.offset for one in others]
        for block in blocks:
            seen[block.offset - base] = True
            by_form.setdefault(block.form, []).append(block)
    rare = sorted(by_form, key=lambda form: -sum(map(len, by_form[form])))[_MAX_FORMS:]
    for form in rare:
        for block in by_form.pop(form):
            loose += block.offset.tolist()
    seen[np.array(loose, np.int64) - base] = True
    damaged = _runs(np.flatnonzero(~seen) + base)
    half = folder / f".{segment}.{secrets.token_hex(4)}"
    half.mkdir(parents=True)
    try:
        forms = list(by_form)
        for number, form in enumerate(forms):
            write(half / file_name(number), concatenated(by_form[form]))
        about = {
            "version": VERSION,
            "bytes": segment_bytes,
            "base": base,
            "end": end,
            "forms": [[form.subject, form.params, form.attrs] for form in forms],
            "loose": sorted(loose),
            "damaged": damaged,
        }
        (half / "forms.json").write_text(json.dumps(about), encoding="utf-8")
        try:
            half.rename(folder / segment)
        except OSError:
            found = open_sidecar(folder, segment, segment_bytes, Read())
            if found is not None:  # another was faster
                shutil.rmtree(half, ignore_errors=True)
                return found
            shutil.rmtree(folder / segment, ignore_errors=True)
            half.rename(folder / segment)
    except BaseException:
        shutil.rmtree(half, ignore_errors=True)
        raise
    return Sidecar(folder / segment, forms, sorted(loose), damaged, [None] * len(forms), end - base)


def _runs(offsets: Any) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for offset in offsets.tolist():
        if found and found[-1][1] == offset - 1:
            found[-1] = (found[-1][0], offset)
        else:
            found.append((offset, offset))
    return found


def open_sidecar(folder: Path, segment: str, segment_bytes: int, read: Read) -> Sidecar | None:
    """None where there is none that counts."""
    place = folder / segment
    try:
        about = json.loads((place / "forms.json").read_text(encoding="utf-8"))
        if about["version"] != VERSION or about["bytes"] != segment_bytes:
            return None
        forms = [
            Form(subject, tuple((n, k) for n, k in params), tuple((n, k) for n, k in attrs))
            for subject, params, attrs in about["forms"]
        ]
        damaged = [(first, last) for first, last in about["damaged"]]
        files = [about_file(place / file_name(number), read) for number in range(len(forms))]
        rows = sum(one.num_rows for one in files)
        missing = sum(last - first + 1 for first, last in damaged)
        records = about["end"] - about["base"]
        if rows + len(about["loose"]) + missing != records:
            return None
        return Sidecar(place, forms, about["loose"], damaged, files, records)
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None


def sweep(folder: Path, segments: "set[str]") -> None:
    """Removes those of segments that retention has removed, those of shares (logs.py) whose segment has one by now, and
    what somebody was killed in the middle of."""
    try:
        found = {one.name: one for one in folder.iterdir()}
    except OSError:
        return
    for name, one in found.items():
        segment, _, _ = name.partition("+")
        if name.startswith("."):
            gone = _age(one) > _ABANDONED_S
        else:
            gone = segment not in segments or (segment != name and segment in found)
        if gone:
            shutil.rmtree(one, ignore_errors=True)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0
