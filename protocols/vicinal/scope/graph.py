"""The scope graph: one directed acyclic graph for each dimension (seed 003, 3.4).

    dimension   geography, membership, network ...      none shares a scope with another
    scope       a name; the scopes it is directly a member of (its superscopes)
    interface   output: which events of the scope its superscopes may see
                input:  which events of its superscopes the scope may see     none given: none

Bottom and top of the papers are not in the graph: they are the `rest` of a tag set (Tags), and stand for every
dimension that the set does not name. Clients are not in it either: a client is where its filters' tags say.
"""

from ..errors import LocalProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ..filter import Filter

__all__ = ["Scope", "ScopeGraph", "Tags"]


class Scope:
    def __init__(
        self,
        name: str,
        dimension: str,
        supers: "Iterable[str]" = (),
        output: "Filter | None" = None,
        input: "Filter | None" = None,
    ) -> None:
        self.name = name
        self.dimension = dimension
        self.supers = tuple(sorted(supers))
        self.output = output
        self.input = input

    def __repr__(self) -> str:
        return f"Scope({self.name!r}, {self.dimension!r}, {self.supers!r})"


class ScopeGraph:
    """Never changed once made: a change of scopes is another graph."""

    def __init__(self, scopes: "Iterable[Scope]" = ()) -> None:
        self.scopes: dict[str, Scope] = {}
        self.subs: dict[str, list[str]] = {}
        self._connected: dict[str, set[str]] = {}
        self._steps: dict[tuple[str, bool], list[tuple[str, bool, Filter]]] = {}
        # Each once: thousands of scopes have a handful of interfaces between them.
        self.interfaces: dict[str, Filter] = {}
        for scope in scopes:
            if scope.name in self.scopes:
                raise LocalProtocolError(f"scope {scope.name!r} is given twice")
            self.scopes[scope.name] = scope
            for interface in (scope.output, scope.input):
                if interface is not None:
                    self.interfaces[interface.text] = interface
        for scope in self.scopes.values():
            for name in scope.supers:
                if name not in self.scopes:
                    raise LocalProtocolError(f"scope {scope.name!r} is in {name!r}, which is no scope")
                if self.scopes[name].dimension != scope.dimension:
                    raise LocalProtocolError(f"scope {scope.name!r} is in {name!r}, which is of another dimension")
                self.subs.setdefault(name, []).append(scope.name)
        for names in self.subs.values():
            names.sort()
        for name in self.scopes:
            if name in self.above(name):
                raise LocalProtocolError(f"scope {name!r} is in itself")

    def __contains__(self, name: object) -> bool:
        return name in self.scopes

    def above(self, name: str) -> "set[str]":
        """Every scope that a scope is in, directly or not."""
        found: set[str] = set()
        front = list(self.scopes[name].supers)
        while front:
            at = front.pop()
            if at not in found:
                found.add(at)
                front.extend(self.scopes[at].supers)
        return found

    def connected(self, start: str, goal: str) -> bool:
        """Whether there is a visibility path at all, for an event that passes every interface. Of a scope that is not
        known here, while brokers do not agree on the scopes yet, there is none."""
        if start not in self.scopes or goal not in self.scopes:
            return False
        if start not in self._connected:
            seen = set()
            front = [(start, True)]
            while front:
                at = front.pop()
                if at not in seen:
                    seen.add(at)
                    front.extend([(name, up) for name, up, _ in self.steps(at[0], at[1])])
            self._connected[start] = {name for name, _ in seen}
        return goal in self._connected[start]

    def steps(self, name: str, up: bool) -> "list[tuple[str, bool, Filter]]":
        """Where an event in a scope may go next: (scope, still going up, the interface it must pass). What has no
        interface is closed: visibility is granted, not assumed.

        Up to the superscopes through the scope's output, down to the subscopes through their inputs; once down, never
        up again (seed 003, 3.4: the upward and the downward part of a visibility path). From a scope that is not known
        here nowhere: an event may be older than the scopes, or newer."""
        key = (name, up)
        if key in self._steps:
            return self._steps[key]
        if name not in self.scopes:
            return []  # nor remembered: strangers name them
        found: list[tuple[str, bool, Filter]] = []
        output = self.scopes[name].output
        if up and output is not None:
            found = [(above, True, output) for above in self.scopes[name].supers]
        for below in self.subs.get(name, ()):
            inward = self.scopes[below].input
            if inward is not None:
                found.append((below, False, inward))
        self._steps[key] = found
        return found


class Tags:
    """The scopes of an advertisement or a subscription, at most one for each dimension (seed 003, 3.5).

    `rest` is for the dimensions not named: bottom in an advertisement (heard in any scope of theirs), top in a
    subscription (hears whatever the scope). Without it, what another names in such a dimension is not visible."""

    __slots__ = ("rest", "scopes")

    def __init__(self, scopes: "Mapping[str, str] | Iterable[tuple[str, str]]" = (), rest: bool = True) -> None:
        self.scopes: tuple[tuple[str, str], ...] = tuple(sorted(dict(scopes).items()))
        self.rest = rest

    def get(self, dimension: str) -> "str | None":
        for name, scope in self.scopes:
            if name == dimension:
                return scope
        return None

    def item(self) -> "list[Any]":
        """As values of the wire."""
        flat: list[Any] = [self.rest]
        for pair in self.scopes:
            flat.extend(pair)
        return flat

    @classmethod
    def of(cls, names: "Iterable[str]", graph: ScopeGraph, rest: bool = True) -> "Tags":
        """From names of scopes; each must be known, and no two of one dimension."""
        found: dict[str, str] = {}
        for name in names:
            if name not in graph:
                raise LocalProtocolError(f"{name!r} is no scope")
            dimension = graph.scopes[name].dimension
            if dimension in found:
                raise LocalProtocolError(f"{found[dimension]!r} and {name!r} are both of dimension {dimension!r}")
            found[dimension] = name
        return cls(found, rest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tags) and self.scopes == other.scopes and self.rest == other.rest

    def __hash__(self) -> int:
        return hash((self.scopes, self.rest))

    def __repr__(self) -> str:
        return f"Tags({dict(self.scopes)!r}, rest={self.rest})"
