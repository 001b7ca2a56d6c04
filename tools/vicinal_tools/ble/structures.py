"""The bytes of an advertisement, said in words: its AD structures, and the fields of our frames among them.

    02 01 06 │ 17 ff ffff 20...        length, type, data; a length of 0 fills up the rest

Whatever the bytes are, something is said about them, and nothing is raised: `Part.wrong` is what is not in order.
"""

import math
from typing import NamedTuple
from uuid import UUID

from vicinal.errors import RemoteProtocolError
from vicinal.proximity import RECTANGLE, Proximity
from vicinal.steam.beacon import Beacon
from vicinal.steam.frames import COMPANY
from vicinal.steam.groups import group_id, subject_hash
from vicinal.steam.reading import read

__all__ = ["Part", "area_text", "describe", "explain", "from_hex", "speed_text"]

MAX_BYTES = 1650
"""the longest advertisement there is: extended, in a chain"""
HEADER = 4

# Of the Bluetooth SIG's assigned numbers, what is met in the air.
_TYPES = {
    0x01: "flags", 0x02: "some 16-bit services", 0x03: "16-bit services", 0x04: "some 32-bit services",
    0x05: "32-bit services", 0x06: "some 128-bit services", 0x07: "128-bit services", 0x08: "shortened name",
    0x09: "name", 0x0A: "transmit power", 0x0D: "device class", 0x10: "device id", 0x12: "connection interval",
    0x14: "services wanted", 0x16: "service data", 0x19: "appearance", 0x1A: "advertising interval",
    0x1B: "device address", 0x1C: "role", 0x20: "service data", 0x21: "service data", 0x24: "URI", 0x2A: "mesh message",
    0x2B: "mesh beacon", 0x30: "broadcast name", 0xFF: "manufacturer data",
}  # fmt: skip
_COMPANIES = {
    0x0006: "Microsoft", 0x004C: "Apple", 0x0059: "Nordic Semiconductor", 0x0075: "Samsung", 0x0087: "Garmin",
    0x00E0: "Google", 0x0157: "Huami", 0x02E5: "Espressif", 0x0499: "Ruuvi", COMPANY: "nobody's, and ours",
}  # fmt: skip
_FLAGS = (
    "limited discoverable", "general discoverable", "no classic Bluetooth", "both at once (controller)",
    "both at once (host)",
)  # fmt: skip
_SERVICE_DATA = {0x16: 2, 0x20: 4, 0x21: 16}
_SERVICES = {0x02: 2, 0x03: 2, 0x04: 4, 0x05: 4, 0x06: 16, 0x07: 16, 0x14: 2}


class Part(NamedTuple):
    offset: int
    raw: bytes
    name: str
    text: str
    fields: list[tuple[str, str]] = []  # noqa: RUF012 - never changed
    """of one of our frames"""
    wrong: str = ""


def from_hex(text: str) -> bytes:
    """As people and tools write it: with spaces, colons, dashes, 0x. ValueError: what is wrong with it."""
    compact = "".join(text.replace("0x", " ").replace("0X", " ").split())
    compact = compact.replace(":", "").replace("-", "").replace(",", "")
    for at, sign in enumerate(compact):
        if sign not in "0123456789abcdefABCDEF":
            raise ValueError(f"{sign!r} is no hexadecimal digit (digit {at + 1})")
    if len(compact) % 2:
        raise ValueError(f"{len(compact)} digits: half a byte is left over")
    if len(compact) // 2 > MAX_BYTES:
        raise ValueError(f"{len(compact) // 2} bytes, the longest advertisement has {MAX_BYTES}")
    return bytes.fromhex(compact)


def explain(advertisement: bytes) -> list[Part]:
    parts: list[Part] = []
    at, size = 0, len(advertisement)
    while at < size:
        length = advertisement[at]
        if not length:
            rest = advertisement[at:]
            wrong = "" if not any(rest) else "not all of it is zero: nobody reads this"
            parts.append(Part(at, rest, "filling", f"{len(rest)} bytes", [], wrong))
            break
        raw = advertisement[at : at + 1 + length]
        if len(raw) < 1 + length:
            wrong = f"cut off: it says {length} bytes follow, there are {len(raw) - 1}"
            kind = _TYPES.get(raw[1], f"type {raw[1]:#04x}") if len(raw) > 1 else "nothing"
            parts.append(Part(at, raw, kind, raw[2:].hex(" "), [], wrong))
            break
        parts.append(_structure(at, raw))
        at += 1 + length
    return parts


def _structure(at: int, raw: bytes) -> Part:
    kind, data = raw[1], raw[2:]
    name = _TYPES.get(kind, f"type {kind:#04x}")
    if kind == 0xFF:
        if len(data) < 2:
            return Part(at, raw, name, data.hex(" "), [], "a company's number has two bytes")
        company = data[0] | data[1] << 8
        text = f"company {company:#06x} ({_COMPANIES.get(company, 'not known here')}): {data[2:].hex(' ') or 'nothing'}"
        if company == COMPANY:
            fields, wrong = describe(data[2:])
            return Part(at, raw, name, text, fields, wrong)
        return Part(at, raw, name, text)
    if kind == 0x01 and data:
        bits = [what for bit, what in enumerate(_FLAGS) if data[0] >> bit & 1]
        return Part(at, raw, name, ", ".join(bits) or "none")
    if kind in (0x08, 0x09, 0x24, 0x30):
        return Part(at, raw, name, repr(data.decode("utf-8", "backslashreplace")))
    if kind == 0x0A and len(data) == 1:
        return Part(at, raw, name, f"{int.from_bytes(data, 'little', signed=True)} dBm")
    width = _SERVICE_DATA.get(kind)
    if width is not None and len(data) >= width:
        return Part(at, raw, name, f"service {_uuid(data[:width])}: {data[width:].hex(' ') or 'nothing'}")
    width = _SERVICES.get(kind)
    if width is not None and data and not len(data) % width:
        return Part(at, raw, name, ", ".join(_uuid(data[i : i + width]) for i in range(0, len(data), width)))
    return Part(at, raw, name, data.hex(" ") or "empty")


def _uuid(data: bytes) -> str:
    return (
        str(UUID(bytes=data[::-1])) if len(data) == 16 else f"{int.from_bytes(data, 'little'):#0{2 + 2 * len(data)}x}"
    )


def describe(frame: bytes, subjects: tuple[str, ...] = ()) -> tuple[list[tuple[str, str]], str]:
    """The fields of one of our frames, and what is wrong with it. `subjects`: whose hashes are known."""
    try:
        found = read(frame)
    except RemoteProtocolError as error:
        return [], f"no frame of ours: {error}"
    names = {subject_hash(subject): subject for subject in subjects}
    subject = f"hash {found.subject.hex()}" + (f" ({names[found.subject]})" if found.subject in names else "")
    fields = [("subject", subject), ("sender", found.sender.hex())]
    if isinstance(found, Beacon):
        group = group_id(found.subject, found.area, found.sender if found.relative else None)
        over = "0: the announcement is over"
        return [
            ("frame", "beacon"),
            *fields,
            ("number", str(found.number)),
            ("next in", f"{found.every} ms" if found.every else over),
            ("area", area_text(found.area, found.relative)),
            *([("speed", speed_text(found.velocity, found.area.lat))] if found.relative else []),
            ("group", f"{group:06x}"),
        ], ""
    what = "parity of" if found.index == found.count and found.count > 1 else f"piece {found.index + 1} of"
    form = "values only: subscribers know the names" if found.typed else "with names"
    return [
        ("frame", f"{what} {found.count}, of an event {form}"),
        *fields,
        ("number", str(found.number)),
        ("chunk", found.chunk.hex(" ")),
    ], ""


def area_text(area: Proximity, moves: bool) -> str:
    place = f"{area.lat / 1e7:.7f}, {area.lon / 1e7:.7f}"
    shape = f"{area.dimx} x {area.dimy} m around" if area.shape == RECTANGLE else f"circle of {area.dimx} m around"
    return f"{shape} {place}{', moves with its sender' * moves}"


def speed_text(velocity: tuple[int, int], lat: int) -> str:
    """1e-7 degrees a second, as people say it."""
    north, east = velocity[0] * 0.01113, velocity[1] * 0.01113 * math.cos(math.radians(lat / 1e7))
    if velocity == (0, 0):
        return "stands, or does not say"
    return f"{math.hypot(north, east) * 3.6:.0f} km/h towards {math.degrees(math.atan2(east, north)) % 360:.0f} degrees"
