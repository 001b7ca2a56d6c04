"""The profile of _cbor.py on CPython, at the speed of cbor2.

cbor2 is lax by default: tags build objects and run regular expressions, bignum keys flood its dicts. Here tags raise
before they are decoded, and map keys must be text or bytes, whose hashes a stranger cannot aim.
"""

from typing import Any, NoReturn

import cbor2

from . import limits
from .errors import RemoteProtocolError


class _NoTags(dict[int, Any]):
    """Stands for the table of every tag's decoder, so that none is built in."""

    def __getitem__(self, tag: int) -> NoReturn:
        raise RemoteProtocolError(f"tag {tag}")


def _no_tag(_decoder: object, tag: object) -> NoReturn:
    raise RemoteProtocolError(f"{tag}")


_NO_TAGS = _NoTags()


def fast_loads(data: bytes) -> Any:
    """What cbor2 makes of the bytes. The caller has still to check the types of what it got, and to compare the
    bytes with the one right encoding."""
    try:
        return cbor2.loads(
            data,
            tag_hook=_no_tag,
            semantic_decoders=_NO_TAGS,
            max_depth=limits.MAX_DEPTH,
            allow_indefinite=False,
            allow_duplicate_keys=False,
            strict_hashable_types=True,
        )
    except (cbor2.CBORError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise RemoteProtocolError(str(error)) from error


def dumps(value: Any) -> bytes:
    return cbor2.dumps(value, canonical=True)
