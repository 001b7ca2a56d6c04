"""Events as bytes (spec/wire.md, spec/wire.cddl).

    event  = [subject, producer / null, seq / null, params, attrs]
    params = [name, value, name, value, ...]        in the order of the event
    attrs  = [key, value, key, value, ...]          key: 1..7 for a known attribute, else its name; ascending
    value  = text / int / float / bool / bytes / event

Names and values lie flat in an array, not in a map: the order of parameters is kept, and a decoder never hashes
what a stranger chose before it has checked it.

On CPython events that come again and again have decoders of their own (_shapes_cpython.py), and cbor2 decodes what else
is in order (_cbor_cpython.py); whatever is not goes to our own codec, which says what is wrong and where.
"""

from . import limits
from ._cbor import too_many
from ._compat import MICROPYTHON
from .errors import LimitError, LocalProtocolError, RemoteProtocolError, VicinalError
from .event import Event, attributes_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["decode", "encode"]

if MICROPYTHON:
    from ._cbor import dumps as _dumps
else:
    from ._cbor_cpython import dumps as _dumps
    from ._cbor_cpython import loads_if_canonical
    from ._encode_cpython import encode_simple
    from ._shapes_cpython import Shapes

    _shapes = Shapes()


def encode(event: Event) -> bytes:
    data = event._wire
    if data is None and not MICROPYTHON:
        data = encode_simple(event)
    if data is None:
        item = _to_item(event)
        data = _dumps(item)
        if len(data) > limits.MAX_EVENT_BYTES:
            raise LimitError(f"bytes of event {event.subject!r}", len(data), limits.MAX_EVENT_BYTES)
        # An item has at least a byte: only large events need to be counted.
        if len(data) > limits.MAX_ITEMS and too_many(item):
            raise LimitError(f"items of event {event.subject!r}", "more", limits.MAX_ITEMS)
    return data


def decode(data: bytes) -> Event:
    if not MICROPYTHON:
        data = bytes(data)
        known = _shapes.decode(data)
        if known is not None:
            return known
    from ._cbor_read import loads

    item = None if MICROPYTHON else loads_if_canonical(data)
    try:
        event = _from_item(loads(data) if item is None else item)
    except VicinalError as error:
        if item is not None:
            loads(data)  # cbor2 lets simple values through; our own reader knows the place
        if isinstance(error, LocalProtocolError):
            raise RemoteProtocolError(str(error))
        raise
    if not MICROPYTHON:
        event._wire = data  # passed on as it came; a device has no memory for it
        _shapes.missed(data, event)
    return event


def _to_item(event: Event) -> "list[Any]":
    params: list[Any] = []
    value: Any
    for name, value in event.params.items():
        params.append(name)
        params.append(_to_item(value) if type(value) is Event else value)
    attrs: list[Any] = []
    if event.attrs:
        attributes = attributes_module()
        names = list(event.attrs)
        for name in names if len(names) == 1 else sorted(names, key=attributes.sort_key):
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
        if are_attributes and name == "Proximity":
            if type(value) is not list:
                raise RemoteProtocolError(f"attribute 'Proximity' is {value!r}, want an array")
        elif type(value) is list:
            value = _from_item(value)
        found.append((name, value))
    return found


def _name_attributes(flat: "list[Any]") -> None:
    """Puts names for keys, in place. Their order is checked, so that no event has two encodings."""
    attributes = attributes_module()
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
