"""Lengths of time on the command line: 90s, 30m, 8h, 7d."""

from typing import TYPE_CHECKING

import click

__all__ = ["Duration"]

_UNITS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


if TYPE_CHECKING:
    Base = click.ParamType[int]
else:  # of older versions it is not generic
    Base = click.ParamType


class Duration(Base):
    """In milliseconds."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = str(value)
        number, unit = text[:-1], text[-1:]
        if unit not in _UNITS or not number.isdecimal() or not 0 < int(number) < 1_000_000:
            self.fail(f"{text!r}: want a number and a unit, as 90s, 30m, 8h or 7d", param, ctx)
        return int(number) * _UNITS[unit]
