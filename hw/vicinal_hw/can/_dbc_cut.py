"""What a mapping has no use for, taken out of a DBC file before it is parsed: comments, attributes, and other messages.

A car's file has ten thousand statements, nine of ten of them attributes; parsing them takes most of a second, and a log
is often asked for one message. Statements are told apart by their keywords at the start of a line, with texts in quotes
skipped as a whole, as a comment may hold lines that look like statements. Line ends stay, for the parser's messages.
"""

import re
from collections.abc import Set as AbstractSet

__all__ = ["cut"]

# Possessive (++, *+): in a file with a quote too many nothing is tried twice.
_TO_SEMICOLON = r"""(?:[^";]++|"(?:[^"\\]++|\\.)*+")*+;"""
_UNUSED = re.compile(rf"""^[ \t]*(?:CM_[ \t]+(?=BU_|BO_|SG_|EV_|")|BA_[ \t]+(?=")){_TO_SEMICOLON}""", re.MULTILINE)
_OF_MESSAGE = re.compile(
    rf"""^[ \t]*(?:
        (?:VAL_|SIG_VALTYPE_|SG_MUL_VAL_|SIG_GROUP_|BO_TX_BU_)[ \t]+(?P<id>\d+)\b{_TO_SEMICOLON}
        | BO_[ \t]+(?P<message>\d+)[ \t]+(?P<name>\w+)[ \t]*:[^\n]*(?:\n[ \t]*SG_[ \t][^\n]*)*
        | VAL_TABLE_[ \t]+\w+{_TO_SEMICOLON}
    )""",
    re.MULTILINE | re.VERBOSE,
)
# With these attributes a file gives messages and signals other names than those in their statements.
_LONG_NAMES = "LongSymbol"


def cut(text: str, only: AbstractSet[str] = frozenset()) -> str:
    """Without `only` every message stays. Where a name in it is not found, all stay: the parser's users will say so."""
    if _LONG_NAMES in text:
        return text
    text = _UNUSED.sub(_line_ends, text)
    if not only:
        return text
    ids = {found["message"]: found["name"] for found in _OF_MESSAGE.finditer(text) if found["name"] in only}
    if set(ids.values()) != only:
        return text

    def keep(found: re.Match[str]) -> str:
        return found[0] if (found["id"] or found["message"]) in ids else _line_ends(found)

    return _OF_MESSAGE.sub(keep, text)


def _line_ends(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")
