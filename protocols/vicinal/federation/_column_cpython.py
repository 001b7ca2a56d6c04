"""A column of 64-bit integers: 8 bytes each, where a list of ints takes 40. What waits at a gateway may be millions."""

from array import array

__all__ = ["column"]


def column() -> "array[int]":
    return array("q")
