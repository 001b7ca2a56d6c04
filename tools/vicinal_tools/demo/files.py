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

import contextlib
import json
import secrets
import socket
import time
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from vicinal.scope.file_cpython import read
from vicinal.scope.graph import ScopeGraph
from vicinal_cloud.broker.tokens import sign
from vicinal_cloud.traffic.network import UNIT, Network

from ..traffic.districts import nearest_road
from .deployment import OFFICE, deployment_of

__all__ = ["ADMINISTRATOR", "BROKERS", "NAMES", "OFFICE", "Plan", "write"]

BROKERS = ("b-office", "b-west", "b-east")
ADMINISTRATOR = "operator"
PLACES = "geography"
TOKENS_S = 30 * 86_400
"""how long tokens count: longer than anybody watches"""
INTERVAL_MS = 40
"""between two advertisements: a car says two events a second, each three times, and its beacons"""
NAMES = {
    "Speed": ("license_no", "rate"),
    "Location": ("lat", "lon", "heading", "braking"),
    "Sign": ("limit", "zone", "monitor"),
}
"""everybody knows the names of parameters, so that they need not be said: half the time in the air"""
ANNOUNCED = "".join(
    f'[[service.announce]]\nsubject = "{subject}"\nnames = {json.dumps(names)}\n' for subject, names in NAMES.items()
)
MONITOR_MAX = 6
"""characters of a monitor's name: what a car's frame of a sign has room for"""
LOG_HOURS = 24
"""of brokers: no longer than the office keeps who was where"""
FLOW_S = 60
COUNTED_M = 150.0
"""metres from a monitor to the middle of a road that it counts on: so far all of it is heard"""
CROWD_LATE_MS = 600_000
"""where a town stands still while its process waits for its turn"""
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
    status: dict[str, int]
    """ports of the status pages of brokers and monitors"""
    key: bytes
    flow_s: int = FLOW_S
    """seconds between two counts of the traffic"""
    scale: float = 0.0
    """of a crowd in one process: seconds of the clock that a second of the town takes (crowd.py); 0: a fleet"""

    @property
    def air(self) -> str:
        """The virtual radio's name."""
        return "air"


def write(
    folder: Path,
    network: Network,
    vehicles: int,
    speeders: float,
    seed: int,
    port: int,
    database: str | None,
    source: dict[str, Any] | None = None,
    flow_s: int = FLOW_S,
    scale: float = 0.0,
) -> Plan:
    long = [name for name in network.monitors if len(name.encode()) > MONITOR_MAX]
    if long:
        raise ValueError(f"monitor {long[0]!r} of {network.name}: a name of at most {MONITOR_MAX} characters is wanted")
    if not network.monitors:
        raise ValueError(f"{network.name} has no monitor: nobody would hear its vehicles")
    several = _free_ports(2 * len(BROKERS) + len(network.monitors))
    ports = dict(zip(BROKERS, several))
    status = dict(zip((*BROKERS, *network.monitors), several[len(BROKERS) :]))
    key = secrets.token_bytes(32)
    plan = Plan(folder, network, vehicles, speeders, seed, port, ports, status, key, flow_s, scale)
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
    fleet: dict[str, Any] = {
        "network": "town.geojson",
        "vehicles": vehicles,
        "speeders": speeders,
        "seed": seed,
        "air": plan.air,
    }
    fleet["source"] = source or {"kind": "simulated"}
    fleet["scale"] = scale
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
    text = deployment_of(plan.network)
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


def _free_ports(count: int) -> list[int]:
    """All at once, so that none comes twice."""
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in found]


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
    lines += ["[status]", f'address = "{_status(plan, name)}"']
    lines += ["[log]", f'directory = "{name}.log"', f"max_age_hours = {LOG_HOURS}"]
    return "\n".join([*lines, ""])


def _status(plan: Plan, name: str) -> str:
    return f"http://127.0.0.1:{plan.status[name]}"


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
label = "{name}"
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

# What its sign shows, for those in reach.
[[request]]
type = "subscribe"
source = "air-{name}"
to = "siena"
filter = "subject = 'Sign' AND monitor = '{name}'"

# How many pass on which road, and how fast on average. It is counted here: who they were stays here.
[[service]]
name = "flow-{name}"
type = "flow"
every_s = {plan.flow_s}
{_roads(plan.network, name)}
[[request]]
type = "subscribe"
source = "flow-{name}"
to = "air-{name}"
filter = "subject IN ('Speed', 'Location')"
[[request]]
type = "subscribe"
source = "siena"
to = "flow-{name}"
filter = "subject = 'Flow'"

[location]
fixed = [{lat:.7f}, {lon:.7f}]

[status]
address = "{_status(plan, name)}"
"""


def _roads(network: Network, monitor: str) -> str:
    """Those that it counts on: within reach, and no other monitor is nearer."""
    found: dict[str, list[str]] = {}
    for road in network.roads:
        middle = road.points[len(road.points) // 2]
        near = min(network.monitors.values(), key=lambda one: (network.distance(one.place, middle), one.name))
        if near.name == monitor and network.distance(near.place, middle) < COUNTED_M:
            points = ", ".join(f"[{lat / UNIT:.7f}, {lon / UNIT:.7f}]" for lat, lon in road.points)
            found.setdefault(road.name or road.ident, []).append(f"[{points}]")
    if not found:
        road = nearest_road(network, network.monitors[monitor].place)
        points = ", ".join(f"[{lat / UNIT:.7f}, {lon / UNIT:.7f}]" for lat, lon in road.points)
        found[road.name or road.ident] = [f"[{points}]"]
    return "\n".join(
        f"[[service.road]]\nname = {json.dumps(name, ensure_ascii=False)}\nlines = [{', '.join(lines)}]"
        for name, lines in found.items()
    )


def _office(plan: Plan, database: str | None) -> str:
    watched = "\n".join([f'{name} = "{_status(plan, name)}"' for name in plan.status])
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
late_ms = {CROWD_LATE_MS if plan.scale else LATE_MS}
gap_ms = {round(GAP_MS * (plan.scale or 1))}
[watch]
{watched}
"""


def agent(channel: str) -> str:
    """The agent in a car: it says on the car's bus what its sensors read, and hears what its driver is to see."""
    return f"""\
[agent]
name = "{channel}"

[journal]
sectors = 3
sector_bytes = 256

[[can]]
interface = "vicinal"
channel = "{channel}"
mapping = "../speed.toml"

# Of the simulation, which has something new once a second: it is not waited for.
[[sensor]]
type = "own"
subject = "Location"
every_ms = 1
[[sensor]]
type = "own"
subject = "Speed"
every_ms = 1

[[publish]]
subject = "Location"
on = "can"
validity_us = 2000000
[[publish]]
subject = "Speed"
on = "can"
validity_us = 2000000
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

# Signs are shown to the driver.
[[request]]
type = "subscribe"
source = "can"
to = "air"
filter = "subject = 'Sign'"
"""
