"""Traffic to measure with: an input for any number of expressways, by the benchmark's rules, from a seed.

Every vehicle reports every 30 s: first on the entry lane, then on lanes 1 to 3, last on the exit lane. Each
expressway begins with 13 reports a second and has 2,000 a second after three hours. Where it is crowded it is slow.
About every 20 minutes two vehicles of an expressway stop at one place for 10 to 20 minutes. One vehicle in ten that
left comes back. One report in a hundred is followed by a query: half of these for a balance, a tenth for a day's
expenditure, the others for a travel time.

The vehicles that report in the same second of every half minute are one table, and move together.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .rows import COLUMNS
from .segments import SEGMENTS

if TYPE_CHECKING:
    import numpy.typing as npt

    Table = npt.NDArray[np.int64]

__all__ = ["DAY", "Generator", "rate_at", "write_history", "write_input"]

DAY = 3 * 3600
CYCLE = 30
FIRST_RATE, LAST_RATE = 13, 2000
FEET = 5280
"""of a segment"""
FEET_A_CYCLE = FEET * CYCLE / 3600
"""of a vehicle with 1 mph"""
ACCIDENT_EVERY, ACCIDENT_LASTS = 1200, (600, 1200)
RETURNS, RETURNS_AFTER = 0.1, (61, 1000)
QUERIES, BALANCES, EXPENDITURES = 0.01, 0.5, 0.6
HISTORY_DAYS = 69

# The columns of a vehicle.
_VID, _XWAY, _DIR, _POS, _LANE, _SPD, _EXIT, _HELD = range(8)
_PLACE = {name: place for place, name in enumerate(COLUMNS)}


def rate_at(time: int) -> float:
    """Reports a second of one expressway."""
    return FIRST_RATE + (LAST_RATE - FIRST_RATE) * min(time, DAY) / DAY


class Generator:
    """`start` is the second of the day to begin with: later ones are busier, and find traffic that is on its way."""

    def __init__(self, expressways: int = 1, seed: int = 1, start: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._expressways = expressways
        self._groups = [np.empty((0, 8), np.int64) for _ in range(CYCLE)]
        self._present = np.zeros((CYCLE, expressways * 2 * SEGMENTS), np.int64)
        self._returning: dict[int, list[int]] = defaultdict(list)
        self._accident_at = start + self._random.exponential(ACCIDENT_EVERY, expressways)
        self._start = start
        self._qid = 0
        self.vehicles = 0
        """so far; they are numbered from 0"""

    def seconds(self, count: int) -> Iterator["Table"]:
        """The rows of each second, in turn."""
        for time in range(self._start, self._start + count):
            group = time % CYCLE
            self._groups[group] = moved = self._move(self._groups[group], time)
            entered = self._enter(time, moved)
            vehicles = self._groups[group] = np.concatenate([moved, entered])
            self._crash(time, group)
            yield self._rows(time, self._groups[group])
            self._leave(time, group)
            vehicles = self._groups[group]
            self._present[group] = np.bincount(_where(vehicles), minlength=self._present.shape[1])

    def _move(self, vehicles: "Table", time: int) -> "Table":
        random = self._random
        crowd = self._present.sum(axis=0)[_where(vehicles)]
        # Full speed while there is room; then as many pass a place as ever, and so each the slower.
        target = np.minimum(70, 10 + 2400 / np.maximum(crowd, 1))
        speed = np.clip(target + random.integers(-8, 9, len(vehicles)), 1, 100).astype(np.int64)
        driving = vehicles[:, _HELD] <= time
        vehicles[:, _SPD] = np.where(driving, speed, 0)
        way = np.where(vehicles[:, _DIR] == 0, 1, -1)
        pos = vehicles[:, _POS] + (way * vehicles[:, _SPD] * FEET_A_CYCLE).astype(np.int64)
        out = driving & ((vehicles[:, _EXIT] - pos) * way <= 0)
        vehicles[:, _POS] = np.where(out, vehicles[:, _EXIT], pos)
        change = driving & ((vehicles[:, _LANE] == 0) | (random.random(len(vehicles)) < 0.3))
        vehicles[:, _LANE] = np.where(change, random.integers(1, 4, len(vehicles)), vehicles[:, _LANE])
        vehicles[:, _LANE] = np.where(out, 4, vehicles[:, _LANE])
        vehicles[:, _SPD] = np.where(out, np.minimum(vehicles[:, _SPD], 30), vehicles[:, _SPD])
        return vehicles

    def _enter(self, time: int, moved: "Table") -> "Table":
        """So many that the expressways have their rate."""
        random, again = self._random, self._returning.pop(time, [])
        wanted = random.poisson(rate_at(time), self._expressways)
        here = np.bincount(moved[:, _XWAY], minlength=self._expressways)
        missing = np.maximum(wanted - here, 0)
        again = again[: int(missing.sum())]
        count = int(missing.sum())
        entered = np.zeros((count, 8), np.int64)
        entered[: len(again), _VID] = again
        entered[len(again) :, _VID] = np.arange(self.vehicles, self.vehicles + count - len(again))
        self.vehicles += count - len(again)
        entered[:, _XWAY] = np.repeat(np.arange(self._expressways), missing)
        random.shuffle(entered[:, _XWAY])
        entered[:, _DIR] = random.integers(0, 2, count)
        way = np.where(entered[:, _DIR] == 0, 1, -1)
        seg = random.integers(0, SEGMENTS, count)
        last = np.clip(seg + way * random.integers(1, 40, count), 0, SEGMENTS - 1)
        entered[:, _POS] = seg * FEET + np.where(way > 0, 0, FEET - 1)
        entered[:, _EXIT] = last * FEET + random.integers(0, FEET, count)
        entered[:, _SPD] = random.integers(10, 41, count)
        if self._start > 0 and time < self._start + CYCLE:  # on its way when this begins
            done = (random.random(count) * (entered[:, _EXIT] - entered[:, _POS])).astype(np.int64)
            entered[:, _POS] += done
            entered[:, _LANE] = random.integers(1, 4, count)
        return entered

    def _crash(self, time: int, group: int) -> None:
        """A vehicle of this second stops; one that reports at another second stops there too."""
        random = self._random
        for xway in np.flatnonzero(self._accident_at <= time):
            first, other = self._groups[group], int((group + random.integers(1, CYCLE)) % CYCLE)
            second = self._groups[other]
            can = np.flatnonzero(_can_crash(first, time) & (first[:, _XWAY] == xway))
            if not len(can):
                continue
            one = first[random.choice(can)]
            same = _can_crash(second, time) & (second[:, _XWAY] == xway) & (second[:, _DIR] == one[_DIR])
            ahead = (one[_POS] - second[:, _POS]) * (1 if one[_DIR] == 0 else -1)
            behind = np.flatnonzero(same & (ahead >= 0))
            if not len(behind):
                continue
            two = behind[np.argmin(ahead[behind])]
            until = time + int(random.integers(*ACCIDENT_LASTS))
            first[first[:, _VID] == one[_VID], _HELD] = until
            second[two, [_POS, _LANE, _HELD]] = one[_POS], one[_LANE], until
            self._accident_at[xway] = time + random.exponential(ACCIDENT_EVERY)

    def _leave(self, time: int, group: int) -> None:
        vehicles = self._groups[group]
        out = vehicles[:, _LANE] == 4
        for vid in vehicles[out, _VID][self._random.random(int(out.sum())) < RETURNS].tolist():
            self._returning[time + int(self._random.integers(*RETURNS_AFTER))].append(vid)
        self._groups[group] = vehicles[~out]

    def _rows(self, time: int, vehicles: "Table") -> "Table":
        random, count = self._random, len(vehicles)
        rows = np.full((count, len(COLUMNS)), -1, np.int64)
        rows[:, 0], rows[:, 1] = 0, time
        for name, column in (
            ("vid", _VID),
            ("spd", _SPD),
            ("xway", _XWAY),
            ("lane", _LANE),
            ("dir", _DIR),
            ("pos", _POS),
        ):
            rows[:, _PLACE[name]] = vehicles[:, column]
        rows[:, _PLACE["seg"]] = vehicles[:, _POS] // FEET
        asking = np.flatnonzero(random.random(count) < QUERIES)
        queries = np.full((len(asking), len(COLUMNS)), -1, np.int64)
        for query, report in zip(queries, rows[asking]):
            chance = random.random()
            query[:3] = 2 if chance < BALANCES else 3 if chance < EXPENDITURES else 4, time, report[2]
            query[_PLACE["qid"]] = self._qid
            self._qid += 1
            if query[0] != 2:
                query[_PLACE["xway"]] = report[_PLACE["xway"]]
            if query[0] == 3:
                query[_PLACE["day"]] = random.integers(1, HISTORY_DAYS + 1)
            if query[0] == 4:
                query[10:14] = (
                    *sorted(random.choice(SEGMENTS, 2, False)),
                    random.integers(1, 8),
                    random.integers(1, 1441),
                )
        return np.insert(rows, asking + 1, queries, axis=0)


def _where(vehicles: "Table") -> "Table":
    return (vehicles[:, _XWAY] * 2 + vehicles[:, _DIR]) * SEGMENTS + vehicles[:, _POS] // FEET


def _can_crash(vehicles: "Table", time: int) -> "npt.NDArray[np.bool_]":
    return (vehicles[:, _LANE] >= 1) & (vehicles[:, _LANE] <= 3) & (vehicles[:, _HELD] <= time)


def write_input(path: Path, generator: Generator, seconds: int) -> Iterator[int]:
    """Writes it, gzipped if the name ends so; gives the number of rows of each second as it is written."""
    with _open(path) as file:
        for rows in generator.seconds(seconds):
            file.write(_csv(rows))
            yield len(rows)


def write_history(path: Path, vehicles: int, expressways: int, seed: int = 1) -> int:
    """What each vehicle paid on each expressway on each of 69 days; gives the number of rows."""
    random, block, count = np.random.default_rng(seed), 10_000, 0
    with _open(path) as file:
        for first in range(0, vehicles, block):
            vids = np.arange(first, min(first + block, vehicles))
            some = np.stack(
                np.meshgrid(vids, np.arange(1, HISTORY_DAYS + 1), np.arange(expressways), indexing="ij"), axis=-1
            )
            rows = np.empty((some.size // 3, 4), np.int64)
            rows[:, :3] = some.reshape(-1, 3)
            rows[:, 3] = random.integers(0, 100, len(rows))
            file.write(_csv(rows))
            count += len(rows)
    return count


def _open(path: Path):  # type: ignore[no-untyped-def]
    import gzip

    return gzip.open(path, "wb", compresslevel=1) if path.suffix == ".gz" else path.open("wb")


def _csv(rows: "Table") -> bytes:
    import pyarrow as pa
    from pyarrow import csv

    if not len(rows):
        return b""
    sink = pa.BufferOutputStream()
    names = [str(place) for place in range(rows.shape[1])]
    csv.write_csv(pa.table(list(rows.T.copy()), names=names), sink, csv.WriteOptions(include_header=False))
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]
