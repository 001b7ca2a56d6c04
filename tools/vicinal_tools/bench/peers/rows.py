"""The figures of `make bench`."""

from collections.abc import Iterator

from .. import Row

__all__ = ["rows"]


def rows() -> Iterator[Row]:
    yield from ()
