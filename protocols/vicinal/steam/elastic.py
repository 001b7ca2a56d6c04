"""Areas that give way so that time does not: the space-elastic model of RT-STEAM (spec/steam.md, STEAM-51 to STEAM-56).

A producer wants an area and can live with a smaller one. Who stands farther away hears less, so a smaller area needs
fewer repetitions in the same time:

    losses    how many beacons of neighbours are missed, by distance: what is lost here is lost there too
    rounds    how often an event can be said before its deadline, beside all else that this radio says
    promise   the chance that who misses a share of everything gets `count` of count + 1 pieces in so many rounds

The area is the largest of nine between the minimum and the desired one of which the promise is kept. It shrinks at
once, and grows a step after three beacons in a row that would have allowed it. When not even the minimum keeps it the
application is told so.
"""

import math

from .._compat import MICROPYTHON, Ordered, const
from ..errors import LocalProtocolError, RemoteProtocolError
from ..proximity import CIRCLE, Proximity, distance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ._announcing import Announcement, Announcer

__all__ = ["Elastic", "Losses", "observe", "promise", "rounds_before"]

# Of a thousand: "at least 99 %".
_GOAL = const(990)
_STEPS = const(8)
_GROW_AFTER = const(3)
# Where nothing is known yet.
ASSUMED_LOSS = 0.1
# Metres; one more for all beyond.
_BINS = (25, 50, 100, 200, 400, 800)
# Fewer beacons than these say nothing; more are halved, so that the old is forgotten.
_ENOUGH = const(16)
_FULL = const(256)


def promise(count: int, loss: float, rounds: int) -> float:
    """The chance of getting an event of `count` chunks that is said so many times."""
    miss = loss**rounds if rounds > 0 else 1.0
    if count == 1:
        return 1.0 - miss
    hit = 1.0 - miss
    return hit**count * (hit + (count + 1) * miss)


def rounds_before(time: int, interval: int, pieces: int, others: int, most: int) -> int:
    """How often `pieces` fit into `time` at one advertisement each `interval`, when `others` per 1,000 are taken."""
    slots = time * (1000 - others) // (1000 * interval) if others < 1000 else 0
    return min(most, slots // pieces)


class Losses:
    """What share of beacons is lost, by distance."""

    # Neighbours whose numbers are followed.
    max_neighbours = 8 if MICROPYTHON else 128

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = Ordered()  # the last of each; the one silent for longest first
        self._got = [0] * (len(_BINS) + 1)
        self._missed = [0] * (len(_BINS) + 1)

    def observe(self, key: bytes, number: int, metres: float) -> None:
        """A beacon with its number modulo 256, from so far away."""
        last = self._numbers.get(key)
        if last is not None:
            gap = number - last & 0xFF
            if gap == 0 or gap >= 128:
                return  # the same again, by another radio
            del self._numbers[key]  # to the end
            self._count(_bin(metres), min(gap - 1, 15))
        elif len(self._numbers) >= self.max_neighbours:
            del self._numbers[list(self._numbers)[0]]
        self._numbers[key] = number

    def _count(self, at: int, missed: int) -> None:
        self._got[at] += 1
        self._missed[at] += missed
        if self._got[at] + self._missed[at] >= _FULL:
            self._got[at] >>= 1
            self._missed[at] >>= 1

    def at(self, metres: float) -> float:
        """The worst of what is known up to that distance."""
        worst = -1.0
        for i in range(_bin(metres) + 1):
            total = self._got[i] + self._missed[i]
            if total >= _ENOUGH:
                worst = max(worst, self._missed[i] / total)
        return ASSUMED_LOSS if worst < 0 else worst


def _bin(metres: float) -> int:
    for i in range(len(_BINS)):
        if metres <= _BINS[i]:
            return i
    return len(_BINS)


def edge(area: Proximity, position: "tuple[int, int] | None") -> float:
    """How far away from the producer somebody inside can be. `area` is absolute."""
    reach = float(area.dimx) if area.shape == CIRCLE else math.sqrt(area.dimx * area.dimx + area.dimy * area.dimy) / 2
    if position is None:
        return reach
    return reach + distance(area.lat, area.lon, position[0], position[1])


class Elastic:
    def __init__(
        self,
        desired: Proximity,
        minimum: Proximity,
        on_adapt: "Callable[[Proximity, bool, int], None] | None" = None,
        goal: int = _GOAL,
    ) -> None:
        """`on_adapt(area, holds, now)`; the minimum is the desired area with other sizes."""
        same = (desired.shape, desired.relative, desired.lat, desired.lon)
        if same != (minimum.shape, minimum.relative, minimum.lat, minimum.lon):
            raise LocalProtocolError(f"minimum {str(minimum)!r} is not the same place and shape as {str(desired)!r}")
        if minimum.dimx > desired.dimx or minimum.dimy > desired.dimy:
            raise LocalProtocolError(f"minimum {str(minimum)!r} is larger than {str(desired)!r}")
        self.desired = desired
        self.minimum = minimum
        self.on_adapt = on_adapt
        self.goal = goal
        self.area = desired
        self.holds = True
        self._step = _STEPS
        self._good = 0

    def _size(self, step: int) -> Proximity:
        low, high = self.minimum, self.desired
        return Proximity(
            high.shape,
            high.relative,
            high.lat,
            high.lon,
            low.dimx + (high.dimx - low.dimx) * step // _STEPS,
            low.dimy + (high.dimy - low.dimy) * step // _STEPS,
        )

    def adapt(self, losses: Losses, position: "tuple[int, int] | None", count: int, rounds: int) -> bool:
        """Whether the area, or whether it holds, is another than before. `count` is of the events it carries."""
        best = -1
        for step in range(_STEPS, -1, -1):
            area = self._size(step)
            if area.relative and position is not None:
                area = area.at(position[0], position[1])
            if promise(count, losses.at(edge(area, position)), rounds) * 1000 >= self.goal:
                best = step
                break
        before = (self._step, self.holds)
        self.holds = best >= 0
        if best <= self._step:
            self._step = max(best, 0)
            self._good = 0
        else:
            self._good += 1
            if self._good >= _GROW_AFTER:
                self._step += 1
                self._good = 0
        self.area = self._size(self._step)
        return before != (self._step, self.holds)

    def review(self, announcer: "Announcer", announcement: "Announcement", now: int) -> None:
        """Before each beacon of its announcement."""
        node, rotation = announcer.node, announcer.rotation
        cut = None if announcement.last is None else announcement.last.cut
        count, pieces = (3, 4) if cut is None else (cut.count, cut.pieces)
        # Per 1,000 advertisements: what beacons take, and events of other subjects that wait.
        others = 0
        for other in announcer.announced.values():
            others += 1000 * node.interval // other.usually
        for event in rotation.fresh:
            if event.owner is not announcement:
                others += event.cut.pieces * rotation.rounds * 1000 * node.interval // announcement.validity
        rounds = rounds_before(announcement.validity, node.interval, pieces, others, rotation.rounds)
        if self.adapt(node.losses, node.position, count, rounds):
            node.tell(self.on_adapt, self.area, self.holds, now)


def observe(losses: Losses, payload: bytes, position: "tuple[int, int] | None") -> None:
    """A beacon of an area that moves is sent from where the area is, or near it; others tell nothing of where."""
    from .beacon import read_beacon

    if position is None or not payload[0] & 2:
        return
    try:
        beacon = read_beacon(payload)
    except RemoteProtocolError:
        return
    metres = distance(beacon.area.lat, beacon.area.lon, position[0], position[1])
    losses.observe(payload[1:7], beacon.number, metres)
