"""A filter's text as tokens (spec/filter.md, 1).

A token is (kind, value, column): "word" a keyword in capitals, "name", "quoted" a name in backticks, "attr", "str",
"num" its text, "bytes", "op", "end". Columns count from 1.
"""

from .. import limits
from ..errors import FilterSyntaxError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Token: TypeAlias = "tuple[str, Any, int]"

KEYWORDS = ("AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE")
OPERATORS = ("<>", "<=", ">=", "=", "<", ">", "(", ")", ",", "-", "+")


def letter(char: str) -> bool:
    return "a" <= char <= "z" or "A" <= char <= "Z" or char == "_"


def digit(char: str) -> bool:
    return "0" <= char <= "9"


def tokens(text: str) -> "list[Token]":
    if len(text) > limits.MAX_FILTER_CHARS:
        raise FilterSyntaxError(
            f"a filter of {len(text)} characters, the limit is {limits.MAX_FILTER_CHARS}", text, limits.MAX_FILTER_CHARS
        )
    found: list[Token] = []
    # Indexing a list is one step on both interpreters; indexing a str that is not ASCII is not.
    chars = list(text) + [""]
    at = 0
    while at < len(chars) - 1:
        char = chars[at]
        start = at
        value: Any
        if char in " \t\r\n":
            at += 1
            continue
        if char in "xX" and chars[at + 1] == "'":
            kind = "bytes"
            value, at = _quoted(text, chars, at + 1)
            digits = value
            try:
                value = bytes.fromhex(digits)
            except ValueError:
                value = b""
            if len(value) * 2 != len(digits):  # white space is let through above
                raise FilterSyntaxError("X'...' holds pairs of hexadecimal digits", text, start + 1)
        elif letter(char):
            at = _word_end(chars, at)
            value = "".join(chars[start:at])
            kind = "name"
            if value.upper() in KEYWORDS:
                kind, value = "word", value.upper()
        elif char == "`":
            kind = "quoted"
            value, at = _quoted(text, chars, at)
        elif char == "$":
            kind = "attr"
            if chars[at + 1] == "`":
                value, at = _quoted(text, chars, at + 1)
            else:
                at = _word_end(chars, at + 1) if letter(chars[at + 1]) else at + 1
                value = "".join(chars[start + 1 : at])
        elif char == "'":
            kind = "str"
            value, at = _quoted(text, chars, at)
        elif digit(char) or (char == "." and digit(chars[at + 1])):
            kind = "num"
            at = _number_end(chars, at)
            value = "".join(chars[start:at])
            if letter(chars[at]):
                raise FilterSyntaxError(f"number {value} runs into {chars[at]!r}", text, at + 1)
        else:
            kind = "op"
            pair = char + chars[at + 1]
            value = pair if pair in OPERATORS else char
            if value not in OPERATORS or pair == "==":
                from ._hints import hint

                raise FilterSyntaxError(hint(pair), text, start + 1)
            at += len(value)
        if not value and kind in ("quoted", "attr"):
            raise FilterSyntaxError("a name is missing", text, start + 1)
        found.append((kind, value, start + 1))
    found.append(("end", "", len(chars)))
    return found


def _word_end(chars: "list[str]", at: int) -> int:
    """Letters, digits, _ and dots between them, as in Vehicle.Speed."""
    while letter(chars[at]) or digit(chars[at]) or (chars[at] == "." and letter(chars[at + 1])):
        at += 1
    return at


def _number_end(chars: "list[str]", at: int) -> int:
    while digit(chars[at]) or chars[at] == ".":
        at += 1
    if chars[at] in ("e", "E"):
        sign = at + 1 + (chars[at + 1] in ("+", "-"))
        if digit(chars[sign]):
            at = sign
            while digit(chars[at]):
                at += 1
    return at


def _quoted(text: str, chars: "list[str]", at: int) -> "tuple[str, int]":
    """The content, with doubled quotes undone, and the place after it."""
    start = at
    quote = chars[at]
    parts: list[str] = []
    while True:
        at += 1
        if not chars[at]:
            raise FilterSyntaxError(f"what starts here has no closing {quote}", text, start + 1)
        if chars[at] == quote:
            if chars[at + 1] != quote:
                return "".join(parts), at + 1
            at += 1
        parts.append(chars[at])
