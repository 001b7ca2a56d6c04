"""An event in the log with the scopes it was published in: to be published again they are needed.

event                                          as it came, when it was published in no scope
D7 "T"  n:2  tags:n, JSON  event               otherwise; an event never begins with D7

The one place that knows this form. Who reads a log takes `event_of` a record; filters (Log.read, LogReader.read) do.
"""

import json
from typing import Any

from vicinal.errors import LimitError, RemoteProtocolError
from vicinal.event import Event
from vicinal.limits import MAX_EVENT_BYTES
from vicinal.scope.graph import Tags
from vicinal.wire import decode, encode

from ._record import Entry, Record, entry_of

__all__ = ["entry_with", "event_bytes", "event_of", "joined", "parted", "unpack"]

_MAGIC = b"\xd7T"
_HEAD = 4


def entry_with(event: Event, tags: Tags) -> Entry:
    if tags.rest and not tags.scopes and not tags.admitted:
        return entry_of(event)
    packed = json.dumps(tags.item()).encode()
    data = joined(packed, encode(event))
    if len(data) > MAX_EVENT_BYTES:
        raise LimitError("bytes of an event with its scopes", len(data), MAX_EVENT_BYTES)
    return entry_of(event)._replace(event=data)


def event_bytes(data: bytes) -> bytes:
    """Of what a record holds, without its scopes; not looked at any further."""
    return data[_HEAD + int.from_bytes(data[2:_HEAD], "big") :] if data[:2] == _MAGIC else data


def parted(data: bytes) -> tuple[bytes, bytes]:
    """The scopes as they are stored, and the event; neither is looked at any further."""
    event = event_bytes(data)
    return data[_HEAD : len(data) - len(event)], event


def joined(scopes: bytes, event: bytes) -> bytes:
    """What `parted` parts; no scopes are none."""
    return _MAGIC + len(scopes).to_bytes(2, "big") + scopes + event if scopes else event


def event_of(record: Record) -> Event:
    """Raises RemoteProtocolError, as vicinal.wire.decode does."""
    return decode(event_bytes(record.event))


def unpack(data: bytes) -> tuple[Event, Tags]:
    """The event and its scopes; raises RemoteProtocolError where these are not what `entry_with` makes."""
    if data[:2] != _MAGIC:
        return decode(data), Tags()
    end = _HEAD + int.from_bytes(data[2:_HEAD], "big")
    try:
        flat: Any = json.loads(data[_HEAD:end])
    except ValueError as error:
        raise RemoteProtocolError(f"the scopes of a stored event: {error}", _HEAD) from error
    if not isinstance(flat, list) or len(flat) % 2 == 0 or type(flat[0]) not in (bool, list):
        raise RemoteProtocolError("the scopes of a stored event: want [rest, dimension, scope, ...]", _HEAD)
    admitted = flat[0] if isinstance(flat[0], list) else []
    if not all(type(name) is str for name in [*flat[1:], *admitted]):
        raise RemoteProtocolError("the scopes of a stored event: want names", _HEAD)
    return decode(data[end:]), Tags(zip(flat[1::2], flat[2::2]), bool(flat[0]), admitted)
