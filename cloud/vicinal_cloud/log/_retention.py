"""What may go. Whole segments, the oldest first, never the one that is written."""

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["AGE", "SIZE", "Extent", "removable"]

AGE = "age"
SIZE = "size"


class Extent(NamedTuple):
    base: int
    bytes: int
    time: int
    """of its newest record, in ms"""


def removable(
    segments: Sequence[Extent], now: int, max_age: int | None, max_bytes: int | None
) -> list[tuple[int, str]]:
    """The bases of the segments to remove, each with the reason. `segments` ascend; the last is the one that is
    written.

    A segment goes by age when its newest record is older than `max_age` ms, by size when the log without it still has
    at least `max_bytes`: so that what is kept is never less than was asked for.
    """
    found: list[tuple[int, str]] = []
    left = sum(segment.bytes for segment in segments)
    for segment in segments[:-1]:
        if max_age is not None and segment.time < now - max_age:
            reason = AGE
        elif max_bytes is not None and left - segment.bytes >= max_bytes:
            reason = SIZE
        else:
            break
        found.append((segment.base, reason))
        left -= segment.bytes
    return found
