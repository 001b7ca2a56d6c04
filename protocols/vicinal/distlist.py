"""Distribution lists: to which event services a request goes (seed 001, 5.2.7).

A comma-separated list of event service identifiers in which * stands for any characters and ? for one:

    "ES1, ES2, ES3"   "ES*"   "ES?"   "*" all   "" none
"""

from . import limits
from .errors import LimitError, LocalProtocolError
from .filter._like import matcher

__all__ = ["DistList"]


class DistList:
    __slots__ = ("_tests", "text")

    def __init__(self, text: str) -> None:
        if len(text) > limits.MAX_DISTLIST_CHARS:
            raise LimitError("characters of a distribution list", len(text), limits.MAX_DISTLIST_CHARS)
        self.text = text
        self._tests = []
        names = [name.strip(" \t\r\n") for name in text.split(",")]
        if names == [""]:
            return
        for name in names:
            if not name:
                raise LocalProtocolError(f"distribution list {text!r} has an empty name")
            self._tests.append(matcher(_as_like(name), "\\"))

    def __contains__(self, service: str) -> bool:
        return any([test(service) for test in self._tests])

    def select(self, services: "list[str]") -> "list[str]":
        """Those of the services that the list names, in their order."""
        return [service for service in services if service in self]

    def __bool__(self) -> bool:
        return bool(self._tests)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"DistList({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DistList) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def _as_like(name: str) -> str:
    """The same wildcards as a LIKE pattern, so that one linear matcher serves both."""
    for char in "\\%_":
        name = name.replace(char, "\\" + char)
    return name.replace("*", "%").replace("?", "_")
