"""Who loses when there is no room: the priority classes of an outbox.

    urgent       1000 ..        "oldest"     the oldest of the class makes room for a new one
    normal       0 .. 999       "oldest"
    background        .. -1     "oldest"     or "newest": the new one is dropped, and what is taken from the class by a
                                             higher one is its newest; or "never": nothing of the class is ever dropped
                                             for room, and the new one is where there is none

The lowest class loses first. `share` is a part of the room, in percent, that is kept for a class: no other gets it.
"""

from .. import limits
from ..errors import LocalProtocolError
from ._lanes import Lane, column

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = ["DEFAULT_CLASSES", "NEWEST", "OLDEST", "POLICIES", "Class", "check_classes"]

OLDEST = "oldest"
NEWEST = "newest"
NEVER = "never"
POLICIES = (OLDEST, NEWEST, NEVER)
_SLACK = 256


class Class:
    """Priorities from `low` on, up to the next class."""

    __slots__ = ("low", "name", "policy", "share")

    def __init__(self, name: str, low: int, policy: str = OLDEST, share: int = 0) -> None:
        self.name = name
        self.low = low
        self.policy = policy
        self.share = share


DEFAULT_CLASSES = (Class("urgent", 1000), Class("normal", 0), Class("background", -limits.MAX_PRIORITY))


def check_classes(classes: "Iterable[Class]") -> "list[Class]":
    """The highest first; they must hold every priority, each once."""
    found = sorted(classes, key=lambda one: -one.low)
    for one in found:
        if one.policy not in POLICIES:
            raise LocalProtocolError(
                f"policy of class {one.name!r} is {one.policy!r}, want one of oldest, newest, never"
            )
        if type(one.share) is not int or not 0 <= one.share <= 100:
            raise LocalProtocolError(f"share of class {one.name!r} is {one.share!r}, want 0 to 100 percent")
    if not found or found[-1].low != -limits.MAX_PRIORITY or found[0].low > limits.MAX_PRIORITY:
        raise LocalProtocolError(f"classes {[one.name for one in found]} do not begin at {-limits.MAX_PRIORITY}")
    if len(set([one.low for one in found])) < len(found) or len(set([one.name for one in found])) < len(found):
        raise LocalProtocolError(f"classes {[(one.name, one.low) for one in found]} have a name or a limit twice")
    if sum([one.share for one in found]) > 100:
        raise LocalProtocolError(f"the shares of classes {[one.name for one in found]} are more than 100 percent")
    return found


class Members:
    """What there is of a class: how much, and in which order it came."""

    __slots__ = (
        "_first",
        "_ids",
        "_lanes",
        "bytes",
        "count",
        "low",
        "name",
        "policy",
        "reason",
        "share",
        "waiting",
        "waiting_bytes",
    )

    def __init__(self, one: Class) -> None:
        self.name = one.name
        self.low = one.low
        self.policy = one.policy
        self.share = one.share
        self.reason = f"no room: {one.name}"
        self.bytes = self.count = 0  # all that is stored
        self.waiting = self.waiting_bytes = 0  # of these, what is not under way
        self._ids: Any = column()
        self._lanes: list[Lane] = []
        self._first = 0

    def add(self, number: int, lane: Lane, size: int) -> None:
        self._ids.append(number)
        self._lanes.append(lane)
        self.waiting += 1
        self.waiting_bytes += size

    def remove(self, number: int, size: int) -> None:
        """It no longer waits."""
        self.waiting -= 1
        self.waiting_bytes -= size
        first = self._first
        if not self.waiting:
            self._ids, self._lanes, self._first = column(), [], 0
            return
        if self._ids[first] == number:
            first = self._first = first + 1
        if len(self._ids) > 2 * self.waiting + _SLACK:
            kept = [at for at in range(first, len(self._ids)) if self._lanes[at].find(self._ids[at]) >= 0]
            ids = column()
            for at in kept:
                ids.append(self._ids[at])
            self._ids, self._lanes, self._first = ids, [self._lanes[at] for at in kept], 0

    def victim(self) -> "tuple[Lane, int]":
        """Its lane and its place there. There is one."""
        ids, lanes = self._ids, self._lanes
        if self.policy == NEWEST:
            at = lanes[-1].find(ids[-1])
            while at < 0:
                ids.pop()
                lanes.pop()
                at = lanes[-1].find(ids[-1])
            return lanes[-1], at
        at = lanes[self._first].find(ids[self._first])
        while at < 0:
            self._first += 1
            at = lanes[self._first].find(ids[self._first])
        return lanes[self._first], at
