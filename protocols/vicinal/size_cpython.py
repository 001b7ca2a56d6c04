"""How large an event is at most, without making its bytes: for queues in memory, and for who refuses what is too large.

A queue in memory would encode each event only to count it, and an adapter within a process only to refuse the few that
are too large for all others. An estimate that is never too low serves both.
"""

from typing import Any

from . import limits
from .event import Event
from .wire import encode

__all__ = ["at_most", "check_size"]

# Array and heads, seq, and the heads of parameters and attributes; subject and producer apart.
_EVENT = 1 + 3 + 3 + 9 + 3 + 3
# The head of a name, and a number of 64 bits or the head of a text.
_ITEM = 3 + 9
# An array of six numbers.
_AREA = 1 + 6 * 9
# What names take together: a fleet has few sets of them. A stranger's may not fill it.
_MAX_KEPT = 4096
_kept: dict[tuple[str, ...], int] = {}


def at_most(event: Event) -> int:
    """No less than len(encode(event)); more by a few bytes for each part, and where there is more than ASCII."""
    size = _EVENT + 4 * len(event.subject) + 4 * len(event.producer or "") + _items_at_most(event.params)
    return size + _items_at_most(event.attrs) if event.attrs else size


def _items_at_most(items: dict[str, Any]) -> int:
    names = tuple(items)
    size = _kept.get(names) or _size_of(names)
    for value in items.values():
        kind = type(value)
        if kind is float or kind is int:
            continue
        if kind is str:
            size += len(value) if value.isascii() else 4 * len(value)
        elif kind is bytes:
            size += len(value)
        elif kind is not bool:
            size += at_most(value) if kind is Event else _AREA
    return size


def _size_of(names: tuple[str, ...]) -> int:
    if len(_kept) >= _MAX_KEPT:
        _kept.clear()
    size = _kept[names] = sum(_ITEM + len(name.encode()) for name in names)
    return size


def check_size(event: Event) -> None:
    """Raises what `encode` would, mostly without its work."""
    # An item has at least a byte: in so few there are not too many.
    if event._wire is None and at_most(event) > limits.MAX_ITEMS:
        encode(event)
