"""The offences that must come of a run, computed from what the office heard and what the vehicles had said, in another
way than the office does: all at once, with nothing remembered between two events.

    each Speed ──▶ where was it? the nearest Location heard before ──▶ limit there and then ──▶ over?
    all that are over, of a plate, in order of time ──▶ cut where there is a gap ──▶ offences
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from vicinal.pseudonyms_cpython import day_key, day_of, pseudonym
from vicinal_cloud.traffic.network import Network
from vicinal_cloud.traffic.tariff import DEFAULT

from .judge import Said

__all__ = ["Offence", "expected", "found"]

NEAR_MS, ACCURACY_M = 2_000, 15
JUDGED = ("over", "within", "witnessed", "sightings")


class Offence(NamedTuple):
    plate: str
    over: int
    reports: int
    monitors: str
    fine: str


def expected(
    network: Network, key: bytes, said: list[Said], heard: list[dict[str, Any]], rules: list[dict[str, Any]], gap: int
) -> list[Offence]:
    """`heard` and `rules` as the office's pages have them."""
    names: dict[tuple[str, int], Said] = {}
    for area in {monitor.area for monitor in network.monitors.values()}:
        keys: dict[int, bytes] = {}
        hidden: dict[tuple[str, int], str] = {}
        for one in said:
            day = day_of(one.time)
            secret = keys.setdefault(day, day_key(key, area, day))
            if (one.producer, day) not in hidden:
                hidden[one.producer, day] = pseudonym(secret, one.producer)
            names[hidden[one.producer, day], one.seq] = one
    places: dict[str, list[tuple[int, tuple[int, int]]]] = {}
    over: dict[str, dict[int, tuple[int, set[str]]]] = {}
    for event in heard:
        if event["verdict"] not in JUDGED:
            continue  # in quarantine
        one, vehicle = names[event["vehicle"], event["seq"]], event["vehicle"]
        if event["subject"] == "Location":
            places.setdefault(vehicle, []).append((one.time, (one.params["lat"], one.params["lon"])))
            continue
        near = [(abs(at - one.time), at, place) for at, place in places.get(vehicle, [])[-50:]]
        near = [found for found in near if found[0] <= NEAR_MS]
        areas = [area.name for area in network.areas_near(min(near)[2], ACCURACY_M)] if near else []
        areas = areas or [network.monitors[event["monitor"]].area]
        limit = max(
            [rule["value"] for rule in rules if rule["area"] == area and rule["since"] <= one.time][-1]
            for area in areas
        )
        much = DEFAULT.over(one.params["rate"], limit)
        if much > 0:
            times = over.setdefault(one.params["license_no"].strip(), {})
            times.setdefault(one.time, (much, set()))[1].add(event["monitor"])
    made = []
    for plate, times in over.items():
        stretch: list[int] = []
        for at in [*sorted(times), 1 << 62]:
            if stretch and at - stretch[-1] > gap:
                worst = max(times[one][0] for one in stretch)
                band = DEFAULT.band(worst)
                monitors = sorted(set().union(*[times[one][1] for one in stretch]))
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
