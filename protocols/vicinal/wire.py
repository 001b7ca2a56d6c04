"""Events as bytes (spec/wire.md, spec/wire.cddl).

    event  = [subject, producer / null, seq / null, params, attrs]
    params = [name, value, name, value, ...]        in the order of the event
    attrs  = [key, value, key, value, ...]          key: 1..7 for a known attribute, else its name; ascending
    value  = text / int / float / bool / bytes / event

Names and values lie flat in an array, not in a map: the order of parameters is kept, and a decoder never hashes
what a stranger chose before it has checked it.

On CPython cbor2 decodes, and the bytes are compared with what we would have written: equality proves shortest
heads, definite lengths, order and the absence of tags and duplicates at once. Whatever does not pass goes to
our own codec, which says what is wrong and where.
"""

from . import _cbor, limits
from ._compat import MICROPYTHON
from .errors import LimitError, LocalProtocolError, RemoteProtocolError
from .event import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["decode", "encode"]

if MICROPYTHON:
    _dumps = _cbor.dumps
else:
    from ._cbor2 import dumps as _dumps
    from ._cbor2 import fast_loads


def encode(event: Event) -> bytes:
    data = event._wire
    if data is None:
        item = _to_item(event)
        data = _dumps(item)
        if len(data) > limits.MAX_EVENT_BYTES:
            raise LimitError(f"bytes of event {event.subject!r}", len(data), limits.MAX_EVENT_BYTES)
        if _too_many(item, data):
            raise LimitError(f"items of event {event.subject!r}", "more", limits.MAX_ITEMS)
        if not MICROPYTHON:  # a device has no memory to keep what it may never send again
            event._wire = data
    return data


def decode(data: bytes) -> Event:
    if not MICROPYTHON:
        event = _fast_decode(data)
        if event is not None:
            return event
    try:
        return _from_item(_cbor.loads(data))
    except LocalProtocolError as error:
        raise RemoteProtocolError(str(error))


def _fast_decode(data: bytes) -> "Event | None":
    if len(data) > limits.MAX_EVENT_BYTES:
        return None
    try:
        item = fast_loads(data)
        if _dumps(item) == data and not _too_many(item, data):
            event = _from_item(item)
            event._wire = bytes(data)
            return event
    except (LocalProtocolError, RemoteProtocolError):
        pass
    return None


def _too_many(item: "Any", data: bytes) -> bool:
    # An item has at least a byte: only large events need to be counted.
    return len(data) > limits.MAX_ITEMS and _count(item) > limits.MAX_ITEMS


def _count(item: "Any") -> int:
    return 1 + (sum([_count(part) for part in item]) if type(item) is list else 0)


def _to_item(event: Event) -> "list[Any]":
    params: list[Any] = []
    value: Any
    for name, value in event.params.items():
        params.append(name)
        params.append(_to_item(value) if type(value) is Event else value)
    attrs: list[Any] = []
    if event.attrs:
        from . import attributes

        for name in sorted(event.attrs, key=attributes.sort_key):
            value = event.attrs[name]
            if name == "Proximity":
                value = list(value.fields())
            attrs.append(attributes.KEYS.get(name, name))
            attrs.append(_to_item(value) if type(value) is Event else value)
    return [event.subject, event.producer, event.seq, params, attrs]


def _from_item(item: "Any") -> Event:
    if type(item) is not list or len(item) != 5 or type(item[3]) is not list or type(item[4]) is not list:
        raise RemoteProtocolError("an event is an array of subject, producer, seq, parameters and attributes")
    subject, producer, seq, params, attrs = item
    return Event(subject, _named(params), _named(attrs, True) if attrs else (), producer, seq)


def _named(flat: "list[Any]", are_attributes: bool = False) -> "list[tuple[str, Any]]":
    if len(flat) % 2:
        raise RemoteProtocolError(f"{len(flat)} entries where names and values alternate")
    if are_attributes:
        _name_attributes(flat)
    found = []
    for i in range(0, len(flat), 2):
        name, value = flat[i], flat[i + 1]
        if type(value) is list and not (are_attributes and name == "Proximity"):
            value = _from_item(value)
        found.append((name, value))
    return found


def _name_attributes(flat: "list[Any]") -> None:
    """Puts names for keys, in place. Their order is checked, so that no event has two encodings."""
    from . import attributes

    last = (0, 0, "")
    for i in range(0, len(flat), 2):
        name = flat[i]
        if type(name) is int and 0 < name < len(attributes.NAMES):
            name = flat[i] = attributes.NAMES[name]
        elif type(name) is not str or name in attributes.KEYS:
            raise RemoteProtocolError(f"attribute key {name!r} is neither a known number nor another name")
        key = attributes.sort_key(name)
        if key <= last:
            raise RemoteProtocolError(f"attribute {name!r} is twice or out of order")
        last = key
