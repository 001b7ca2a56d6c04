"""The file of a deployment (spec/scope.md): its scopes, edges and components, with everything that is wrong in it.

    graph, problems = read(Path("exchange.toml"), data)         graph is None if there are problems

    exchange.toml: [scope 3 'Floor'] supers has 'M3', which is no [[scope]]: is 'M2' meant?
    exchange.toml: [edge 1] super is 'M2': 'Floor' is not in it

Nothing is opened here. What an administrator reads is all that is wrong, not the first of it.
"""

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ..errors import LocalProtocolError
from ..mapping.mapping import Mapping
from ..tables_cpython import ConfigError, Table, parse_tables
from .component import Component
from .graph import Scope, ScopeGraph
from .interface import Edge
from .membership import Identity, Rule
from .plugin_cpython import load
from .policy import ALL, BROADCAST, DELIVERIES, TRAVERSES, Delivery
from .publishing import MAX_DELAY, MAX_HELD, Publishing

__all__ = ["notes", "read", "read_tables"]


def read(file: Path, data: bytes) -> tuple[ScopeGraph | None, list[str]]:
    try:
        tables = parse_tables(file, data)
    except ConfigError as error:
        return None, [str(error)]
    return read_tables(file, tables)


def read_tables(file: Path, tables: dict[str, Any]) -> tuple[ScopeGraph | None, list[str]]:
    """Of a file that was parsed; the name is for what is wrong."""
    reader = _Reader(file)
    try:
        graph = reader.graph(tables)
    except ConfigError as error:
        reader.problems.append(str(error))
        graph = None
    return (None if reader.problems else graph), reader.problems


def notes(graph: ScopeGraph) -> list[str]:
    """What is no mistake and may be one."""
    found = []
    for name in sorted(graph.scopes):
        scope = graph.scopes[name]
        edges = [graph.edge(name, above) for above in scope.supers]
        if edges and all(edge.output is None and edge.input is None for edge in edges):
            found.append(f"scope {name!r} has no interface: nothing gets out of it or into it")
        if scope.publishing and not scope.supers:
            found.append(f"scope {name!r} has publishing policies and no superscope to publish into")
        if scope.membership is not None and scope.membership.join is None:
            found.append(f"scope {name!r} has a membership rule without join: nobody may belong to it")
        if not graph.members.get(name) and not graph.subs.get(name):
            found.append(f"scope {name!r} has no members here")
    return found


class _Reader:
    def __init__(self, file: Path) -> None:
        self.file = file
        self.problems: list[str] = []
        self.named: dict[str, str] = {}  # every name that the file gives: what it is of

    def graph(self, tables: dict[str, Any]) -> ScopeGraph | None:
        for key in tables:
            if key not in ("scope", "edge", "component"):
                close = get_close_matches(key, ("scope", "edge", "component"), 1)
                hint = f": is [[{close[0]}]] meant?" if close else ": want [[scope]], [[edge]] and [[component]]"
                self.problems.append(f"{self.file}: [{key}] is not known{hint}")
        rows = {where: self._tables(tables, where) for where in ("scope", "edge", "component")}
        names = {where: [self._name(table, where) for table in rows[where]] for where in ("scope", "component")}
        scopes: dict[str, Scope] = {}
        for table, name in zip(rows["scope"], names["scope"]):
            if name is not None:
                scopes[name] = self._scope(table, name)
        for table, name in zip(rows["scope"], names["scope"]):
            if name is not None:
                self._check_supers(table, scopes[name], scopes)
        for table in rows["edge"]:
            self._edge(table, scopes)
        components = [
            self._component(table, name, scopes)
            for table, name in zip(rows["component"], names["component"])
            if name is not None
        ]
        if self.problems:
            return None
        self._check_circles(scopes)
        return None if self.problems else self._ask(None, ScopeGraph, scopes.values(), components)

    def _ask(self, default: Any, call: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        """The default is for what is wrong, and said so."""
        try:
            return call(*arguments, **more)
        except LocalProtocolError as error:
            said = str(error)
            self.problems.append(said if isinstance(error, ConfigError) else f"{self.file}: {said}")
            return default

    def _tables(self, tables: dict[str, Any], where: str) -> list[Table]:
        rows = tables.get(where, [])
        if not isinstance(rows, list):
            self.problems.append(f"{self.file}: write [[{where}]], not [{where}]: there may be several")
            return []
        found = []
        for at, values in enumerate(rows):
            made = self._ask(None, Table, self.file, f"{where} {at + 1}", values)
            if made is not None:
                found.append(made)
        return found

    def _name(self, table: Table, where: str) -> str | None:
        name: str = self._ask("", table.name)
        if not name:
            return None
        table.where += f" {name!r}"
        if name in self.named:
            self.problems.append(str(table.error("name", f"is {name!r}, which [{self.named[name]}] has already")))
            return None
        self.named[name] = table.where
        return name

    def _done(self, table: Table) -> None:
        """Every key that is left over, not the first."""
        for key in list(table.values):
            self._ask(None, table.done)
            del table.values[key]

    def _scope(self, table: Table, name: str) -> Scope:
        dimension = self._ask("", table.name, "dimension")
        supers = self._ask((), table.names, "supers")
        output, input_ = self._interfaces(table)
        kind = self._ask(ALL, table.choice, "delivery", DELIVERIES, ALL)
        key = self._ask("", table.take, "key", str, "")
        delivery = None
        if kind != ALL or key:
            try:
                delivery = Delivery(kind, key)
            except LocalProtocolError as error:
                self.problems.append(str(table.error("key", f"is {key!r}: {error}")))
        made = Scope(
            name,
            dimension,
            supers,
            output,
            input_,
            (),
            delivery,
            self._ask(BROADCAST, table.choice, "traverse", TRAVERSES, BROADCAST),
            self._publishing(table),
            self._ask(False, table.take, "session", bool, False),
            self._membership(table),
            self._ask("", table.take, "holder", str, ""),
        )
        self._done(table)
        return made

    def _interfaces(self, table: Table) -> tuple[Any, Any]:
        return self._ask(None, table.filter, "output"), self._ask(None, table.filter, "input")

    def _publishing(self, table: Table) -> list[Publishing]:
        found = []
        for row in self._ask([], table.tables, "publishing"):
            before = len(self.problems)
            filters = {key: self._ask(None, row.filter, key) for key in ("of", "until", "closed_by")}
            most = {"delay": MAX_DELAY, "rate": None, "per": None, "burst": None, "most": MAX_HELD}
            numbers = {key: self._ask(None, row.number, key, None, 1, top) for key, top in most.items()}
            self._done(row)
            given: dict[str, Any] = {key: value for key, value in {**filters, **numbers}.items() if value is not None}
            if len(self.problems) > before:
                continue
            try:
                found.append(Publishing(**given))
            except LocalProtocolError as error:
                self.problems.append(f"{self.file}: [{row.where}] {error}")
        return found

    def _membership(self, table: Table) -> Rule | None:
        if "membership" not in table.values:
            table.take("membership", dict)
            return None
        row = self._ask(None, table.table, "membership")
        if row is None:
            return Rule(broken="it is no table")
        filters = [self._ask(None, row.filter, key) for key in ("join", "publish", "subscribe")]
        self._done(row)
        return Rule(*filters)

    def _check_supers(self, table: Table, scope: Scope, scopes: dict[str, Scope]) -> None:
        for name in scope.supers:
            why = self._no_scope(name, scopes)
            if why:
                self.problems.append(str(table.error("supers", f"has {name!r}, {why}")))
            elif name in scopes and scope.dimension and scopes[name].dimension not in ("", scope.dimension):
                other = scopes[name].dimension
                self.problems.append(
                    str(
                        table.error("supers", f"has {name!r}, which is of dimension {other!r}, not {scope.dimension!r}")
                    )
                )

    def _no_scope(self, name: str, scopes: dict[str, Scope]) -> str:
        if name in scopes:
            return ""
        if name in self.named:
            return "a component: those have no members"
        close = get_close_matches(name, scopes, 1)
        return f"which is no [[scope]]{f': is {close[0]!r} meant?' if close else ''}"

    def _edge(self, table: Table, scopes: dict[str, Scope]) -> None:
        name = self._ask(None, table.take, "scope", str, required=True)
        above = self._ask(None, table.take, "super", str, required=True)
        output, input_ = self._interfaces(table)
        automatic = self._ask(True, table.take, "automatic", bool, True)
        plugin = self._ask(None, table.parsed, "plugin", load)
        mapping: Any = plugin
        rows = table.values.pop("map", None)
        if rows is not None:
            if plugin is not None:
                self.problems.append(str(table.error("plugin", "and [[edge.map]]: one of the two maps an edge")))
            where = f"{self.file}: [{table.where}]"
            mapping = self._ask(None, _mapping, rows, where, automatic)
        self._done(table)
        if name is not None and name not in scopes:
            self.problems.append(str(table.error("scope", f"is {name!r}, {self._no_scope(name, scopes)}")))
        elif name is not None and above is not None:
            scope = scopes[name]
            if above not in scope.supers:
                known = f": it is in {', '.join(scope.supers)}" if scope.supers else ""
                self.problems.append(str(table.error("super", f"is {above!r}: {name!r} is not in it{known}")))
            elif above in [edge.above for edge in scope.edges]:
                self.problems.append(str(table.error("super", f"is {above!r}: {name!r} has an edge to it already")))
            else:
                scope.edges.append(Edge(above, output, input_, mapping))

    def _component(self, table: Table, name: str, scopes: dict[str, Scope]) -> Component:
        inside = self._ask((), table.names, "scopes")
        for one in inside:
            why = self._no_scope(one, scopes)
            if why:
                self.problems.append(str(table.error("scopes", f"has {one!r}, {why}")))
        publishes = self._ask(None, table.filter, "publishes")
        subscribes = self._ask(None, table.filter, "subscribes")
        rest = self._ask(True, table.take, "rest", bool, True)
        attributes = self._ask({}, table.take, "identity", dict, {})
        identity = None
        try:
            identity = Identity(name, attributes)
        except LocalProtocolError as error:
            self.problems.append(str(table.error("identity", f"is {attributes!r}: {error}")))
        self._done(table)
        return Component(name, inside, publishes, subscribes, rest, identity)

    def _check_circles(self, scopes: dict[str, Scope]) -> None:
        """Each circle once, with its whole way."""
        said: set[frozenset[str]] = set()
        for name in sorted(scopes):
            way = _circle(scopes, name)
            if way and frozenset(way) not in said:
                said.add(frozenset(way))
                self.problems.append(
                    f"{self.file}: [{self.named[name]}] supers: {' in '.join(repr(one) for one in [*way, name])}: "
                    "no scope is in itself"
                )


def _mapping(rows: Any, where: str, automatic: bool) -> Mapping:
    try:
        return Mapping.from_tables(rows, where, automatic)
    except LocalProtocolError as error:
        raise ConfigError(str(error)) from error


def _circle(scopes: dict[str, Scope], start: str) -> list[str]:
    """The shortest way from a scope up to itself."""
    front, seen = [[start]], {start}
    while front:
        following = []
        for way in front:
            for name in scopes[way[-1]].supers:
                if name == start:
                    return way
                if name not in seen:
                    seen.add(name)
                    following.append([*way, name])
        front = following
    return []
