"""JMS message selectors (Jakarta Messaging 3.1, 3.8.1).

The subject is the string property `subject`, a parameter the property of its name, an attribute `$Priority` the
property `$Priority`. Bytes and nested events are carried as strings, so that they are present. Strings have no order.
"""

from .._ast import ATTRIBUTE, SUBJECT, In, Like, Name, Node
from .._lexer import KEYWORDS, digit, letter
from .._text import value_text
from . import Translation
from ._dialect import Dialect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def to_jms(node: Node) -> Translation:
    return _Jms().translate(node)


class _Jms(Dialect):
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

    def member(self, node: In, name: str, negated: bool) -> "str | None":
        if any([type(value) is not str for value in node.values]):
            return super().member(node, name, negated)
        values = ", ".join([value_text(value) for value in node.values])
        return f"{name}{' NOT' if negated else ''} IN ({values})"

    def like(self, node: Like, name: str, negated: bool) -> "str | None":
        escape = "" if node.escape is None else " ESCAPE " + value_text(node.escape)
        return f"{name}{' NOT' if negated else ''} LIKE {value_text(node.pattern)}{escape}"
