"""What waits for one event service: in which order it goes, and what is dropped (DESIGN 5; seed 001, 5.2.3).

    accept ──▶ waits ──take──▶ under way ──done──▶ delivered
                 │                │  ▲
                 │             failed └─ again, before all others, under the same number
                 ▼                ▼
              dropped: expired, outside its proximity, no room: CLASS, refused and the like

An index, without the events: who keeps them calls it with ids that rise. At every instant

    accepted = delivered + stored + dropped by reason

Order. By priority, and within one by arrival; but the events of a producer never pass each other, so that an urgent one
brings forward those of its producer that came before it. What has been handed out has a number, which rises with every
event handed out. What failed goes again first, in the order of its numbers, and not before all that was handed out
after it has an answer, too: else it could arrive behind them. So a service that takes what is handed out in order, and
of which a failure leaves out an end and no middle, gets each producer's events in order, whatever fails and how often.

Dropping. An expired event is never handed out. It counts as stored until somebody looks: when it would be next, when
room is needed, or in a `sweep`, which looks at a few at a time. The same holds of what is outside its proximity, where
the service is at the place of the gateway. For room see drop_policy.py; nothing that is under way is dropped for it.
"""

from .. import limits
from ..errors import LocalProtocolError
from ._lanes import NEVER, Lane, Lanes
from ._run import Run
from .drop_policy import DEFAULT_CLASSES, OLDEST, Class, Members, check_classes
from .drop_policy import NEVER as KEEP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..proximity import Proximity
    from .flow import TokenBucket

__all__ = ["EXPIRED", "NEVER", "OUTSIDE", "Flight", "Outbox"]

EXPIRED = "expired"
OUTSIDE = "outside its proximity"
_OTHER = "other"
# Reasons come from adapters, too, and each is a line of the metrics.
_MAX_REASONS = 64
# Looked at for what has expired whenever there is no room.
_SWEEP = 64


class Flight:
    """An event that was handed out."""

    __slots__ = ("expires", "free", "id", "members", "number", "producer", "size")

    def __init__(
        self, id: int, number: int, producer: str, expires: int, size: int, members: Members, free: bool
    ) -> None:
        self.id = id
        self.number = number
        self.producer = producer
        self.expires = expires
        self.size = size
        self.members = members
        self.free = free


class Outbox:
    def __init__(
        self,
        max_bytes: int,
        max_count: int,
        classes: "Iterable[Class]" = DEFAULT_CLASSES,
        located: bool = False,
        number: int = 1,
        free_from: int = limits.MAX_PRIORITY + 1,
    ) -> None:
        """`number` is the first; what has a priority of `free_from` or more goes without a token (see `take`)."""
        self.max_bytes = max_bytes
        self.max_count = max_count
        self.located = located
        self.number = number
        self.number_limit = limits.INT_MAX
        """from here on no numbers are given"""
        self.free_from = free_from
        self.bytes = 0
        self.count = 0
        self.accepted = 0
        self.delivered = 0
        self.dropped: dict[str, int] = {}
        self.gone: list[tuple[int, str]] = []
        """id and reason of what was dropped, but for what `accept` has refused: for who keeps the events; emptied by
        him"""
        self._classes = [Members(one) for one in check_classes(classes)]
        self._shares = any([one.share for one in self._classes])
        self._lanes = Lanes()
        self._run = Run(self._classes[0])  # while it holds something, the lanes hold nothing
        self._areas: dict[int, Proximity] = {}
        self._flying: dict[int, Flight] = {}
        self._again: list[Flight] = []  # by number, descending
        self._last = 0
        self._expiring = 0  # of those that wait
        self._to_sweep: list[Lane] = []
        self._swept = 0

    @property
    def waiting(self) -> int:
        """What `take` may give: not under way."""
        return self.count - len(self._flying)

    @property
    def under_way(self) -> int:
        return len(self._flying)

    def numbers_under_way(self) -> "list[int]":
        return sorted(self._flying)

    def again(self, number: int) -> "Flight | None":
        """One that is to go again."""
        for flight in self._again:
            if flight.number == number:
                return flight
        return None

    # Accepting

    def accept(
        self,
        id: int,
        producer: str,
        priority: int,
        expires: int,
        size: int,
        now: int,
        area: "Proximity | None" = None,
    ) -> str:
        """ "", or why it was dropped at once. Others may be dropped for it: see `gone`. `size` is what it is to count,
        `expires` NEVER or Unix milliseconds, and `area` absolute."""
        if id <= self._last:
            raise LocalProtocolError(f"id is {id}, want more than the last, {self._last}")
        self._last = id
        self.accepted += 1
        if expires != NEVER and now > expires:
            return self._count_drop(EXPIRED)
        if self._run and (priority != self._run.priority or expires != NEVER or area is not None):
            self._end_run()
        members = self._class_of(priority)
        if (self._shares or self.bytes + size > self.max_bytes or self.count >= self.max_count) and not self._make_room(
            members, size, now
        ):
            return self._count_drop(members.reason)
        if self._run or (expires == NEVER and area is None and not self._lanes.by_producer):
            self._run.priority, self._run.members = priority, members
            self._run.add(id, producer, size)
            self._grow(members, size)
            return ""
        self._add(id, producer, priority, expires, size, members, area)
        return ""

    def accept_alike(self, id: int, producer: str, priority: int, size: int) -> bool:
        """As accept, of an event without end and place, where that is all there is to do; else False, and nothing was
        done. For who has many of them."""
        run = self._run
        if (
            not run
            or priority != run.priority
            or self.bytes + size > self.max_bytes
            or self.count >= self.max_count
            or self._shares
            or id <= self._last
        ):
            return False
        self._last = id
        self.accepted += 1
        run.add(id, producer, size)
        self._grow(run.members, size)
        return True

    def _end_run(self) -> None:
        """Into the lanes, as if they had never been elsewhere."""
        run = self._run
        for id, producer, size in run.end():
            run.members.add(id, self._lanes.add(producer, id, run.priority, NEVER, size), size)

    def turn_away(self, reason: str) -> str:
        """Counts one as accepted and dropped: who keeps the events has no place for it."""
        self.accepted += 1
        return self._count_drop(reason)

    def restore(
        self,
        id: int,
        producer: str,
        priority: int,
        expires: int,
        size: int,
        number: int = 0,
        area: "Proximity | None" = None,
    ) -> "Flight | None":
        """As accept, of what was accepted in an earlier life, in the order of ids; `number` if it was handed out, and
        then it goes again."""
        self._last = max(self._last, id)
        self.accepted += 1
        if self._run:
            self._end_run()
        members = self._class_of(priority)
        if not number:
            self._add(id, producer, priority, expires, size, members, area)
            return None
        self._grow(members, size)
        self._note_area(id, area)
        flight = Flight(id, number, producer, expires, size, members, priority >= self.free_from)
        self._again.append(flight)
        if number >= self.number:
            self.number = number + 1
        if len(self._again) > 1 and self._again[-2].number < number:
            self._again.sort(key=_descending)
        return flight

    def _add(
        self, id: int, producer: str, priority: int, expires: int, size: int, members: Members, area: "Proximity | None"
    ) -> None:
        members.add(id, self._lanes.add(producer, id, priority, expires, size), size)
        self._grow(members, size)
        if expires != NEVER:
            self._expiring += 1
        if area is not None:
            self._note_area(id, area)

    def _note_area(self, id: int, area: "Proximity | None") -> None:
        if area is not None and self.located and not area.relative:
            self._areas[id] = area

    def _grow(self, members: Members, size: int) -> None:
        members.bytes += size
        members.count += 1
        self.bytes += size
        self.count += 1

    def _class_of(self, priority: int) -> Members:
        for members in self._classes:
            if priority >= members.low:
                return members
        raise LocalProtocolError(f"priority is {priority}, want -32767 .. 32767")

    # Room

    def _make_room(self, members: Members, size: int, now: int) -> bool:
        if self._fits(members, size):
            return True
        if self._run:
            self._end_run()
        if self._expiring:
            self.sweep(now, _SWEEP)
        if not self._could_fit(members, size):
            return False
        while not self._fits(members, size):
            loser = self._loser(members)
            if loser is None:
                return False
            lane, place = loser.victim()
            self._drop_waiting(lane, place, loser.reason)
        return True

    def _fits(self, members: Members, size: int) -> bool:
        much, many = self._kept_for_others(members)
        return self.bytes + size + much <= self.max_bytes and self.count + 1 + many <= self.max_count

    def _kept_for_others(self, members: Members) -> "tuple[int, int]":
        much = many = 0
        if self._shares:
            for other in self._classes:
                if other is not members:
                    much += max(0, self.max_bytes * other.share // 100 - other.bytes)
                    many += max(0, self.max_count * other.share // 100 - other.count)
        return much, many

    def _over_its_share(self, other: Members) -> bool:
        return other.bytes > self.max_bytes * other.share // 100 or other.count > self.max_count * other.share // 100

    def _loser(self, members: Members) -> "Members | None":
        """The class that one must go of."""
        for other in reversed(self._classes):
            if other is members:
                return other if other.policy == OLDEST and other.waiting else None
            if other.policy != KEEP and other.waiting and self._over_its_share(other):
                return other
        return None

    def _could_fit(self, members: Members, size: int) -> bool:
        """Whether it is of use to drop others: nothing goes for what does not fit anyhow."""
        much, many = self._kept_for_others(members)
        much, many = self.bytes + size + much - self.max_bytes, self.count + 1 + many - self.max_count
        for other in reversed(self._classes):
            if other is members:
                if other.policy == OLDEST and other.waiting:
                    much -= other.waiting_bytes
                    many -= other.waiting
                break
            if other.policy != KEEP and other.waiting:
                much -= min(other.waiting_bytes, max(0, other.bytes - self.max_bytes * other.share // 100))
                many -= min(other.waiting, max(0, other.count - self.max_count * other.share // 100))
        return much <= 0 and many <= 0

    def sweep(self, now: int, most: int) -> int:
        """Drops what has expired among the next `most` that wait; gives how many. Called again it goes on from there,
        and comes round."""
        dropped = 0
        rounds = 0
        while most > 0 and self._expiring:
            if not self._to_sweep:
                if rounds == 2:
                    break
                rounds += 1
                self._to_sweep = [lane for lane in self._lanes.by_producer.values() if lane.until is not None]
                self._swept = 0
            lane = self._to_sweep[-1]
            place = lane.after(self._swept)
            while most > 0 and place < len(lane):
                most -= 1
                id, _, expires, size = lane.at(place)
                self._swept = id
                if size and expires != NEVER and now > expires:
                    self._drop_waiting(lane, place, EXPIRED)
                    dropped += 1
                    place = lane.after(id)  # they may have moved
                else:
                    place += 1
            if place >= len(lane):
                self._to_sweep.pop()
                self._swept = 0
        return dropped

    # Handing out

    def take(
        self, most: int, now: int, position: "tuple[int, int] | None" = None, bucket: "TokenBucket | None" = None
    ) -> "list[Flight]":
        """Up to `most`, to be sent in this order; they are under way until `done`, `failed` or `refused`. `position` is
        the gateway's. A token of `bucket` goes for each, but for those that priority makes free."""
        found: list[Flight] = []
        if self._again and not self._take_again(found, most, now, position, bucket):
            return found
        room = min(most - len(found), self.number_limit - self.number)
        if self._run:
            self._take_run(found, max(0, room), now, bucket)
            return found
        lanes, areas = self._lanes, self._areas
        while room > 0:
            lane = lanes.next()
            if lane is None:
                break
            id, priority, expires, size = lane.at(lane.first)
            if expires != NEVER and now > expires:
                self._drop_waiting(lane, lane.first, EXPIRED)
                continue
            if areas and self._is_outside(id, position):
                self._drop_waiting(lane, lane.first, OUTSIDE)
                continue
            free = lane.top >= self.free_from
            if bucket is not None and not free and not bucket.allow(1, now):
                break
            lanes.take_head(lane)
            members = self._class_of(priority)
            members.remove(id, size)
            if expires != NEVER:
                self._expiring -= 1
            number = self.number
            flight = self._flying[number] = Flight(id, number, lane.producer, expires, size, members, free)
            self.number = number + 1
            room -= 1
            found.append(flight)
        return found

    def _take_run(self, found: "list[Flight]", room: int, now: int, bucket: "TokenBucket | None") -> None:
        run, flying, number = self._run, self._flying, self.number
        members, free = run.members, run.priority >= self.free_from
        much = 0
        for id, producer, size in run.next(room):
            if bucket is not None and not free and not bucket.allow(1, now):
                break
            flight = flying[number] = Flight(id, number, producer, NEVER, size, members, free)
            found.append(flight)
            number += 1
            much += size
        run.remove(number - self.number, much)
        self.number = number

    def _take_again(
        self,
        found: "list[Flight]",
        most: int,
        now: int,
        position: "tuple[int, int] | None",
        bucket: "TokenBucket | None",
    ) -> bool:
        """Whether all are under way again."""
        again = self._again
        if self._flying and max(self._flying) > again[-1].number:
            return False
        while again and len(found) < most:
            flight = again[-1]
            reason = self.worthless(flight, now, position)
            if reason:
                self.refused(flight.number, reason)
                continue
            if bucket is not None and not flight.free and not bucket.allow(1, now):
                return False
            again.pop()
            self._flying[flight.number] = flight
            found.append(flight)
        return not again

    def worthless(self, flight: Flight, now: int, position: "tuple[int, int] | None" = None) -> str:
        """Why it should not go any more: EXPIRED or OUTSIDE, or ""."""
        if flight.expires != NEVER and now > flight.expires:
            return EXPIRED
        return OUTSIDE if self._areas and self._is_outside(flight.id, position) else ""

    def _is_outside(self, id: int, position: "tuple[int, int] | None") -> bool:
        area = self._areas.get(id)
        return area is not None and position is not None and not area.contains(position[0], position[1])

    # What became of it

    def done(self, numbers: "Iterable[int]") -> "list[int]":
        """The service has them. Gives their ids; one that is not under way, nor to go again, was settled before."""
        ids = []
        flying = self._flying
        for number in numbers:
            flight = flying.pop(number, None) or self._late(number)
            if flight is not None:
                self._shrink(flight.members, flight.id, flight.size)
                ids.append(flight.id)
        self.delivered += len(ids)
        return ids

    def failed(self, numbers: "Iterable[int]") -> None:
        """Nobody knows whether the service has them: they go again."""
        for number in numbers:
            flight = self._flying.pop(number, None)
            if flight is not None:
                self._again.append(flight)
        self._again.sort(key=_descending)

    def refused(self, number: int, reason: str) -> None:
        """The service will not have it, or it is worthless by now."""
        flight = self._flying.pop(number, None) or self._late(number)
        if flight is not None:
            self._shrink(flight.members, flight.id, flight.size)
            self._count_drop(reason)
            self.gone.append((flight.id, reason))

    def _late(self, number: int) -> "Flight | None":
        """Of what was to go again."""
        for place in range(len(self._again) - 1, -1, -1):
            if self._again[place].number == number:
                return self._again.pop(place)
        return None

    def withdraw(self, id: int, producer: str, reason: str) -> bool:
        """Drops one that waits, as who keeps it has lost it. False when it is not among these."""
        if self._run:
            self._end_run()
        lane = self._lanes.by_producer.get(producer)
        place = -1 if lane is None else lane.find(id)
        if lane is None or place < 0:
            return False
        self._drop_waiting(lane, place, reason)
        return True

    def _drop_waiting(self, lane: Lane, place: int, reason: str) -> None:
        id, priority, expires, size = lane.at(place)
        self._lanes.remove(lane, place)
        members = self._class_of(priority)
        members.remove(id, size)
        if expires != NEVER:
            self._expiring -= 1
        self._shrink(members, id, size)
        self._count_drop(reason)
        self.gone.append((id, reason))

    def _shrink(self, members: Members, id: int, size: int) -> None:
        members.bytes -= size
        members.count -= 1
        self.bytes -= size
        self.count -= 1
        if self._areas:
            self._areas.pop(id, None)

    def _count_drop(self, reason: str) -> str:
        if reason not in self.dropped and len(self.dropped) >= _MAX_REASONS:
            reason = _OTHER
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
        return reason


def _descending(flight: Flight) -> int:
    return -flight.number
