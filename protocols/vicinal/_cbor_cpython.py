"""The profile of _cbor.py and _cbor_read.py on CPython, at the speed of cbor2.

cbor2 is lax by default: tags build objects and run regular expressions, bignum keys flood its dicts. Here tags raise
before they are decoded, and map keys must be text or bytes, whose hashes a stranger cannot aim. Then the value is
encoded again and the bytes are compared: equality proves shortest heads and floats, definite lengths and order at once.
"""

from typing import Any, NoReturn

import cbor2

from . import limits
from ._cbor import too_many


class _NoTags(dict[int, Any]):
    """Stands for the table of every tag's decoder, so that none is built in."""

    def __getitem__(self, tag: int) -> NoReturn:
        raise ValueError(f"tag {tag}")


def _no_tag(_decoder: object, tag: object) -> NoReturn:
    raise ValueError(f"{tag}")


_NO_TAGS = _NoTags()


def loads_if_canonical(
    data: bytes, max_bytes: int = limits.MAX_EVENT_BYTES, max_items: int = limits.MAX_ITEMS
) -> list[Any] | None:
    """An array in its one right encoding, or None: then _cbor_read says why. The caller has still to check what is in
    it: cbor2 lets simple values through."""
    if len(data) > max_bytes:
        return None
    try:
        item = cbor2.loads(
            data,
            tag_hook=_no_tag,
            semantic_decoders=_NO_TAGS,
            max_depth=limits.MAX_DEPTH,
            allow_indefinite=False,
            allow_duplicate_keys=False,
            strict_hashable_types=True,
        )
        if type(item) is not list or (len(data) > max_items and too_many(item, max_items)):
            return None
        return item if dumps(item) == data else None
    except (cbor2.CBORError, ValueError, TypeError, OverflowError, RecursionError):
        return None


def dumps(value: Any) -> bytes:
    return cbor2.dumps(value, canonical=True)
