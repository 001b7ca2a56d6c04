"""A simulated town's traffic as events, with everything that goes wrong on the way; and what should come of it."""

import math

from vicinal.event import Event
from vicinal_cloud.spark.traffic.places import Places
from vicinal_cloud.traffic.limits import Limits, Rule
from vicinal_cloud.traffic.network import Network
from vicinal_tools.traffic.tracks import shipped
from vicinal_tools.traffic.world import STEP_MS, World

START = 1_700_000_000_000


def network() -> Network:
    return shipped()


def drive(seconds: int, vehicles: int = 30, seed: int = 3, start: int = START) -> list[tuple[Event, int]]:
    """Events with the time at which they were received, in that order. Half of the vehicles send one event for both
    place and speed, the others two."""
    world = World(network(), seed, vehicles)
    seqs: dict[str, int] = {}
    found: list[tuple[Event, int]] = []

    def send(subject: str, params: dict[str, object], plate: str, at: int) -> None:
        seqs[plate] = seqs.get(plate, -1) + 1
        found.append((Event(subject, params, {"Time": at}, f"car-{plate}", seqs[plate]), at + 120))

    for _ in range(seconds):
        for _ in range(1000 // STEP_MS):
            world.step()
        at = start + world.now
        for one in world.vehicles:
            place = {"lat": one.place[0], "lon": one.place[1], "heading": round(one.heading, 1)}
            speed = {"rate": round(one.kmh, 2), "license_no": one.plate}
            if one.number % 2:
                send("Position", {**place, **speed}, one.plate, at)
            else:
                send("Speed", speed, one.plate, at)
                send("Location", place, one.plate, at)
    return found


def bad(start: int = START) -> list[tuple[Event, int, str]]:
    """Events with what becomes of each."""
    town = network()
    lat, lon = (town.south + town.north) // 2, (town.west + town.east) // 2
    good: dict[str, object] = {"lat": lat, "lon": lon, "rate": 40.0}
    cases: list[tuple[str, dict[str, object], dict[str, object], int, str]] = [
        ("Position", {**good, "rate": 255.0}, {"Time": start}, start, "impossible speed"),
        ("Position", {**good, "rate": -1.0}, {"Time": start}, start, "impossible speed"),
        ("Position", {**good, "rate": math.nan}, {"Time": start}, start, "impossible speed"),
        ("Position", {**good, "heading": math.inf}, {"Time": start}, start, "impossible heading"),
        ("Position", {**good, "heading": -720}, {"Time": start}, start, "impossible heading"),
        ("Position", {**good, "lat": (1 << 63) - 1}, {"Time": start}, start, "position outside the network"),
        ("Position", good, {}, start, "no time"),
        ("Position", good, {"Time": (1 << 63) - 1}, start, "no time"),
        ("Position", good, {"Time": start + 60_000}, start, "time in the future"),
        ("Position", {**good, "lat": lon, "lon": lat}, {"Time": start}, start, "latitude and longitude swapped"),
        ("Position", {**good, "lat": 0}, {"Time": start}, start, "position outside the network"),
        ("Position", {**good, "rate": "fast"}, {"Time": start}, start, "malformed"),
        ("Position", {"heading": 3}, {"Time": start}, start, "malformed"),
        ("Brake", {"hard": True}, {"Time": start}, start, "other"),
        ("Brake", {"blob": b"x" * 60_000}, {"Time": start}, start, "other"),
        ("Position", good, {"Time": start}, start + 901_000, "late"),
    ]
    return [
        (Event(subject, params, attrs, "car-bad", at), received, what)
        for at, (subject, params, attrs, received, what) in enumerate(cases)
    ]


def places() -> Places:
    here = network()
    limits = Limits(here.timezone)
    for area in here.areas.values():
        limits.add(Rule(area.name, area.limit, 0, source="network"))
        limits.add(Rule(area.name, max(5, area.limit - 10), START + 60_000, source="council"))
    return Places(here, limits)
