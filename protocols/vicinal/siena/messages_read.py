"""Reading what messages.py writes: strictly, each field of the type it must have, an error with its place."""

from .. import limits
from .._cbor_read import loads, place_of
from .._compat import MICROPYTHON
from ..errors import LocalProtocolError, RemoteProtocolError
from ..filter import Filter
from ..scope.graph import Tags
from ..scope.membership import ACTIONS
from ..wire import decode as decode_event
from .messages import (
    BROKER,
    CLIENT,
    CONTENTS,
    KINDS,
    MAX_ANSWER_CHARS,
    MAX_BYTES_BROKER,
    MAX_BYTES_CLIENT,
    MAX_DEPLOYMENT_CHARS,
    MAX_ITEMS_BROKER,
    MAX_NAME_BYTES,
    MAX_REASON_CHARS,
    MAX_TARGETS,
    MAX_TOKEN_CHARS,
    MAX_TOLD_CHARS,
    SAYINGS,
    VERSION,
)
from .records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .messages import Message

if not MICROPYTHON:
    from .._cbor_cpython import loads_if_canonical

__all__ = ["decode"]

_NAMES = {number: kind for kind, number in KINDS.items()}
_PUBLISH = KINDS["publish"]
_ANSWER = KINDS["answer"]
_EVENTS = {number: kind for kind, number in CONTENTS.items()}


def decode(data: bytes, max_bytes: int = MAX_BYTES_BROKER) -> "Message":
    """What is not exactly a message is refused, with its place."""
    if len(data) > 5 and data[1] == _PUBLISH and data[0] == 0x84:
        publish = _publish(data)
        if publish is not None:
            return publish
    elif len(data) > 4 and data[1] == _ANSWER and data[0] == 0x84:
        answer = _accepted(data)
        if answer is not None:
            return answer
    max_items = MAX_ITEMS_BROKER if max_bytes > MAX_BYTES_CLIENT else limits.MAX_ITEMS
    item: Any = None if MICROPYTHON else loads_if_canonical(data, max_bytes, max_items)
    if item is None:
        item = loads(data, max_bytes, max_items)
    reader = _Fields(data, item, max_items)
    try:
        return reader.message()
    except RemoteProtocolError as error:
        if not MICROPYTHON:
            loads(data, max_bytes, max_items)  # cbor2 lets simple values through; our own reader knows the place
        raise RemoteProtocolError(f"{reader.kind}: {error.reason}", reader.place() + error.offset)
    except LocalProtocolError as error:
        raise RemoteProtocolError(f"{reader.kind}: {error}", reader.place())


def _publish(data: bytes) -> "Message | None":
    """A publish read by hand, because there are so many; None for what is unusual, or wrong."""
    request: int | None = None
    at = 3
    if data[2] != 0xF6:
        request, at = _small(data, 2)
    advert, at = _small(data, at)
    size, start = _small(data, at, 0x40)
    if request == -1 or advert < 0 or size < 0 or len(data) != start + size:
        return None
    try:
        return ("publish", request, advert, decode_event(data[start:]))
    except RemoteProtocolError:
        return None


def _accepted(data: bytes) -> "Message | None":
    """The answer to a publish read by hand, because there are as many; None for all others."""
    request, at = _small(data, 2)
    if request < 0 or at + 2 > len(data) or data[at] != 0xF5:
        return None
    more, end = _small(data, at + 1)
    return ("answer", request, True, more) if more >= 0 and end == len(data) else None


def _small(data: bytes, at: int, major: int = 0) -> "tuple[int, int]":
    """An argument of up to 32 bits, and where the next item begins; -1 for what else it may be."""
    first = (data[at] if at < len(data) else 0xFF) - major
    if 0 <= first < 24:
        return first, at + 1
    if not 24 <= first <= 26:
        return -1, at
    size = 1 << first - 24
    value = int.from_bytes(data[at + 1 : at + 1 + size], "big")
    return (value if value >= (24 if size == 1 else 1 << 4 * size) else -1), at + 1 + size


class _Fields:
    """Takes one field after the other, each of the type it must have."""

    def __init__(self, data: bytes, item: "Any", max_items: int) -> None:
        self.data = data
        self.items = item
        self.max_items = max_items
        self.at = 0
        self.kind = "message"

    def place(self) -> int:
        return place_of(self.data, max(self.at - 1, 0), self.max_items) if type(self.items) is list else 0

    def take(self) -> "Any":
        if self.at >= len(self.items):
            raise RemoteProtocolError(f"has {len(self.items)} fields, and lacks one")
        self.at += 1
        return self.items[self.at - 1]

    def message(self) -> "Message":
        if type(self.items) is not list or not self.items:
            raise RemoteProtocolError("is not an array that begins with a type")
        number = self.take()
        if type(number) is not int or number not in _NAMES:
            raise RemoteProtocolError(f"type {number!r} is unknown")
        kind = self.kind = _NAMES[number]
        found = getattr(self, kind)()
        if self.at != len(self.items):
            self.at += 1
            raise RemoteProtocolError(f"has {len(self.items)} fields, want {self.at - 1}")
        return (kind,) + found  # type: ignore[no-any-return]

    def hello(self) -> "Message":
        version = _uint(self.take())
        if version != VERSION:
            # Of another version only this much is known.
            self.at = len(self.items)
            return (version, CLIENT, "")
        role = _uint(self.take())
        if role not in (CLIENT, BROKER):
            raise RemoteProtocolError(f"role is {role}, want {CLIENT} (client) or {BROKER} (broker)")
        name = _name(self.take())
        if self.at == len(self.items):
            return (version, role, name)
        return (version, role, name, _text(self.take(), MAX_TOKEN_CHARS))

    def welcome(self) -> "Message":
        return (_uint(self.take()), _name(self.take()), _int(self.take(), -1))

    def bye(self) -> "Message":
        return (_uint(self.take()), _text(self.take(), MAX_REASON_CHARS))

    def ping(self) -> "Message":
        return (_uint(self.take()),)

    pong = credit = ping

    def advertise(self) -> "Message":
        return (_uint(self.take()), _text(self.take()), _tags(self.take()))

    def unadvertise(self) -> "Message":
        return (_uint(self.take()), _uint(self.take()))

    unsubscribe = unadvertise

    def subscribe(self) -> "Message":
        head = self.advertise()
        durable, offset = self.take(), self.take()
        return head + (None if durable is None else _name(durable), None if offset is None else _uint(offset))

    def publish(self) -> "Message":
        request = self.take()
        return (None if request is None else _uint(request), _uint(self.take()), _event(self.take()))

    def answer(self) -> "Message":
        request, accepted, more = _uint(self.take()), _bool(self.take()), self.take()
        return (request, accepted, _uint(more) if accepted else _text(more, MAX_ANSWER_CHARS))

    def told(self) -> "Message":
        return (_uint(self.take()), _text(self.take(), MAX_TOLD_CHARS))

    def ended(self) -> "Message":
        return (_uint(self.take()), _text(self.take(), MAX_REASON_CHARS))

    def administer(self) -> "Message":
        request, what = _uint(self.take()), _list(self.take())
        kind = what[0] if what else None
        if type(kind) is int and 0 <= kind < len(SAYINGS):
            return (request, (SAYINGS[kind],) + _saying(SAYINGS[kind], what[1:]))
        if kind == len(SAYINGS) and len(what) == 2:
            return (request, ("tell", _text(what[1], MAX_REASON_CHARS)))
        raise RemoteProtocolError(f"{_shown(what)} is nothing that an administrator says")

    def change(self) -> "Message":
        kind = _uint(self.take())
        if kind >= len(SAYINGS):
            raise RemoteProtocolError(f"statement {kind} is unknown")
        return ((SAYINGS[kind], (_uint(self.take()), _name(self.take()))) + _saying(SAYINGS[kind], _list(self.take())),)

    def deliver(self) -> "Message":
        keys = tuple([_uint(key) for key in _list(self.take())])
        event, offset = _event(self.take()), self.take()
        return (keys, event, None if offset is None else _uint(offset), _trail(self.take()))

    def record(self) -> "Message":
        broker, incarnation, version = _name(self.take()), _uint(self.take()), _uint(self.take())
        neighbours = tuple([_name(name) for name in _list(self.take())])
        scopes = [_scope(name) for name in _list(self.take())]
        adverts = tuple([(_filter(text), _tags(tags)) for text, tags in _pairs(self.take())])
        return (Record(broker, incarnation, version, neighbours, frozenset(scopes), adverts),)

    def packets(self) -> "Message":
        hops, source, incarnation = _uint(self.take()), _name(self.take()), _uint(self.take())
        state, content = _state(self.take()), _content(self.take())
        targets = [_target(target, len(state)) for target in _list(self.take())]
        if len(targets) > MAX_TARGETS:
            raise RemoteProtocolError(f"{len(targets)} targets, the limit is {MAX_TARGETS}")
        if len(state) != (len(content[2].scopes) if content[0] in CONTENTS else 0):
            raise RemoteProtocolError("its scopes are not those of its content")
        return (hops, source, incarnation, state, content, targets, _trail(self.take()))

    def ack(self) -> "Message":
        head = (_uint(self.take()), _name(self.take()), _uint(self.take()), _name(self.take()))
        return head + ((_uint(self.take()), _uint(self.take())), _uint(self.take()))

    def leave(self) -> "Message":
        return (_scope(self.take()),)

    left = leave


def _saying(kind: str, fields: "list[Any]") -> "Message":
    """The fields of what an administrator says."""
    if kind == "approve":
        name, scope, actions, until = _list(fields, 4)
        named = tuple([_text(action, MAX_REASON_CHARS) for action in _list(actions)])
        for action in named:
            if action not in ACTIONS:
                raise RemoteProtocolError(f"action is {_shown(action)}, want one of {', '.join(ACTIONS)}")
        return (_name(name), _scope(scope), named, None if until is None else _uint(until))
    if kind == "revoke":
        name, before = _list(fields, 2)
        return (_name(name), _uint(before))
    if kind == "deploy":
        return (_text(_list(fields, 1)[0], MAX_DEPLOYMENT_CHARS),)
    name, scope = _list(fields, 2)
    return (_name(name), _scope(scope))


def _int(value: "Any", least: int) -> int:
    if type(value) is not int or not least <= value <= limits.INT_MAX:
        raise RemoteProtocolError(f"{_shown(value)} is not an integer in {least} .. 2^63-1")
    return value


def _uint(value: "Any") -> int:
    return _int(value, 0)


def _bool(value: "Any") -> bool:
    if type(value) is not bool:
        raise RemoteProtocolError(f"{_shown(value)} is neither true nor false")
    return value


def _text(value: "Any", most: int = limits.MAX_FILTER_CHARS) -> str:
    if type(value) is not str or len(value) > most:
        raise RemoteProtocolError(f"{_shown(value)} is not a text of up to {most} characters")
    return value


def _name(value: "Any") -> str:
    if type(value) is not str or not 0 < len(value.encode()) <= MAX_NAME_BYTES:
        raise RemoteProtocolError(f"{_shown(value)} is not a name of 1 to {MAX_NAME_BYTES} bytes")
    return value


def _client(value: "Any") -> str:
    """Of a subscription: a durable one is its client's name, a slash and its own."""
    if type(value) is not str or not 0 < len(value.encode()) <= 2 * MAX_NAME_BYTES + 1:
        raise RemoteProtocolError(f"{_shown(value)} is not a client of 1 to {2 * MAX_NAME_BYTES + 1} bytes")
    return value


def _scope(value: "Any") -> str:
    if type(value) is not str or not 0 < len(value.encode()) <= limits.MAX_NAME_BYTES:
        raise RemoteProtocolError(f"{_shown(value)} is not a scope's name of 1 to {limits.MAX_NAME_BYTES} bytes")
    return value


def _list(value: "Any", length: "int | None" = None) -> "list[Any]":
    if type(value) is not list or (length is not None and len(value) != length):
        raise RemoteProtocolError(f"{_shown(value)} is not an array" + ("" if length is None else f" of {length}"))
    return value


def _pairs(value: "Any") -> "list[list[Any]]":
    return [_list(pair, 2) for pair in _list(value)]


def _event(value: "Any") -> "Any":
    if type(value) is not bytes:
        raise RemoteProtocolError(f"{_shown(value)} is not an event's bytes")
    return decode_event(value)


def _filter(value: "Any") -> Filter:
    return Filter(_text(value))


def _tags(value: "Any", who: str = "") -> Tags:
    flat = _list(value)
    if not len(flat) % 2:
        raise RemoteProtocolError(f"{_shown(value)} are not tags: rest, then dimensions and scopes")
    found = [(_scope(flat[at]), _scope(flat[at + 1])) for at in range(1, len(flat), 2)]
    admitted: list[str] = []
    if type(flat[0]) is list:
        admitted = [_scope(name) for name in flat[0]]
        if not admitted or sorted(set(admitted)) != admitted:
            raise RemoteProtocolError(f"{_shown(value)}: the scopes admitted are none, twice or out of order")
    if any([found[at][0] >= found[at + 1][0] for at in range(len(found) - 1)]):
        raise RemoteProtocolError(f"{_shown(value)}: a dimension is twice or out of order")
    return Tags(found, True if admitted else _bool(flat[0]), admitted, who)


def _state(value: "Any") -> "Any":
    flat = _list(value)
    if len(flat) % 2:
        raise RemoteProtocolError(f"{_shown(value)} is not scopes and whether they go up")
    return tuple([(_scope(flat[at]), _bool(flat[at + 1])) for at in range(0, len(flat), 2)])


def _trail(value: "Any") -> "Any":
    steps = [_list(step, 3) for step in _list(value)]
    return tuple([(_name(step[0]), _state(step[1]), _uint(step[2])) for step in steps])


def _content(value: "Any") -> "Any":
    body = _list(value)
    kind = body[0] if body else None
    if type(kind) is int and kind in _EVENTS and len(body) == 3:
        event = _event(body[1])
        if event.identity is None:
            raise RemoteProtocolError(f"event {event.subject!r} has no identity")
        return (_EVENTS[kind], event, _tags(body[2]))
    if kind == 1 and len(body) in (4, 5):
        who = _client(body[4]) if len(body) == 5 else ""
        return ("add", _uint(body[1]), _filter(body[2]), _tags(body[3], who))
    if kind == 2 and len(body) == 2:
        return ("remove", _uint(body[1]))
    if kind == 3 and len(body) == 1:
        return ("void",)
    if kind == 6 and len(body) == 1:
        return ("hold",)
    if kind == 7 and len(body) == 2:
        return ("resume", None if body[1] is None else _uint(body[1]))
    if kind == 8 and len(body) == 2:
        return ("mark", _uint(body[1]))
    if kind == 9 and len(body) == 3:
        return ("load", _client(body[1]), _uint(body[2]))
    raise RemoteProtocolError(f"{_shown(value)} is no packet")


def _target(value: "Any", dimensions: int) -> "Any":
    broker, incarnation, epoch, number, wanted = _list(value, 5)
    flat = _list(wanted)
    goal = [_want(want) for want in flat[:dimensions]]
    if len(flat) == dimensions + 1:
        goal.append(_chosen(flat[-1]))
    elif len(flat) != dimensions:
        raise RemoteProtocolError(f"{_shown(wanted)} is not an array of {dimensions} scopes wanted")
    return (_name(broker), _uint(incarnation), _uint(epoch), _uint(number), tuple(goal))


def _want(value: "Any") -> "Any":
    """A scope, any, or a path to one."""
    if type(value) is list and value:
        return tuple([_scope(name) for name in value])
    return None if value is None else _scope(value)


def _chosen(value: "Any") -> "Any":
    """A client and a scope, each "" where any will do; for an agent, dimensions and scopes."""
    flat = _list(value)
    if len(flat) < 2 or len(flat) % 2:
        raise RemoteProtocolError(f"{_shown(value)} is not an array of a client and a scope")
    head = [_client(flat[0]) if flat[0] != "" else "", _scope(flat[1]) if flat[1] != "" else ""]
    return tuple(head + [_scope(name) for name in flat[2:]])


def _shown(value: "Any") -> str:
    text = repr(value)
    return text if len(text) < 60 else text[:57] + "..."
