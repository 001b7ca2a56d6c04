"""A tree back as text: the shortest the parser reads as the same tree."""

from ._ast import ATTRIBUTE, SUBJECT, And, Compare, Constant, In, IsNull, Like, Name, Node, Not, Or, Within
from ._lexer import KEYWORDS, digit, letter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OR, _AND, _NOT, _ATOM = 0, 1, 2, 3


def text_of(node: Node) -> str:
    return _text(node, _OR)


def _text(node: "Any", level: int) -> str:
    kind = type(node)
    if kind is Or:
        return _wrap(" OR ".join([_text(term, _AND) for term in node.terms]), level > _OR)
    if kind is And:
        return _wrap(" AND ".join([_text(term, _NOT) for term in node.terms]), level > _AND)
    if kind is Not:
        return _not(node.term)
    if kind is Constant:
        # Unknown has no literal; TRUE compared with a number is how it is said.
        return {True: "TRUE", False: "FALSE", None: "TRUE = 0"}[node.value]
    if kind is Within:
        return f"within({node.lat}, {node.lon}, {node.metres})"
    name = name_text(node.name)
    if kind is Compare:
        value = name_text(node.value) if type(node.value) is Name else value_text(node.value)
        return f"{name} {node.op} {value}"
    return name + _tail(node, "")


def _not(term: "Any") -> str:
    if type(term) in (In, Like, IsNull):
        return name_text(term.name) + _tail(term, " NOT")
    return "NOT " + _text(term, _ATOM)


def _tail(node: "Any", negation: str) -> str:
    kind = type(node)
    if kind is In:
        return f"{negation} IN ({', '.join([value_text(value) for value in node.values])})"
    if kind is Like:
        escape = "" if node.escape is None else " ESCAPE " + value_text(node.escape)
        return f"{negation} LIKE {value_text(node.pattern)}{escape}"
    return f" IS{negation} NULL"


def _wrap(text: str, needed: bool) -> str:
    return f"({text})" if needed else text


def plain(ident: str) -> bool:
    """Whether a name needs no backticks."""
    parts = ident.split(".")
    for part in parts:
        if not part or not letter(part[0]) or not all([letter(char) or digit(char) for char in part]):
            return False
    return ident.upper() not in KEYWORDS and ident != "subject" and ident.lower() != "within"


def name_text(name: Name) -> str:
    if name.kind == SUBJECT:
        return "subject"
    ident = name.ident if plain(name.ident) else "`" + name.ident.replace("`", "``") + "`"
    return "$" + ident if name.kind == ATTRIBUTE else ident


def value_text(value: "Any") -> str:
    kind = type(value)
    if kind is str:
        return f"'{value.replace(chr(39), chr(39) * 2)}'"
    if kind is bool:
        return "TRUE" if value else "FALSE"
    if kind is bytes:
        return "X'" + "".join([f"{byte:02x}" for byte in value]) + "'"
    return repr(value)
