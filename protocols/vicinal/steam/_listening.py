"""The consumer's side: from frames to handlers (spec/steam.md, STEAM-26 to STEAM-42).

    piece ─▶ of an announcement heard? ─▶ inside its area? ─▶ not done yet? ─▶ put together ─▶ check, decode
          ─▶ inside the event's own Proximity? ─▶ identity not seen? ─▶ not expired? ─▶ content filter ─▶ handler

Cheap questions come first: most of what a radio hears is somebody else's, or heard before.
"""

from .._compat import MICROPYTHON, Ordered, const
from ..errors import LimitError, LocalProtocolError, VicinalError
from ._bodies import decode, seed_of
from .beacon import read_beacon
from .frames import FULL, check_of, data_of, read_piece
from .groups import SILENCE, Groups, clash, subject_hash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..event import Event
    from .groups import Group
    from .node import Node

# Events of an announcement that are remembered as done; a sender has at most half as many under way.
_REMEMBERED = const(32)
MAX_SUBSCRIPTIONS = 8 if MICROPYTHON else 256


class _Subscription:
    def __init__(self, subject: str, names: "tuple[str, ...] | None") -> None:
        self.subject = subject
        self.names = names
        self.seed = seed_of(subject, names)
        self.handlers: list[tuple[Any, Any]] = []  # filter, handler


class Listener:
    # Identities of events that came, for those that come again on another way; repetitions on the same are known by
    # their number before.
    max_seen = 32 if MICROPYTHON else 4096

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.subscriptions: dict[bytes, _Subscription] = {}
        self.groups = Groups(self._on_change)
        self.reassembly: Any = None  # loaded with the first event of several pieces
        self._seen: dict[tuple[str, int], None] = Ordered()

    def subscribe(self, subject: str, condition: "Any", handler: "Any", names: "Sequence[str] | None") -> None:
        key = subject_hash(subject)
        wanted = None if names is None else tuple(names)
        found = self.subscriptions.get(key)
        if found is None:
            if len(self.subscriptions) >= MAX_SUBSCRIPTIONS:
                raise LimitError("subjects a node subscribes to", len(self.subscriptions) + 1, MAX_SUBSCRIPTIONS)
            found = self.subscriptions[key] = _Subscription(subject, wanted)
        elif found.subject != subject:
            raise clash(subject, found.subject)
        elif found.names != wanted:
            raise LocalProtocolError(f"subject {subject!r} has the names {found.names}, not {wanted}")
        found.handlers.append((condition, handler))

    # What comes from the air

    def receive(self, payload: bytes, rssi: int, now: int) -> None:
        """A frame of a subject that is subscribed to."""
        drop = self.node.drop
        self.groups.handle_timeout(now)
        subscription = self.subscriptions[payload[1:4]]
        key = payload[1:7]
        try:
            if payload[0] & 15 < FULL:
                why = self.groups.hear(key, subscription.subject, read_beacon(payload), rssi, now)
                if why:
                    return drop(why)
                return self.node.count("in beacons")
            piece = read_piece(payload)
        except VicinalError:
            return drop("malformed")
        heard = self.groups.heard.get(key)
        if heard is None:
            return drop("no beacon")
        if not heard.inside:
            return drop("outside")
        if piece.typed and subscription.names is None:
            return drop("no names")
        if piece.number in heard.done:
            return drop("repeated")
        if piece.count == 1:
            found = data_of([piece.chunk])
            if found is None:
                return drop("malformed")
        else:
            if self.reassembly is None:
                from .reassembly import Reassembly

                self.reassembly = Reassembly(drop)
            found = self.reassembly.receive(piece, now, SILENCE * heard.beacon.every)
        if found is not None:
            self.node.count("in pieces", piece.count)
            if self._assembled(subscription, piece.typed, found[0], found[1], now):
                heard.done = heard.done[1 - _REMEMBERED :] + [piece.number]
        return None

    def _assembled(self, subscription: _Subscription, typed: bool, check: bytes, data: bytes, now: int) -> bool:
        """Whether it need not be put together again."""
        node = self.node
        node.count("in assembled")
        if check != check_of(subscription.seed if typed else b"", data):
            node.count("event dropped: checksum")
            return False
        try:
            event = decode(data, subscription.subject, subscription.names if typed else None)
        except VicinalError:
            node.count("event dropped: undecodable")
            return True
        if not self._inside(event, now):
            node.count("event dropped: outside")
            return False  # we may come there yet
        wanted = []
        if self._is_known(event.identity):
            why = "duplicate"
        elif event.attrs.get("Expires", now + 1) <= now:
            why = "expired"
        else:
            for condition, handler in subscription.handlers:
                if condition is None or condition.matches(event):
                    wanted.append(handler)
            why = "" if wanted else "filter"
        node.count("event dropped: " + why if why else "in delivered")
        for handler in wanted:
            node.tell(handler, event, now)
        return True

    def _is_known(self, identity: "tuple[str, int] | None") -> bool:
        """Whether it came before, perhaps on another way."""
        if identity is None:
            return False
        if identity in self._seen:
            return True
        if len(self._seen) >= self.max_seen:
            del self._seen[list(self._seen)[0] if MICROPYTHON else next(iter(self._seen))]
        self._seen[identity] = None
        return False

    def _inside(self, event: "Event", now: int) -> bool:
        """Of an area that the event has for itself. A relative one is its announcement's business."""
        area = event.attrs.get("Proximity")
        position = self.node.place(now)
        return area is None or area.relative or (position is not None and area.contains(position[0], position[1]))

    def _on_change(self, what: str, group: "Group", now: int) -> None:
        self.node.tell(self.node.on_member, what, group, now)
