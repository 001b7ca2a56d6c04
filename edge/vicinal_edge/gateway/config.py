"""What a gateway is told, in TOML. Whatever is wrong is said with the file, the table and the key.

    [gateway]
    name = "monitor-12"                  # without it a name is asked for: see [fleet]
    state = "state"                      # folder for what must survive a restart
    hello_s = 10                         # how often it says to other gateways that it is there
    trace = false                        # events that come in here carry when that was, and every gateway adds itself

    [[service]]                          # an event service that it is connected to
    name = "can-7"                       # unique in the federation
    type = "cosmic"                      # the adapter; its own keys follow
    interface = "socketcan"
    channel = "can0"
    control = true                       # control events may pass; by default as the adapter can
    [service.flow]                       # events per second, bursts, and what waits in memory
    in_rate = 5000
    out_rate = 200
    out_burst = 20
    out_count = 10_000
    [[service.map]]                      # how events are called there: vicinal.mapping
    subject = "Speed"
    as = "vehicle.speed"

    [[service]]
    name = "office"
    type = "siena"
    store = true                         # towards it: on disk until it has it
    [service.pseudonyms]                 # it does not learn whose events they are: pseudonyms.py
    key = "pseudonyms.key"
    scope = "old-town"

    [[request]]                          # transparent requests (seed 001, 5.3.4)
    type = "subscribe"                   # or announce, tunnel
    source = "office"                    # for whom
    to = "can-*"                         # at which services
    filter = "subject = 'Speed' AND rate > 30"

    [store]
    max_mb = 256
    [[store.class]]                      # who loses when there is no room; all priorities are in one of them
    name = "all"
    from = -32767                        # priorities from here on, to the next class
    policy = "oldest"                    # or newest, never
    share = 0                            # percent of the room that are kept for it

    [location]
    fixed = [53.3438, -6.2546]           # or gpsd = "127.0.0.1:2947", or track = "drive.gpx"

    [status]
    address = "http://127.0.0.1:9448"    # a page, /status and /metrics

    [fleet]                              # name and configuration come from there: managed.py
    service = "office"

    [[type]]                             # the event type repository: what is declared is checked
    subject = "Speed"
    params = { license_no = "str", rate = "float" }

Paths are relative to the file.
"""

from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, NamedTuple

from vicinal import limits
from vicinal.control import Announcement, Subscription
from vicinal.distlist import DistList
from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.federation.drop_policy import OLDEST, POLICIES, Class, check_classes
from vicinal.federation.notes import tunnel_filter
from vicinal.federation.types import TypeRepository
from vicinal.filter import Filter
from vicinal.mapping.mapping import Mapping
from vicinal.tables_cpython import ConfigError, Table, parse_tables, tables_of

from ..adapter import Adapter
from .pseudonyms import Pseudonyms

__all__ = ["Config", "Flow", "Place", "ServiceConfig", "load", "loads"]

RESERVED = ("fleet", "numbers", "requests.jsonl", "store.sqlite", "uid")
TABLES = ("gateway", "service", "request", "store", "location", "status", "type", "fleet")
# Kept on disk unless the configuration says otherwise: services on the other side of an uplink.
STORED = ("siena", "mqtt", "jms")
EXAMPLES: dict[str, Any] = {"str": "", "int": 0, "float": 0.0, "bool": False, "bytes": b""}


class Flow(NamedTuple):
    """Of one service, in events; 0 for no limit."""

    in_rate: int
    in_burst: int
    in_count: int
    out_rate: int
    out_burst: int
    out_count: int
    window: int
    """handed to the adapter and not acknowledged"""


class ServiceConfig(NamedTuple):
    name: str
    type: str
    make: Any
    """makes an adapter: a fresh one for every life"""
    store: bool
    control: bool | None
    flow: Flow
    mapping: Mapping | None
    pseudonyms: Pseudonyms | None = None


class Place(NamedTuple):
    """Where the gateway is: one of them, or nowhere."""

    fixed: tuple[int, int] | None
    gpsd: str
    track: Path | None


class Config(NamedTuple):
    file: Path
    name: str
    state: Path
    hello: int
    services: tuple[ServiceConfig, ...]
    requests: tuple[Any, ...]
    store: dict[str, Any]
    place: Place
    status: tuple[str, int] | None
    types: TypeRepository
    fleet: str
    """the service through which names and configurations are asked for, or \"\" """
    trial_ms: int
    trace: bool = False


def load(path: str | Path) -> Config:
    file = Path(path)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from error
    return loads(data, file)


def loads(data: bytes, file: Path) -> Config:
    return _Reader(file, parse_tables(file, data)).config()


class _Reader:
    def __init__(self, file: Path, tables: dict[str, Any]) -> None:
        self.file = file
        self.tables = tables
        for where in tables:
            if where not in TABLES:
                raise ConfigError(f"{file}: [{where}] is not known: want {', '.join(TABLES)}")

    def _table(self, where: str) -> Table:
        return Table(self.file, where, self.tables.get(where, {}))

    def config(self) -> Config:
        gateway = self._table("gateway")
        name = gateway.name(default="?")
        state: str = gateway.take("state", str, "state")
        hello = gateway.number("hello_s", 10, minimum=1, maximum=3600) * 1000
        trace: bool = gateway.take("trace", bool, False)
        gateway.done()
        services = tuple(self._service(table) for table in tables_of(self.file, self.tables, "service"))
        names = [one.name for one in services]
        for one in names:
            if names.count(one) > 1:
                raise ConfigError(f"{self.file}: [service] name {one!r} is given twice")
        types = self._types()
        requests = tuple(
            self._request(table, services, types) for table in tables_of(self.file, self.tables, "request")
        )
        fleet, trial = self._fleet(names)
        if name == "?":
            if not fleet:
                raise ConfigError(f"{self.file}: [gateway] name is missing, and there is no [fleet] to give one")
            name = ""
        return Config(
            self.file,
            name,
            self.file.parent / state,
            hello,
            services,
            requests,
            self._store(),
            self._place(),
            self._status(),
            types,
            fleet,
            trial,
            trace,
        )

    def _service(self, table: Table) -> ServiceConfig:
        name = table.name()
        if name in RESERVED or name.startswith("."):
            table.fail("name", f"is {name!r}, which is a file of the state folder: want another")
        table.where = f"service {name}"
        kind = table.take("type", str, required=True)
        if any(char in name for char in ",*?"):
            table.fail("name", f"is {name!r}, want one without comma, * and ?: distribution lists name services")
        store = table.take("store", bool, kind in STORED)
        control = table.take("control", bool)
        flow = self._flow(table.table("flow"))
        rows = table.take("map", list, [])
        try:
            mapping = Mapping.from_tables(rows, f"{self.file}: [service.map] of {name}") if rows else None
        except LocalProtocolError as error:
            raise ConfigError(str(error)) from error
        pseudonyms = Pseudonyms.read(table.table("pseudonyms"))
        adapter = self._adapter(table, kind)
        values = dict(table.values)

        def make() -> Adapter:
            own = Table(self.file, f"service {name}", values)
            made: Adapter = adapter(name, own)
            own.done()
            return made

        try:
            make()  # whatever is wrong with its keys is said now
        except LocalProtocolError:
            raise
        except (Exception, SystemExit) as error:  # a plug-in
            table.fail("type", f"is {kind!r}, whose adapter cannot be made: {type(error).__name__}: {error}")
        return ServiceConfig(name, kind, make, store, control, flow, mapping, pseudonyms)

    def _adapter(self, table: Table, kind: str) -> Any:
        found: list[EntryPoint] = list(entry_points(group="vicinal.adapters", name=kind))
        if not found:
            known = sorted({one.name for one in entry_points(group="vicinal.adapters")})
            close = get_close_matches(kind, known, 1)
            advice = f"is {close[0]!r} meant?" if close else f"there are {', '.join(known)}"
            table.fail("type", f"is {kind!r}, for which there is no adapter: {advice}")
        try:
            return found[0].load()
        except ImportError as error:
            table.fail("type", f"is {kind!r}, whose adapter cannot be loaded: {error} (pip install 'vicinal[gateway]')")
        except (Exception, SystemExit) as error:  # a plug-in
            table.fail("type", f"is {kind!r}, whose adapter cannot be loaded: {type(error).__name__}: {error}")

    def _flow(self, table: Table) -> Flow:
        defaults = {"in_rate": 0, "in_burst": 0, "in_count": 1000, "out_rate": 0, "out_burst": 0}
        defaults |= {"out_count": 10_000, "window": 512}
        found = Flow(*[table.number(key, defaults[key]) for key in Flow._fields])
        table.done()
        if found.window < 1 or found.out_count < 1:
            table.fail("window" if found.window < 1 else "out_count", "is 0, want at least 1")
        return found

    def _request(self, table: Table, services: tuple[ServiceConfig, ...], types: TypeRepository) -> Any:
        kind = table.choice("type", ("subscribe", "announce", "tunnel"))
        source = table.name("source")
        kinds = {one.name: one.type for one in services}
        if source not in kinds:
            table.fail(
                "source", f"is {source!r}, want a service of this gateway: {', '.join(kinds) or 'there is none'}"
            )
        to = table.parsed("to", DistList, required=True)
        assert to is not None
        made: Any
        if kind == "subscribe":
            condition = table.filter("filter", required=True)
            assert condition is not None
            made = Subscription(to, source, condition)
        elif kind == "tunnel":
            made = Subscription(to, source, Filter(tunnel_filter(kinds[source])))
        else:
            made = Announcement(to, source, self._example(table))
        table.done()
        return made

    def _example(self, table: Table) -> Event:
        """An event that stands for its type."""
        subject = table.take("subject", str, required=True)
        params = table.take("params", dict, {})
        for name, kind in params.items():
            if kind not in EXAMPLES:
                table.fail("params", f"has {name} = {kind!r}, want one of {', '.join(EXAMPLES)}")
        try:
            return Event(subject, [(name, EXAMPLES[kind]) for name, kind in params.items()])
        except LocalProtocolError as error:
            table.fail("params", f"is wrong: {error}")

    def _types(self) -> TypeRepository:
        try:
            return TypeRepository.from_tables(self.tables.get("type", []), str(self.file))
        except LocalProtocolError as error:
            raise ConfigError(str(error)) from error

    def _store(self) -> dict[str, Any]:
        table = self._table("store")
        found: dict[str, Any] = {"max_mb": table.number("max_mb", 256, minimum=1)}
        found["classes"] = self._classes(table)
        found["drain_rate"] = table.number("drain_rate", 0)
        table.done()
        return found

    def _classes(self, store: Table) -> list[Class]:
        """Who loses when there is no room; none where it is as usual."""
        most, found = limits.MAX_PRIORITY, []
        for table in store.tables("class"):
            low = table.number("from", -most, minimum=-most, maximum=most)
            policy = table.choice("policy", POLICIES, OLDEST)
            found.append(Class(table.name(), low, policy, table.number("share", 0, maximum=100)))
            table.done()
        try:
            return check_classes(found) if found else []
        except LocalProtocolError as error:
            raise store.error("class", f"is wrong: {error}") from error

    def _place(self) -> Place:
        table = self._table("location")
        fixed = table.take("fixed", list)
        place = None
        if fixed is not None:
            numbers = [one for one in fixed if type(one) in (int, float)]
            if [abs(one) <= most for one, most in zip(numbers, (90, 180))] != [True, True] or len(fixed) != 2:
                table.fail("fixed", f"is {fixed!r}, want [latitude, longitude] in degrees")
            place = (round(fixed[0] * 10_000_000), round(fixed[1] * 10_000_000))
        found = Place(place, table.take("gpsd", str, ""), table.path("track"))
        table.done()
        if found.gpsd and not found.gpsd.rpartition(":")[2].isdecimal():
            table.fail("gpsd", f"is {found.gpsd!r}, want HOST:PORT")
        if sum(1 for one in found if one) > 1:
            table.fail("fixed", "stands beside gpsd or track: want one of them")
        if found.track is not None and not found.track.is_file():
            table.fail("track", f"is {found.track}, which is no file")
        return found

    def _status(self) -> tuple[str, int] | None:
        if "status" not in self.tables:
            return None
        table = self._table("status")
        text: str = table.take("address", str, required=True)
        host, _, port = text.removeprefix("http://").rpartition(":")
        if "://" in host or not host or not port.isdecimal() or int(port) > 65535:
            table.fail("address", f"is {text!r}, want http://HOST:PORT")
        table.done()
        return host.strip("[]"), int(port)

    def _fleet(self, names: list[str]) -> tuple[str, int]:
        if "fleet" not in self.tables:
            return "", 0
        table = self._table("fleet")
        service = table.name("service")
        if service not in names:
            table.fail("service", f"is {service!r}, want a [[service]]: {', '.join(names)}")
        trial = table.number("trial_s", 60, minimum=1, maximum=86_400) * 1000
        table.done()
        return service, trial
