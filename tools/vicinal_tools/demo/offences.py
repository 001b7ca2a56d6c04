"""The offences that must come of a run, and whether they are just: computed in another way than the office does, from
all that was said at once, with nothing remembered between two events.

    each Speed that the office heard ──▶ where the car truly was ──▶ limit there and then ──▶ over it, in truth
                                     └─▶ what the office can know ──▶ over it, by its rule
    all that are over by the rule, of a plate, in order of time ──▶ cut where there is a gap ──▶ offences

The office has no truth but what it heard. Its rule for what it cannot know: a car was where its nearest Location is,
before or after, give or take its accuracy and what it drives in the time between; without one it was anywhere in reach
of the monitor; the highest limit there counts, or what the sign still shows if that is more; and of what several
monitors make of one Speed what is best for the driver. So it may let somebody go that was too fast, which is counted
(`lenient`), but must never say that somebody was faster than in truth (`unjust`).
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from vicinal.pseudonyms_cpython import day_key, day_of, pseudonym
from vicinal_cloud.traffic.network import Network
from vicinal_cloud.traffic.tariff import DEFAULT

from .judge import Said

__all__ = ["Expected", "Offence", "expected", "found"]

NEAR_MS, ACCURACY_M, REACH_M = 2_000, 15, 216
JUDGED = ("over", "within", "witnessed", "sightings")


class Offence(NamedTuple):
    plate: str
    over: int
    reports: int
    monitors: str
    fine: str


class Expected(NamedTuple):
    offences: list[Offence]
    speeds: int
    """measurements that the office heard"""
    over: int
    """of those, over the limit where the car truly was"""
    lenient: int
    """of those, what the office must judge by a higher limit, or let go"""
    unjust: list[str]
    """what it would judge by a lower limit than that where the car truly was"""


def expected(
    network: Network, key: bytes, said: list[Said], heard: list[dict[str, Any]], limits: dict[str, Any], gap: int
) -> Expected:
    """`heard` and `limits` as the office's pages have them."""
    names = _names(network, key, said)
    places: dict[str, list[tuple[int, tuple[int, int]]]] = {}
    speeds: dict[tuple[str, int], dict[str, tuple[str, Said]]] = {}
    for event in heard:
        if event["verdict"] not in JUDGED:
            continue  # in quarantine
        one, vehicle = names[event["vehicle"], event["seq"]], event["vehicle"]
        if event["subject"] == "Location":
            places.setdefault(vehicle, []).append((one.time, (one.params["lat"], one.params["lon"])))
        else:
            plate = one.params["license_no"].strip()
            speeds.setdefault((plate, one.time), {})[event["monitor"]] = (vehicle, one)

    def limit(areas: Iterable[str], monitor: str, at: int) -> int:
        return max(
            max(_in_force(limits["rules"], area, at), _shown(network, limits, area, monitor, at)) for area in areas
        )

    def by_rule(monitor: str, vehicle: str, one: Said) -> tuple[bool, int]:
        """Whether its place is unknown, and how much it was over."""
        near = [(abs(at - one.time), place) for at, place in places.get(vehicle, ()) if abs(at - one.time) <= NEAR_MS]
        rate, areas = one.params["rate"], set[str]()
        for apart, place in near:
            if apart == min(near)[0]:
                metres = ACCURACY_M + rate / 3.6 * apart / 1000
                areas |= {area.name for area in network.areas_near(place, metres)}
        post, unknown = network.monitors[monitor], not areas
        if unknown:
            areas = {post.area, *[area.name for area in network.areas_near(post.place, ACCURACY_M + REACH_M)]}
        return unknown, DEFAULT.over(rate, limit(areas, monitor, one.time))

    over: dict[str, dict[int, tuple[int, list[str]]]] = {}
    truly = lenient = 0
    unjust = []
    for (plate, at), reports in speeds.items():
        judged = [by_rule(monitor, *report) for monitor, report in reports.items()]
        much = min(value for unknown, value in judged if unknown == min(judged)[0])
        _, one = next(iter(reports.values()))
        area = network.area_of(one.place)
        truth = much if area is None else DEFAULT.over(one.params["rate"], _in_force(limits["rules"], area.name, at))
        truly += truth > 0
        lenient += truth > 0 and much < truth
        if much > 0 and much > truth:
            unjust.append(f"{plate} at {at}: {one.params['rate']} is {truth} over where it was, judged as {much}")
        if much > 0:
            over.setdefault(plate, {})[at] = (much, sorted(reports))
    return Expected(_cut(over, gap), len(speeds), truly, lenient, unjust)


def _in_force(rules: list[dict[str, Any]], area: str, at: int) -> int:
    return int([rule["value"] for rule in rules if rule["area"] == area and rule["since"] <= at][-1])


def _shown(network: Network, limits: dict[str, Any], area: str, monitor: str, at: int) -> int:
    """The highest that signs of the area showed; that of the monitor alone, if it is one of them."""
    posts = [name for name, one in network.monitors.items() if one.area == area]
    found = []
    for post in [monitor] if monitor in posts else posts:
        own = [one["value"] for one in limits["shown"] if one["monitor"] == post and one["since"] <= at]
        found.append(int(own[-1]) if own else network.areas[area].limit)
    return max(found, default=0)


def _names(network: Network, key: bytes, said: list[Said]) -> dict[tuple[str, int], Said]:
    """What was said, by pseudonym and number."""
    found: dict[tuple[str, int], Said] = {}
    for area in {monitor.area for monitor in network.monitors.values()}:
        keys: dict[int, bytes] = {}
        hidden: dict[tuple[str, int], str] = {}
        for one in said:
            day = day_of(one.time)
            secret = keys.setdefault(day, day_key(key, area, day))
            if (one.producer, day) not in hidden:
                hidden[one.producer, day] = pseudonym(secret, one.producer)
            found[hidden[one.producer, day], one.seq] = one
    return found


def _cut(over: dict[str, dict[int, tuple[int, list[str]]]], gap: int) -> list[Offence]:
    made = []
    for plate, times in over.items():
        stretch: list[int] = []
        for at in [*sorted(times), 1 << 62]:
            if stretch and at - stretch[-1] > gap:
                worst = max(times[one][0] for one in stretch)
                band = DEFAULT.band(worst)
                monitors = sorted(set[str]().union(*[times[one][1] for one in stretch]))
                fine = "0.00" if band is None else f"{band.fine / 100:.2f}"
                made.append(Offence(plate, worst, len(stretch), " ".join(monitors), fine))
                stretch = []
            stretch.append(at)
    return sorted(made)


def found(cases: Iterable[dict[str, Any]]) -> list[Offence]:
    """As the office has them."""
    return sorted(
        Offence(one["license_no"], one["over_kmh"], one["reports"], one["monitors"], one["fine"]) for one in cases
    )
