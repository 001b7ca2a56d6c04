"""What the office is told, in TOML. Whatever is wrong is said with the file, the table and the key.

    [office]
    name = "traffic-control"             # its name in the overlay
    network = "town.geojson"
    broker = "tcp://127.0.0.1:7447"
    token = "traffic-control.token"      # a file with a signed token that says who it is, read at each connection
    source = "siena"                     # how gateways call the overlay: [[service]] name of their siena service
    services = "air-{monitor}"           # how they call a monitor's STEAM service
    reach_m = 216                        # how far a monitor hears (vicinal_hw.ble.physics): the page draws it, and who
                                         # has not said where it was may have been there
    database = "sqlite:///traffic.sqlite"
    scopes = { membership = "police" }   # where it listens
    [listen]
    address = "http://127.0.0.1:8080"
    [rules]                              # what is believed, and when an offence is another one
    late_ms = 900_000
    gap_ms = 10_000
    max_speed = 250
    [tariff]                             # tariff.py
    [retention]                          # hours
    sightings_h = 24
    quarantine_h = 720
    [watch]                              # brokers and gateways whose status the page shows, and where it is
    b-office = "http://127.0.0.1:9447"

Paths are relative to the file, that of a SQLite database too.
"""

from pathlib import Path
from typing import Any, NamedTuple

from vicinal.tables_cpython import ConfigError, Table, parse_tables

from . import tariff
from .control import Settings
from .network import Network
from .network import load as load_network
from .reports import Rules
from .store import Retention
from .texts import NAME_MAX, flaw

__all__ = ["Config", "load"]

TABLES = ("office", "listen", "rules", "tariff", "retention", "watch")
HOUR_MS = 3_600_000


class Config(NamedTuple):
    name: str
    network: Network
    broker: str
    token: Path | None
    source: str
    services: str
    reach_m: int
    database: str
    scopes: dict[str, str]
    listen: tuple[str, int] | None
    settings: Settings
    retention: Retention
    watch: dict[str, str]


def load(path: Path) -> Config:
    try:
        tables = parse_tables(path, path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    for where in tables:
        if where not in TABLES:
            raise ConfigError(f"{path}: [{where}] is not known: want {', '.join(TABLES)}")
    office = Table(path, "office", tables.get("office", {}))
    network_file = office.path("network", required=True)
    assert network_file is not None
    services: str = office.take("services", str, "air-{monitor}")
    if "{monitor}" not in services:
        office.fail("services", f"is {services!r}, want {{monitor}} in it")
    database: str = office.take("database", str, "sqlite:///traffic.sqlite")
    if database.startswith("sqlite:///") and not database.startswith("sqlite:////"):
        database = f"sqlite:///{(path.parent / database.removeprefix('sqlite:///')).absolute()}"
    token = office.path("token")
    if token is not None and not token.is_file():
        office.fail("token", f"is {str(token)!r}, which is no file")
    network = load_network(network_file)
    for name in (*network.areas, *network.monitors):
        if len(name) > NAME_MAX or flaw(name):
            office.fail("network", f"has the name {name!r}, want 1 to {NAME_MAX} characters and no NUL")
    reach = office.number("reach_m", 216, 1)
    made = Config(
        office.name(default="traffic-control"), network, office.take("broker", str, required=True),
        token, office.name("source", "siena"), services, reach, database,
        office.take("scopes", dict, {}), _listen(path, tables), _settings(path, tables)._replace(reach_m=reach),
        _retention(path, tables),
        _watch(path, tables),
    )  # fmt: skip
    office.done()
    return made


def _listen(path: Path, tables: dict[str, Any]) -> tuple[str, int] | None:
    if "listen" not in tables:
        return None
    table = Table(path, "listen", tables["listen"])
    text: str = table.take("address", str, required=True)
    table.done()
    host, _, port = text.removeprefix("http://").rpartition(":")
    if "://" in host or not host or not port.isdecimal() or int(port) > 65535:
        table.fail("address", f"is {text!r}, want http://HOST:PORT")
    return host.strip("[]"), int(port)


def _settings(path: Path, tables: dict[str, Any]) -> Settings:
    table, usual = Table(path, "rules", tables.get("rules", {})), Settings()
    rules = Rules(
        float(table.number("max_speed", int(usual.rules.max_speed), 1, 500)),
        table.number("skew_ms", usual.rules.skew_ms),
        table.number("late_ms", usual.rules.late_ms, 1),
    )
    gap = table.number("gap_ms", usual.gap_ms, 1)
    accuracy = table.number("accuracy_m", usual.accuracy_m, 0, 1000)
    table.done()
    return Settings(rules, tariff.read(path, tables.get("tariff", {})), gap, accuracy)


def _retention(path: Path, tables: dict[str, Any]) -> Retention:
    table, usual = Table(path, "retention", tables.get("retention", {})), Retention()
    found = Retention(
        *[table.number(f"{name}_h", getattr(usual, name) // HOUR_MS, 1) * HOUR_MS for name in Retention._fields]
    )
    table.done()
    return found


def _watch(path: Path, tables: dict[str, Any]) -> dict[str, str]:
    table = Table(path, "watch", tables.get("watch", {}))
    for name in list(table.values):
        address: str = table.take(name, str)
        if not address.startswith(("http://", "https://")):
            table.fail(name, f"is {address!r}, want http://HOST:PORT")
    return dict(tables.get("watch", {}))
