"""Events as the bytes that are cut to pieces (spec/steam.md, STEAM-21 to STEAM-25).

Two forms, by what was announced. With names, where nobody need know the type before, it is the wire form
(spec/wire.md). Where both sides know the names of the parameters, as STEAM's event types have it (seed 001, 6.3.2),
values go by index:

    full     wire.encode(event)                                          a Speed event: 52 bytes
    typed    [producer, seq, attributes, value, value, ...]              the same: 29 bytes

Either holds the identity (producer, seq) as it was given, so that an event heard twice, or on two ways, is one. The
check of a typed event covers subject and names too: other names, or another subject of the same hash, and the check
is wrong.
"""

from .. import wire
from .._cbor import dumps
from ..errors import LocalProtocolError, RemoteProtocolError
from ..event import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def seed_of(subject: str, names: "Sequence[str] | None") -> bytes:
    """What the check covers beside the data."""
    return b"" if names is None else "\0".join([subject] + list(names)).encode("utf-8")


def encode(event: Event, names: "Sequence[str] | None") -> bytes:
    if names is None:
        return wire.encode(event)
    if list(event.params) != list(names):
        raise LocalProtocolError(
            f"event {event.subject!r} has parameters {list(event.params)}, announced were {list(names)}"
        )
    _, producer, seq, params, attrs = wire._to_item(event)
    return dumps([producer, seq, attrs] + [params[i] for i in range(1, len(params), 2)])


def decode(data: bytes, subject: str, names: "Sequence[str] | None") -> Event:
    """RemoteProtocolError where it is no event of this subject."""
    if names is None:
        event = wire.decode(data)
        if event.subject != subject:
            raise RemoteProtocolError(f"subject {event.subject!r} has the hash of {subject!r}")
        return event
    from .._cbor_read import loads

    item = loads(data)
    if type(item) is not list or len(item) != 3 + len(names):
        raise RemoteProtocolError(f"an event of {len(names)} values is an array of {len(names) + 3}")
    params: list[Any] = []
    for i in range(len(names)):
        params.extend((names[i], item[3 + i]))
    try:
        return wire._from_item([subject, item[0], item[1], params, item[2]])
    except LocalProtocolError as error:
        raise RemoteProtocolError(str(error))
