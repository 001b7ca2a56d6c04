"""What a broker is told, in TOML. Whatever is wrong is said with the file, the table and the key.

    [broker]
    name = "b1"
    join = ["london"]                               # the scopes whose events may be here
    scopes = "deployment.toml"                      # in place of [[scope]]: scopes, edges, components; spec/scope.md
    watch = true                                    # a changed deployment.toml counts by itself

    [[listen]]
    address = "tls://0.0.0.0:7447"                  # tcp, tls, ws, wss
    certificate = "b1.pem"
    key = "b1.key"
    ca = "ca.pem"                                   # then clients must show a certificate, and its CN is their name

    [[neighbour]]
    name = "b2"
    address = "tls://b2.example:7447"               # without it b2 dials us
    ca = "ca.pem"

    [[scope]]
    name = "london"
    dimension = "geography"
    supers = ["uk"]
    input = "subject = 'Speed'"
    output = "rate > 30"

    [identity]
    tokens = "issuer.pem"                           # the key that tokens are signed with: a public key, or a secret
    administrators = "role = 'administrator'"       # who may change scopes and members; without it nobody
    required = true                                 # who proves no identity is not admitted

    [status]
    address = "http://127.0.0.1:9447"               # /metrics and /status

    [log]
    directory = "b1.log"                            # then publishes are acknowledged when they are on disk
    max_bytes = 10_000_000_000
    max_age_hours = 168

    [fleet]
    directory = "fleet"                             # names and configurations for gateways: vicinal_cloud.fleet

Paths are relative to the file.
"""

from pathlib import Path
from typing import Any, NamedTuple

from vicinal.errors import LocalProtocolError
from vicinal.filter import Filter
from vicinal.scope import file_cpython
from vicinal.scope.graph import Scope, ScopeGraph
from vicinal.tables_cpython import ConfigError, Table, parse_tables

from ..log import LogOptions
from .address import Address, Tls, parse
from .tokens import Issuer

__all__ = ["Config", "ConfigError", "Identities", "Listen", "LogPlace", "Neighbour", "Scopes", "changed_at", "load"]


class Listen(NamedTuple):
    address: Address
    tls: Tls


class Neighbour(NamedTuple):
    name: str
    address: Address | None
    tls: Tls


class LogPlace(NamedTuple):
    directory: Path
    options: LogOptions


class Identities(NamedTuple):
    issuer: Issuer | None = None
    administrators: Filter | None = None
    required: bool = False


class Scopes(NamedTuple):
    """Where the scopes come from: a file, of its own or the broker's, when it was changed, and its tables."""

    file: Path
    changed: int
    """ms"""
    tables: dict[str, Any]
    watch: bool = False


class Config(NamedTuple):
    name: str
    join: tuple[str, ...]
    listen: tuple[Listen, ...]
    neighbours: tuple[Neighbour, ...]
    graph: ScopeGraph
    status: Address | None
    log: LogPlace | None
    fleet: Path | None = None
    scopes: Scopes | None = None
    identities: Identities = Identities()


def load(path: str | Path) -> Config:
    file = Path(path)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from error
    return _Reader(file).config(parse_tables(file, data))


class _Table(Table):
    """With addresses and certificates, as brokers have them."""

    def address(self, key: str, schemes: tuple[str, ...], required: bool, port: int = 7447) -> Address | None:
        value = self.take(key, str, required=required)
        try:
            return None if value is None else parse(value, schemes, port)
        except LocalProtocolError as error:
            raise self.error(key, f"is {error}") from error

    def tls(self) -> Tls:
        found = Tls(self.path("certificate"), self.path("key"), self.path("ca"))
        for key, path in zip(Tls._fields, found):
            if path is not None and not path.is_file():
                raise self.error(key, f"is {path}, which is no file")
        return found


_SCHEMES = ("tcp", "tls", "ws", "wss")


class _Reader:
    def __init__(self, file: Path) -> None:
        self.file = file

    def config(self, tables: dict[str, Any]) -> Config:
        for where in tables:
            if where not in ("broker", "listen", "neighbour", "scope", "status", "log", "fleet", "identity"):
                raise ConfigError(f"{self.file}: [{where}] is not known: want broker, listen, neighbour, scope, ...")
        broker = _Table(self.file, "broker", tables.get("broker", {}))
        name, join = broker.name(), broker.names("join")
        graph, scopes = self._scopes(broker, tables)
        for scope in join:
            if scope not in graph:
                where = "" if scopes.file == self.file else f" of {scopes.file}"
                raise broker.error("join", f"has {scope!r}, which is no [[scope]]{where}")
        broker.done()
        listen = tuple(self._listen(table) for table in self._tables(tables, "listen"))
        neighbours = tuple(self._neighbour(table, name) for table in self._tables(tables, "neighbour"))
        twice = {one.name for one in neighbours if [other.name for other in neighbours].count(one.name) > 1}
        if twice:
            raise ConfigError(f"{self.file}: [neighbour] name {min(twice)!r} is given twice")
        return Config(
            name,
            join,
            listen,
            neighbours,
            graph,
            self._status(tables),
            self._log(tables),
            self._fleet(tables),
            scopes,
            self._identities(tables),
        )

    def _tables(self, tables: dict[str, Any], where: str) -> list[_Table]:
        found = tables.get(where, [])
        if not isinstance(found, list):
            raise ConfigError(f"{self.file}: write [[{where}]], not [{where}]: there may be several")
        return [_Table(self.file, where, values) for values in found]

    def _listen(self, table: _Table) -> Listen:
        address = table.address("address", _SCHEMES, required=True)
        assert address is not None
        tls = table.tls()
        if address.secure and tls.certificate is None:
            raise table.error("certificate", f"is missing: {address} needs one")
        if not address.secure and tls != Tls():
            raise table.error("address", f"is {address}, which uses no certificates: write tls:// or wss://")
        table.done()
        return Listen(address, tls)

    def _neighbour(self, table: _Table, own: str) -> Neighbour:
        name = table.name()
        if name == own:
            raise table.error("name", f"is {name!r}, the broker itself")
        found = Neighbour(name, table.address("address", _SCHEMES, required=False), table.tls())
        table.done()
        return found

    def _scopes(self, broker: _Table, tables: dict[str, Any]) -> tuple[ScopeGraph, Scopes]:
        file, watch = broker.path("scopes"), broker.take("watch", bool, True)
        if file is None:
            inline = {"scope": tables["scope"]} if "scope" in tables else {}
            return self._graph(tables), Scopes(self.file, changed_at(self.file), inline)
        if "scope" in tables:
            raise broker.error("scopes", f"is {str(file)!r}, and there is [[scope]]: write them in one place")
        try:
            changed, data = changed_at(file), file.read_bytes()
        except OSError as error:
            raise broker.error("scopes", f"is {file}: {error.strerror}") from error
        found = parse_tables(file, data)
        graph, problems = file_cpython.read_tables(file, found)
        if graph is None:
            raise ConfigError("\n".join(problems))
        return graph, Scopes(file, changed, found, watch)

    def _identities(self, tables: dict[str, Any]) -> Identities:
        if "identity" not in tables:
            return Identities()
        table = _Table(self.file, "identity", tables["identity"])
        key = table.path("tokens")
        issuer = None
        if key is not None:
            try:
                issuer = Issuer.load(key)
            except LocalProtocolError as error:
                raise table.error("tokens", f"is {error}") from error
        found = Identities(issuer, table.filter("administrators"), table.take("required", bool, False))
        table.done()
        return found

    def _graph(self, tables: dict[str, Any]) -> ScopeGraph:
        scopes = []
        for table in self._tables(tables, "scope"):
            name, dimension = table.name(), table.name("dimension")
            scopes.append(Scope(name, dimension, table.names("supers"), table.filter("output"), table.filter("input")))
            table.done()
        try:
            return ScopeGraph(scopes)
        except LocalProtocolError as error:
            raise ConfigError(f"{self.file}: [scope] {error}") from error

    def _status(self, tables: dict[str, Any]) -> Address | None:
        if "status" not in tables:
            return None
        table = _Table(self.file, "status", tables["status"])
        address = table.address("address", ("http",), required=True, port=9447)
        table.done()
        return address

    def _fleet(self, tables: dict[str, Any]) -> Path | None:
        if "fleet" not in tables:
            return None
        table = _Table(self.file, "fleet", tables["fleet"])
        directory = table.path("directory", required=True)
        table.done()
        return directory

    def _log(self, tables: dict[str, Any]) -> LogPlace | None:
        if "log" not in tables:
            return None
        table = _Table(self.file, "log", tables["log"])
        directory = table.path("directory", required=True)
        assert directory is not None
        hours, size = table.take("max_age_hours", int), table.take("max_bytes", int)
        for key, value in (("max_age_hours", hours), ("max_bytes", size)):
            if value is not None and value <= 0:
                raise table.error(key, f"is {value}, want more than 0")
        table.done()
        return LogPlace(directory, LogOptions(max_age_ms=None if hours is None else hours * 3_600_000, max_bytes=size))


def changed_at(file: Path) -> int:
    """ms"""
    try:
        return file.stat().st_mtime_ns // 1_000_000
    except OSError:
        return 0
