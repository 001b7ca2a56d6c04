"""CDDL (RFC 8610), as much of it as protocols/spec uses, with its meaning as a parsing expression grammar (appendix A).

The CDDL checkers to be had from PyPI do not follow groups in arrays (cddl-rs, under pycddl) or do not live with
this cbor2 (zcbor). What is here knows rules, literals, ranges, .size, arrays, groups, choices, * and ?, no more.
"""

import re
from typing import Any

TOKEN = re.compile(r'\s+|;[^\n]*|("[^"]*"|-?\d+\.\.-?\d+|-?\d+|//|\.size|[A-Za-z][\w-]*|[=/:,*?()\[\]])')
PRELUDE = {"text": str, "bytes": bytes, "float": float, "bool": bool}
CONSTANTS = {"null": None, "true": True, "false": False}


class Schema:
    """The first rule is the root."""

    def __init__(self, text: str) -> None:
        self.tokens = [found for found in map(self._token, TOKEN.split(text)) if found]
        self.at = 0
        self.rules: dict[str, Any] = {}
        while self.at < len(self.tokens):
            name = self._next()
            self._want("=")
            self.rules[name] = self._type()
        self.root = next(iter(self.rules))

    def accepts(self, item: object) -> bool:
        return self._fits(("name", self.root), item)

    @staticmethod
    def _token(found: str | None) -> str | None:
        assert not found or TOKEN.fullmatch(found), f"not in this subset of CDDL: {found!r}"
        return found

    def _peek(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def _next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def _want(self, token: str) -> None:
        assert self._next() == token, f"want {token!r} at token {self.at}: {self.tokens[self.at - 5 : self.at]}"

    def _type(self) -> Any:
        choices = [self._simple()]
        while self._peek() == "/":
            self._next()
            choices.append(self._simple())
        return choices[0] if len(choices) == 1 else ("choice", choices)

    def _simple(self) -> Any:
        token = self._next()
        if token in ("(", "["):
            alternatives = [self._entries()]
            while self._peek() == "//":
                self._next()
                alternatives.append(self._entries())
            self._want(")" if token == "(" else "]")
            return ("group" if token == "(" else "array", alternatives)
        if ".." in token:
            low, high = token.split("..")
            return ("range", int(low), int(high))
        if token.lstrip("-").isdigit():
            return ("is", int(token))
        if token[0] == '"':
            return ("is", token[1:-1])
        if self._peek() == ".size":
            self._next()
            self._want("(")
            low, high = self._next().split("..")
            self._want(")")
            return ("size", token, int(low), int(high))
        return ("is", CONSTANTS[token]) if token in CONSTANTS else ("name", token)

    def _entries(self) -> list[tuple[str, Any]]:
        found = []
        while self._peek() not in (")", "]", "//"):
            occurs = self._next() if self._peek() in ("*", "?") else ""
            if self._peek(1) == ":":
                self.at += 2  # in an array the key is a comment
            found.append((occurs, self._type()))
            if self._peek() == ",":
                self._next()
        return found

    def _fits(self, node: Any, item: object) -> bool:
        kind = node[0]
        if kind == "name":
            return self._fits(self.rules[node[1]], item) if node[1] in self.rules else type(item) is PRELUDE[node[1]]
        if kind == "choice":
            return any(self._fits(choice, item) for choice in node[1])
        if kind == "is":
            return type(item) is type(node[1]) and item == node[1]
        if kind == "range":
            return type(item) is int and node[1] <= item <= node[2]
        if kind == "size":
            return type(item) is PRELUDE[node[1]] and node[2] <= len(item.encode()) <= node[3]  # type: ignore[attr-defined]
        assert kind == "array", f"a group stands where a type is wanted: {node}"
        return isinstance(item, list) and self._eat(("group", node[1]), item, 0) == len(item)

    def _eat(self, node: Any, items: list[object], at: int) -> int | None:
        """How far the node reaches from `at`, or None."""
        if node[0] == "name" and self.rules.get(node[1], " ")[0] == "group":
            node = self.rules[node[1]]
        if node[0] != "group":
            return at + 1 if at < len(items) and self._fits(node, items[at]) else None
        for entries in node[1]:
            end = self._eat_all(entries, items, at)
            if end is not None:
                return end
        return None

    def _eat_all(self, entries: list[tuple[str, Any]], items: list[object], at: int) -> int | None:
        for occurs, node in entries:
            end = self._eat(node, items, at)
            while occurs == "*" and end is not None and end > at:
                at, end = end, self._eat(node, items, end)
            if end is None and not occurs:
                return None
            at = at if end is None else end
        return at
