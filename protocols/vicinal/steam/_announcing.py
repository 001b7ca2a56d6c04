"""The producer's side: what is announced, and what the radio sends (spec/steam.md, STEAM-33, STEAM-43 to STEAM-50).

Subject and area are filters at the producer: it sends what it has announced and nothing else, and of an area that
moves with it nothing while it does not know where it is.

    announce ─▶ three beacons at four times the rate ─▶ one every `every` ms ─▶ unannounce ─▶ three last ones
                  ▲ moves otherwise than told ──────────┘ two, of an area that moves
"""

from .._compat import MICROPYTHON, Ordered, const
from ..errors import LimitError, LocalProtocolError
from ._bodies import encode, seed_of
from ._rotation import Outgoing, Rotation
from .beacon import MAX_EVERY, UNIT, Beacon, check_area
from .frames import Cut, structure
from .groups import clash, subject_hash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..event import Event
    from ..proximity import Proximity
    from .node import Node

# Each takes a beacon a second of the ten advertisements.
MAX_ANNOUNCED = 4 if MICROPYTHON else 16
# First beacons that come faster, and last ones that say that it is over.
_BURST = const(3)
_FASTER = const(4)
# While an area moves: beacons in an interval; and at how many times the rate those are that tell of a turn.
_COPIES = const(2)
_TURN_FASTER = const(8)  # motion's too


class Announcement:
    area: "Proximity"
    names: "tuple[str, ...] | None"
    every: int
    validity: int
    keep: bool

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.hash = subject_hash(subject)
        self.number = 0  # of the next beacon
        self.numbers = 0  # of the next event
        self.sent = 0  # beacons since it was announced, up to _BURST
        self.turns = 0  # beacons that tell of a turn, still to be sent
        self.farewells = 0  # beacons that say it is over, still to be sent
        self.due = 0
        self.repeat = 0  # pieces of the last event still to be said
        self.again = 0  # not before, while it moves
        self.last: Outgoing | None = None
        self.shown: Proximity | None = None  # the area as last announced,
        self.told = (0, 0)  # how fast it moves,
        self.told_at = 0  # and when
        self.elastic: Any = None

    @property
    def usually(self) -> int:
        """ms between beacons. While an area moves another is said within the interval: one of ten is lost, and who
        comes towards it must hear of it in time."""
        return self.every if self.told == (0, 0) else self.every // _COPIES


class Announcer:
    def __init__(self, node: "Node") -> None:
        self.node = node
        self.announced: dict[str, Announcement] = Ordered()
        self.rotation = Rotation()
        self._beaconed = False
        self._asked = -1

    # What the application calls

    def announce(
        self,
        subject: str,
        area: "Proximity",
        now: int,
        names: "Sequence[str] | None",
        every: int,
        validity: int,
        keep: bool,
        elastic: "Any",
    ) -> None:
        check_area(area)
        if every % UNIT or not UNIT <= every <= MAX_EVERY:
            raise LimitError("time between beacons", every, f"{UNIT} .. {MAX_EVERY} ms in steps of {UNIT}")
        found = self.announced.get(subject)
        if found is None:
            if len(self.announced) >= MAX_ANNOUNCED:
                raise LimitError("announcements of a node", len(self.announced) + 1, MAX_ANNOUNCED)
            found = Announcement(subject)
            for other in self.announced.values():
                if other.hash == found.hash:
                    raise clash(subject, other.subject)
            self.announced[subject] = found
        found.area = area
        found.names = None if names is None else tuple(names)
        found.every = every
        found.validity = validity
        found.keep = keep
        found.elastic = elastic
        found.sent = found.farewells = 0
        found.due = now

    def _live(self, subject: str) -> Announcement:
        found = self.announced.get(subject)
        if found is None or found.farewells:
            raise LocalProtocolError(f"subject {subject!r} is not announced")
        return found

    def publish(self, event: "Event", now: int) -> bool:
        node = self.node
        owner = self._live(event.subject)
        if event.identity is None:
            event = event.stamp(node.name, node.seq)
        cut = Cut(encode(event, owner.names), seed_of(owner.subject, owner.names), node.room)
        if event.identity == (node.name, node.seq):
            node.seq += 1
        node.count("out accepted")
        if not self._is_somewhere(owner):
            node.count("out dropped: no position")
            return False
        attrs = event.attrs
        until = now + owner.validity
        found = Outgoing(
            owner,
            event,
            cut,
            owner.names is not None,
            owner.numbers,
            attrs.get("Priority", 0),
            attrs.get("Deadline", until),
            min(until, attrs.get("Expires", until)),
        )
        if found.expires <= now:
            node.count("out dropped: expired")
            return False
        gone = self.rotation.put(found)
        if gone is found:
            node.count("out dropped: queue full")
            return False
        if gone is not None:
            self._settle(gone, "queue full")
        owner.numbers = owner.numbers + 1 & 0xFFFF
        owner.last = found if owner.keep else None
        owner.repeat = 0
        return True

    # What the radio asks

    def advertisement(self, now: int) -> "bytes | None":
        self.handle_timeout(now)
        event = self.rotation.pick()
        if event is None or not self._beaconed:
            beacon = self._beacon(now)
            if beacon is not None:
                self._beaconed = True
                return beacon
        self._beaconed = False
        if event is not None:
            data = self._piece(event)
            if self.rotation.spoken(event):
                self._finish(event, "")
            return data
        return self._repetition(now)

    def _beacon(self, now: int) -> "bytes | None":
        found = None
        for one in self.announced.values():
            if one.due <= now and (found is None or one.due < found.due):
                if one.farewells or self._is_somewhere(one):
                    found = one
        if found is None:
            return None
        every = found.every
        if found.farewells:
            every = 0
            found.farewells -= 1
            if not found.farewells:
                del self.announced[found.subject]
        else:
            if found.elastic is not None:
                found.elastic.review(self, found, now)
            found.shown = self._area_now(found, now)
            found.told_at = now
            if found.area.relative and self.node.velocity != found.told:
                from .motion import said

                found.told = said(self.node.velocity)
            last = found.last
            # Of one that moves once in an interval, as of others, and not with each copy; but each while it is new.
            usual = found.usually == found.every or now >= found.again
            if last is not None and not last.fresh and (usual or now < last.expires):
                found.repeat = last.cut.pieces
                found.again = now + found.every - found.usually // 2
        if found.sent < _BURST and every:
            found.sent += 1
        if found.sent < _BURST or not every:
            gap = found.every // _FASTER
        elif found.turns:
            found.turns -= 1
            gap = found.every // _TURN_FASTER
        else:
            gap = found.usually
            if gap != found.every:
                # A sixteenth more or less: who collided with a neighbour's copy shall not do so with the next.
                gap += found.every * ((found.number * 73 + self.node.sender[2] * 29 & 63) - 32) // 512
        # Kept in step, unless the radio was away for so long that it would have to catch up.
        found.due = found.due + gap if now < found.due + gap else now + gap
        area = found.shown
        if area is None:
            return None
        frame = Beacon(found.hash, self.node.sender, found.number, every, area, found.area.relative, found.told)
        found.number = found.number + 1 & 0xFF
        self.node.count("out beacons")
        return structure(frame.encode())

    def _repetition(self, now: int) -> "bytes | None":
        """One piece of a last event; announcements take turns, a round each."""
        for found in self.announced.values():
            last = found.last
            if not found.repeat or last is None or not self._is_somewhere(found):
                continue
            if last.event.attrs.get("Expires", now + 1) <= now:
                found.last = None
                continue
            found.repeat -= 1
            return self._piece(last)
        return None

    def _piece(self, event: Outgoing) -> bytes:
        self.node.count("out pieces")
        return event.next_piece(event.owner.hash, self.node.sender)

    def _is_somewhere(self, found: Announcement) -> bool:
        return not found.area.relative or self.node.position is not None

    def _area_now(self, found: Announcement, now: int) -> "Proximity | None":
        """Where it is, or None while it is nowhere."""
        area: Proximity = found.area if found.elastic is None else found.elastic.area
        if not area.relative:
            return area
        position = self.node.place(now)
        return None if position is None else area.at(position[0], position[1])

    # Time and books

    def next_timeout(self) -> "int | None":
        """Beacons that are due already are no reason to wake: the radio asks for them when it can send."""
        times = [
            found.due
            for found in self.announced.values()
            if found.due > self._asked and (found.farewells or self._is_somewhere(found))
        ]
        times += [event.expires for event in self.rotation.fresh]
        return min(times) if times else None

    def handle_timeout(self, now: int) -> None:
        self._asked = now
        for event in list(self.rotation.fresh):
            if now >= event.expires:
                self._finish(event, "expired")

    def _finish(self, event: Outgoing, reason: str) -> None:
        self.rotation.remove(event)
        self._settle(event, reason)

    def _settle(self, event: Outgoing, reason: str) -> None:
        if event.said:
            self.node.count("out sent")
        else:
            self.node.count("out dropped: " + reason)
            if event.owner.last is event:
                event.owner.last = None
