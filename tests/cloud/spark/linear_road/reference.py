"""Linear Road once more, from the rules alone and with no care for time: all reports are looked at for every answer.

Nothing is shared with the product, and nothing is kept but lists of what was reported.
"""

from collections.abc import Iterable
from fractions import Fraction
from math import floor
from typing import NamedTuple


class Report(NamedTuple):
    time: int
    vid: int
    spd: int
    xway: int
    lane: int
    dir: int
    seg: int
    pos: int


class Answer(NamedTuple):
    """Types 0 to 3 by key: (type, what it is about) and what is said."""

    key: tuple[int, ...]
    says: tuple[int, ...]


def minute(time: int) -> int:
    return 1 + time // 60


def answers(rows: Iterable[tuple[int, ...]], history: dict[tuple[int, int, int], int]) -> list[Answer]:
    rows = list(rows)
    found: list[Answer] = []
    charges: list[tuple[int, int, int]] = []
    reports = [Report(r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8]) for r in rows if r[0] == 0]
    for road in sorted({(report.xway, report.dir) for report in reports}):
        some, paid = one_road([report for report in reports if (report.xway, report.dir) == road])
        found += some
        charges += paid
    for row in rows:
        kind, time, vid, qid, xway, day = row[0], row[1], row[2], row[9], row[4], row[14]
        if kind == 2:
            total = sum(toll for when, who, toll in charges if who == vid and when <= time)
            found.append(Answer((2, time, qid), (time, total)))
        if kind == 3 and (vid, day, xway) in history:
            found.append(Answer((3, time, qid), (history[vid, day, xway],)))
    return found


def one_road(reports: list[Report]) -> tuple[list[Answer], list[tuple[int, int, int]]]:
    """Answers, and charges as (time, vid, toll)."""
    counted, trips = journeys(reports)
    accidents = accidents_of(counted, trips)
    found, charges = [], []
    for number, report in enumerate(counted):
        trip = [one for one in trips[number] if one < number]
        before = counted[trip[-1]] if trip else None
        if before is not None and before.seg == report.seg:
            continue
        if before is not None:
            toll = toll_told(trip, counted, accidents)
            if toll:
                charges.append((report.time, report.vid, toll))
        if report.lane == 4:
            continue
        lav, toll, accident = offer(report, counted, accidents)
        found.append(Answer((0, report.vid, report.time), (lav, toll)))
        if accident is not None:
            found.append(Answer((1, report.time, report.xway, accident, report.dir, report.vid), ()))
    return found, charges


def journeys(reports: list[Report]) -> tuple[list[Report], list[list[int]]]:
    """The reports that count, and for each the places in that list of all reports of the same journey so far."""
    counted: list[Report] = []
    trips: list[list[int]] = []
    for report in reports:
        mine = [number for number, one in enumerate(counted) if one.vid == report.vid]
        trip: list[int] = []
        if mine:
            last = counted[mine[-1]]
            if not (report.lane == 0 and report.time - last.time > 60):
                if last.lane == 4 and report.lane != 0:
                    continue
                trip = trips[mine[-1]]
        trips.append([*trip, len(counted)])
        counted.append(report)
    return counted, trips


def offer(report: Report, counted: list[Report], accidents: list["Accident"]) -> tuple[int, int, int | None]:
    """LAV, toll, and the accident ahead, for one who comes into a segment with this report."""
    now = minute(report.time)
    here = [one for one in counted if one.seg == report.seg]
    cars = len({one.vid for one in here if minute(one.time) == now - 1})
    speeds = [one.spd for one in here if now - 5 <= minute(one.time) <= now - 1]
    lav = floor(Fraction(sum(speeds), len(speeds)) + Fraction(1, 2)) if speeds else 0
    step = 1 if report.dir == 0 else -1
    for seg in range(report.seg, report.seg + 5 * step, step):
        for accident in accidents:
            if accident.seg == seg and accident.first <= now <= accident.last:
                return lav, 0, seg
    return lav, (2 * (cars - 50) * (cars - 50) if cars > 50 and lav < 40 else 0), None


def toll_told(trip: list[int], counted: list[Report], accidents: list["Accident"]) -> int:
    """What was said when the vehicle came into the segment of the last report of this trip."""
    at = len(trip) - 1
    while at > 0 and counted[trip[at - 1]].seg == counted[trip[at]].seg:
        at -= 1
    entering = counted[trip[at]]
    return 0 if entering.lane == 4 else offer(entering, counted, accidents)[1]


class Accident(NamedTuple):
    seg: int
    first: int
    last: float


def accidents_of(counted: list[Report], trips: list[list[int]]) -> list[Accident]:
    """By going through all that happens: who stops and who goes on, in turn."""

    def place(number: int) -> tuple[int, int, int]:
        return counted[number].lane, counted[number].seg, counted[number].pos

    standing: dict[tuple[int, int, int], list[int]] = {}
    found: list[tuple[int, int, tuple[int, ...], int]] = []
    for number, report in enumerate(counted):
        trip = trips[number]
        if len(trip) > 1 and place(trip[-2]) != place(number):
            here = standing.get(place(trip[-2]), [])
            if report.vid in here:
                here.remove(report.vid)
        run = 0
        while run < len(trip) and place(trip[-1 - run]) == place(number):
            run += 1
        if run == 4:
            here = standing.setdefault(place(number), [])
            if len(here) < 2 and report.vid not in here:
                here.append(report.vid)
                if len(here) == 2 and all(seg != report.seg for seg, *_ in found):
                    found.append((report.seg, minute(report.time) + 1, tuple(here), number))
    return [Accident(seg, first, _end(seg, vids, since, counted, trips)) for seg, first, vids, since in found]


def _end(seg: int, vids: tuple[int, ...], since: int, counted: list[Report], trips: list[list[int]]) -> float:
    for number in range(since + 1, len(counted)):
        report, trip = counted[number], trips[number]
        if report.vid not in vids or len(trip) < 2:
            continue
        before = counted[trip[-2]]
        if before.seg == seg and (before.lane, before.seg, before.pos) != (report.lane, report.seg, report.pos):
            return minute(report.time)
    return float("inf")
