"""The few differences between CPython and MicroPython, and nothing else.

`Ordered` keeps insertion order on both (a plain dict does not on MicroPython). `cmp_numbers` compares an int
with a float exactly (MicroPython converts the int first and loses bits).
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MICROPYTHON = sys.implementation.name == "micropython"

if not MICROPYTHON:
    Ordered = dict

    def const(value: int) -> int:
        return value

else:
    from collections import OrderedDict as Ordered

    from micropython import const as const  # type: ignore[no-redef]


def pairs(items: "Any") -> "Any":
    """(name, value) pairs of a dict or of an iterable of pairs, in an order both interpreters agree on."""
    if not isinstance(items, dict):
        return items
    if MICROPYTHON and type(items) is not Ordered:
        return sorted(items.items())
    return items.items()


if MICROPYTHON:

    def decode_utf8(data: bytes) -> "str | None":
        """The text, or None. MicroPython itself lets overlong forms and surrogates through."""
        try:
            text = str(data, "utf-8")
        except UnicodeError:
            return None
        return text if _strict_utf8(data) else None

    def _strict_utf8(data: bytes) -> bool:
        lead = 0
        for byte in data:
            if byte in (0xC0, 0xC1) or byte > 0xF4:
                return False
            if (lead == 0xE0 and byte < 0xA0) or (lead == 0xED and byte > 0x9F):
                return False
            if (lead == 0xF0 and byte < 0x90) or (lead == 0xF4 and byte > 0x8F):
                return False
            lead = byte
        return True

    def utf8_len(text: str) -> int:
        """Bytes of the UTF-8 form, or -1 when the text has none (lone surrogates)."""
        data = text.encode()
        return len(data) if _strict_utf8(data) else -1

else:

    def decode_utf8(data: bytes) -> "str | None":
        """The text, or None."""
        try:
            return str(data, "utf-8")
        except UnicodeDecodeError:
            return None

    def utf8_len(text: str) -> int:
        """Bytes of the UTF-8 form, or -1 when the text has none (lone surrogates)."""
        if text.isascii():
            return len(text)
        try:
            return len(text.encode("utf-8"))
        except UnicodeEncodeError:
            return -1


if MICROPYTHON:

    def _cmp_mixed(whole: int, real: float) -> int:
        # NaN never comes here. Beyond 2^24 a 32-bit float has no fraction, beyond 2^53 a 64-bit one.
        if real in (float("inf"), float("-inf")):
            return -1 if real > 0 else 1
        floor = int(real)
        if whole != floor:
            return -1 if whole < floor else 1
        rest = real - floor
        return (rest < 0) - (rest > 0)

    def cmp_numbers(a: "Any", b: "Any") -> int:
        """-1, 0 or 1. Neither is NaN."""
        if isinstance(a, int) and isinstance(b, float):
            return _cmp_mixed(a, b)
        if isinstance(a, float) and isinstance(b, int):
            return -_cmp_mixed(b, a)
        return int(a > b) - int(a < b)

else:

    def cmp_numbers(a: "Any", b: "Any") -> int:
        """-1, 0 or 1. Neither is NaN."""
        return int(a > b) - int(a < b)
