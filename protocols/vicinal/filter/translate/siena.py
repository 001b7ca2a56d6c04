"""SIENA filters (the operators of the Siena Java release).

A SIENA filter is a conjunction, so that ours becomes one line for each alternative: subscribe to every line. Operators
are = != < > <= >= and for strings >* (prefix), *< (suffix), * (contains); `any` asks for presence. A type mismatch is
false but for !=, which it makes true, so that != is wider than ours. Absence cannot be asked for.

    filter{ subject = "Speed" rate > 30 }
"""

from .._ast import ATTRIBUTE, Compare, In, IsNull, Like, Name, Node, Not, Within
from .._lexer import digit, letter
from .._like import literal as plain
from .._like import segments
from .._match import kind_of
from .._text import name_text
from . import Translation
from ._dialect import EXACT_DOUBLE
from ._terms import satisfiable_terms
from .etcl import pieces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAX_FILTERS = 64


def to_siena(node: Node) -> Translation:
    return _Siena().translate(node)


class _Siena:
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def wider(self, reason: str) -> None:
        if reason not in self.reasons:
            self.reasons.append(reason)

    def translate(self, node: Node) -> Translation:
        terms, exact = satisfiable_terms(node)
        if not exact:
            self.wider("the filter has more than 64 alternatives")
        lines: list[str] = []
        for literals in terms:
            for constraints in self.alternatives(literals):
                line = "filter{ " + " ".join(constraints) + " }" if constraints else "filter{ }"
                if line not in lines:
                    lines.append(line)
        return Translation("\n".join(lines), self.reasons)

    def alternatives(self, literals: "list[Any]") -> "list[list[str]]":
        """IN has no equal: a conjunction for each of its values."""
        found: list[list[str]] = [[]]
        for literal in literals:
            if type(literal) is In and len(found) * len(literal.values) <= _MAX_FILTERS:
                parts = [self.compare(Compare("=", literal.name, value)) for value in literal.values]
                found = [left + right for left in found for right in parts]
            else:
                constraints = self.constraints(literal)
                found = [left + constraints for left in found]
        return found

    def constraints(self, literal: "Any") -> "list[str]":
        negated = type(literal) is Not
        inner = literal.term if negated else literal
        kind = type(inner)
        if kind is Within:
            return self.within(inner, negated)
        if kind is IsNull:
            if negated:
                return self.any(inner.name)
            self.wider("SIENA cannot ask for absence")
            return []
        if kind is Like:
            return self.like(inner, negated)
        if kind is In:
            if negated:
                return [text for value in inner.values for text in self.compare(Compare("<>", inner.name, value))]
            self.wider("the filter has more than 64 alternatives")
            return self.any(inner.name)
        if type(inner.value) is Name:
            self.wider("SIENA cannot compare two names")
            return self.any(inner.name) + self.any(inner.value)
        return self.compare(inner)

    def name(self, name: Name) -> "str | None":
        ident = name.ident
        if not letter(ident[0]) or not all([letter(char) or digit(char) or char == "." for char in ident]):
            self.wider(f"SIENA has no name {name_text(name)}")
            return None
        if name == Name(0, "subject"):
            self.wider("SIENA keeps the name subject for the subject")
            return None
        return "$" + ident if name.kind == ATTRIBUTE else ident

    def one(self, name: Name, op: str, value: str) -> "list[str]":
        shown = self.name(name)
        return [] if shown is None else [f"{shown} {op} {value}"]

    def any(self, name: Name) -> "list[str]":
        shown = self.name(name)
        return [] if shown is None else [f"{shown} any"]

    def compare(self, node: Compare) -> "list[str]":
        value, op = node.value, node.op
        kind = kind_of(value)
        if kind == "b":
            wanted = value if op == "=" else not value
            return self.one(node.name, "=", "true" if wanted else "false")
        if kind == "x":
            self.wider("SIENA has no bytes")
            return self.any(node.name)
        if kind == "n" and abs(value) >= EXACT_DOUBLE:
            self.wider("SIENA compares numbers past 2^53 as doubles")
            return self.any(node.name)
        if kind == "s" and op not in ("=", "<>") and any([char >= "\ud800" for char in value]):
            self.wider("SIENA orders strings by UTF-16")
            return self.any(node.name)
        if op == "<>":
            self.wider("!= of SIENA is true for values of another type")
            op = "!="
        return self.one(node.name, op, quoted(value) if kind == "s" else repr(value))

    def like(self, node: Like, negated: bool) -> "list[str]":
        parts = segments(node.pattern, node.escape)
        texts = [plain(part) for part in parts]
        if negated:
            self.wider("SIENA has no negated pattern")
            return self.any(node.name)
        if len(parts) == 1 and texts[0] is not None:
            return self.one(node.name, "=", quoted(texts[0]))
        found: list[str] = []
        first, last = texts[0], texts[-1]
        exact = None not in texts and len(parts) < 4
        if len(parts) > 1 and first:
            found += self.one(node.name, ">*", quoted(first))
        middle = parts[1:-1]
        if first is None or len(parts) == 1:
            middle = [parts[0]] + middle
        if last is None and len(parts) > 1:
            middle = middle + [parts[-1]]
        for part in middle:
            for text in pieces(part):
                found += self.one(node.name, "*", quoted(text))
        if len(parts) > 1 and last:
            found += self.one(node.name, "*<", quoted(last))
        if not exact or len(found) != 1:
            self.wider(f"SIENA has no pattern like {node.pattern!r}, only its pieces")
        return found or self.any(node.name)

    def within(self, node: Within, negated: bool) -> "list[str]":
        from .._within import place_literals

        self.wider("SIENA has no within" + ("" if negated else ": a box around it is used"))
        return [text for part in place_literals(node, negated) for text in self.constraints(part)]


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
