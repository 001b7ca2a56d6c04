"""An event as a message of Kafka, and back.

    key                 its producer, UTF-8: the partition follows from it, and a producer's order is kept
    value               the event as it came (vicinal.wire: deterministic CBOR), without its scopes
    timestamp           when the broker had it, ms, but never ahead of the mirror's clock, which Kafka would refuse
    headers             of UTF-8
      content-type        application/cbor
      subject
      vicinal-log         the log it is from, by the name that the mirror gave it
      vicinal-offset      and its offset there: dense, so that a reader sees what is missing
      vicinal-received    when the broker had it, ms
      vicinal-seq         with the key its identity
      vicinal-scopes      where it was published in scopes: JSON, as in the log (log/scoped.py)

A message without a value says that events of the log are gone: `vicinal-lost` why, `vicinal-offset` the first of them,
`vicinal-last` the last.
"""

from collections.abc import Sequence
from typing import NamedTuple

from vicinal.errors import RemoteProtocolError

from ..log import Record
from ..log._select import subject_bytes
from ..log.scoped import joined, parted

__all__ = ["DAMAGED", "RETENTION", "Message", "lost_message", "message_of", "record_of"]

# Why events are gone, as who reads the log itself says it.
DAMAGED, RETENTION = "damaged", "removed by retention"
_CBOR = ("content-type", b"application/cbor")
Headers = list[tuple[str, bytes]]


class Message(NamedTuple):
    key: bytes
    value: bytes | None
    timestamp: int
    headers: Headers


def message_of(record: Record, log: str, now: int) -> Message:
    scopes, event = parted(record.event)
    headers: Headers = [_CBOR]
    subject = subject_bytes(event)
    if subject:
        headers.append(("subject", subject[2 if subject[0] == 0x78 else 1 :]))
    headers += [
        ("vicinal-log", log.encode()),
        ("vicinal-offset", b"%d" % record.offset),
        ("vicinal-received", b"%d" % record.time),
        ("vicinal-seq", b"%d" % record.seq),
    ]
    if scopes:
        headers.append(("vicinal-scopes", scopes))
    return Message(record.producer.encode(), event, max(0, min(record.time, now)), headers)


def lost_message(log: str, first: int, last: int, why: str, now: int) -> Message:
    headers: Headers = [
        ("vicinal-log", log.encode()),
        ("vicinal-offset", b"%d" % first),
        ("vicinal-last", b"%d" % last),
        ("vicinal-lost", why.encode()),
    ]
    return Message(b"", None, now, headers)


def record_of(
    key: bytes | None, value: bytes | None, headers: "Sequence[tuple[str, bytes | None]] | None", offset: int, time: int
) -> Record | None:
    """As it was in the log; None for a message without a value. `offset` and `time` are Kafka's, and count where a
    message is not of a mirror. Raises RemoteProtocolError where it says it is, and its headers are wrong."""
    if value is None:
        return None
    found = {name: text for name, text in headers or () if text is not None}
    try:
        producer = (key or b"").decode()
        numbers = [int(found.get("vicinal-" + name, default)) for name, default in (("received", time), ("seq", 0))]
    except ValueError as error:
        raise RemoteProtocolError(f"a message at offset {offset}: {error}", 0) from error
    return Record(offset, numbers[0], producer, numbers[1], joined(found.get("vicinal-scopes", b""), value))
