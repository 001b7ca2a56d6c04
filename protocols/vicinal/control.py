"""Control events: what gateways and clients ask of each other (seed 001, 5.2.8 and 5.3.1), and the answer.

A control event is an event with the subject FES_ControlEvent:

    Type      1 Announcement  2 Subscription  3 Publication  4 Unsubscription  5 Unannouncement
              6 Answer  7 Record  8 Echo
    DistList  the event services it is for
    Source    the event service it comes from; "" for the one on which it is heard
    Filter    of 2 and 4       Event     of 1, 3 and 5

The dissertation's requests are never answered. Ours are: an Answer names the request by the identity of its control
event, says whether it was accepted, and if not, why. A Record is what a gateway says of itself to others, an Echo asks
whether a service can be reached, and what it can do.
"""

from .distlist import DistList
from .errors import LocalProtocolError, RemoteProtocolError
from .event import Event, check_identity
from .filter import Filter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "SUBJECT",
    "Announcement",
    "Answer",
    "Echo",
    "Publication",
    "Record",
    "Subscription",
    "Unannouncement",
    "Unsubscription",
    "from_event",
]

SUBJECT = "FES_ControlEvent"
# Of one gateway, in its record.
MAX_SERVICES = 256


class Message:
    """`to` is a distribution list, `source` an event service."""

    type = 0

    def __init__(self, to: "DistList | str", source: str) -> None:
        self.to = to if isinstance(to, DistList) else DistList(to)
        if type(source) is not str:
            raise LocalProtocolError(f"source is {source!r}, want the name of an event service")
        self.source = source

    def to_event(self) -> Event:
        """The control event, still to be stamped by who publishes it."""
        head = [("Type", self.type), ("DistList", self.to.text), ("Source", self.source)]
        return Event(SUBJECT, head + self.body())

    def body(self) -> "list[tuple[str, Any]]":
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self.to_event() == other.to_event()

    def __hash__(self) -> int:
        return hash((self.type, self.to, self.source))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(to={self.to.text!r}, source={self.source!r}, {dict(self.body())!r})"


class _WithEvent(Message):
    def __init__(self, to: "DistList | str", source: str, event: Event) -> None:
        super().__init__(to, source)
        self.event = event

    def body(self) -> "list[tuple[str, Any]]":
        return [("Event", self.event)]


class _WithFilter(Message):
    def __init__(self, to: "DistList | str", source: str, filter: "Filter | str") -> None:
        super().__init__(to, source)
        self.filter = filter if isinstance(filter, Filter) else Filter(filter)

    def body(self) -> "list[tuple[str, Any]]":
        return [("Filter", str(self.filter))]


class Unannouncement(_WithEvent):
    type = 5


class Announcement(_WithEvent):
    """Events of this type may follow. The event stands for its type."""

    type = 1
    undo = Unannouncement


class Unsubscription(_WithFilter):
    type = 4


class Subscription(_WithFilter):
    type = 2
    undo = Unsubscription


class Publication(_WithEvent):
    type = 3


# What an answer may say beside; left out where it is this.
_MORE: "tuple[tuple[str, Any], ...]" = (("Gateway", ""), ("Hop", 0), ("Passed", False), ("Detail", ""))


class Answer(Message):
    """To the request whose control event has the identity `request`. Without a `reason` it was accepted. `gateway` has
    answered, the `hop`th on the way; of an Echo that is `passed` on, more answers follow, and `detail` of the last
    describes the service as JSON."""

    type = 6

    def __init__(
        self,
        to: "DistList | str",
        source: str,
        request: "tuple[str, int]",
        reason: str = "",
        gateway: str = "",
        hop: int = 0,
        passed: bool = False,
        detail: str = "",
    ) -> None:
        super().__init__(to, source)
        check_identity(request[0], request[1])
        self.request = request
        self.reason = reason
        self.gateway = gateway
        self.hop = hop
        self.passed = passed
        self.detail = detail

    @property
    def accepted(self) -> bool:
        return not self.reason

    def body(self) -> "list[tuple[str, Any]]":
        producer, seq = self.request
        found: list[tuple[str, Any]] = [("RequestProducer", producer), ("RequestSeq", seq), ("Accepted", self.accepted)]
        more = (self.gateway, self.hop, self.passed, self.detail)
        found += [("Reason", self.reason)] if self.reason else []
        return found + [(name, value) for (name, _), value in zip(_MORE, more) if value]


class Record(Message):
    """What gateway `source` says of itself: its start (`incarnation`), how often it has said something else since
    (`version`), and its services, those through which control events pass apart."""

    type = 7

    def __init__(
        self, source: str, incarnation: int, version: int, transit: "tuple[str, ...]", leaves: "tuple[str, ...]"
    ) -> None:
        super().__init__("*", source)
        self.incarnation = incarnation
        self.version = version
        self.transit = transit
        self.leaves = leaves

    def body(self) -> "list[tuple[str, Any]]":
        return [
            ("Incarnation", self.incarnation),
            ("Version", self.version),
            ("Transit", ",".join(self.transit)),
            ("Leaves", ",".join(self.leaves)),
        ]


class Echo(Message):
    """Can these be reached? With `trace` every gateway on the way answers."""

    type = 8

    def __init__(self, to: "DistList | str", source: str, trace: bool = False) -> None:
        super().__init__(to, source)
        self.trace = trace

    def body(self) -> "list[tuple[str, Any]]":
        return [("Trace", self.trace)]


def from_event(event: Event) -> Message:
    """The request or answer that a control event holds. What is wrong with it is the sender's fault."""
    if event.subject != SUBJECT:
        raise RemoteProtocolError(f"subject is {event.subject!r}, want {SUBJECT!r}")
    kind = _take(event, "Type", int)
    to, source = _take(event, "DistList", str), _take(event, "Source", str)
    try:
        for request in (Announcement, Publication, Unannouncement):
            if kind == request.type:
                return request(to, source, _take(event, "Event", Event))
        for question in (Subscription, Unsubscription):
            if kind == question.type:
                return question(to, source, _take(event, "Filter", str))
        if kind == Answer.type:
            return _answer(event, to, source)
        if kind == Record.type:
            return _record(event, source)
        if kind == Echo.type:
            return Echo(to, source, _take(event, "Trace", bool))
    except LocalProtocolError as error:
        raise RemoteProtocolError(f"control event of type {kind}: {error}")
    raise RemoteProtocolError(f"control event of unknown type {kind}")


def _answer(event: Event, to: str, source: str) -> Answer:
    request = (_take(event, "RequestProducer", str), _take(event, "RequestSeq", int))
    reason = ""
    if not _take(event, "Accepted", bool):
        reason = _take(event, "Reason", str) or "no reason given"
    more = [_take(event, name, type(default)) if name in event else default for name, default in _MORE]
    return Answer(to, source, request, reason, *more)


def _record(event: Event, source: str) -> Record:
    names = []
    for which in ("Transit", "Leaves"):
        text = _take(event, which, str)
        names.append(tuple(text.split(",")) if text else ())
        if "" in names[-1] or len(names[-1]) > MAX_SERVICES or "*" in text or "?" in text:
            raise RemoteProtocolError(f"control event: {which} is {text[:80]!r}, want names of services, comma between")
    numbers = [_take(event, which, int) for which in ("Incarnation", "Version")]
    if min(numbers) < 0 or not source:
        raise RemoteProtocolError(f"control event: a record of {source!r} with {numbers}, want a name and 0 or more")
    return Record(source, numbers[0], numbers[1], names[0], names[1])


def _take(event: Event, name: str, kind: "Any") -> "Any":
    value = event.get(name)
    if type(value) is not kind:
        raise RemoteProtocolError(f"control event: {name} is {value!r}, want {kind.__name__}")
    return value
