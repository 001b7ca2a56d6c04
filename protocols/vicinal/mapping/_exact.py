"""Numbers as exact fractions, so that a converted value is rounded once, and always the same way.

A float is m * 2^e with BITS bits in m, and e not below LEAST: what is smaller has fewer bits. All is arithmetic of
integers, as there is no fraction type on a device, whose floats may have 24 bits where ours have 53.
"""

import math

from .._compat import MICROPYTHON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Ratio: TypeAlias = "tuple[int, int]"
    Parts: TypeAlias = "tuple[int, int]"


def _float_bits() -> int:
    bits = 1
    while 1.0 + 2.0**-bits != 1.0:
        bits += 1
    return bits


BITS = _float_bits()
LEAST, MOST = (-1074, 971) if BITS > 24 else (-149, 104)


def parts(value: float) -> "Parts":
    """(m, e) of a finite float."""
    if not value:
        return 0, LEAST
    fraction, e = math.frexp(value)
    m, e = int(math.ldexp(fraction, BITS)), e - BITS
    if e < LEAST:
        return m >> (LEAST - e), LEAST
    return m, e


def value_of(found: "Parts") -> float:
    return math.ldexp(float(found[0]), found[1])


def ratio_of(found: "Parts") -> "Ratio":
    m, e = found
    return (m << e, 1) if e >= 0 else (m, 1 << -e)


def ratio(value: "Any") -> "Ratio":
    """Of an int or a finite float; not in lowest terms."""
    if type(value) is int:
        return value, 1
    if MICROPYTHON:
        return ratio_of(parts(value))
    found: Ratio = value.as_integer_ratio()
    return found


def nearest(n: int, d: int) -> "float | None":
    """n / d, correctly rounded, of two equally near the even one; None past the largest float."""
    if not MICROPYTHON:
        try:
            return n / d
        except OverflowError:
            return None
    return nearest_by_hand(n, d)


def nearest_by_hand(n: int, d: int) -> "float | None":
    if n < 0:
        found = nearest_by_hand(-n, d)
        return None if found is None else -found
    m, e, rest, unit = _cut(n, d)
    if 2 * rest > unit or (2 * rest == unit and m & 1):
        m += 1
        if m >> BITS:
            m, e = m >> 1, e + 1
    return None if e > MOST else value_of((m, e))


def floor_parts(n: int, d: int) -> "Parts | None":
    """The greatest float that is at most n / d; None where all are greater."""
    if n < 0:
        m, e, rest, _ = _cut(-n, d)
        if rest:
            m += 1
            if m >> BITS:
                m, e = m >> 1, e + 1
        return None if e > MOST else (-m, e)
    m, e, _, _ = _cut(n, d)
    return ((1 << BITS) - 1, MOST) if e > MOST else (m, e)


def before(found: "Parts") -> "Parts":
    """The next smaller float, of one that is not the smallest."""
    m, e = found
    if m <= 0:
        m, e = m - 1, e
        return (m // 2, e + 1) if -m >> BITS else (m, e)
    if m == 1 << (BITS - 1) and e > LEAST:
        return 2 * m - 1, e - 1
    return m - 1, e


def _cut(n: int, d: int) -> "tuple[int, int, int, int]":
    """m, e of n / d >= 0 rounded down, and what is left over: rest / unit of the last bit of m."""
    e = _size(n) - _size(d) - BITS if n else LEAST
    while True:
        e = max(e, LEAST)
        unit = d << e if e > 0 else d
        m, rest = divmod(n << -e if e < 0 else n, unit)
        if not m >> BITS:
            return m, e, rest, unit
        e += 1


def _size(n: int) -> int:
    bits = 0
    while n >> 64:
        n >>= 64
        bits += 64
    while n:
        n >>= 1
        bits += 1
    return bits


def gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return abs(a)


def reduced(n: int, d: int) -> "Ratio":
    """In lowest terms, d > 0."""
    common = gcd(n, d) or 1
    return (n // common, d // common) if d > 0 else (-n // common, -d // common)


def parse_ratio(value: "Any") -> "Ratio | None":
    """3, 3.6 (as the decimals that are written), "3.6", "5/18" or "1e-7"; None of what is no such number."""
    if type(value) is int:
        return value, 1
    if type(value) is float:
        value = repr(value)
    if type(value) is not str or len(value) > 100:
        return None
    above, slash, below = value.partition("/")
    n = _decimal(above.strip())
    d = _decimal(below.strip()) if slash else (1, 1)
    if n is None or d is None or d[0] == 0:
        return None
    return reduced(n[0] * d[1], n[1] * d[0])


def _decimal(text: str) -> "Ratio | None":
    digits, mark, exponent = text.lower().partition("e")
    negative = digits.startswith("-")
    whole, _, rest = digits[1:].partition(".") if digits[:1] in ("-", "+") else digits.partition(".")
    power = 0
    if mark:
        sign, figures = (-1, exponent[1:]) if exponent.startswith("-") else (1, exponent[exponent.startswith("+") :])
        if not _figures(figures) or len(figures) > 3:
            return None
        power = sign * int(figures)
    if not _figures(whole + rest):
        return None
    n = int(whole + rest) * (-1 if negative else 1)
    power -= len(rest)
    return reduced(n * 10**power, 1) if power >= 0 else reduced(n, 10**-power)


def _figures(text: str) -> bool:
    return bool(text) and all(["0" <= char <= "9" for char in text])
