"""JMS message selectors (Jakarta Messaging 3.1, 3.8.1).

The subject is the string property `subject`, a parameter the property of its name, an attribute `$Priority` the
property `$Priority`. Bytes and nested events are carried as strings, so that they are present. Strings have no order.
"""

from .._ast import ATTRIBUTE, SUBJECT, Compare, In, Like, Name, Node
from .._lexer import KEYWORDS, digit, letter
from .._like import segments
from .._text import value_text
from . import Translation
from ._dialect import Dialect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def to_jms(node: Node) -> Translation:
    return Jms().translate(node)


# Providers written in Java may order -0.0 before 0.0.
_ZERO = {
    "=": "x BETWEEN -0.0 AND 0.0",
    "<>": "(x < -0.0 OR x > 0.0)",
    "<": "x < -0.0",
    "<=": "x <= 0.0",
    ">": "x > 0.0",
    ">=": "x >= -0.0",
}


class Jms(Dialect):
    title = "a JMS selector"

    def name(self, name: Name) -> "str | None":
        ident = name.ident
        if name.kind == SUBJECT:
            return "subject"
        # A Java identifier, not one that JMS keeps for itself, and not our own word.
        java = letter(ident[0]) and all([letter(char) or digit(char) for char in ident])
        if not java or ident.upper() in KEYWORDS or ident.startswith("JMS") or ident == "subject":
            return None
        return "$" + ident if name.kind == ATTRIBUTE else ident

    def value(self, value: "Any") -> "str | None":
        return None if type(value) is bytes else value_text(value)

    def compare(self, node: Compare, name: str) -> "str | None":
        if node.op == "<>" and type(node.value) is not bytes:
            self.wider("<> of a JMS selector may be true for values of another type")
        if type(node.value) in (int, float) and node.value == 0:
            return _ZERO[node.op].replace("x", name)
        return super().compare(node, name)

    def member(self, node: In, name: str, negated: bool) -> "str | None":
        if any([type(value) is not str for value in node.values]):
            return super().member(node, name, negated)
        if negated:
            self.wider("NOT of a JMS selector may be true for values of another type")
        values = ", ".join([value_text(value) for value in node.values])
        return f"{name}{' NOT' if negated else ''} IN ({values})"

    def like(self, node: Like, name: str, negated: bool) -> "str | None":
        if negated:
            self.wider("NOT of a JMS selector may be true for values of another type")
        parts = segments(node.pattern, node.escape)
        special = any([char in ("%", "_", "\\") for part in parts for char in part if char is not None])
        # Written anew: there an escape is one UTF-16 unit.
        pattern = "%".join(["".join([_like_char(char, special) for char in part]) for part in parts])
        escape = " ESCAPE '\\'" if special else ""
        return f"{name}{' NOT' if negated else ''} LIKE {value_text(pattern)}{escape}"


def _like_char(char: "str | None", special: bool) -> str:
    if char is None:
        return "_"
    return "\\" + char if special and char in "\\%_" else char
