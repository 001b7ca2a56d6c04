"""Whatever vehicles say, as JSON can say it: what leaves the office for a page, and what is kept as JSON, goes through
here. An event may have anything as a value, and one of them must not end a page for everybody.

    bytes                             "0x0102"
    NaN, infinities                   "NaN", "Infinity", "-Infinity": JSON has no such numbers
    integers beyond 2 ** 53           as text: a browser would make another number of them
    anything else that is no JSON     its repr
"""

import json
import math
from typing import Any

__all__ = ["dumps", "plain"]

EXACT = 1 << 53
"""up to here a browser knows integers"""


def plain(value: Any) -> Any:
    if value is None or type(value) in (bool, str):
        return value
    if isinstance(value, int):
        return value if abs(value) <= EXACT else str(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, (bytes, bytearray)):
        return f"0x{value.hex()}"
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return str(value) if isinstance(value, str) else repr(value)


def dumps(value: Any) -> str:
    """In ASCII: text that is no Unicode is JSON, too."""
    return json.dumps(plain(value), separators=(",", ":"), allow_nan=False)
