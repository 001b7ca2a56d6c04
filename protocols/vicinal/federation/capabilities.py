"""What an event service can carry, so that a gateway refuses when it is asked, and loses nothing later (DESIGN 5).

max_bytes    the largest event, as bytes on our wire; 0 for any
types        of parameters: those of str int float bool bytes event that arrive as they were sent
attributes   those that the service honours or carries; "*" for all
filter       what it filters by itself: "none", "subject" or "content"; the gateway filters the rest
announces    nobody hears of an event that was not announced
poll         0 where the service pushes; else ask every so many milliseconds
control      control events can pass: the service may lie between two gateways
located      what is there is where the gateway is: a bus, a radio; not a network of brokers
tunnels      gives and takes what it carries as bytes, unchanged
"""

from .. import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ..event import Event

__all__ = ["ALL_TYPES", "Capabilities", "type_name"]

ALL_TYPES = ("str", "int", "float", "bool", "bytes", "event")
FILTERS = ("none", "subject", "content")


class Capabilities:
    __slots__ = ("announces", "attributes", "control", "filter", "located", "max_bytes", "poll", "tunnels", "types")

    def __init__(
        self,
        max_bytes: int = 0,
        types: "Iterable[str]" = ALL_TYPES,
        attributes: "Iterable[str]" = ("*",),
        filter: str = "subject",
        announces: bool = False,
        poll: int = 0,
        control: bool = True,
        located: bool = False,
        tunnels: bool = False,
    ) -> None:
        self.max_bytes = max_bytes or limits.MAX_EVENT_BYTES
        self.types = tuple(types)
        self.attributes = tuple(attributes)
        self.filter = filter
        self.announces = announces
        self.poll = poll
        self.control = control
        self.located = located
        self.tunnels = tunnels

    def carries(self, attribute: str) -> bool:
        return "*" in self.attributes or attribute in self.attributes

    def refusal(self, event: "Event") -> str:
        """Why an event, or one that stands for its type, cannot be represented there; "" if it can."""
        for name, value in event.params.items():
            kind = type_name(value)
            if kind not in self.types:
                return f"parameter {name!r} of {event.subject!r} is a {kind}, which this service cannot carry"
        from .. import wire  # a device that only says what it can do need not have it

        size = len(wire.encode(event))
        if size > self.max_bytes:
            return f"an event {event.subject!r} has {size} bytes, the largest of this service has {self.max_bytes}"
        return ""

    def table(self) -> "dict[str, Any]":
        """For people and programs that ask what a service can do."""
        return {name: getattr(self, name) for name in sorted(self.__slots__)}


def type_name(value: "Any") -> str:
    kind = type(value).__name__
    return "event" if kind == "Event" else kind
