"""How large an event is at most, without making its bytes: for queues in memory, and for who refuses what is too large.

A queue in memory would encode each event only to count it, and an adapter within a process only to refuse the few that
are too large for all others. An estimate that is never too low serves both.
"""

from typing import Any

from . import limits
from .event import Event
from .wire import encode

__all__ = ["at_most", "check_size"]

# Array and heads, subject and producer apart: 1 + 3 + 2, seq 9, parameters 3, attributes 3.
_EVENT = 24
# Heads of a name and of a text, or a number of 64 bits.
_ITEM = 2 + 9
# An array of six numbers.
_AREA = 1 + 6 * 9


def at_most(event: Event) -> int:
    """No less than len(encode(event)); more by a few bytes for each part, and where there is more than ASCII."""
    text, producer = event.subject, event.producer
    size = _EVENT + (len(text) if text.isascii() else 4 * len(text))
    if producer is not None:
        size += len(producer) if producer.isascii() else 4 * len(producer)
    value: Any
    for items in (event.params, event.attrs):
        for name, value in items.items():
            size += _ITEM + (len(name) if name.isascii() else 4 * len(name))
            kind = type(value)
            if kind is str:
                size += len(value) if value.isascii() else 4 * len(value)
            elif kind is bytes:
                size += len(value)
            elif kind is not int and kind is not float and kind is not bool:
                size += at_most(value) if kind is Event else _AREA
    return size


def check_size(event: Event) -> None:
    """Raises what `encode` would, mostly without its work."""
    # An item has at least a byte: in so few there are not too many.
    if event._wire is None and at_most(event) > limits.MAX_ITEMS:
        encode(event)
