"""Names that say who is who for a day and a scope, and never who it is.

    key of a scope and a day = HMAC-SHA256(master, "day" 0 scope 0 day)
    pseudonym                = "p-" base32 of the first 10 bytes of HMAC-SHA256(key, name)

Who has the key of a scope and a day can find a name that it knows already among that day's pseudonyms, and nothing
else; who has the master key can do so for every scope and day. Days are UTC, of when the event happened.
"""

import base64
import hashlib
import hmac

from .errors import LimitError

__all__ = ["MIN_KEY", "day_key", "day_of", "pseudonym"]

MIN_KEY = 16
"""bytes of a master key"""
DAY_MS = 86_400_000


def day_of(time: int) -> int:
    """Days since 1970 of a time in ms."""
    return time // DAY_MS


def day_key(master: bytes, scope: str, day: int) -> bytes:
    if len(master) < MIN_KEY:
        raise LimitError("master key", f"{len(master)} bytes", f"at least {MIN_KEY}")
    return hmac.digest(master, b"\0".join([b"day", scope.encode(), str(day).encode()]), hashlib.sha256)


def pseudonym(key: bytes, name: str) -> str:
    found = hmac.digest(key, name.encode(), hashlib.sha256)[:10]
    return "p-" + base64.b32encode(found).decode().lower()
