"""Proximity groups: who is in one is interested, and inside (spec/steam.md, STEAM-33 to STEAM-42).

No service gives names: what a group is called is computed from subject and area by whoever needs it.

    absolute    FNV-1a of the subject's hash, shape, sizes and centre     all who announce the same are one group
    relative    FNV-1a of the subject's hash, shape, sizes and sender     each producer's moves by itself

                    beacon of a subject we want                 inside
    (not heard) ─────────────────────────────────▶ heard ───────────────────▶ joined
         ▲                                           │ ◀────────────────────── │   outside
         └───── four intervals of silence, or the last beacon ─────────────────┘

A node that does not know where it is, is inside of nothing. Of what moves, the node or the area, it is reckoned where
it is meanwhile (motion.py): the edge is crossed when it is, and not when somebody says so next.
"""

from struct import pack

from .._compat import MICROPYTHON, Ordered, const
from ..errors import LocalProtocolError
from ..proximity import Proximity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .beacon import Beacon

__all__ = ["Group", "Groups", "Heard", "fnv24", "group_id", "subject_hash"]

# One beacon of ten is lost: four in a row once in 10,000 intervals.
SILENCE = const(4)


def fnv24(data: bytes) -> int:
    """FNV-1a of 32 bits, folded to 24 as its authors do."""
    found = 0x811C9DC5
    for byte in data:
        found = (found ^ byte) * 0x01000193 & 0xFFFFFFFF
    return found >> 24 ^ found & 0xFFFFFF


def subject_hash(subject: str) -> bytes:
    return fnv24(subject.encode("utf-8")).to_bytes(3, "big")


def clash(one: str, other: str) -> LocalProtocolError:
    return LocalProtocolError(f"subjects {one!r} and {other!r} have the same hash: rename one")


def group_id(subject: bytes, area: Proximity, sender: "bytes | None" = None) -> int:
    """`subject` is its hash. Of a relative area with its `sender`, wherever it is."""
    shape = bytes((area.shape,)) + pack(">HH", area.dimx, area.dimy)
    if sender is None:
        return fnv24(subject + shape + pack(">ii", area.lat, area.lon))
    return fnv24(subject + shape + sender)


class Group:
    """`area` is as its members last heard it."""

    def __init__(self, id: int, subject: str, area: Proximity) -> None:
        self.id = id
        self.subject = subject
        self.area = area
        self.members = 0  # announcements heard that make us one


class Heard:
    """An announcement as it was last heard, and which of its events are done."""

    __slots__ = ("at", "beacon", "done", "group", "inside", "look", "rssi", "subject")

    def __init__(self, subject: str, beacon: "Beacon") -> None:
        self.subject = subject
        self.beacon = beacon
        self.group = 0
        self.at = 0
        self.rssi = 0
        self.look: int | None = None  # when it may be crossed next, if something moves
        self.inside = False
        self.done: list[int] = []  # numbers of the last events that are

    @property
    def until(self) -> int:
        return self.at + SILENCE * self.beacon.every


class Groups:
    """on_change(what, group, now) is told "joined" and "left"."""

    # Announcements a node keeps track of; the silent ones that it is not inside of give way first.
    max_heard = 16 if MICROPYTHON else 1024

    def __init__(self, on_change: "Callable[[str, Group, int], None]") -> None:
        self.joined: dict[int, Group] = Ordered()
        self.heard: dict[bytes, Heard] = Ordered()  # by hash of the subject and sender; silent for longest first
        self._inside = 0  # of those heard
        self._due: int | None = None  # nothing is over before
        self._on_change = on_change
        self._position: tuple[int, int] | None = None
        self._velocity = (0, 0)
        self._since = 0  # when it was there

    def set_position(self, position: "tuple[int, int] | None", velocity: "tuple[int, int]", now: int) -> None:
        self._position = position
        self._velocity = velocity
        self._since = now
        for heard in list(self.heard.values()):
            self._see(heard, now)

    def hear(self, key: bytes, subject: str, beacon: "Beacon", rssi: int, now: int) -> str:
        """What became of it: "" or why it was not taken."""
        heard = self.heard.get(key)
        if heard is None:
            if not beacon.every:
                return "farewell"
            if len(self.heard) >= self.max_heard and not self._make_room(now):
                return "no room"
            heard = Heard(subject, beacon)
        elif (heard.beacon.number - beacon.number & 0xFF) < 128:
            # Another radio has been faster; or it is the same again, and no longer where it says.
            return "" if heard.beacon.number == beacon.number else "late beacon"
        elif not beacon.every:
            self._forget(key, now)
            return ""
        else:
            del self.heard[key]  # to the end
        self.heard[key] = heard
        heard.at = now
        heard.rssi = rssi
        group = group_id(beacon.subject, beacon.area, beacon.sender if beacon.relative else None)
        if group != heard.group:
            self._leave(heard, now)
            heard.group = group
        heard.beacon = beacon
        self._wake(heard.until)
        self._see(heard, now)
        return ""

    def next_timeout(self) -> "int | None":
        """Never later than something is over, or crossed; sometimes sooner."""
        return self._due

    def handle_timeout(self, now: int) -> None:
        if self._due is None or now < self._due:
            return
        self._due = None
        for key, heard in list(self.heard.items()):
            if now >= heard.until:
                self._forget(key, now)
                continue
            self._wake(heard.until)
            if heard.look is not None:
                if now >= heard.look:
                    self._see(heard, now)
                else:
                    self._wake(heard.look)

    def _wake(self, time: int) -> None:
        if self._due is None or time < self._due:
            self._due = time

    def _is_inside(self, heard: Heard, now: int) -> bool:
        position, area = self._position, heard.beacon.area
        heard.look = None
        if position is None:
            return False
        velocity = heard.beacon.velocity
        if velocity == self._velocity == (0, 0):
            return area.contains(position[0], position[1])
        from .motion import ahead, look

        position = ahead(position, self._velocity, now - self._since)
        inside, heard.look = look(area, velocity, now - heard.at, position, self._velocity, now)
        self._wake(heard.look)
        return inside

    def _see(self, heard: Heard, now: int) -> None:
        if not self._is_inside(heard, now):
            self._leave(heard, now)
            return
        group = self.joined.get(heard.group)
        if group is None:
            group = self.joined[heard.group] = Group(heard.group, heard.subject, heard.beacon.area)
        group.area = heard.beacon.area
        if not heard.inside:
            heard.inside = True
            self._inside += 1
            group.members += 1
            if group.members == 1:
                self._on_change("joined", group, now)

    def _leave(self, heard: Heard, now: int) -> None:
        if not heard.inside:
            return
        heard.inside = False
        self._inside -= 1
        group = self.joined[heard.group]
        group.members -= 1
        if not group.members:
            del self.joined[heard.group]
            self._on_change("left", group, now)

    def _forget(self, key: bytes, now: int) -> None:
        self._leave(self.heard.pop(key), now)

    def _make_room(self, now: int) -> bool:
        """The one that was heard least lately, of those we are not inside of."""
        self.handle_timeout(now)
        if len(self.heard) < self.max_heard:
            return True
        if self._inside < len(self.heard):
            for key, heard in self.heard.items():
                if not heard.inside:
                    del self.heard[key]
                    return True
        return False
