"""Whether the right events crossed the right hops: what the vehicles said against what the office heard.

The ground truth is what each car's gateway accepted for the air, and where the car was; what the radio of each monitor
heard of it, and in which order, is in the record of the air (reception.py). From the two follows, for each event and
monitor, whether it must have left the roadside, must not, or may have:

    Location   if the monitor's radio heard it
    Speed      if besides it was an offence under the limit whose subscription the monitor had when it looked at it

When a monitor looked at an event is known from what crossed: it writes the time into it. Of one that did not cross it
was after all that its radio heard before and that crossed, and before what it heard later. While a limit is changed,
from when the office asked for it until it had the answer, the old and the new one may hold. So it is causes that
decide and not the speed of this computer.

    missing    must cross, did not            extra    must not cross, did; or was never said; or came twice
    unheard    the car was well within reach for a while, and no monitor's radio heard it: the air loses some. What is
               not judged so is where a car took longer than it should: on a slow computer its beacons come late
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from vicinal.pseudonyms_cpython import day_key, day_of, pseudonym
from vicinal_cloud.traffic.network import Network, Position
from vicinal_cloud.traffic.tariff import DEFAULT
from vicinal_hw.ble.air import DEFAULT_POWER
from vicinal_hw.ble.physics import Model

from .reception import Reception

__all__ = ["Change", "Judgement", "Said", "judge", "read_signs", "read_truth"]

REACH = Model().reach(DEFAULT_POWER)
INNER, OUTER = REACH - 16, REACH + 16
"""metres: a car moves up to 10 m between two looks at where it is, and some more while an event is said"""
BEFORE_MS = 3_000
"""so long within reach, and a beacon was heard: they are a second apart, and may be missed"""
AFTER_MS = 300
"""until where a car says that it is has become where its radio is"""
SLOW_MS = 2_000
"""to say an event: three rounds take a fifth of a second, and another may be before it"""
CLOCKS_MS = 50
"""that the clocks of two processes of one computer may differ: they are steady, and follow the same one"""


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
    near: int
    """events times monitors, of cars that were well within reach"""
    unheard: list[tuple[str, Said]]
    """of those, what the monitor's radio did not hear"""

    @property
    def holds(self) -> bool:
        return not self.missing and not self.extra


def read_truth(file: Path) -> list[Said]:
    found: dict[tuple[str, int], Said] = {}
    for line in file.read_text().splitlines():
        one = json.loads(line)
        if "sign" in one:
            continue
        identity = (one["producer"], one["seq"])
        if "said" in one:
            found[identity] = found[identity]._replace(said=one["said"])
        else:
            found[identity] = Said(*identity, one["subject"], one["time"], one["params"], tuple(one["place"]))
    return list(found.values())


def read_signs(file: Path) -> list[dict[str, Any]]:
    """What drivers have seen, in its order; the line that is being written is not there yet."""
    lines = [line for line in file.read_text().splitlines(keepends=True) if '"sign"' in line and line.endswith("\n")]
    return [json.loads(line) for line in lines]


class _Drive:
    """Where one car was: as often as it said something."""

    def __init__(self, network: Network, said: list[Said]) -> None:
        self._network = network
        self._said = said
        self._times = [one.time for one in said]

    def is_near(self, place: Position, one: Said) -> bool:
        """Well within reach for so long that its beacons were heard, until it was said."""
        since, over = one.time - BEFORE_MS, one.ends
        slow = any(other.slow for other in self._between(since, over))
        whole = self._times[0] <= since and max(self._distances(place, since, over + AFTER_MS)) < INNER
        return whole and not slow

    def _between(self, since: int, until: int) -> list[Said]:
        """And the next ones outside of that."""
        return self._said[max(0, bisect_left(self._times, since) - 1) : bisect_right(self._times, until) + 1]

    def _distances(self, place: Position, since: int, until: int) -> list[float]:
        return [self._network.distance(place, one.place) for one in self._between(since, until)]


class _Looks:
    """When one monitor looked at what its radio heard."""

    def __init__(self, crossed: list[tuple[Reception, int]]) -> None:
        """What crossed, and when the monitor looked at it: at its first place in the record, or at a later one."""
        last = sorted((one.latest(time + CLOCKS_MS), time) for one, time in crossed)
        first = sorted((one.first, time) for one, time in crossed)
        self._last, self._first = [place for place, _ in last], [place for place, _ in first]
        self._after = list(accumulate((time for _, time in last), max))
        self._before = list(accumulate((time for _, time in reversed(first)), min))[::-1]

    def at(self, one: Reception) -> tuple[int, int]:
        """Not before, and not after."""
        earlier, later = bisect_left(self._last, one.first), bisect_right(self._first, one.last)
        since = self._after[earlier - 1] if earlier else 0
        return max(since, one.time - CLOCKS_MS), self._before[later] if later < len(self._before) else 1 << 62


def judge(
    network: Network,
    key: bytes,
    said: list[Said],
    heard: Iterable[dict[str, Any]],
    changes: list[Change],
    received: Mapping[tuple[str, str, int], Reception],
    away: Iterable[tuple[str, int, int]] = (),
) -> Judgement:
    """`heard` are the events of the office, as /api/events has them; `changes` of all monitors, in their order;
    `received` is what the radios of the monitors heard. A monitor that was `away`, from one time to another, may have
    lost what its radio heard meanwhile."""
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
        else:
            crossed[where] = event
    missing: list[tuple[str, Said]] = []
    unheard: list[tuple[str, Said]] = []
    must = may = known = near = 0
    for name, monitor in network.monitors.items():
        own = [change for change in changes if change.monitor == name]
        gone = [(since, until) for who, since, until in absent if who == name]
        names = _Names(key, monitor.area)
        through = {
            (one.producer, one.seq): _looked(crossed[where])
            for one in said
            if (where := (name, names.of(one), one.seq)) in crossed
        }
        pairs = [(received.get((name, *who)), time) for who, time in through.items()]
        looks = _Looks([(one, time) for one, time in pairs if one is not None and time])
        for one in said:
            got, found = received.get((name, one.producer, one.seq)), crossed.get((name, names.of(one), one.seq))
            is_near = drives[one.producer].is_near(monitor.place, one) and not _overlaps(one.time, one.ends, gone)
            near += is_near
            verdict = NOT
            if got is not None:
                time = through.get((one.producer, one.seq))
                since, until = (time, time) if time else looks.at(got)
                verdict = _asked(one, since, until, own)
                if verdict == MUST and (until > got.deadline or _overlaps(since, until, gone)):
                    verdict = MAY
            elif is_near:
                unheard.append((name, one))
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
    slow = sum(one.slow for one in said)
    return Judgement(len(said), slow, must, may, len(crossed), missing, extra, near, unheard)


NOT, MAY, MUST = range(3)


class _Names:
    """The pseudonyms of an area."""

    def __init__(self, key: bytes, area: str) -> None:
        self._key = key
        self._area = area
        self._known: dict[tuple[str, int], str] = {}

    def of(self, one: Said) -> str:
        day = day_of(one.time)
        if (one.producer, day) not in self._known:
            self._known[one.producer, day] = pseudonym(day_key(self._key, self._area, day), one.producer)
        return self._known[one.producer, day]


def _looked(event: dict[str, Any]) -> int:
    """When its monitor did; 0 where it does not say."""
    found: int = next((hop["time"] for hop in event.get("hops", ()) if hop["kind"] == "monitor"), 0)
    return found


def _overlaps(since: int, until: int, spans: list[tuple[int, int]]) -> bool:
    return any(until >= a and since <= b for a, b in spans)


def _asked(one: Said, since: int, until: int, changes: list[Change]) -> int:
    """Whether the monitor's subscriptions let it pass, if it looked at it between these two."""
    if one.subject != "Speed":
        return MUST
    possible = [
        change.limit
        for change, after in zip(changes, (*changes[1:], None))
        if change.asked - CLOCKS_MS <= until and (after is None or since <= after.done + CLOCKS_MS)
    ]
    over = [one.params["rate"] >= DEFAULT.least(limit) for limit in possible]
    # The new one is asked for before the old one is taken back: one of them always holds. Before the first none did.
    sure = bool(changes) and changes[0].done + CLOCKS_MS < since
    return MUST if over and all(over) and sure else MAY if any(over) else NOT
