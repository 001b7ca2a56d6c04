"""A filter's text as a tree (spec/filter.md, 2).

condition  = conjunct *("OR" conjunct)
conjunct   = negation *("AND" negation)
negation   = "NOT" negation / "(" condition ")" / predicate
predicate  = operand [ comparison / ["NOT"] BETWEEN / IN / LIKE / "IS" ["NOT"] "NULL" ] / within
operand    = name / "$"name / literal
"""

from .. import limits
from ..errors import FilterSyntaxError, LocalProtocolError
from ._ast import ATTRIBUTE, PARAM, SUBJECT, And, Compare, Constant, In, IsNull, Like, Name, Node, Not, Or
from ._lexer import tokens
from ._like import well_escaped
from ._match import compare_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

FLIP = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def parse(text: str) -> Node:
    if type(text) is not str:
        raise LocalProtocolError(f"a filter is a str, got {text!r}")
    parser = Parser(text)
    if parser.kind == "end":
        parser.error("the filter is empty; TRUE matches everything")
    node = parser.chain(Or, "OR", 0)
    if parser.kind != "end":
        from ._hints import after

        parser.fail(after(parser.value))
    return node


class Parser:
    """Stands on one token: its `kind`, `value` and `column`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.at = 0
        self.kind, self.value, self.column = self.tokens[0]
        self.nodes = 0

    def error(self, message: str, column: int = 0) -> "NoReturn":
        raise FilterSyntaxError(message, self.text, column or self.column)

    def fail(self, wanted: str, column: int = 0) -> "NoReturn":
        got = "the end" if self.kind == "end" else repr(self.value)
        self.error(f"want {wanted}, got {got}", column)

    def next(self) -> "Any":
        """Step on; the value of what was stepped over."""
        value = self.value
        self.at += 1
        self.kind, self.value, self.column = self.tokens[self.at]
        return value

    def take(self, value: str) -> bool:
        """Step over a keyword or an operator if it is next."""
        if self.value == value and self.kind in ("word", "op"):
            self.next()
            return True
        return False

    def want(self, value: str) -> None:
        if not self.take(value):
            self.fail(value)

    def count(self) -> None:
        self.nodes += 1
        if self.nodes > limits.MAX_FILTER_NODES:
            self.error(f"more than {limits.MAX_FILTER_NODES} conditions and values")

    def deeper(self, depth: int) -> int:
        if depth >= limits.MAX_FILTER_DEPTH:
            self.error(f"nested {depth + 1} deep, the limit is {limits.MAX_FILTER_DEPTH}")
        return depth + 1

    def chain(self, kind: "type[And]", word: str, depth: int) -> Node:
        terms: list[Node] = []
        while True:
            part = self.chain(And, "AND", depth) if kind is Or else self.negation(depth)
            if type(part) is kind:
                terms.extend(part.terms)
            else:
                terms.append(part)
            if not self.take(word):
                break
        if len(terms) == 1:
            return terms[0]
        self.count()
        return kind(tuple(terms))

    def negation(self, depth: int) -> Node:
        if self.take("NOT"):
            self.count()
            return Not(self.negation(self.deeper(depth)))
        if self.take("("):
            node = self.chain(Or, "OR", self.deeper(depth))
            self.want(")")
            return node
        return self.predicate(depth)

    def predicate(self, depth: int) -> Node:
        self.count()
        column = self.column
        if self.kind == "name" and self.value.lower() == "within" and self.tokens[self.at + 1][1] == "(":
            from ._within import within

            return within(self)
        left = self.operand()
        if self.kind == "op" and self.value in FLIP:
            return compare(self.next(), left, self.operand())
        negated = self.take("NOT")
        node: Node
        if self.kind == "word" and self.value in ("IN", "LIKE", "IS") and type(left) is not Name:
            self.error(f"{self.value} wants a name before it", column)
        if self.take("BETWEEN"):
            # Counted as what it stands for, so that its text is within the limits too.
            for _ in range(3 if negated else 2):
                self.count()
            if negated:
                self.deeper(self.deeper(depth))
            low = self.operand()
            self.want("AND")
            node = And((compare(">=", left, low), compare("<=", left, self.operand())))
        elif self.take("IN"):
            node = In(left, self.values())
        elif self.take("LIKE"):
            node = self.like(left)
        elif negated:
            self.fail("BETWEEN, IN or LIKE")
        elif self.take("IS"):
            negated = self.take("NOT")
            self.want("NULL")
            node = IsNull(left)
        elif type(left) is bool:
            return Constant(left)
        elif type(left) is Name and left.kind != SUBJECT:
            return Compare("=", left, True)
        else:
            self.fail("a comparison")
        return Not(node) if negated else node

    def operand(self) -> "Any":
        kind = self.kind
        if kind == "name" and self.value == "subject":
            return Name(SUBJECT, self.next())
        if kind == "name" or kind == "quoted":
            return Name(PARAM, self.next())
        if kind == "attr":
            return Name(ATTRIBUTE, self.next())
        return self.literal()

    def literal(self) -> "Any":
        if self.kind in ("str", "bytes"):
            return self.next()
        if self.kind == "word" and self.value in ("TRUE", "FALSE"):
            return self.next() == "TRUE"
        column = self.column
        digits = self.digits("a name or a value")
        try:
            if "." in digits or "e" in digits or "E" in digits:
                real = float(digits)
                if real - real == 0:
                    return real
            elif limits.INT_MIN <= int(digits) <= limits.INT_MAX:
                return int(digits)
        except ValueError:
            pass
        self.error(f"number {digits} is not in -2^63 .. 2^63-1, nor a float", column)

    def digits(self, wanted: str = "a number") -> str:
        """A number as it is written, with its sign."""
        sign = self.next() if self.kind == "op" and self.value in ("-", "+") else ""
        if self.kind != "num":
            if self.value == "NULL" and self.kind == "word":
                wanted = "IS NULL or IS NOT NULL, as nothing equals NULL"
            self.fail(wanted)
        return ("-" if sign == "-" else "") + self.next()  # type: ignore[no-any-return]

    def values(self) -> "tuple[Any, ...]":
        self.want("(")
        values = [self.literal()]
        while self.take(","):
            self.count()
            values.append(self.literal())
        self.want(")")
        return tuple(values)

    def like(self, name: Name) -> Node:
        column = self.column
        if self.kind != "str":
            self.fail("a string")
        pattern: str = self.next()
        if self.take("ESCAPE"):
            if self.kind != "str" or len(self.value) != 1:
                self.fail("one character")
            escape: str = self.next()
            if not well_escaped(pattern, escape):
                self.error(f"{escape!r} must be followed by %, _ or itself", column)
            return Like(name, pattern, escape)
        return Like(name, pattern, None)


def compare(op: str, left: "Any", right: "Any") -> Node:
    """With the name on the left; two literals are compared here and now."""
    if type(left) is Name:
        return Compare(op, left, right)
    if type(right) is Name:
        return Compare(FLIP[op], right, left)
    return Constant(compare_values(op, left, right))
