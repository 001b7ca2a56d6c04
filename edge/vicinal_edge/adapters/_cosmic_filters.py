"""Which frames a controller must let through for a gateway: what it has subscribed to, and what it sends itself, which
comes back as a confirmation. A Pi does not wake up for the rest."""

from collections.abc import Iterable
from typing import Any

import can

from vicinal.cosmic.identifier import MAX_ETAG, MAX_TX_NODE
from vicinal.filter import Filter

from ._cosmic_frames import EXTENDED_FLAG

__all__ = ["acceptance", "set_filters"]

MAX_FILTERS = 200
"""of a controller or the kernel; with more all frames pass, and a table decides, which costs a microsecond a frame"""
NOBODY = 0x1FFFFFFF
"""an identifier that no node sends: it is the last of all"""
BINDING = MAX_ETAG & ~127
"""what differs from 0 in an etag that is none of the binding protocol's"""


def acceptance(
    conditions: Iterable[Filter],
    identifiers: dict[str, list[int]],
    sent: Iterable[int],
    etags: Iterable[int],
    tx_node: int | None,
    binding: bool,
) -> list[dict[str, Any]]:
    """`sent` are the identifiers of our plain frames, with bit 31 set where they are extended. `tx_node` is None where
    we have no channels. There is always a filter: none would let everything through."""
    masks: set[tuple[int, int, bool]] = set()
    if tx_node is not None:
        masks.add((tx_node << 14, MAX_TX_NODE << 14, True))
    for condition in conditions:
        for one in condition.to_can(identifiers).masks:
            masks.add((one["can_id"], one["can_mask"], one["extended"]))
    for key in sent:
        extended = bool(key & EXTENDED_FLAG)
        masks.add((key & ~EXTENDED_FLAG, 0x1FFFFFFF if extended else 0x7FF, extended))
    masks |= {(etag, MAX_ETAG, True) for etag in etags}
    if binding:
        masks.add((0, BINDING, True))
    if not masks:
        masks.add((NOBODY, NOBODY, True))
    return [{"can_id": number, "can_mask": mask, "extended": wide} for number, mask, wide in sorted(masks)]


def set_filters(bus: can.BusABC, filters: list[dict[str, Any]] | None) -> None:
    if type(bus)._apply_filters is can.BusABC._apply_filters:
        return  # python-can itself would look through them one by one; the table is faster
    wanted: Any = None if filters is None or len(filters) > MAX_FILTERS else filters
    try:
        bus.set_filters(wanted)
    except (can.CanError, OSError, ValueError):
        bus.set_filters(None)
