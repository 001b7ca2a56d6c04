"""Frames of a car as events: one function for each message, which does no more than it must.

A bus of 500 kbit/s carries some 4,000 frames a second, and the gateway wants few of them. What it wants is read in two
steps, both prepared when the mapping is loaded: the message's own decoder, and an Event filled in without the checks
that its constructor makes. They were made once: names and limits are the mapping's, and a value can be nothing but what
its field gives. Where a field could give a number past 64 bits, the constructor looks at each.
"""

from collections.abc import Callable

from vicinal import limits
from vicinal.cosmic.frame import Frame
from vicinal.cosmic.mapping import Field, Mapping, Message
from vicinal.errors import LocalProtocolError, RemoteProtocolError
from vicinal.event import Event

__all__ = ["EXTENDED_FLAG", "Reader", "key_of", "kinds_of", "packet_of", "reader_of", "unlike", "unpack_packet"]

EXTENDED_FLAG, REMOTE_FLAG = 1 << 31, 1 << 30
"""of an identifier, as SocketCAN has them"""
Reader = Callable[[bytes], Event]
_KINDS = {"string": "str", "bytes": "bytes", "bool": "bool", "int": "int", "uint": "int", "double": "float"}


def reader_of(message: Message) -> Reader:
    """Raises RemoteProtocolError where a frame is none of the message's."""
    names = [field.name for field in message.fields]
    Event(message.subject, [(name, 0) for name in names])  # names and their number, once for all frames
    if not all(_is_bounded(field) for field in message.fields):
        return message.decode
    params, subject, new = message.params, message.subject, Event.__new__

    def read(data: bytes) -> Event:
        event = new(Event)
        event.params = params(data)
        event.subject = subject
        event.attrs = {}
        event.producer = event.seq = event._wire = None
        event._nesting = 1
        return event

    return read


def _is_bounded(field: Field) -> bool:
    """Whether each number that the field can give is one of 64 bits, with a sign."""
    if field.kind not in ("int", "uint"):
        return True
    ends = [raw * field.scale + field.offset for raw in field.raw_range()]
    return all(limits.INT_MIN <= end <= limits.INT_MAX for end in ends)


def kinds_of(mapping: Mapping) -> tuple[str, ...]:
    """The types of parameters that arrive as they were sent."""
    found = set()
    for message in mapping.messages:
        for field in message.fields:
            found.add(_KINDS.get(field.kind, "float"))
            if message.by_name and field.names:
                found.add("str")
    return tuple(kind for kind in ("str", "int", "float", "bool", "bytes") if kind in found)


def unlike(message: Message, event: Event) -> str:
    """Why no event like this one can be a frame of the message; "" if there may be. Values are looked at when they
    come."""
    if message.length > 8:
        return f"message {message.subject} ({message.id:#x}) has {message.length} bytes, a classic frame has 8"
    fields = {field.name: field for field in message.fields}
    for field in message.fields:
        if field.name not in event.params and field.when is None:
            return f"event {event.subject!r} lacks {field.name!r}, which message {message.id:#x} needs"
    for name, value in event.params.items():
        if name not in fields:
            return f"event {event.subject!r} has {name!r}, for which message {message.id:#x} has no room"
        field, kind = fields[name], type(value)
        wanted: tuple[type, ...] = (int, float)
        if field.kind in ("string", "bytes", "bool"):
            wanted = ({"string": str, "bytes": bytes, "bool": bool}[field.kind],)
        elif field.names:
            wanted = (int, float, str)
        if kind not in wanted:
            want = " or ".join(one.__name__ for one in wanted)
            return f"parameter {name!r} of {event.subject!r} is a {kind.__name__}, message {message.id:#x} has {want}"
    return ""


def key_of(frame: Frame) -> int:
    return frame.id | EXTENDED_FLAG if frame.extended else frame.id


# What a tunnel carries: identifier and flags (4), then the data; of a remote frame as many zeros as it asks for.


def packet_of(frame: Frame) -> bytes:
    number = key_of(frame) | (REMOTE_FLAG if frame.remote else 0)
    return number.to_bytes(4, "big") + frame.data


def unpack_packet(data: bytes) -> Frame:
    if not 4 <= len(data) <= 12:
        raise RemoteProtocolError(f"{len(data)} bytes, a frame in a tunnel has 4 to 12", len(data))
    number = int.from_bytes(data[:4], "big")
    extended, remote = bool(number & EXTENDED_FLAG), bool(number & REMOTE_FLAG)
    try:
        return Frame(number & ~(EXTENDED_FLAG | REMOTE_FLAG), bytes(data[4:]), extended, remote)
    except LocalProtocolError as error:
        raise RemoteProtocolError(str(error)) from error
