"""What a gateway has counted: as JSON for people's tools, as text for Prometheus, and as a page.

Of every service: `in` is what it gave, what of that waits for the gateway, and what was dropped before it got there;
`out` what it was given, and at every instant

    accepted = delivered + stored + dropped(reason)
"""

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from vicinal.pages_cpython import METRICS_TYPE, Metrics, Pages

if TYPE_CHECKING:
    from .node import Node

__all__ = ["metrics", "pages", "status"]

STATES = ("connecting", "up", "waiting", "quarantined", "stopped")


def status(node: "Node") -> dict[str, Any]:
    engine = node.engine
    services = [service.status() for service in node.services.values()]
    out = [one["out"] for one in services]
    dropped: dict[str, int] = {}
    for one in out:
        for reason, count in one["dropped"].items():
            dropped[reason] = dropped.get(reason, 0) + count
    topology = engine.topology
    return {
        "name": node.name,
        "now": node.now(),
        "position": node.position(),
        "accepted": sum(one["accepted"] for one in out),
        "delivered": sum(one["delivered"] for one in out),
        "stored": sum(one["stored"] for one in out),
        "dropped": dropped,
        "services": services,
        "requests": engine.requests.report(),
        "notes": [
            {"service": name, "filter": text, "sources": sorted(note.sources), "state": note.state}
            for name, one in engine.services.items()
            for text, note in one.notes.items()
        ],
        "gateways": [
            {
                "name": name,
                "services": list(record.services),
                "silent_ms": 0 if name == node.name else node.now() - record.heard,
            }
            for name, record in sorted(topology.records.items())
        ],
        "ways": {service: topology.way(service) for service in topology.services()},
        "engine": dict(engine.counters),
        "store": {key: value for key, value in node.store.counters().items() if key != "queues"},
        "types": node.config.types.report(),
    }


def metrics(found: dict[str, Any]) -> str:
    made = Metrics("vicinal_gateway")
    services = found["services"]
    for key in ("accepted", "delivered"):
        made.add(key, "counter", [({"service": one["name"]}, one["out"][key]) for one in services])
    for key in ("stored", "under_way", "bytes"):
        made.add(key, "gauge", [({"service": one["name"]}, one["out"][key]) for one in services])
    made.add("dropped", "counter", _by_reason(services, "out"))
    made.add("received", "counter", [({"service": one["name"]}, one["in"]["received"]) for one in services])
    made.add("in_dropped", "counter", _by_reason(services, "in"))
    made.add("faults", "counter", [({"service": one["name"]}, one["in"]["faults"]) for one in services])
    made.add(
        "service_state",
        "gauge",
        [
            ({"service": one["name"], "state": state}, int(one["state"] == state))
            for one in services
            for state in STATES
        ],
    )
    made.add("gateways", "gauge", [({}, len(found["gateways"]))])
    made.add("engine", "counter", [({"what": what}, count) for what, count in sorted(found["engine"].items())])
    store = found["store"]
    made.add("store_commits", "counter", [({}, store["commits"])])
    made.add("store_failures", "counter", [({"reason": why}, n) for why, n in sorted(store["failures"].items())])
    goals = [goal["state"] for one in found["requests"] for goal in one["services"].values()]
    made.add("requests", "gauge", [({"state": state}, goals.count(state)) for state in sorted(set(goals))])
    return made.text()


def _by_reason(services: list[dict[str, Any]], way: str) -> list[tuple[dict[str, str], int]]:
    return [
        ({"service": one["name"], "reason": reason}, count)
        for one in services
        for reason, count in sorted(one[way]["dropped"].items())
    ]


def pages(node: "Node") -> Pages:
    text = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    return {
        "/": lambda: ("text/html; charset=utf-8", text),
        "/status": lambda: ("application/json", json.dumps(status(node)) + "\n"),
        "/metrics": lambda: (METRICS_TYPE, metrics(status(node))),
    }
