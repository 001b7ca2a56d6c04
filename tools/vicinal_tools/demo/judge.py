"""Whether the right events crossed the right hops: what the vehicles did against what the office heard.

The ground truth is what each car's gateway accepted for the air, when it was said, and where the car was. From it
follows, for each event and monitor, whether the monitor must have heard it, must not, or may have:

    must       the car was well within reach for a while before (a beacon of it was heard) until the event was said
    must not   it was out of reach until a later one of that subject was said (the last one is repeated)
    may        between the two: reach has no sharp edge in time. Also where a car took longer than it should: on a
               computer that is too slow its beacons come late, and monitors forget it

and what must then leave the roadside: Location always, Speed if it was over the limit whose subscription the monitor
had. While a limit is changed the old and the new one may be asked for, and what is between them may cross.

    missing    must cross, did not            extra    must not cross, did; or was never said; or came twice
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from vicinal.pseudonyms_cpython import day_key, day_of, pseudonym
from vicinal_cloud.traffic.network import Network, Position
from vicinal_hw.ble.air import DEFAULT_POWER
from vicinal_hw.ble.physics import Model

__all__ = ["Change", "Judgement", "Said", "judge", "read_truth"]

REACH = Model().reach(DEFAULT_POWER)
INNER, OUTER = REACH - 16, REACH + 16
"""metres: a car moves up to 10 m between two looks at where it is, and some more while an event is said"""
BEFORE_MS = 3_000
"""so long within reach, and a beacon was heard: they are a second apart, and may be missed"""
AFTER_MS = 300
"""until where a car says that it is has become where its radio is"""
SLOW_MS = 2_000
"""to say an event: three rounds take a fifth of a second, and another may be before it"""
SWAP_MS = 200
"""around a change of limits, for what is under way between processes"""


class Said(NamedTuple):
    producer: str
    seq: int
    subject: str
    time: int
    params: dict[str, Any]
    place: Position
    said: int | None = None
    """when it was said three times; None: never"""

    @property
    def ends(self) -> int:
        return self.time + SLOW_MS if self.said is None else self.said

    @property
    def slow(self) -> bool:
        return self.said is None or self.said - self.time > SLOW_MS


class Change(NamedTuple):
    """Of the limit of one monitor: from `asked` to `done` both may hold."""

    monitor: str
    limit: int
    asked: int
    done: int


class Judgement(NamedTuple):
    said: int
    slow: int
    """of those, what took longer than it should"""
    must: int
    """events times monitors, of those that must leave the roadside"""
    may: int
    crossed: int
    missing: list[tuple[str, Said]]
    extra: list[tuple[str, str]]
    """monitor, and what is wrong"""

    @property
    def holds(self) -> bool:
        return not self.missing and not self.extra


def read_truth(file: Path) -> list[Said]:
    found: dict[tuple[str, int], Said] = {}
    for line in file.read_text().splitlines():
        one = json.loads(line)
        identity = (one["producer"], one["seq"])
        if "said" in one:
            found[identity] = found[identity]._replace(said=one["said"])
        else:
            found[identity] = Said(*identity, one["subject"], one["time"], one["params"], tuple(one["place"]))
    return list(found.values())


class _Drive:
    """Where one car was: as often as it said something."""

    def __init__(self, network: Network, said: list[Said]) -> None:
        self._network = network
        self._said = said
        self._times = [one.time for one in said]
        self._ends: dict[int, int] = {}
        """of each event, by its number: when a later one of its subject was said"""
        last: dict[str, int] = {}
        for one in reversed(said):
            self._ends[one.seq] = last.get(one.subject, 1 << 62)
            if one.said is not None:
                last[one.subject] = one.said

    def near(self, place: Position, one: Said) -> int:
        over = one.ends
        if min(self._distances(place, one.time - AFTER_MS, max(over, self._ends[one.seq]))) > OUTER:
            return NOT
        since = one.time - BEFORE_MS
        slow = any(other.slow for other in self._between(since, over))
        whole = self._times[0] <= since and max(self._distances(place, since, over + AFTER_MS)) < INNER
        return MUST if whole and not slow else MAY

    def _between(self, since: int, until: int) -> list[Said]:
        """And the next ones outside of that."""
        return self._said[max(0, bisect_left(self._times, since) - 1) : bisect_right(self._times, until) + 1]

    def _distances(self, place: Position, since: int, until: int) -> list[float]:
        return [self._network.distance(place, one.place) for one in self._between(since, until)]


def judge(
    network: Network,
    key: bytes,
    said: list[Said],
    heard: Iterable[dict[str, Any]],
    changes: list[Change],
    away: Iterable[tuple[str, int, int]] = (),
) -> Judgement:
    """`heard` are the events of the office, as /api/events has them; `changes` of all monitors, in their order. A
    monitor that was `away`, from one time to another, may have heard nothing meanwhile."""
    absent = list(away)
    by_car: dict[str, list[Said]] = {}
    for one in said:
        by_car.setdefault(one.producer, []).append(one)
    drives = {car: _Drive(network, several) for car, several in by_car.items()}
    crossed: dict[tuple[str, str, int], dict[str, Any]] = {}
    extra: list[tuple[str, str]] = []
    for event in heard:
        where = (event["monitor"], event["vehicle"], event["seq"])
        if where in crossed:
            extra.append((event["monitor"], f"{event['subject']} {event['vehicle']} {event['seq']} came twice"))
        crossed[where] = event
    missing: list[tuple[str, Said]] = []
    must = may = known = 0
    for name, monitor in network.monitors.items():
        own = [change for change in changes if change.monitor == name]
        for one in said:
            hidden = pseudonym(day_key(key, monitor.area, day_of(one.time)), one.producer)
            found = crossed.get((name, hidden, one.seq))
            verdict = min(drives[one.producer].near(monitor.place, one), _asked(one, own))
            if verdict == MUST and any(name == who and one.ends >= a and one.time <= b for who, a, b in absent):
                verdict = MAY
            must += verdict == MUST
            may += verdict == MAY
            if found is None:
                if verdict == MUST:
                    missing.append((name, one))
                continue
            known += 1
            params = {key: value for key, value in one.params.items() if key != "license_no"}
            if found["subject"] != one.subject or params.items() - found["params"].items():
                extra.append((name, f"{found['subject']} {found['params']} was said as {one.subject} {one.params}"))
            elif verdict == NOT:
                extra.append((name, f"{one.subject} {one.params} of {one.producer} at {one.time} must not be heard"))
    if known < len(crossed):
        extra.append(("office", f"{len(crossed) - known} events that nobody has said"))
    return Judgement(len(said), sum(one.slow for one in said), must, may, len(crossed), missing, extra)


NOT, MAY, MUST = range(3)


def _asked(one: Said, changes: list[Change]) -> int:
    """Whether the monitor's subscriptions let it pass."""
    if one.subject != "Speed":
        return MUST
    possible: list[int | None] = [None]
    for change in changes:
        if change.done + SWAP_MS < one.time:
            possible = [change.limit]
        elif change.asked - SWAP_MS <= one.ends:
            possible.append(change.limit)
    over = [limit is not None and one.params["rate"] > limit for limit in possible]
    # The new one is asked for before the old one is taken back: one of them always holds.
    return MUST if all(over) else MAY if any(over) else NOT
