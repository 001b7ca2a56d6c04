"""An event in the log of what was published, with its scopes: to be published again they are needed.

event                                          as it came, when it was published in no scope
D7 "T"  n:2  tags:n, JSON  event               otherwise; an event never begins with D7
"""

import json

from vicinal.errors import LimitError
from vicinal.event import Event
from vicinal.limits import MAX_EVENT_BYTES
from vicinal.scope.graph import Tags
from vicinal.wire import decode, encode

from ..log import Entry, entry_of

__all__ = ["entry_with", "unpack"]

_MAGIC = b"\xd7T"


def entry_with(event: Event, tags: Tags) -> Entry:
    if tags.rest and not tags.scopes:
        return entry_of(event)
    packed = json.dumps(tags.item()).encode()
    data = _MAGIC + len(packed).to_bytes(2, "big") + packed + encode(event)
    if len(data) > MAX_EVENT_BYTES:
        raise LimitError("bytes of an event with its scopes", len(data), MAX_EVENT_BYTES)
    return entry_of(event)._replace(event=data)


def unpack(data: bytes) -> tuple[Event, Tags]:
    if data[:2] != _MAGIC:
        return decode(data), Tags()
    end = 4 + int.from_bytes(data[2:4], "big")
    flat = json.loads(data[4:end])
    return decode(data[end:]), Tags(zip(flat[1::2], flat[2::2]), flat[0])
