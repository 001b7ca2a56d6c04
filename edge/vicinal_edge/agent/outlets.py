"""What a bus or a radio of an agent says: the other side of its part (parts.py).

outlet.announce(way, now)          a [[publish]] (ways.py) goes out here
outlet.publish(way, event, now)    "" when it is taken, else why not
outlet.out()                       of what was taken: sent, not yet, and dropped by reason
"""

from vicinal.errors import VicinalError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vicinal.event import Event

    from .parts import BlePart, CanPart
    from .ways import Publish

__all__ = ["BleOutlet", "CanOutlet", "outlet_of"]

_UNFIT = "does not fit"


def outlet_of(name: str, part: "Any") -> "BleOutlet | CanOutlet":
    return BleOutlet(part) if name == "ble" else CanOutlet(part)


class CanOutlet:
    """COSMIC channels, and frames of the mapping, which share the controller's mailbox."""

    def __init__(self, part: "CanPart") -> None:
        self.part = part

    def announce(self, way: "Publish", now: int) -> None:
        part = self.part
        if way.etag is not None:
            part.channel(way.channel).announce(now * 1000)
        elif part.box is part.controller:
            from .mailbox import Mailbox

            part.box = Mailbox(part.controller)

    def publish(self, way: "Publish", event: "Event", now: int) -> str:
        part, time = self.part, now * 1000
        try:
            if way.etag is None:
                return "" if part.box.put(part.mapping.encode(event), time, time + way.channel[3]) else "queue full"
            part.channel(way.channel).publish(event, time)
            part.shell.exchange(time)
        except VicinalError:
            return _UNFIT
        except OSError as error:
            part.failed = error  # it is taken; whoever offered it is not to blame
        return ""

    def out(self) -> "tuple[int, int, dict[str, int]]":
        part = self.part
        sent, stored, dropped = _out_of(part.node.counters, part.node.stored)
        if part.box is not part.controller:
            more = _out_of(part.box.counters, len(part.box.plain))
            sent, stored = sent + more[0], stored + more[1]
            for reason in more[2]:
                dropped[reason] = dropped.get(reason, 0) + more[2][reason]
        return sent, stored, dropped


class BleOutlet:
    """STEAM groups, in a circle about where the agent stands."""

    def __init__(self, part: "BlePart") -> None:
        self.node = part.node

    def announce(self, way: "Publish", now: int) -> None:
        from vicinal.proximity import Proximity

        area = Proximity.circle(way.position[0], way.position[1], way.radius)
        self.node.announce(way.subject, area, now, way.names, way.beacon, way.validity, way.keep)

    def publish(self, way: "Publish", event: "Event", now: int) -> str:
        try:
            self.node.publish(event, now)
        except VicinalError:
            return _UNFIT
        return ""

    def out(self) -> "tuple[int, int, dict[str, int]]":
        return _out_of(self.node.counters, self.node.stored)


def _out_of(counters: "dict[str, int]", stored: int) -> "tuple[int, int, dict[str, int]]":
    """Of the counters of a node: sent, not yet, and why not."""
    dropped = {}
    for name in counters:
        if name.startswith("out dropped: "):
            dropped[name[13:]] = counters[name]
    return counters.get("out sent", 0), stored, dropped
