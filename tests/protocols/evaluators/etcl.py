"""Constraints of the CORBA Notification Service (ETCL), evaluated over an event.

A field that is missing makes the whole constraint false, unless `and` or `or` has decided before it is looked at:
`exist` asks without looking. Unlike types compare as false, != included; `~` asks whether the string on its right
contains the left one.
"""

import re
from collections.abc import Callable
from typing import Any

from vicinal.event import Event

_TOKEN = re.compile(
    r"\s*(?:(?P<string>'(?:[^'\\]|\\.)*')|(?P<field>\$[.\w]*(?:\(\w+\))?)|(?P<number>-?\d[\d.]*(?:e[-+]?\d+)?)|"
    r"(?P<word>\w+)|(?P<op>==|!=|<=|>=|[<>~()]))",
    re.DOTALL,
)


class Missing(Exception):
    """A field that the event does not have: the constraint as a whole is false."""


def matches(text: str, event: Event) -> bool:
    parser = _Parser(text)
    test = parser.either()
    assert parser.at == len(parser.tokens), parser.tokens[parser.at :]
    try:
        return bool(test(event))
    except Missing:
        return False


Test = Callable[[Event], Any]


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            assert found, text[at:]
            self.tokens.append(
                (str(found.lastgroup), found.group().strip() if found.lastgroup != "string" else found["string"])
            )
            at = found.end()
        self.at = 0

    def take(self, *wanted: str) -> str | None:
        if (
            self.at < len(self.tokens)
            and self.tokens[self.at][1] in wanted
            and self.tokens[self.at][0] in ("word", "op")
        ):
            self.at += 1
            return self.tokens[self.at - 1][1]
        return None

    def either(self) -> Test:
        parts = [self.both()]
        while self.take("or"):
            parts.append(self.both())
        return lambda event: any(part(event) for part in parts)

    def both(self) -> Test:
        parts = [self.negation()]
        while self.take("and"):
            parts.append(self.negation())
        return lambda event: all(part(event) for part in parts)

    def negation(self) -> Test:
        if self.take("not"):
            term = self.negation()
            return lambda event: not term(event)
        if self.take("exist"):
            field = self.tokens[self.at][1]
            self.at += 1
            return lambda event: _has(field, event)
        left = self.operand()
        op = self.take("==", "!=", "<", "<=", ">", ">=", "~")
        if op is None:
            return left
        right = self.operand()
        return lambda event: _compare(op, left(event), right(event))

    def operand(self) -> Test:
        if self.take("("):
            inner = self.either()
            assert self.take(")")
            return inner
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "field":
            return lambda event: _get(text, event)
        value: Any
        if kind == "string":
            value = re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
        elif kind == "number":
            value = int(text) if text.lstrip("-").isdigit() else float(text)
        else:
            value = {"TRUE": True, "FALSE": False}[text]
        return lambda event: value


def _field(field: str, event: Event) -> Any:
    if field == "$type_name":
        return event.subject
    where, _, name = field.rstrip(")").partition("(")
    items = {"$.filterable_data": event.params, "$.header.variable_header": event.attrs}[where]
    return items.get(name)


def _has(field: str, event: Event) -> bool:
    return _field(field, event) is not None


def _get(field: str, event: Event) -> Any:
    value = _field(field, event)
    if value is None:
        raise Missing(field)
    return value


def _compare(op: str, a: Any, b: Any) -> bool:
    if op == "~":
        return isinstance(a, str) and isinstance(b, str) and a in b
    kinds = [bool if isinstance(v, bool) else float if isinstance(v, (int, float)) else type(v) for v in (a, b)]
    if kinds[0] is not kinds[1]:
        return False
    if kinds[0] is float:
        a, b = float(a), float(b)
    if op in ("==", "!="):
        return bool((a == b) is (op == "=="))
    return bool({"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op])
