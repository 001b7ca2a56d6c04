"""One value into another: a type, a unit, a factor.

    int, float -> int, float     (v * n + m) / d, exactly, then rounded once: to the nearest float, or to a whole number
                                 "nearest" (of two equally near the even one), "down" or "up"
    int, float <-> str           decimals; -0.0 is "0.0"; infinity and NaN have none
    bool <-> int, bool <-> str   0 and 1, "false" and "true", and nothing else
    str <-> bytes                UTF-8

A float may be given where one is wanted, and an int too; else the type must be the one that is declared. What is not,
and what does not fit, is Unmappable: the reason says what, and nobody guesses. On numbers a conversion never changes
the order of two values, or always does (`falls`): filters are mapped by that.
"""

from .. import limits
from .._compat import decode_utf8
from .._table import shown
from ..errors import LocalProtocolError
from ._exact import nearest, ratio

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ROUNDINGS", "TYPES", "Conversion", "Unmappable", "decimal_int", "text_of_number"]

TYPES = ("str", "int", "float", "bool", "bytes")
ROUNDINGS = ("nearest", "down", "up")
_PAIRS = (("int", "str"), ("float", "str"), ("bool", "int"), ("bool", "str"), ("str", "bytes"))
NUMBERS = ("int", "float")


class Unmappable(LocalProtocolError):
    """This event has no form on the other side: the message says why. To try again changes nothing."""


def can_convert(source: str, target: str) -> bool:
    if source == target or (source in NUMBERS and target in NUMBERS):
        return True
    return (source, target) in _PAIRS or (target, source) in _PAIRS


class Conversion:
    """`factor` is (n, m, d), d > 0, and only between numbers."""

    __slots__ = ("d", "m", "n", "plain", "rounding", "source", "target")

    def __init__(
        self, source: str, target: str, factor: "tuple[int, int, int]" = (1, 0, 1), rounding: str = "nearest"
    ) -> None:
        self.source = source
        self.target = target
        self.n, self.m, self.d = factor
        self.rounding = rounding
        self.plain = self.n == self.d and not self.m

    def back(self) -> "Conversion":
        """The other direction, rounded the same way."""
        n, m, d = self.n, self.m, self.d
        inverse = (d, -m, n) if n > 0 else (-d, m, -n)
        return Conversion(self.target, self.source, inverse, self.rounding)

    @property
    def numeric(self) -> bool:
        return self.source in NUMBERS and self.target in NUMBERS

    @property
    def falls(self) -> bool:
        return self.n < 0

    def apply(self, value: "Any") -> "Any":
        source, kind = self.source, type(value).__name__
        if kind != source and not (source == "float" and kind == "int"):
            raise Unmappable(f"is {shown(value)}, a {kind}, want {source}")
        if self.numeric:
            return self._number(value)
        target = self.target
        if source == target:
            return value
        if target == "bytes":
            return value.encode("utf-8")
        if source == "bytes":
            text = decode_utf8(value)
            if text is None:
                raise Unmappable(f"is {shown(value)}, which is no UTF-8")
            return text
        if source == "bool":
            return int(value) if target == "int" else ("true" if value else "false")
        if target == "bool":
            yes, no = (1, 0) if source == "int" else ("true", "false")
            if value in (yes, no):
                return bool(value == yes)
            raise Unmappable(f"is {shown(value)}, want {no!r} or {yes!r}")
        return text_of_number(value, source) if target == "str" else _parsed(value, target)

    def _number(self, value: "Any") -> "Any":
        whole = self.target == "int"
        if type(value) is float and value - value != 0:
            if whole:
                raise Unmappable(f"is {value}, which is no int")
            return -value if self.falls else value
        if self.plain:
            if type(value) is int and whole:
                return value
            if type(value) is float and not whole:
                return value
        a, b = ratio(value)
        above, below = a * self.n + self.m * b, b * self.d
        if not whole:
            real = nearest(above, below)
            if real is None:
                raise Unmappable(f"is {shown(value)}, which is past the largest float there")
            return real
        number, rest = divmod(above, below)
        if self.rounding == "up":
            number += rest != 0
        elif self.rounding == "nearest":
            number += 2 * rest > below or (2 * rest == below and number & 1)
        if not limits.INT_MIN <= number <= limits.INT_MAX:
            raise Unmappable(f"is {shown(value)}, which is past 64 bits there")
        return number

    def __repr__(self) -> str:
        return f"<{self.source} to {self.target}: (v * {self.n} + {self.m}) / {self.d}>"


def text_of_number(value: "Any", kind: str) -> str:
    if kind == "int":
        return str(value)
    real = float(value)
    if real - real != 0:
        raise Unmappable(f"is {value}, which has no decimals")
    if type(value) is int and int(real) != value:
        raise Unmappable(f"is {value}, which no float is exactly")
    return repr(real) if real else "0.0"


def _parsed(text: str, kind: str) -> "Any":
    number = decimal_int(text) if kind == "int" else _decimal_float(text)
    if number is None:
        raise Unmappable(f"is {shown(text)}, which is no {kind}")
    return number


def decimal_int(text: str) -> "int | None":
    """Of decimal digits and a sign, within 64 bits; what int() takes beside that (spaces, underscores) is no number."""
    digits = text[1:] if text[:1] == "-" else text
    if not 0 < len(digits) <= 19 or not all(["0" <= char <= "9" for char in digits]):
        return None
    number = int(text)
    return number if limits.INT_MIN <= number <= limits.INT_MAX else None


def _decimal_float(text: str) -> "float | None":
    if not 0 < len(text) <= 400 or not all([char in "0123456789+-.eE" for char in text]):
        return None
    try:
        real = float(text)
    except ValueError:
        return None
    return real if real - real == 0 else None
