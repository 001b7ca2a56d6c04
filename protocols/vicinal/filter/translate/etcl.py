"""The Extended Trader Constraint Language of the CORBA Notification Service (formal/04-10-11, 2.4).

The subject is the event's type name, a parameter a field of its filterable data, an attribute one of its variable
header. A constraint that names a missing field is false as a whole, so that every field is asked for with `exist`
first. `'a' ~ $x` says that x contains a; there is no other pattern, and no list of values.
"""

from .._ast import ATTRIBUTE, SUBJECT, Like, Name, Node
from .._lexer import digit, letter
from .._like import literal as plain
from .._like import segments
from . import Translation
from ._dialect import Dialect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._ast import Compare

_TYPE_NAME = "$type_name"


def to_etcl(node: Node) -> Translation:
    return _Etcl().translate(node)


class _Etcl(Dialect):
    title = "ETCL"
    words = (" and ", " or ")
    operators = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}

    def name(self, name: Name) -> "str | None":
        ident = name.ident
        if name.kind == SUBJECT:
            return _TYPE_NAME
        if not letter(ident[0]) or not all([letter(char) or digit(char) for char in ident]):
            return None
        where = "header.variable_header" if name.kind == ATTRIBUTE else "filterable_data"
        return f"$.{where}({ident})"

    def value(self, value: "Any") -> "str | None":
        if type(value) is bytes:
            return None
        if type(value) is str:
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return str(value).upper() if type(value) is bool else repr(value)

    def present(self, name: str) -> str:
        return self.true if name == _TYPE_NAME else f"exist {name}"

    def absent(self, name: str) -> str:
        return self.false if name == _TYPE_NAME else f"not exist {name}"

    def guard(self, name: str, test: str) -> str:
        return test if name == _TYPE_NAME else f"(exist {name} and {test})"

    def compare(self, node: "Compare", name: str) -> "str | None":
        text = super().compare(node, name)
        if text is None or text in (self.false, self.present(name)):
            return text
        return self.guard(name, text)

    def relation(self, node: "Compare", name: str) -> "str | None":
        other = self.name(node.value)
        text = super().relation(node, name)
        if text is None or other is None or node.op != "=":
            return text
        return self.guard(name, self.guard(other, text))

    def like(self, node: Like, name: str, negated: bool) -> "str | None":
        parts = segments(node.pattern, node.escape)
        texts = [plain(part) for part in parts]
        if len(parts) == 1 and texts[0] is not None:
            return self.guard(name, f"{name} {'!=' if negated else '=='} {self.value(texts[0])}")
        contains = len(parts) == 3 and texts[0] == "" and texts[2] == "" and texts[1] is not None
        if negated:
            if contains:
                self.wider("ETCL negates a pattern for values that are no strings, too")
                return self.guard(name, f"not ({self.value(texts[1])} ~ {name})")
            self.wider(f"ETCL has no pattern like {node.pattern!r}")
            return self.present(name)
        if not contains:
            self.wider(f"ETCL has no pattern like {node.pattern!r}, only its pieces")
        tests = [f"{self.value(text)} ~ {name}" for part in parts for text in pieces(part)]
        return self.guard(name, self.chain(self.words[0], tests)) if tests else self.present(name)


def pieces(segment: "list[str | None]") -> "list[str]":
    """The stretches of text between the _ of a segment."""
    found = [""]
    for char in segment:
        if char is None:
            found.append("")
        else:
            found[-1] += char
    return [piece for piece in found if piece]
