"""bisect for MicroPython, which lacks it; numbers compare exactly."""

from .._compat import cmp_numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _less(a: "Any", b: "Any") -> bool:
    return bool(a < b) if type(a) is str else cmp_numbers(a, b) < 0


def bisect_left(keys: "Any", value: "Any") -> int:
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if _less(keys[middle], value):
            low = middle + 1
        else:
            high = middle
    return low


def bisect_right(keys: "Any", value: "Any") -> int:
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if _less(value, keys[middle]):
            high = middle
        else:
            low = middle + 1
    return low
