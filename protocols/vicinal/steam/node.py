"""A node in the air, as a state machine: the shell brings advertisements, position and time, and asks what to send.

    receive(advertisement, rssi, now)      as heard; receive_payload() where a stack has taken it apart
    advertisement(now)                     what goes out at this advertising event, or None
    set_position(lat, lon, now)            where this is; None, None when nobody knows. How fast: see motion.py
    next_timeout(), handle_timeout(now)

    announce, unannounce, publish          see _announcing.py, loaded with the first announcement
    subscribe, unsubscribe                 see _listening.py, loaded with the first subscription

Whatever is heard, nothing is raised; it is counted. Handlers are called last in each call, when everything is in
order, and may publish; what one raises comes out of the call, and nothing is lost by it. Exactly:

    heard        = strangers + advertisements with frames
    in frames    = in beacons + in pieces + pending + in dropped: ...            in frames
    in assembled = in delivered + event dropped: ...                             in events
    out accepted = out sent + stored + out dropped: ...                          in events
"""

from .._compat import const
from ..errors import LimitError
from .frames import FULL, LEGACY_ROOM, MAX_ROOM, MIN_ROOM, TAGGED, TYPED, VERSION, payloads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ..event import Event
    from ..filter import Filter
    from ..proximity import Proximity
    from ._announcing import Announcer
    from ._listening import Listener
    from .groups import Group, Heard

__all__ = ["Node"]

# ms within which the same position again is the same fix: shells ask more often than receivers tell, once a second.
_SAME_FIX = const(1500)


class Node:
    def __init__(
        self, name: str, sender: int, room: int = LEGACY_ROOM, interval: int = 100, first_seq: int = 0
    ) -> None:
        """`name` is the producer of events that have none yet, numbered from `first_seq` on: the shell sees to it
        that no number is used again after a restart. `sender` is drawn anew at each start, of 24 bits and not 0.
        `room` is what the radio can send at a time, `interval` ms how often it does."""
        if not 0 < sender < 1 << 24:
            raise LimitError("sender", sender, "1 .. 2^24-1")
        if not MIN_ROOM <= room <= MAX_ROOM:
            raise LimitError("room in an advertisement", room, f"{MIN_ROOM} .. {MAX_ROOM} bytes")
        if interval < 1:
            raise LimitError("advertising interval", interval, "1 ms or more")
        self.name = name
        self.sender = sender.to_bytes(3, "big")
        self.room = room
        self.interval = interval
        self.seq = first_seq
        self.position: tuple[int, int] | None = None
        self.velocity = (0, 0)
        self._since = 0  # when it was there
        self._before: tuple[int, int, int] | None = None  # where and when it was, to tell how fast
        self.counters: dict[str, int] = {}
        self.on_member: Callable[[str, Group, int], None] | None = None
        self.losses: Any = None  # see elastic.py
        self._announcer: Announcer | None = None
        self._listener: Listener | None = None
        self._told: list[tuple[Any, ...]] = []

    # The radio

    def receive(self, advertisement: bytes, rssi: int, now: int) -> None:
        self.count("heard")
        frames = payloads(advertisement)
        if not frames:
            return self.count("strangers")
        for payload in frames:
            self._frame(payload, rssi, now)
        return self._finish()

    def receive_payload(self, payload: bytes, rssi: int, now: int) -> None:
        """What manufacturer specific data of the company 0xFFFF holds."""
        self.count("heard")
        self._frame(bytes(payload), rssi, now)
        self._finish()

    def _frame(self, payload: bytes, rssi: int, now: int) -> None:
        self.count("in frames")
        first = payload[0] if payload else 0
        if first >> 5 != VERSION:
            return self.drop("version")
        if first & TAGGED:
            return self.drop("tagged")
        if first & 15 > TYPED:
            return self.drop("kind")
        if payload[4:7] == self.sender:
            return self.drop("own")
        if self.losses is not None and first & 15 < FULL:
            from .elastic import observe

            observe(self.losses, payload, self.position)
        if self._listener is None or payload[1:4] not in self._listener.subscriptions:
            return self.drop("not subscribed")
        return self._listener.receive(payload, rssi, now)

    def advertisement(self, now: int) -> "bytes | None":
        """One AD structure, taken as sent: the next call gives the next."""
        if self._announcer is None:
            return None
        data = self._announcer.advertisement(now)
        self._finish()
        return data

    # Position and time

    def set_position(
        self, lat: "int | None", lon: "int | None", now: int, velocity: "tuple[int, int] | None" = None
    ) -> None:
        """`velocity` is to the north and to the east, in 1e-7 degrees a second; None: as the last two positions say."""
        if lat is None or lon is None:
            self.position = self._before = None
            self.velocity = (0, 0)
            if self._announcer is not None:
                from ._ending import withdraw

                withdraw(self._announcer, "no position")
        else:
            from ..proximity import _check_position

            _check_position(lat, lon)
            before, moved = self._before, self.position != (lat, lon)
            if velocity is None and before is not None:
                if not moved and (self.velocity == (0, 0) or now - before[2] < _SAME_FIX):
                    return
                from .motion import between

                velocity = between(before, lat, lon, now)
            if velocity is not None:
                self.velocity = velocity
            if velocity is not None or before is None:
                self._before = (lat, lon, now)
            self.position = (lat, lon)
        self._since = now
        if self._announcer is not None and self.position is not None:
            from .motion import turned

            turned(self._announcer, now)
        if self._listener is not None:
            self._listener.groups.set_position(self.position, self.velocity, now)
        self._finish()

    def place(self, now: int) -> "tuple[int, int] | None":
        """Where this is, as far as that can be known between two positions."""
        if self.position is None or self.velocity == (0, 0):
            return self.position
        from .motion import ahead

        return ahead(self.position, self.velocity, now - self._since)

    def next_timeout(self) -> "int | None":
        known = [part.next_timeout() for part in self._parts()]
        times = [time for time in known if time is not None]
        return min(times) if times else None

    def handle_timeout(self, now: int) -> None:
        for part in self._parts():
            part.handle_timeout(now)
        self._finish()

    def _parts(self) -> "list[Any]":
        """Those with timers."""
        found: list[Any] = [] if self._announcer is None else [self._announcer]
        if self._listener is not None:
            found.append(self._listener.groups)
            if self._listener.reassembly is not None:
                found.append(self._listener.reassembly)
        return found

    # The application

    def announce(
        self,
        subject: str,
        area: "Proximity",
        now: int,
        names: "Sequence[str] | None" = None,
        every: int = 1000,
        validity: int = 2000,
        keep: bool = True,
        minimum: "Proximity | None" = None,
        on_adapt: "Callable[[Proximity, bool, int], None] | None" = None,
    ) -> None:
        """Events of `subject` are valid in `area`, said in a beacon `every` so many ms. Each is repeated for
        `validity` ms at most; `keep` says the last again and again for those who join. With `names`, the parameters
        in order, events are short, and for those alone who subscribe with the same. With a `minimum` the area is
        elastic (elastic.py). Announced again, it changes."""
        elastic = None
        if minimum is not None:
            from .elastic import Elastic, Losses

            elastic = Elastic(area, minimum, on_adapt)
            if self.losses is None:
                self.losses = Losses()
        self._announcing().announce(subject, area, now, names, every, validity, keep, elastic)

    def unannounce(self, subject: str, now: int) -> None:
        from ._ending import unannounce

        unannounce(self._announcing(), subject, now)

    def publish(self, event: "Event", now: int) -> bool:
        """Whether it will be sent. Raises where it cannot be: not announced, too long, other names than announced."""
        return self._announcing().publish(event, now)

    def _announcing(self) -> "Announcer":
        if self._announcer is None:
            from ._announcing import Announcer

            self._announcer = Announcer(self)
        return self._announcer

    def subscribe(
        self,
        subject: str,
        condition: "Filter | None",
        handler: "Callable[[Event, int], None]",
        names: "Sequence[str] | None" = None,
    ) -> None:
        """`handler(event, now)` gets the events of a subject that meet the condition, while this node is inside their
        area."""
        self._listening().subscribe(subject, condition, handler, names)

    def unsubscribe(self, subject: str, handler: "Callable[[Event, int], None]", now: int) -> None:
        from ._ending import unsubscribe

        unsubscribe(self._listening(), subject, handler, now)
        self._finish()

    def _listening(self) -> "Listener":
        if self._listener is None:
            from ._listening import Listener

            self._listener = Listener(self)
            self._listener.groups.set_position(self.position, self.velocity, self._since)
        return self._listener

    def groups(self) -> "list[Group]":
        """Those joined."""
        return [] if self._listener is None else list(self._listener.groups.joined.values())

    def heard(self) -> "list[Heard]":
        """Announcements of what we subscribe to, inside or not."""
        return [] if self._listener is None else list(self._listener.groups.heard.values())

    @property
    def stored(self) -> int:
        """Events accepted, and neither sent nor dropped yet."""
        return 0 if self._announcer is None else len(self._announcer.rotation.fresh)

    @property
    def pending(self) -> int:
        """Pieces of events that are not whole yet."""
        if self._listener is None or self._listener.reassembly is None:
            return 0
        return int(self._listener.reassembly.pending)

    # What the parts call

    def count(self, what: str, by: int = 1) -> None:
        self.counters[what] = self.counters.get(what, 0) + by

    def drop(self, reason: str, by: int = 1) -> None:
        self.count("in dropped: " + reason, by)

    def tell(self, handler: "Any", *what: "Any") -> None:
        if handler is not None:
            self._told.append((handler,) + what)

    def _finish(self) -> None:
        while self._told:
            call = self._told.pop(0)
            call[0](*call[1:])
