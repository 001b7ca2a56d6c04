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

from ..log import Entry, entry

__all__ = ["entry_with", "unpack"]

_MAGIC = b"\xd7T"
_EVERYWHERE = Tags()


def entry_with(event: Event, tags: Tags) -> Entry:
    data = encode(event)
    if tags != _EVERYWHERE:
        packed = json.dumps(tags.item()).encode()
        data = _MAGIC + len(packed).to_bytes(2, "big") + packed + data
        if len(data) > MAX_EVENT_BYTES:
            raise LimitError("bytes of an event with its scopes", len(data), MAX_EVENT_BYTES)
    return entry(data, event.producer or "", event.seq or 0)


def unpack(data: bytes) -> tuple[Event, Tags]:
    if data[:2] != _MAGIC:
        return decode(data), _EVERYWHERE
    end = 4 + int.from_bytes(data[2:4], "big")
    flat = json.loads(data[4:end])
    return decode(data[end:]), Tags(zip(flat[1::2], flat[2::2]), flat[0])
