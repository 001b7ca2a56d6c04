"""What the parts of the demo are told: a folder with the configuration of each, as one would write it by hand.

town.geojson  deployment.toml  pseudonyms.key
issuer.key  issuer.pem             who signs tokens; what brokers know of it
m1.token ... planner.token         who the components of the deployment are; operator.token: an administrator
b-west.toml ─┐
b-east.toml ─┴─ b-office.toml      brokers, each with its log
m1/gateway.toml ...                monitors: STEAM on the virtual radio ─▶ overlay
office.toml                        traffic control
fleet.json                         vehicles
"""

import json
import secrets
import socket
import time
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from vicinal.scope.file_cpython import read
from vicinal.scope.graph import ScopeGraph
from vicinal_cloud.broker.tokens import sign
from vicinal_cloud.traffic.network import UNIT, Network

__all__ = ["ADMINISTRATOR", "BROKERS", "Plan", "write"]

BROKERS = ("b-office", "b-west", "b-east")
OFFICE = "traffic-control"
ADMINISTRATOR = "operator"
PLACES = "geography"
TOKENS_S = 30 * 86_400
"""how long tokens count: longer than anybody watches"""
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
    _secret(folder / "pseudonyms.key", plan.key.hex() + "\n")
    graph = _deploy(plan)
    for name in BROKERS:
        (folder / f"{name}.toml").write_text(_broker(plan, name, graph))
    for name in network.monitors:
        (folder / name).mkdir()
        (folder / name / "gateway.toml").write_text(_monitor(plan, name))
    (folder / "office.toml").write_text(_office(plan, database))
    fleet = {"network": "town.geojson", "vehicles": vehicles, "speeders": speeders, "seed": seed, "air": plan.air}
    (folder / "fleet.json").write_text(json.dumps(fleet, indent=2))
    return plan


def _shipped(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _secret(file: Path, text: str) -> None:
    """Nobody else reads it."""
    file.touch(0o600)
    file.write_text(text)


def _deploy(plan: Plan) -> ScopeGraph:
    """The scopes, and a token for everybody in them."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    file = plan.folder / "deployment.toml"
    text = _shipped("deployment.toml")
    file.write_text(text)
    graph, problems = read(file, text.encode())
    if graph is None:
        raise ValueError("\n".join(problems))
    missing = [name for name in (*plan.network.monitors, OFFICE) if name not in graph.components]
    if missing:
        raise ValueError(f"{file}: {', '.join(missing)} of {plan.network.name} are no [[component]] in it")
    private, issuer = Ed25519PrivateKey.generate(), plan.folder / "issuer.key"
    pem, nothing = form.Encoding.PEM, form.NoEncryption()
    _secret(issuer, private.private_bytes(pem, form.PrivateFormat.PKCS8, nothing).decode())
    public = private.public_key().public_bytes(pem, form.PublicFormat.SubjectPublicKeyInfo)
    (plan.folder / "issuer.pem").write_bytes(public)
    now = int(time.time())
    claims = {"iat": now, "exp": now + TOKENS_S}
    for name in graph.components:
        _secret(plan.folder / f"{name}.token", sign(issuer, {**claims, "sub": name}) + "\n")
    _secret(
        plan.folder / f"{ADMINISTRATOR}.token",
        sign(issuer, {**claims, "sub": ADMINISTRATOR, "role": "administrator"}) + "\n",
    )
    return graph


def _joined(plan: Plan, name: str, graph: ScopeGraph) -> list[str]:
    """Where the events of a scope may be: at the office's broker all; at the others what is of their monitors, up to
    their districts."""
    if name == BROKERS[0]:
        return sorted(graph.scopes)
    found: set[str] = set()
    for monitor in plan.network.monitors:
        if broker_of(plan, monitor) == name:
            inside = graph.components[monitor].scopes
            found.update(inside, *[graph.scopes[one].supers for one in inside if graph.scopes[one].dimension == PLACES])
    return sorted(found)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _broker(plan: Plan, name: str, graph: ScopeGraph) -> str:
    lines = [
        "[broker]",
        f'name = "{name}"',
        'scopes = "deployment.toml"',
        f"join = {json.dumps(_joined(plan, name, graph))}",
    ]
    lines += ["[identity]", 'tokens = "issuer.pem"', "administrators = \"role = 'administrator'\""]
    lines += ["[[listen]]", f'address = "tcp://127.0.0.1:{plan.brokers[name]}"']
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
client = "{name}"
token = "../{name}.token"
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
token = "{OFFICE}.token"
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
