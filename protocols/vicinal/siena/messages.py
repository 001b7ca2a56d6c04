"""What brokers say to each other and to their clients (spec/overlay.md, spec/overlay.cddl).

    message = [type, field, ...]        one in each frame of a stream

A message is a tuple here, its kind first, as the engine has them:

    ("hello", version, role, name)                              who connects says it first; a fifth item is its token
    ("welcome", version, name, last seq known of the client, or -1)
    ("bye", code, reason)                                       the last of a connection
    ("ping", number)  ("pong", number)
    ("credit", deliveries)                                      how many more the client will take
    ("advertise", request, filter as text, tags)
    ("unadvertise", request, number)
    ("subscribe", request, filter as text, tags, durable name or None, offset or None)
    ("unsubscribe", request, number)
    ("publish", request or None, advertisement, event)
    ("answer", request, True, number)  ("answer", request, False, reason)
    ("deliver", subscriptions, event, offset or None, trail)
    ("ended", advertisement or subscription, reason)            a right is gone, and so is what stood on it
    ("administer", request, what)                               administration.py; or ("tell", topic)
    ("told", request, part of a text)                           before the answer to such a request
    ("change", statement)                                       what an administrator said, from broker to broker
    ("record", Record)  ("packets", ...)  ("ack", ...)  ("leave", scope)  ("left", scope)

messages_read.py reads them. Events travel as their bytes: what came in goes out unchanged. A client's filter stays
text: that it does not parse is answered, not punished.
"""

from .. import limits
from .._cbor import put_head
from .._compat import MICROPYTHON, const
from ..errors import LimitError
from ..wire import encode as encode_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from ..event import Event
    from .records import Record

    Message: TypeAlias = "tuple[Any, ...]"

if MICROPYTHON:
    from .._cbor import dumps as _dumps
else:
    from .._cbor_cpython import dumps as _dumps

__all__ = [
    "AFTER_EVENT",
    "BROKER",
    "CLIENT",
    "MAX_BYTES_BROKER",
    "MAX_BYTES_CLIENT",
    "VERSION",
    "before_event",
    "delivery",
    "encode",
    "framed",
    "split",
]

VERSION = const(1)
CLIENT = const(0)
BROKER = const(1)

# The largest event with its route, or a filter with its scopes.
MAX_BYTES_CLIENT = const(131072)
# A broker's record holds what all its producers advertise.
MAX_BYTES_BROKER = const(1048576)
MAX_ITEMS_BROKER = const(65536)
# So that a packet for thousands of brokers stays within MAX_ITEMS_BROKER.
MAX_TARGETS = const(1024)
# Names of brokers and clients: a client's is the producer of its events.
MAX_NAME_BYTES = limits.MAX_PRODUCER_BYTES
MAX_REASON_CHARS = const(1024)
# Of a refusal: a deployment is refused with all that is wrong in it.
MAX_ANSWER_CHARS = const(16384)
# A signature is up to 700 characters; the rest is for what is claimed.
MAX_TOKEN_CHARS = const(4096)
# Of a long text, so that each part is within MAX_BYTES_CLIENT.
MAX_TOLD_CHARS = const(16384)
# Of a deployment: with the rest of its message within MAX_BYTES_BROKER, if each character had two bytes.
MAX_DEPLOYMENT_CHARS = const(500000)

KINDS = {
    "hello": 0,
    "welcome": 1,
    "bye": 2,
    "ping": 3,
    "pong": 4,
    "credit": 5,
    "advertise": 6,
    "unadvertise": 7,
    "subscribe": 8,
    "unsubscribe": 9,
    "publish": 10,
    "answer": 11,
    "deliver": 12,
    "ended": 13,
    "told": 14,
    "record": 16,
    "packets": 17,
    "ack": 18,
    "leave": 19,
    "left": 20,
    "change": 21,
    "administer": 22,
}


# What an administrator says (administration.py), by its number.
SAYINGS = ("approve", "deny", "revoke", "deploy", "join", "leave")
# Of packets: those that are an event.
CONTENTS = {"event": 0, "live": 4, "again": 5}


def encode(message: "Message") -> bytes:
    """The content of one frame."""
    kind = message[0]
    item: list[Any] = [KINDS[kind]]
    if kind == "deliver":
        item.extend((list(message[1]), encode_event(message[2]), message[3], _trail_item(message[4])))
    elif kind == "publish":
        item.extend((message[1], message[2], encode_event(message[3])))
    elif kind == "packets":
        item.extend(_packets_item(message))
    elif kind == "record":
        item.extend(_record_item(message[1]))
    elif kind == "ack":
        item.extend(message[1:5] + message[5] + message[6:])
    elif kind == "advertise" or kind == "subscribe":
        item.extend(message[1:3] + (message[3].item(),) + message[4:])
    elif kind == "change":
        said = message[1]
        item.extend((SAYINGS.index(said[0]),) + said[1] + (_fields(said[2:]),))
    elif kind == "administer":
        what = message[2]
        number = len(SAYINGS) if what[0] == "tell" else SAYINGS.index(what[0])
        item.extend((message[1], [number] + _fields(what[1:])))
    else:
        item.extend(message[1:])
    data: bytes = _dumps(item)
    most = MAX_BYTES_BROKER if item[0] >= 16 else MAX_BYTES_CLIENT
    if len(data) > most:
        raise LimitError(f"bytes of message {kind!r}", len(data), most)
    return data


def _fields(said: "tuple[Any, ...]") -> "list[Any]":
    return [list(one) if type(one) is tuple else one for one in said]


def framed(data: bytes) -> bytes:
    """The content of a frame with its head."""
    head = bytearray()
    put_head(head, 2, len(data))
    return bytes(head) + data


# What stands before the event, by the subscriptions and the event's length: for most deliveries the same few bytes.
_before: "dict[tuple[tuple[int, ...], int], bytes]" = {}
_MAX_BEFORE = const(4096)
AFTER_EVENT = b"\xf6\x80"  # no offset, no trail


def delivery(numbers: "tuple[int, ...]", event: "Event", trail: "Any" = ()) -> bytes:
    """The whole frame of a delivery of a live subscription."""
    if trail:
        return framed(encode(("deliver", numbers, event, None, trail)))
    data = encode_event(event)
    return before_event(numbers, len(data)) + data + AFTER_EVENT


def before_event(numbers: "tuple[int, ...]", size: int) -> bytes:
    """What stands in such a frame, if it has no trail, before an event of so many bytes. Behind it is AFTER_EVENT."""
    before = _before.get((numbers, size))
    if before is None:
        head = bytearray()
        put_head(head, 2, size)
        start = _dumps([KINDS["deliver"], list(numbers)])
        start = bytes([0x85]) + start[1:] + bytes(head)
        most = MAX_BYTES_CLIENT - size - len(AFTER_EVENT)
        if len(start) > most:
            raise LimitError("bytes of message 'deliver'", len(start) + size + len(AFTER_EVENT), MAX_BYTES_CLIENT)
        head = bytearray()
        put_head(head, 2, len(start) + size + len(AFTER_EVENT))
        before = bytes(head) + start
        if len(_before) >= _MAX_BEFORE:
            _before.clear()
        _before[(numbers, size)] = before
    return before


def split(message: "Message") -> "list[Message]":
    """A packet for very many brokers as several messages."""
    if message[0] != "packets" or len(message[6]) <= MAX_TARGETS:
        return [message]
    parts = [message[6][at : at + MAX_TARGETS] for at in range(0, len(message[6]), MAX_TARGETS)]
    return [message[:6] + (part,) + message[7:] for part in parts]


def _packets_item(message: "Message") -> "list[Any]":
    _, hops, source, incarnation, state, content, targets, trail = message
    kind = content[0]
    body: list[Any]
    if kind in CONTENTS:
        body = [CONTENTS[kind], encode_event(content[1]), content[2].item()]
    elif kind == "add":
        body = [1, content[1], str(content[2]), content[3].item()]
        if content[3].who:
            body.append(content[3].who)
    elif kind == "remove":
        body = [2, content[1]]
    elif kind == "hold":
        body = [6]
    elif kind == "resume":
        body = [7, content[1]]
    elif kind == "mark":
        body = [8, content[1]]
    elif kind == "load":
        body = [9, content[1], content[2]]
    else:
        body = [3]
    flat = [[broker, inc, epoch, number, _goal_item(wanted)] for broker, inc, epoch, number, wanted in targets]
    return [hops, source, incarnation, _state_item(state), body, flat, _trail_item(trail)]


def _goal_item(wanted: "Any") -> "list[Any]":
    return [list(want) if type(want) is tuple else want for want in wanted]


def _state_item(state: "Any") -> "list[Any]":
    flat: list[Any] = []
    for scope, up in state:
        flat.extend((scope, up))
    return flat


def _trail_item(trail: "Any") -> "list[Any]":
    return [[broker, _state_item(state), time] for broker, state, time in trail]


def _record_item(record: "Record") -> "list[Any]":
    return [
        record.broker,
        record.incarnation,
        record.version,
        list(record.neighbours),
        sorted(record.scopes),
        [[str(condition), tags.item()] for condition, tags in record.adverts],
    ]
