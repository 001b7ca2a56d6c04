"""What vehicles say, as it arrives at the office: read, and judged whether it can be true.

    event of the overlay ──▶ read ──▶ Report ──▶ check ──▶ "" or the reason of its quarantine
                               └─ Malformed

A report keeps who said it (the vehicle's own identity, or the pseudonym a monitor gave it), which monitor heard it,
when it happened by the vehicle's clock and when it was received: by the office's broker, if that says so. What is in
quarantine never becomes a fine.
"""

import math
from typing import Any, NamedTuple

from vicinal.errors import VicinalError
from vicinal.event import Event

from .network import Network, Position
from .texts import NAME_MAX, flaw

__all__ = [
    "DUPLICATE",
    "FUTURE",
    "IMPOSSIBLE",
    "LATE",
    "MALFORMED",
    "NO_TIME",
    "OUTSIDE",
    "REASONS",
    "REFUSED",
    "SUBJECTS",
    "SWAPPED",
    "UNKNOWN_MONITOR",
    "Malformed",
    "Report",
    "Rules",
    "check",
    "monitor_of",
    "read",
    "vehicle_of",
]

SUBJECTS = ("Speed", "Location")

MALFORMED = "malformed"
IMPOSSIBLE = "impossible speed"
NO_TIME = "no time"
FUTURE = "time in the future"
LATE = "late"
SWAPPED = "latitude and longitude swapped"
OUTSIDE = "position outside the network"
DUPLICATE = "duplicate"
UNKNOWN_MONITOR = "unknown monitor"
REFUSED = "refused by the database"
"""what it was: sifting.py"""
REASONS = (MALFORMED, IMPOSSIBLE, NO_TIME, FUTURE, LATE, SWAPPED, OUTSIDE, DUPLICATE, UNKNOWN_MONITOR, REFUSED)

PLATE_MAX = 16
"""characters; the frame of seed 001, 5.8.2 has room for 7"""


class Malformed(VicinalError):
    """The event is none of ours, or lacks something; the message says what. It is kept in quarantine, and so never
    has a plate in it."""


class Rules(NamedTuple):
    """What is believed."""

    max_speed: float = 250.0
    """km/h; a byte of a frame goes to 255, which means that there is no value"""
    skew_ms: int = 2_000
    """that a vehicle's clock may be ahead of ours"""
    late_ms: int = 900_000
    """after which a report counts no more, if the broker did not have it then: a fine is final"""


class Report(NamedTuple):
    subject: str
    vehicle: str
    """producer: the vehicle's gateway, or its pseudonym"""
    seq: int
    monitor: str
    time: int | None
    """ms, by the vehicle's clock"""
    received: int
    plate: str = ""
    speed: float = 0.0
    place: Position | None = None
    heading: float | None = None
    braking: bool | None = None


def monitor_of(producer: str | None) -> str:
    """A monitor publishes as GATEWAY.SERVICE, or as the `client` of its configuration; where it stores with ~TOKEN
    behind it: see its siena adapter."""
    name = (producer or "").partition("~")[0]
    return name.rpartition(".")[0] or name


def read(event: Event, monitor: str, now: int) -> Report:
    """Of an event as a client of the overlay gets it: a gateway's identity, and the vehicle's as its attributes."""
    vehicle: Any = event.attrs.get("OriginProducer", event.producer)
    seq: Any = event.attrs.get("OriginSeq", event.seq)
    time: Any = event.attrs.get("Time")
    if type(vehicle) is not str or type(seq) is not int:
        raise Malformed(f"{event.subject} has no identity of a vehicle")
    if not vehicle or len(vehicle) > NAME_MAX:
        raise Malformed(f"the vehicle's name has {len(vehicle)} characters, want 1 to {NAME_MAX}")
    if why := flaw(vehicle):
        raise Malformed(f"the vehicle's name {why}")
    if time is not None and type(time) is not int:
        raise Malformed(f"Time of {event.subject} is {time!r}, want an integer")
    made = Report(event.subject, vehicle, seq, monitor, time, now)
    if event.subject == "Speed":
        plate, rate = event.get("license_no"), event.get("rate")
        if type(plate) is not str:
            raise Malformed(f"license_no is {_kind(plate)}, want 1 to {PLATE_MAX} characters")
        if not plate.strip() or len(plate) > PLATE_MAX:
            raise Malformed(f"license_no has {len(plate)} characters, want 1 to {PLATE_MAX} and not blanks alone")
        if why := flaw(plate):
            raise Malformed(f"license_no {why}")
        if type(rate) not in (int, float):
            raise Malformed(f"rate is {rate!r}, want a number")
        return made._replace(plate=plate.strip(), speed=float(rate))
    if event.subject == "Location":
        lat, lon = event.get("lat"), event.get("lon")
        if type(lat) is not int or type(lon) is not int:
            raise Malformed(f"lat, lon are {lat!r}, {lon!r}, want integers of 1e-7 degrees")
        heading, braking = event.get("heading"), event.get("braking")
        if heading is not None and (type(heading) not in (int, float) or not math.isfinite(heading)):
            raise Malformed(f"heading is {heading!r}, want a number")
        if heading is not None and not math.isfinite(heading):
            raise Malformed(f"heading is {heading!r}, want a finite number")
        if braking is not None and type(braking) is not bool:
            raise Malformed(f"braking is {braking!r}, want a boolean")
        return made._replace(place=(lat, lon), heading=None if heading is None else float(heading), braking=braking)
    raise Malformed(f"subject is {event.subject!r}, want one of {', '.join(SUBJECTS)}")


def vehicle_of(event: Event) -> str:
    """Whose it is, also of one that cannot be read: what is kept of it is found, and erased, under that name."""
    vehicle: Any = event.attrs.get("OriginProducer", event.producer)
    return vehicle if type(vehicle) is str else event.producer or ""


def _kind(value: object) -> str:
    return "missing" if value is None else f"of the type {type(value).__name__}"


def check(report: Report, network: Network, rules: Rules) -> str:
    """Why it cannot be true, or comes too late; "" if neither. What was seen before the caller knows."""
    if report.monitor not in network.monitors:
        return UNKNOWN_MONITOR
    if report.subject == "Speed" and not 0.0 <= report.speed <= rules.max_speed:
        return IMPOSSIBLE
    if report.time is None:
        return NO_TIME
    if report.time > report.received + rules.skew_ms:
        return FUTURE
    if report.received - report.time > rules.late_ms:
        return LATE
    if report.place is not None and not network.contains(report.place):
        lat, lon = report.place
        if abs(lon) <= 900_000_000 and network.contains((lon, lat)):
            return SWAPPED
        return OUTSIDE
    return ""
