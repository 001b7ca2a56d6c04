"""CAN acceptance filters: an identifier and a mask.

A frame passes when its identifier agrees with the filter's where the mask is 1. A mapping says under which identifiers
each subject is sent: {"Speed": [12345]}; identifiers past 0x7FF are extended, and so are those with bit 31 set, as in
SocketCAN. Frames are chosen by subject only. Where a controller has fewer filters than there are identifiers (`most`),
those that differ least are joined, which widens.

The text is in the form of candump, `00003039:1FFFFFFF`; `masks` are python-can's.
"""

from ...errors import LimitError
from .._ast import Node
from . import Translation
from ._terms import about_subject, allows, satisfiable_terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, TypeAlias

    Mask: TypeAlias = "tuple[int, int, bool]"

STANDARD, EXTENDED = 0x7FF, 0x1FFFFFFF
_EXTENDED_FLAG = 1 << 31


class CanTranslation(Translation):
    __slots__ = ("masks",)
    masks: "list[dict[str, Any]]"


def to_can(node: Node, mapping: "Mapping[str, Iterable[int]]", most: int = 0) -> CanTranslation:
    """`most` is the number of filters the controller has, 0 for any."""
    terms, exact = satisfiable_terms(node)
    reasons = [] if exact else ["the filter has more than 64 alternatives"]
    sent = {subject: [_mask(subject, number) for number in numbers] for subject, numbers in mapping.items()}
    wanted: list[Mask] = []
    subjects: set[str] = set()
    by_subject = True
    for literals in terms:
        about = about_subject(literals)
        by_subject = by_subject and len(about) == len(literals)
        for subject, masks in sent.items():
            if allows(about, subject):
                subjects.add(subject)
                wanted += masks
    if not by_subject:
        reasons.append("an acceptance filter sees the identifier only")
    if any([mask in wanted for other in sent if other not in subjects for mask in sent[other]]):
        reasons.append("another subject is sent under the same identifier")
    masks = sorted(set(wanted))
    count = len(masks)
    while most and len(masks) > most:
        joined = _join_nearest(masks)
        if joined is None:
            raise LimitError("acceptance filters for standard and extended identifiers", len(masks), most)
        masks = joined
    if sum([_accepted(mask) for mask in masks]) > count:
        reasons.append(f"{count} identifiers share {len(masks)} filters")
    digits = [f"{number:08X}:{mask:08X}" if wide else f"{number:03X}:{mask:03X}" for number, mask, wide in masks]
    found = CanTranslation(",".join(digits), reasons)
    found.masks = [{"can_id": number, "can_mask": mask, "extended": wide} for number, mask, wide in masks]
    return found


def _mask(subject: str, number: int) -> "Mask":
    wide = number > STANDARD
    if number & _EXTENDED_FLAG:
        number ^= _EXTENDED_FLAG
    if not 0 <= number <= EXTENDED:
        raise LimitError(f"CAN identifier of {subject!r}", number, "0 .. 0x1FFFFFFF")
    return (number, EXTENDED if wide else STANDARD, wide)


def _accepted(mask: "Mask") -> int:
    """How many identifiers pass."""
    return 1 << _ones(mask[1] ^ (EXTENDED if mask[2] else STANDARD))


def _join_nearest(masks: "list[Mask]") -> "list[Mask] | None":
    """One filter fewer, with as few bits given up as possible; None if none can be joined."""
    best: Any = None
    for i, a in enumerate(masks):
        for b in masks[:i]:
            if a[2] == b[2]:
                bits = a[1] & b[1] & ~(a[0] ^ b[0])
                joined = (a[0] & bits, bits, a[2])
                if best is None or _ones(bits) > _ones(best[0][1]):
                    best = (joined, a, b)
    if best is None:
        return None
    return sorted([mask for mask in masks if mask not in best[1:]] + [best[0]])


def _ones(number: int) -> int:
    return bin(number).count("1")
