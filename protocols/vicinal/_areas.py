"""Areas as text, and against each other: what proximity.py needs seldom, and a device may never need.

Loaded where it is used. `bounding_box` is for those who look for what is near in an index.
"""

import math

from . import limits
from .errors import LocalProtocolError
from .proximity import CIRCLE, RECTANGLE, Proximity, _offset, distance

__all__ = ["bounding_box", "covers", "overlaps", "parse", "parse_degrees", "to_text"]

_RADIAN = 1.7453292519943296e-9  # of 1e-7 degree


def parse(text: str) -> Proximity:
    fields = [field.strip() for field in text.split(",")]
    if fields[0] not in ("0", "1"):
        raise LocalProtocolError(f"proximity {text!r}: type is {fields[0]!r}, want 0 (circle) or 1 (rectangle)")
    want = 5 if fields[0] == "0" else 6
    if len(fields) != want:
        raise LocalProtocolError(f"proximity {text!r} has {len(fields)} fields, want {want}")
    if fields[1] not in ("0", "1"):
        raise LocalProtocolError(f"proximity {text!r}: sub-type is {fields[1]!r}, want 0 (absolute) or 1 (relative)")
    sizes = [_whole_metres(field, text) for field in fields[4:]]
    try:
        lat, lon = parse_degrees(fields[2]), parse_degrees(fields[3])
    except ValueError:
        raise LocalProtocolError(f"proximity {text!r}: {fields[2]!r}, {fields[3]!r} are not degrees")
    return Proximity(int(fields[0]), fields[1] == "1", lat, lon, *sizes)


def to_text(area: Proximity) -> str:
    head = f"{area.shape}, {int(area.relative)}, {_degrees(area.lat)}, {_degrees(area.lon)}, {area.dimx}"
    return head if area.shape == CIRCLE else f"{head}, {area.dimy}"


def covers(area: Proximity, other: Proximity) -> bool:
    """Whether every point of `other` is inside. Exact for circles; up to the flatness of the Earth else."""
    area._want_absolute()
    other._want_absolute()
    if area.shape == CIRCLE and other.shape == CIRCLE:
        return distance(area.lat, area.lon, other.lat, other.lon) + other.dimx <= area.dimx
    east, north = _offset(area.lat, area.lon, other.lat, other.lon)
    half_x, half_y = _half(other)
    far_x, far_y = abs(east) + half_x, abs(north) + half_y
    if area.shape == CIRCLE:
        return math.sqrt(far_x * far_x + far_y * far_y) <= area.dimx
    return far_x * 2 <= area.dimx and far_y * 2 <= area.dimy


def overlaps(area: Proximity, other: Proximity) -> bool:
    """Whether some point is in both."""
    area._want_absolute()
    other._want_absolute()
    if area.shape == CIRCLE and other.shape == CIRCLE:
        return distance(area.lat, area.lon, other.lat, other.lon) <= area.dimx + other.dimx
    east, north = _offset(area.lat, area.lon, other.lat, other.lon)
    if area.shape == RECTANGLE and other.shape == RECTANGLE:
        return abs(east) * 2 <= area.dimx + other.dimx and abs(north) * 2 <= area.dimy + other.dimy
    box, disc = (area, other) if area.shape == RECTANGLE else (other, area)
    half_x, half_y = _half(box)
    gap_x, gap_y = max(0.0, abs(east) - half_x), max(0.0, abs(north) - half_y)
    return math.sqrt(gap_x * gap_x + gap_y * gap_y) <= disc.dimx


def _half(area: Proximity) -> "tuple[float, float]":
    if area.shape == CIRCLE:
        return float(area.dimx), float(area.dimx)
    return float(area.dimx) / 2, float(area.dimy) / 2


def bounding_box(lat: int, lon: int, metres: int) -> "tuple[int, int, int, int] | None":
    """south, west, north, east around a circle, never too small; None where it is very large, or holds a pole or
    the date line."""
    if metres > 1000000:
        return None
    # 110,574 m is the shortest degree of latitude; two metres and one part in a thousand for rounding.
    reach = float(metres + 2) * 1.001
    dlat = int(reach / 110574.0 * 1e7) + 1
    south, north = lat - dlat, lat + dlat
    widest = max(abs(south), abs(north))
    if widest >= 890000000:
        return None
    dlon = int(reach / (111319.0 * math.cos(float(widest) * _RADIAN)) * 1e7) + 1
    west, east = lon - dlon, lon + dlon
    if west < -limits.MAX_LON or east > limits.MAX_LON:
        return None
    return south, west, north, east


def parse_degrees(text: str) -> int:
    """Decimal degrees as 1e-7 degrees, by digits and not by float; past the seventh decimal it rounds."""
    body = text[1:] if text[:1] in ("-", "+") else text
    whole, _, fraction = body.partition(".")
    if not _digits(whole + fraction) or len(whole) > 3:
        raise ValueError(text)
    digits = (fraction + "00000000")[:8]
    value = int((whole or "0") + digits)
    value = (value + 5) // 10
    return -value if text[:1] == "-" else value


def _digits(text: str) -> bool:
    return text != "" and all(["0" <= char <= "9" for char in text])


def _degrees(value: int) -> str:
    digits = str(abs(value))
    digits = "0" * (8 - len(digits)) + digits
    text = (digits[:-7] + "." + digits[-7:]).rstrip("0").rstrip(".")
    return "-" + text if value < 0 else text


def _whole_metres(field: str, text: str) -> int:
    whole, _, fraction = field.partition(".")
    if not _digits(whole) or len(whole) > 8 or fraction.strip("0"):
        raise LocalProtocolError(f"proximity {text!r}: size {field!r} is not in whole metres")
    return int(whole)
