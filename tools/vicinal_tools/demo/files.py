"""What the parts of the demo are told: a folder with the configuration of each, as one would write it by hand.

town.geojson  deployment.toml  pseudonyms.key
b-west.toml ─┐
b-east.toml ─┴─ b-office.toml      brokers, each with its log
m1/gateway.toml ...                monitors: STEAM on the virtual radio ─▶ overlay
office.toml                        traffic control
fleet.json                         vehicles
"""

import json
import secrets
import socket
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from vicinal_cloud.traffic.network import UNIT, Network

__all__ = ["BROKERS", "Plan", "write"]

BROKERS = ("b-office", "b-west", "b-east")
OFFICE = "traffic-control"
INTERVAL_MS = 40
"""between two advertisements: a car says two events a second, each three times, and its beacons"""
ANNOUNCED = """\
[[service.announce]]
subject = "Speed"
names = ["license_no", "rate"]
[[service.announce]]
subject = "Location"
names = ["lat", "lon", "heading", "braking"]
"""
"""everybody knows the names of parameters, so that they need not be said: half the time in the air"""
LATE_MS, GAP_MS = 10_000, 5_000
"""a demo does not wait a quarter of an hour for a fine"""


class Plan(NamedTuple):
    folder: Path
    network: Network
    vehicles: int
    speeders: float
    seed: int
    port: int
    """of the pages; 0 for any"""
    brokers: dict[str, int]
    """names and ports"""
    key: bytes

    @property
    def air(self) -> str:
        """The virtual radio's name."""
        return "air"


def write(
    folder: Path, network: Network, vehicles: int, speeders: float, seed: int, port: int, database: str | None
) -> Plan:
    ports = {name: _free_port() for name in BROKERS}
    plan = Plan(folder, network, vehicles, speeders, seed, port, ports, secrets.token_bytes(32))
    (folder / "town.geojson").write_text(json.dumps(network.geojson()))
    (folder / "speed.toml").write_text(_shipped("speed.toml"))
    (folder / "deployment.toml").write_text(_shipped("deployment.toml"))
    key = folder / "pseudonyms.key"
    key.touch(0o600)
    key.write_text(plan.key.hex() + "\n")
    for name in BROKERS:
        (folder / f"{name}.toml").write_text(_broker(plan, name))
    for name in network.monitors:
        (folder / name).mkdir()
        (folder / name / "gateway.toml").write_text(_monitor(plan, name))
    (folder / "office.toml").write_text(_office(plan, database))
    fleet = {"network": "town.geojson", "vehicles": vehicles, "speeders": speeders, "seed": seed, "air": plan.air}
    (folder / "fleet.json").write_text(json.dumps(fleet, indent=2))
    return plan


def _shipped(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _broker(plan: Plan, name: str) -> str:
    lines = ["[broker]", f'name = "{name}"', "[[listen]]", f'address = "tcp://127.0.0.1:{plan.brokers[name]}"']
    for other in BROKERS:
        if name == BROKERS[0] and other != name:
            lines += ["[[neighbour]]", f'name = "{other}"']
        elif other == BROKERS[0] and other != name:
            lines += ["[[neighbour]]", f'name = "{other}"', f'address = "tcp://127.0.0.1:{plan.brokers[other]}"']
    lines += ["[status]", 'address = "http://127.0.0.1:0"', "[log]", f'directory = "{name}.log"']
    return "\n".join([*lines, ""])


def broker_of(plan: Plan, monitor: str) -> str:
    """The western one for the first half of them."""
    names = list(plan.network.monitors)
    return BROKERS[1] if names.index(monitor) < (len(names) + 1) // 2 else BROKERS[2]


def _monitor(plan: Plan, name: str) -> str:
    monitor = plan.network.monitors[name]
    lat, lon = monitor.place[0] / UNIT, monitor.place[1] / UNIT
    return f"""\
[gateway]
name = "{name}"
hello_s = 2

[[service]]
name = "air-{name}"
type = "steam"
virtual = "{plan.air}"
extended = true
interval_ms = {INTERVAL_MS}
control = false
{ANNOUNCED}
[[service]]
name = "siena"
type = "siena"
address = "tcp://127.0.0.1:{plan.brokers[broker_of(plan, name)]}"
[service.pseudonyms]
key = "../pseudonyms.key"
scope = "{monitor.area}"

# Who is where, under pseudonyms. Who is too fast the office asks for by itself: the limit is the filter.
[[request]]
type = "subscribe"
source = "siena"
to = "air-{name}"
filter = "subject = 'Location'"

[location]
fixed = [{lat:.7f}, {lon:.7f}]

[status]
address = "http://127.0.0.1:0"
"""


def _office(plan: Plan, database: str | None) -> str:
    return f"""\
[office]
name = "{OFFICE}"
network = "town.geojson"
broker = "tcp://127.0.0.1:{plan.brokers[BROKERS[0]]}"
database = "{database or "sqlite:///traffic.sqlite"}"
[listen]
address = "http://127.0.0.1:{plan.port}"
[rules]
late_ms = {LATE_MS}
gap_ms = {GAP_MS}
"""


def vehicle(air: str, name: str, channel: str) -> str:
    """The gateway in a car: c("air", s("subject = Speed"), "can"), injected by the car's control system (5.8.2)."""
    return f"""\
[gateway]
name = "{name}"
hello_s = 3600
trace = true

[[service]]
name = "can"
type = "cosmic"
interface = "vicinal"
channel = "{channel}"
mapping = "../speed.toml"

[[service]]
name = "air"
type = "steam"
virtual = "{air}"
extended = true
interval_ms = {INTERVAL_MS}
control = false
{ANNOUNCED}
[[request]]
type = "subscribe"
source = "air"
to = "can"
filter = "subject IN ('Speed', 'Location')"
"""
