"""Numbers and times as other programs write them, exactly: no float on the way, which has 53 bits and rounds twice.

CPython only, as its readers are (gpsd.py, recording.py).
"""

import re

from ._numbers import DAY, days_of, nearest

__all__ = ["Number", "instant", "shifted"]

# No double has more than 17 digits that mean something; 40 leaves room for who writes zeros.
MAX_NUMBER_CHARS = 40
# Powers of ten beyond it are no positions, speeds or times, and cost memory.
MAX_EXPONENT = 30

_NUMBER = re.compile(r"([+-]?)([0-9]+)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,3}))?")
_INSTANT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)


class Number(str):
    """The text of a number in JSON: json.loads(..., parse_float=Number, parse_int=Number)."""

    __slots__ = ()


def shifted(text: str, places: int) -> int:
    """text * 10 ** places to the nearest whole number, halves away from zero. ValueError if it is no number."""
    found = _NUMBER.fullmatch(text) if len(text) <= MAX_NUMBER_CHARS else None
    if found is None:
        raise ValueError(f"{text[:MAX_NUMBER_CHARS]!r} is no decimal number of at most {MAX_NUMBER_CHARS} characters")
    sign, before, after, exponent = found.groups()
    after = after or ""
    power = int(exponent or 0)
    if abs(power) > MAX_EXPONENT:
        raise ValueError(f"{text!r} has the exponent {power}, the limit is {MAX_EXPONENT}")
    number = int(before + after) * (-1 if sign == "-" else 1)
    power += places - len(after)
    return number * 10**power if power >= 0 else nearest(number, 10**-power)


def instant(text: str) -> int:
    """2026-03-23T12:00:25.5Z, or with +01:00, in ms since 1970, cut. ValueError if it is no such time."""
    found = _INSTANT.fullmatch(text)
    days = -1
    if found is not None:
        year, month, day, hour, minute, second = (int(found[index]) for index in range(1, 7))
        days = days_of(year, month, day)
    if found is None or days < 0 or hour > 23 or minute > 59 or second > 60:
        raise ValueError(f"{text[:MAX_NUMBER_CHARS]!r} is no time like 2026-03-23T12:00:25Z, from 1970 on")
    fraction = int(((found[7] or "") + "000")[:3])
    ahead = (int(found[9]) * 60 + int(found[10])) * 60000 * (-1 if found[8] == "-" else 1) if found[8] else 0
    return days * DAY + ((hour * 60 + minute) * 60 + second) * 1000 + fraction - ahead
