"""SIENA filters as the Java release evaluates them (event_systems facts, 3.1).

    filter{ subject = "Speed" rate > 30 }       lines are alternatives, a line is a conjunction

A missing attribute fails the filter. Types that do not compare make a constraint false, but != true. Integers and
doubles compare as doubles, strings by UTF-16.
"""

import re
from typing import Any

from vicinal.event import Event

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^\s"]+)', re.DOTALL)
_HEAD, _TAIL = "filter{", "}"


def matches(text: str, event: Event) -> bool:
    fields: dict[str, Any] = {"subject": event.subject}
    fields.update({name: value for name, value in event.params.items() if name != "subject"})
    fields.update({"$" + name: value for name, value in event.attrs.items()})
    return any(all(holds(*constraint, fields) for constraint in line) for line in parse(text))


def parse(text: str) -> list[list[tuple[str, str, Any]]]:
    tokens = [match.group(1) for match in _TOKEN.finditer(text)]
    lines: list[list[tuple[str, str, Any]]] = []
    at = 0
    while at < len(tokens):
        assert tokens[at] == _HEAD, tokens[at:]
        at += 1
        constraints = []
        while tokens[at] != _TAIL:
            name, op = tokens[at], tokens[at + 1]
            at += 2
            value = None
            if op != "any":
                value = _value(tokens[at])
                at += 1
            constraints.append((name, op, value))
        at += 1
        lines.append(constraints)
    return lines


def _value(token: str) -> Any:
    if token.startswith('"'):
        return re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)
    if token in ("true", "false"):
        return token == "true"
    return int(token) if re.fullmatch(r"-?\d+", token) else float(token)


def holds(name: str, op: str, wanted: Any, fields: dict[str, Any]) -> bool:
    if name not in fields:
        return False
    if op == "any":
        return True
    found = fields[name]
    if _kind(found) != _kind(wanted) or _kind(wanted) is None:
        return op == "!="
    if op in (">*", "*<", "*"):
        if not isinstance(found, str):
            return False
        return {">*": found.startswith(wanted), "*<": found.endswith(wanted), "*": wanted in found}[op]
    a, b = _key(found), _key(wanted)
    return bool({"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op])


def _kind(value: Any) -> str | None:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return "string" if isinstance(value, str) else None


def _key(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    return value.encode("utf-16-be") if isinstance(value, str) else float(value)
