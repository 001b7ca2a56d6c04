"""The known attributes (DESIGN 2; seed 001, 5.2.3): what each must be, and its short key on the wire.

    1 Priority   int     -32767 lowest .. 32767 highest
    2 Proximity  area    where the event is valid
    3 Time       int ms  when it happened
    4 Deadline   int ms  deliver by
    5 Expires    int ms  worthless after; later than Time
    6 Source     str     the event service it came from
    7 Session    str     the session it belongs to

Others travel untouched under their names. Loaded only when an event has attributes.
"""

from . import limits
from .errors import LimitError, LocalProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["KEYS", "NAMES", "check", "sort_key"]

NAMES = ("", "Priority", "Proximity", "Time", "Deadline", "Expires", "Source", "Session")
KEYS = {name: key for key, name in enumerate(NAMES) if name}


def check(attrs: "dict[str, Any]") -> None:
    for name, value in attrs.items():
        if name in ("Source", "Session"):
            if type(value) is not str:
                raise LocalProtocolError(f"attribute {name!r} is {value!r}, want a str")
        elif name == "Proximity":
            attrs[name] = _area(value)
        elif name in KEYS:
            if type(value) is not int:
                raise LocalProtocolError(f"attribute {name!r} is {value!r}, want an int")
            if name == "Priority":
                if not -limits.MAX_PRIORITY <= value <= limits.MAX_PRIORITY:
                    raise LimitError("attribute 'Priority'", value, "-32767 .. 32767")
            elif value < 0:
                raise LimitError(f"attribute {name!r}", value, "0 or more milliseconds")
    if "Expires" in attrs and attrs["Expires"] <= attrs.get("Time", -1):
        raise LocalProtocolError(f"attribute 'Expires' {attrs['Expires']} is not after 'Time' {attrs['Time']}")


def _area(value: "Any") -> "Any":
    # Here and not above: a device that sends no areas does not load the geometry.
    from .proximity import Proximity

    if type(value) is str:
        return Proximity.parse(value)
    if type(value) is list:
        return Proximity.from_fields(value)
    if type(value) is not Proximity:
        raise LocalProtocolError(f"attribute 'Proximity' is {value!r}, want a Proximity or its string form")
    return value


def sort_key(name: str) -> "tuple[int, int, str]":
    """Sorts as the encoded keys do: known ones by number, then by length of the UTF-8 form, then bytewise."""
    return (KEYS[name], 0, name) if name in KEYS else (24, len(name.encode("utf-8")), name)
