"""Whole numbers out of decimal text, and days out of dates, without a float. Runs on MicroPython.

One rule of rounding for all of location: to the nearest, halves away from zero, so that south and west mirror north and
east.
"""

__all__ = ["DAY", "days_of", "decimal", "nearest", "whole"]

DAY = 86400000
_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def nearest(numerator: int, denominator: int) -> int:
    """numerator / denominator (positive), rounded."""
    found = (2 * abs(numerator) + denominator) // (2 * denominator)
    return -found if numerator < 0 else found


def whole(text: bytes) -> int:
    """Digits only; -1 for anything else."""
    found = 0
    for byte in text:
        if not 48 <= byte <= 57:
            return -1
        found = found * 10 + byte - 48
    return found if text else -1


def decimal(text: bytes) -> "tuple[int, int]":
    """123.45 is (12345, 100); -1 for anything that is not digits with at most one point among or after them."""
    point = text.find(b".")
    if point < 0:
        return whole(text), 1
    digits = text[:point] + text[point + 1 :]
    return whole(digits) if point else -1, 10 ** (len(text) - point - 1)


def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the Gregorian calendar; -1 if there is no such date, or it was before.

    Years begin in March here, so that the leap day is the last of its year and months of 31, 30, 31, 30, 31 days follow
    each other twice and a bit: (153 m + 2) // 5 days before the month m.
    """
    if not 1970 <= year <= 9999 or not 1 <= month <= 12:
        return -1
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= day <= _MONTHS[month - 1] + leap:
        return -1
    if month <= 2:
        year -= 1
        month += 12
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day - 719469
