"""STEAM in a town, on the virtual radio in stepped time, and a judge who knows where everybody really is.

    roadside units   announce "Limit" in a circle around them, and publish now and then
    vehicles         subscribe to "Limit" and "Siren"; some announce "Speed" in a circle that moves with them, and
                     publish too; all subscribe to "Speed"
    ambulances       announce "Siren" in a circle that moves with them

Everybody moves at each tick, and a receiver tells them their positions, and no more, at every fifth: each at another.
The judge takes the true positions at each tick. Of an event, those are **expected** who are interested, were in the
sender's reach one beacon interval before, and are inside its area and in reach at every tick from when it was published
to the deadline. Counted:

    in time          deliveries to them before the deadline
    late, missed     the rest of them
    outside          deliveries to somebody who is outside the area, by more than he can have gone astray since the
                     last fix, and of an area that moves both of them since the last fix and a beacon interval
    twice            deliveries of an event that he had before

Of an ambulance's area: whoever enters or leaves it is to know that. How long after it he does is a join or a leave, 0
if he knew before. And whoever believes what is not so, for whatever reason, for how long he does is an error: late
ones, those who knew too soon, and those who turned around at the edge.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from vicinal.event import Event
from vicinal.proximity import Proximity
from vicinal.steam.groups import Group, group_id, subject_hash
from vicinal.steam.node import Node
from vicinal_hw.ble.air import Air
from vicinal_hw.ble.physics import Model
from vicinal_hw.ble.positions import Plane
from vicinal_hw.ble.stepped import Simulation, Station

from .town import FAST, Town, Vehicle

__all__ = ["Result", "Trial"]

LAT, LON = 533438000, -62546000
TICK = 100
FIX = 500
"""ms between positions that a node is told, as of a receiver that gives two a second"""
EVERY, VALIDITY = 1000, 2000
ROOM = 31
"""bytes: a whole legacy advertisement"""
LIMIT_RADIUS, SPEED_RADIUS, SIREN_RADIUS = 150, 100, 150
NAMES = {"Limit": ("kmh",), "Speed": ("rate",), "Siren": ("kmh",)}
WARM_UP = 4_000
"""ms before the first event: the first beacons come all at once"""


class Result(NamedTuple):
    published: int
    expected: int
    in_time: int
    late: int
    outside: int
    twice: int
    delays: list[int]
    """ms, of those in time"""
    joins: list[int]
    """ms from being inside an ambulance's area to having joined; 0: not later"""
    leaves: list[int]
    errors: list[int]
    """ms of believing to be inside or outside when it is not so"""
    frames: int
    """advertising events on the air"""
    heard: float
    """of the advertising events that reached a scanning radio, the share that it heard"""


class _Party:
    """A station, where it really is, and what it does."""

    def __init__(self, number: int, station: Station, vehicle: Vehicle | None, place: tuple[float, float]) -> None:
        self.number = number
        self.station = station
        self.vehicle = vehicle
        self.place = place
        self.trail: deque[tuple[float, float]] = deque([place], EVERY // TICK + 2)
        """where it was in the last beacon interval"""
        self.announces: dict[str, int] = {}
        """subject: radius"""
        self.got: dict[tuple[str, int], int] = {}


class _Sent(NamedTuple):
    identity: tuple[str, int]
    sender: _Party
    radius: int
    moving: bool
    at: int
    expected: dict[_Party, None]
    """a set that keeps its order: every run is the same run"""


class Trial:
    def __init__(
        self,
        vehicles: int = 500,
        units: int = 20,
        talking: int | None = None,
        ambulances: int = 10,
        loss: float = 0.0,
        seed: int = 1,
        town: Town | None = None,
        seconds: int = 60,
        period: int = 5_000,
    ) -> None:
        """`talking` vehicles publish, each once in `period` ms (None: all), and so do the units and the ambulances."""
        self.town = town or Town(seed)
        self.plane = Plane(LAT, LON)
        self.simulation = Simulation(Air(seed, Model(loss=loss)), self.plane, seed)
        self.until = seconds * 1000
        self._chance = Random(seed)
        self._period = period
        self._open: list[_Sent] = []
        self._by_identity: dict[tuple[str, int], _Sent] = {}
        self._numbers = {"expected": 0, "in time": 0, "late": 0, "outside": 0, "twice": 0, "published": 0}
        self._delays: list[int] = []
        self._inside: set[tuple[_Party, int]] = set()
        """who is inside of an ambulance's area in fact"""
        self._members: set[tuple[_Party, int]] = set()
        """and who believes it"""
        self._wrong: dict[tuple[_Party, int], tuple[int, bool]] = {}
        """who believes what is not so, since when, and whether because he moved and does not know"""
        self._errors: list[int] = []
        self._joins: list[int] = []
        self._leaves: list[int] = []
        self.parties: list[_Party] = []
        for place in self.town.corners(units):
            self._party(None, place, {"Limit": LIMIT_RADIUS})
        most = ambulances + (vehicles if talking is None else talking)
        for number, vehicle in enumerate(self.town.vehicles(vehicles)):
            announces = {"Siren": SIREN_RADIUS} if number < ambulances else {"Speed": SPEED_RADIUS}
            self._party(vehicle, vehicle.place, announces if number < most else {})
        self.ambulances = {self._group(party): party for party in self.parties[units : units + ambulances]}

    def run(self, progress: Callable[[int], None] | None = None) -> Result:
        for now in range(0, self.until + 1, TICK):
            self.simulation.run(now)
            self._tick(now)
            if progress:
                progress(now)
        air, numbers = self.simulation.air, self._numbers
        return Result(
            numbers["published"],
            numbers["expected"],
            numbers["in time"],
            numbers["late"],
            numbers["outside"],
            numbers["twice"],
            self._delays,
            self._joins,
            self._leaves,
            self._errors,
            air.events,
            air.heard / max(1, air.reached),
        )

    # Making it

    def _party(self, vehicle: Vehicle | None, place: tuple[float, float], announces: dict[str, int]) -> None:
        number = len(self.parties)
        node = Node(f"p{number}", number + 1, ROOM)
        station = self.simulation.attach(node, *self.plane.degrees(*place))
        party = _Party(number, station, vehicle, place)
        self.parties.append(party)
        for subject in ("Limit", "Speed", "Siren"):
            node.subscribe(subject, None, lambda event, now: self._delivered(party, event, now), NAMES[subject])
        node.on_member = lambda what, group, now: self._changed(party, what, group, now)
        for subject, radius in announces.items():
            self._plan(party, subject, radius)

    def _plan(self, party: _Party, subject: str, radius: int) -> None:
        self.simulation.call_at(self._chance.randrange(EVERY), lambda: self._announce(party, subject, radius))
        first = WARM_UP + self._chance.randrange(self._period)
        for at in range(first, self.until - VALIDITY - TICK, self._period):
            self.simulation.call_at(at, lambda: self._publish(party, subject))

    def _announce(self, party: _Party, subject: str, radius: int) -> None:
        party.announces[subject] = radius
        if party.vehicle is None:
            area = Proximity.circle(*self.plane.degrees(*party.place), radius)
        else:
            area = Proximity.circle(0, 0, radius, relative=True)
        node = party.station.node
        node.announce(subject, area, self.simulation.now, NAMES[subject], EVERY, VALIDITY)
        party.station.update()

    def _publish(self, party: _Party, subject: str) -> None:
        node, now = party.station.node, self.simulation.now
        identity = (node.name, node.seq)
        if not party.station.publish(Event(subject, [(NAMES[subject][0], self._chance.randrange(100))])):
            raise AssertionError(f"{node.name} cannot publish at {now} ms: {node.counters}")
        self._numbers["published"] += 1
        sent = _Sent(identity, party, party.announces[subject], party.vehicle is not None, now, {})
        for other in self.parties:
            if other is not party and _apart(other.trail[0], party.trail[0]) <= self._reach(party):
                sent.expected[other] = None
        self._judge(sent)
        self._open.append(sent)
        self._by_identity[identity] = sent

    # Judging

    def _reach(self, party: _Party) -> float:
        return party.station.radio.reach

    def _judge(self, sent: _Sent) -> None:
        """Who left the area, or the reach, is expected no more."""
        place, most = sent.sender.place, min(sent.radius, self._reach(sent.sender))
        for party in list(sent.expected):
            if _apart(party.place, place) > most:
                del sent.expected[party]

    def _tick(self, now: int) -> None:
        for party in self.parties:
            if party.vehicle is not None:
                party.vehicle.drive(TICK / 1000)
                party.place = party.vehicle.place
                party.trail.append(party.place)
                if (now // TICK + party.number) % (FIX // TICK) == 0:
                    party.station.move(*self.plane.degrees(*party.place))
                else:
                    party.station.radio.move(*party.place)
        still = []
        for sent in self._open:
            self._judge(sent)
            if now < sent.at + VALIDITY:
                still.append(sent)
                continue
            self._numbers["expected"] += len(sent.expected)
            for party in sent.expected:
                at = party.got.get(sent.identity)
                if at is None or at > sent.at + VALIDITY:
                    self._numbers["late"] += at is not None
                else:
                    self._numbers["in time"] += 1
                    self._delays.append(at - sent.at)
        self._open = still
        self._watch(now)

    def _delivered(self, party: _Party, event: Event, now: int) -> None:
        identity = event.identity
        assert identity is not None
        if identity in party.got:
            self._numbers["twice"] += 1
        party.got[identity] = now
        sent = self._by_identity[identity]
        speed = FAST * ((party.vehicle is not None) + sent.moving)
        moved = 1.0 + speed * (FIX + (EVERY if sent.moving else 0)) / 1000
        if _apart(party.place, sent.sender.place) > sent.radius + moved:
            self._numbers["outside"] += 1

    def _group(self, party: _Party) -> int:
        circle = Proximity.circle(0, 0, SIREN_RADIUS)
        return group_id(subject_hash("Siren"), circle, party.station.node.sender)

    def _changed(self, party: _Party, what: str, group: Group, now: int) -> None:
        if group.subject != "Siren":
            return
        key = (party, group.id)
        if what == "joined":
            self._members.add(key)
        else:
            self._members.discard(key)
        late = self._weigh(key, False, now)
        if late is not None:
            (self._joins if what == "joined" else self._leaves).append(late)

    def _watch(self, now: int) -> None:
        for number, ambulance in self.ambulances.items():
            for party in self.parties:
                if party is ambulance:
                    continue
                key = (party, number)
                inside = _apart(party.place, ambulance.place) <= SIREN_RADIUS
                if inside == (key in self._inside):
                    continue
                if inside:
                    self._inside.add(key)
                else:
                    self._inside.remove(key)
                self._weigh(key, True, now)
                if key not in self._wrong and now > WARM_UP and inside == (key in self._members):
                    (self._joins if inside else self._leaves).append(0)

    def _weigh(self, key: tuple[_Party, int], in_fact: bool, now: int) -> int | None:
        """After something has changed, in fact or in belief; how late, when it is belief that follows."""
        if (key in self._inside) != (key in self._members):
            self._wrong.setdefault(key, (now, in_fact))
            return None
        since, was_fact = self._wrong.pop(key, (0, False))
        if since <= WARM_UP:
            return None
        self._errors.append(now - since)
        return now - since if was_fact and not in_fact else None

    def overdue(self) -> int:
        """How many are wrong about an ambulance's area since more than an interval, at the end."""
        late = self.simulation.now - EVERY
        return sum(WARM_UP < since < late for since, _ in self._wrong.values())


def _apart(one: tuple[float, float], other: tuple[float, float]) -> float:
    return float(((one[0] - other[0]) ** 2 + (one[1] - other[1]) ** 2) ** 0.5)
