"""What may be kept as text, and as values beside it: one rule for SQLite, which takes everything, and for PostgreSQL,
which refuses what is too long, a NUL, half a character, and a NaN in JSON.

    checked    what somebody says of whom or what: refused, with the reason
    cleaned    what is kept to tell what came: cut, and what cannot be kept is replaced
"""

from collections.abc import Mapping
from typing import Any

from vicinal.errors import LimitError, LocalProtocolError

from . import plain as as_json

__all__ = ["NAME_MAX", "NOTE_MAX", "SAID_MAX", "SOURCE_MAX", "WHO_MAX", "checked", "cleaned", "flaw", "plain"]

NAME_MAX = 64
"""characters of a vehicle, a monitor and an area"""
WHO_MAX = 128
SOURCE_MAX = 256
"""of a limit: who set it, its hours, and among which areas it was the highest"""
NOTE_MAX = 4_000
SAID_MAX = 500
"""of a value in quarantine"""
_REPLACED = "\N{REPLACEMENT CHARACTER}"


def flaw(text: str) -> str:
    """Why it cannot be kept, however short; "" if it can."""
    if "\0" in text:
        return "has a NUL in it"
    if any("\ud800" <= one <= "\udfff" for one in text):
        return "has half a character in it"
    return ""


def checked(what: str, text: str, most: int) -> str:
    if len(text) > most:
        raise LimitError(f"length of {what}", f"{len(text)} characters", most)
    if why := flaw(text):
        raise LocalProtocolError(f"{what} {why}")
    return text


def cleaned(text: str, most: int) -> str:
    if flaw(text):
        text = "".join(_REPLACED if flaw(one) else one for one in text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON has them (plain.py), and not too long."""
    found = {cleaned(name, SAID_MAX): as_json.plain(value) for name, value in values.items()}
    return {name: cleaned(value, SAID_MAX) if type(value) is str else value for name, value in found.items()}
