"""What an agent is told: the tables of a file that a person wrote, TOML on a Pi, the same as JSON on a device.

    [agent]
    name = "car-7"                        who publishes: no two have the same
    gateway = "coap://192.168.4.1:5683"   the CoAP service of a gateway; none: only buses and radios are published on
    only = false                          true: only subjects with a rule are published
    health_s = 60                         how often it says how it is; 0: only at the start
    watchdog_s = 30                       0: none

    [journal]                             what waits for the gateway
    file = "journal.bin"                  or partition = "journal", by its label
    sectors = 16
    sector_bytes = 4096
    memory_bytes = 2048
    linger_ms = 2000

    [position]                            where it stands, if it does: BLE groups want to know
    lat = 53.3438
    lon = -6.2546

    [update]                              over the air; without it there are none (updater.py)
    key = "02..."                         who signs releases: `vicinal release key`
    board = "esp32"                       releases for others are refused; "any": all but those for any board
    every_s = 3600                        how often the gateway is asked; 0: only when an AgentUpdate comes
    healthy_s = 60                        that a new release has to work, and to have reached the gateway, within
    patience_s = 300                      or the old one runs again
    retry_s = 10                          after an attempt that was cut off, doubled each time

    [[rule]]      see rules.py: what the gateway gets
    [[publish]]   see ways.py: what goes out on buses and radios
    [[can]], [[ble]], [[sensor]]      see ports.py

Nothing is opened here. Every mistake is said with its table and its key; what is not known is one.
"""

from vicinal._table import Table
from vicinal.errors import LocalProtocolError

from .ports import PORTS, name_of
from .rules import MAX_RULES, rule_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .rules import Rule

__all__ = ["Config", "address_of", "rules_of"]

_NAME = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
_TABLES = ("agent", "journal", "position", "wifi", "update", "rule", "publish", "can", "ble", "sensor")
# Of each: more than a board has pins for.
_MAX_PORTS = 16


class Config:
    def __init__(self, tables: "Any", file: str = "agent") -> None:
        if not isinstance(tables, dict):
            raise LocalProtocolError(f"{file}: want tables, got a {type(tables).__name__}")
        for key in tables:
            if key not in _TABLES:
                raise LocalProtocolError(f"{file}: [{key}] is not known: want {', '.join(_TABLES)}")
        if "agent" not in tables:
            raise LocalProtocolError(f"{file}: [agent] is missing, with `name` and `gateway`")
        self.file = file
        agent = Table(f"{file}: [agent]", tables["agent"])
        self.name: str = agent.take("name", str, required=True)
        if not 0 < len(self.name) <= 64 or [sign for sign in self.name if sign not in _NAME]:
            raise agent.error("name", f"is {self.name!r}, want 1 to 64 letters, digits, dots, dashes or underscores")
        gateway = agent.take("gateway", str)
        if gateway is None and not tables.get("publish"):
            raise agent.error("gateway", "is missing, and so is [[publish]]: then nobody is told anything")
        self.host: str | None = None
        self.port = 0
        if gateway is not None:
            self.host, self.port = address_of(gateway, agent)
        self.only: bool = agent.take("only", bool, False)
        self.health: int = 1000 * agent.integer("health_s", 0, 86400, 60)
        self.watchdog: int = 1000 * agent.integer("watchdog_s", 0, 3600, 30)
        agent.done()
        journal = Table(f"{file}: [journal]", tables.get("journal", {}))
        self.partition: str | None = journal.take("partition", str)
        self.journal: str = journal.take("file", str, "journal.bin")
        self.sectors: int = journal.integer("sectors", 3, 4096, 16)
        self.sector_bytes: int = journal.integer("sector_bytes", 256, 65280, 4096)
        if self.sector_bytes % 256:
            raise journal.error("sector_bytes", f"is {self.sector_bytes}, want a multiple of 256")
        self.memory: int = journal.integer("memory_bytes", 0, 65536, 2048)
        self.linger: int = journal.integer("linger_ms", 0, 3600000, 2000)
        journal.done()
        self.position = _position(Table(f"{file}: [position]", tables["position"])) if "position" in tables else None
        wifi = Table(f"{file}: [wifi]", tables.get("wifi", {}))
        self.ssid: str | None = wifi.take("ssid", str)
        if type(wifi.values.get("password", "")) is not str:
            raise wifi.error("password", "is no string: put it in quotes")  # and not into what is printed
        self.password: str | None = wifi.take("password", str)
        wifi.done()
        self.update: Any = None
        if "update" in tables:
            if gateway is None:
                raise LocalProtocolError(f"{file}: [update] is fetched from a gateway, and [agent] names none")
            from .updater import Settings

            self.update = Settings(Table(f"{file}: [update]", tables["update"]))
        self.rules = rules_of(tables.get("rule", []), f"{file}: [[rule]]")
        if gateway is None and self.rules:
            raise LocalProtocolError(
                f"{file}: [[rule]] is of what a gateway gets, and there is none: [[publish]] has the same keys"
            )
        self.ports: list[Any] = []
        for kind in ("can", "ble", "sensor"):
            for table in _several(tables.get(kind, []), f"{file}: [[{kind}]]", _MAX_PORTS):
                self.ports.append(PORTS[kind](table))
        self.publishes: list[Any] = []
        if tables.get("publish"):
            from .ways import publishes_of

            several = _several(tables["publish"], f"{file}: [[publish]]", MAX_RULES)
            self.publishes = publishes_of(several, self.ports, self.position)
        for number, port in enumerate(self.ports):
            if port.idle and not [each for each in self.publishes if each.port == name_of(port, number)]:
                raise LocalProtocolError(f"{file}: [[{port.kind}]] {port.idle}, and no [[publish]] goes there")


def rules_of(values: "Any", where: str) -> "list[Rule]":
    found = []
    for table in _several(values, where, MAX_RULES):
        found.append(rule_of(table))
        table.done()
    return found


def _several(values: "Any", where: str, most: int) -> "list[Table]":
    if not isinstance(values, list):
        raise LocalProtocolError(f"{where} has two brackets on each side: there may be several")
    if len(values) > most:
        raise LocalProtocolError(f"{where}: there are {len(values)}, the limit is {most}")
    return [Table(f"{where} {number + 1}", value) for number, value in enumerate(values)]


def address_of(text: str, table: Table) -> "tuple[str, int]":
    """coap://HOST[:PORT], of an IPv6 address in brackets."""
    wanted = "want coap://HOST or coap://HOST:PORT"
    if not text.startswith("coap://"):
        raise table.error("gateway", f"is {text!r}, {wanted}")
    rest, port = text[7:], "5683"
    if rest.endswith("/"):
        rest = rest[:-1]
    if rest.startswith("["):
        host, closed, after = rest[1:].partition("]")
        if not closed or (after and not after.startswith(":")):
            raise table.error("gateway", f"is {text!r}, {wanted}")
        port = after[1:] or port
    else:
        host, colon, after = rest.partition(":")
        port = after if colon else port
    if not host or "/" in host or not port.isdigit() or not 0 < int(port) < 65536:
        raise table.error("gateway", f"is {text!r}, {wanted}")
    return host, int(port)


def _position(table: Table) -> "tuple[int, int]":
    found = []
    for key, most in (("lat", 90), ("lon", 180)):
        value = table.number(key, None)
        if value is None or not -most <= value <= most:
            raise table.error(key, f"is {value}, want {-most} .. {most} degrees")
        found.append(_degrees(value))
    table.done()
    return found[0], found[1]


def _degrees(value: "float | int") -> int:
    """1e-7 degrees, of a decimal as it was written: a float of 32 bits has room for two metres only."""
    text = str(value)
    if "e" in text:
        return int(round(value * 10000000))
    whole, _, rest = text.partition(".")
    number = int((whole.replace("-", "") or "0") + (rest + "0000000")[:7])
    return -number if text.startswith("-") else number
