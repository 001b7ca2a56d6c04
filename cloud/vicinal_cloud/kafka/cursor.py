"""How far a log is mirrored: one record for each log, in the topic TOPIC.cursors, which Kafka compacts.

It is written in the transaction of the events that it counts, so that it is never ahead of them nor behind. The last
event that it counts is named: a log that was removed and begun anew is not taken for the one that it was.
"""

import json
from typing import NamedTuple

from vicinal.errors import RemoteProtocolError

__all__ = ["Cursor", "decode_cursor", "encode_cursor"]


class Cursor(NamedTuple):
    next: int = 0
    """the offset to go on with"""
    mirrored: int = 0
    hidden: int = 0
    """events in scopes, which were not asked for or may not be read"""
    lost: int = 0
    last: "tuple[int, str, int] | None" = None
    """offset, producer and seq of the last that was mirrored"""


def encode_cursor(cursor: Cursor) -> bytes:
    return json.dumps(cursor._asdict()).encode()


def decode_cursor(data: bytes) -> Cursor:
    """Raises RemoteProtocolError."""
    try:
        found = json.loads(data)
        following, mirrored, hidden, lost = [found[name] for name in ("next", "mirrored", "hidden", "lost")]
        last = found["last"]
        offset, producer, seq = (0, "", 0) if last is None else last
    except (ValueError, KeyError, TypeError) as error:
        raise RemoteProtocolError(f"a cursor of a mirror: {data[:80]!r}", 0) from error
    if (
        not all(type(one) is int and one >= 0 for one in (following, mirrored, hidden, lost, offset, seq))
        or type(producer) is not str
    ):
        raise RemoteProtocolError(f"a cursor of a mirror: {data[:80]!r}, want numbers of 0 or more", 0)
    return Cursor(following, mirrored, hidden, lost, None if last is None else (offset, producer, seq))
