"""A filter over stored bytes, decoding only what may match.

The subject stands first in an event's bytes (behind its scopes, where a record has some), so that it is read without
decoding. Whether a filter can match any event of a subject is asked once for each subject (Filter.overlaps, sound: it
says no only when none can), and remembered.
"""

from collections.abc import Callable

from vicinal.errors import RemoteProtocolError
from vicinal.filter import Filter
from vicinal.wire import decode

from ._record import Record
from .scoped import event_bytes

__all__ = ["selector", "subject_bytes"]

# A stranger's subjects may not fill the memory; past it subjects are decoded, not remembered.
_SUBJECTS = 4096


def selector(condition: Filter) -> Callable[[Record], bool]:
    possible: dict[bytes, bool] = {}

    def select(record: Record) -> bool:
        event = event_bytes(record.event)
        subject = subject_bytes(event)
        may = possible.get(subject)
        if may is None:
            may = _possible(condition, subject)
            if len(possible) < _SUBJECTS:
                possible[subject] = may
        if not may:
            return False
        try:
            return condition.matches(decode(event))
        except RemoteProtocolError:
            return False  # stored by somebody who does not speak vicinal.wire: no filter is true of it

    return select


def subject_bytes(event: bytes) -> bytes:
    """The subject's bytes with their head, or none where there is no event: 0x85, then text of up to 255 bytes."""
    if len(event) < 3:
        return b""
    head = event[1]
    if 0x60 < head < 0x78:
        return event[1 : 2 + head - 0x60]
    return event[1 : 3 + event[2]] if head == 0x78 else b""


def _possible(condition: Filter, subject: bytes) -> bool:
    if not subject:
        return True
    try:
        text = subject[2 if subject[0] == 0x78 else 1 :].decode()
    except UnicodeDecodeError:
        return True
    quoted = text.replace("'", "''")
    return condition.overlaps(Filter(f"subject = '{quoted}'"))
