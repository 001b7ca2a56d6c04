"""Rows of input, and answers by key, as the reference gives them."""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from vicinal_cloud.spark.linear_road.desk import Answers
from vicinal_cloud.spark.linear_road.history import TollHistory
from vicinal_cloud.spark.linear_road.plain import LinearRoad

Row = tuple[int, ...]


def report(
    time: int, vid: int, seg: int, *, spd: int = 30, lane: int = 1, dir: int = 0, xway: int = 0, pos: int = -1
) -> Row:
    pos = seg * 5280 + vid % 5280 if pos < 0 else pos
    return (0, time, vid, spd, xway, lane, dir, seg, pos, -1, -1, -1, -1, -1, -1)


def balance(time: int, vid: int, qid: int) -> Row:
    return (2, time, vid, -1, -1, -1, -1, -1, -1, qid, -1, -1, -1, -1, -1)


def expenditure(time: int, vid: int, qid: int, day: int, xway: int = 0) -> Row:
    return (3, time, vid, -1, xway, -1, -1, -1, -1, qid, -1, -1, -1, -1, day)


def table(rows: Iterable[Row]) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
    return np.array(list(rows), np.int64).reshape(-1, 15)


def history_of(known: dict[tuple[int, int, int], int]) -> TollHistory:
    keys = np.array([vid << 23 | xway << 8 | day for vid, day, xway in known], np.int64)
    return TollHistory(keys, np.array(list(known.values()), np.int64))


def by_key(lines: Iterable[str]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """As a validator compares them; without emit."""
    found = []
    for line in lines:
        cells = tuple(int(cell) for cell in line.split(","))
        match cells:
            case (0, vid, time, _, lav, toll):
                found.append(((0, vid, time), (lav, toll)))
            case (1, time, _, xway, seg, west, vid):
                found.append(((1, time, xway, seg, west, vid), ()))
            case (2, time, _, result, qid, balance):
                found.append(((2, time, qid), (result, balance)))
            case (3, time, _, qid, toll):
                found.append(((3, time, qid), (toll,)))
            case _:
                raise AssertionError(line)
    return sorted(found)


def lines_of(answers: Iterable[Answers]) -> list[str]:
    return [line for some in answers for rows in some.rows for line in rows]


def run(rows: Sequence[Row], cuts: Iterable[int] = (), history: TollHistory | None = None) -> list[str]:
    """By the plain engine, fed in parts."""
    road = LinearRoad(history)
    places = [0, *sorted(cuts), len(rows)]
    parts = [rows[begin:end] for begin, end in itertools.pairwise(places) if begin < end]
    return lines_of([*(road.feed(table(part)) for part in parts), road.finish()])
