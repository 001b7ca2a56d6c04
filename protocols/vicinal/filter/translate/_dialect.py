"""Languages that, like ours, are conditions in text: JMS selectors, ETCL, Spark SQL.

The tree is first brought into the form in which NOT stands only at literals. There, leaving a literal out of an AND
widens, and an OR of which one alternative cannot be said becomes TRUE. A subclass says how its language writes
names, values and each kind of literal; it returns None for what it cannot say, after `wider(reason)`.
"""

from .._ast import And, Compare, Constant, In, IsNull, Like, Name, Node, Not, Within
from .._match import kind_of
from .._normal import nnf
from .._text import name_text
from . import Translation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Beyond it not every integer is a double, and others compare an integer with a double as doubles.
EXACT_DOUBLE = 1 << 53


class Dialect:
    title = ""
    true, false = "TRUE", "FALSE"
    words = (" AND ", " OR ")
    operators = {"=": "=", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def translate(self, node: Node) -> Translation:
        text = self.condition(nnf(node), False)
        return Translation(self.true if text is None else text, self.reasons)

    def wider(self, reason: str) -> None:
        if reason not in self.reasons:
            self.reasons.append(reason)

    def condition(self, node: "Any", inside: bool) -> "str | None":
        kind = type(node)
        if kind is Constant:
            return self.true if node.value else self.false
        if not isinstance(node, And):
            return self.literal(node)
        parts = [self.condition(term, True) for term in node.terms]
        said = [part for part in parts if part is not None]
        if kind is And:
            return self.chain(self.words[0], said, inside) if said else None
        return self.chain(self.words[1], said, inside) if len(said) == len(parts) else None

    def chain(self, word: str, parts: "list[str]", inside: bool = True) -> str:
        text = word.join(parts)
        return f"({text})" if inside and len(parts) > 1 else text

    def literal(self, literal: "Any") -> "str | None":
        negated = type(literal) is Not
        inner = literal.term if negated else literal
        if type(inner) is Within:
            return self.within(inner, negated)
        name = self.name(inner.name)
        if name is None:
            self.wider(f"{self.title} has no name {name_text(inner.name)}")
            return None
        if type(inner) is IsNull:
            return self.present(name) if negated else self.absent(name)
        if type(inner) is Like:
            return self.like(inner, name, negated)
        if type(inner) is In:
            return self.member(inner, name, negated)
        if type(inner.value) is Name:
            return self.relation(inner, name)
        return self.compare(inner, name)

    def member(self, node: In, name: str, negated: bool) -> "str | None":
        kinds = {kind_of(value) for value in node.values}
        if negated and len(kinds) > 1:
            return self.false  # beside a value of another kind each inequality is unknown
        op = "<>" if negated else "="
        parts = [self.compare(Compare(op, node.name, value), name) for value in node.values]
        said = [part for part in parts if part is not None]
        if negated:
            return self.chain(self.words[0], said) if said else None
        return self.chain(self.words[1], said) if len(said) == len(parts) else None

    def compare(self, node: Compare, name: str) -> "str | None":
        value = node.value
        kind = kind_of(value)
        if kind in ("b", "x") and node.op not in ("=", "<>"):
            return self.false
        if kind == "n" and abs(value) >= EXACT_DOUBLE:
            self.wider(f"{self.title} compares numbers past 2^53 as doubles")
            return self.present(name)
        if kind == "s" and node.op not in ("=", "<>") and not self.orders(value):
            self.wider(f"{self.title} has no order of strings like {value!r}")
            return self.present(name)
        shown = self.value(value)
        if shown is None:
            self.wider(f"{self.title} cannot compare with {type(value).__name__} {value!r}")
            return self.present(name)
        return f"{name} {self.operators[node.op]} {shown}"

    def relation(self, node: Compare, name: str) -> "str | None":
        """x op y. Of two doubles past 2^53 another side may see equal what we see different: only = is kept."""
        other = self.name(node.value)
        if other is None:
            self.wider(f"{self.title} has no name {name_text(node.value)}")
            return self.present(name)
        self.wider(f"{self.title} compares two names more loosely than {node.op}")
        if node.op == "=":
            return f"{name} {self.operators['=']} {other}"
        return self.chain(self.words[0], [self.present(name), self.present(other)])

    def within(self, node: Within, negated: bool) -> "str | None":
        from .._within import place_literals

        self.wider(
            f"{self.title} has no within: a box around it is used" if not negated else f"{self.title} has no within"
        )
        parts = [self.literal(part) for part in place_literals(node, negated)]
        return self.chain(self.words[0], [text for text in parts if text is not None])

    def orders(self, value: str) -> bool:
        """Whether < of strings like this one means the same there."""
        return False

    def name(self, name: Name) -> "str | None":
        raise NotImplementedError

    def value(self, value: "Any") -> "str | None":
        raise NotImplementedError

    def present(self, name: str) -> str:
        return f"{name} IS NOT NULL"

    def absent(self, name: str) -> "str | None":
        return f"{name} IS NULL"

    def like(self, node: Like, name: str, negated: bool) -> "str | None":
        raise NotImplementedError
