"""What a broker has counted: as JSON for people's tools, as text for Prometheus."""

from typing import Any

from vicinal.pages_cpython import Metrics

from .node import Node

__all__ = ["metrics", "status"]


def status(node: Node) -> dict[str, Any]:
    engine, counters = node.engine, node.counters
    links = list(node.links)
    waiting = sum([link.undelivered for link in links]) + counters.putting
    return {
        "name": engine.name,
        "incarnation": engine.incarnation,
        "now": node.now(),
        "draining": node.draining,
        "scopes": sorted(engine.scopes),
        "publishes": {
            "received": counters.received,
            "accepted": counters.accepted,
            "repeated": counters.repeated,
            "refused": dict(counters.refused),
            "storing": counters.storing,
        },
        "deliveries": {
            "handed": counters.handed,
            "delivered": counters.delivered + sum([link.delivered for link in links]),
            "waiting": waiting,
            "stored": counters.stored,
            "dropped": dict(counters.dropped),
        },
        "connections": {
            "open": len(links),
            "made": counters.connected,
            "ended": dict(counters.cut),
            "bytes_in": counters.bytes_in + sum([link.bytes_in for link in links]),
            "bytes_out": counters.bytes_out + sum([link.bytes_out for link in links]),
        },
        "clients": [
            {
                "name": session.name,
                "where": session.link.where,
                "since": session.since,
                "published": session.published,
                "delivered": session.link.delivered,
                "waiting": session.link.undelivered,
                "backlog": session.link.backlog,
                "advertisements": len(session.adverts),
                "subscriptions": len(session.subscriptions) + len(session.durable),
            }
            for session in sorted(node.sessions.values(), key=lambda session: session.name)
        ],
        "neighbours": [
            {
                "name": name,
                "up": name in node.linked,
                "backlog": node.linked[name][0].backlog if name in node.linked else 0,
                "held_back": counters.held_back[name],
            }
            for name in sorted(node.neighbours)
        ],
        "overlay": {
            "brokers": sorted([record.broker for record in engine.records.all()]),
            "interest": len(engine.interest),
            "subscriptions": len(engine.subscriptions.by_key),
            "catching_up": [] if node.replays is None else node.replays.readers,
            "waiting": sum([len(stream.packets) for stream in engine._out.values()]),
            "engine": dict(engine.counts),
        },
        "held": None if node.holding is None else node.holding.status(),
        "log": None if node.storage is None else node.storage.status(),
    }


_COUNTERS = {
    "publishes_received": ("publishes", "received"),
    "publishes_accepted": ("publishes", "accepted"),
    "publishes_repeated": ("publishes", "repeated"),
    "deliveries_handed": ("deliveries", "handed"),
    "deliveries_delivered": ("deliveries", "delivered"),
    "deliveries_stored": ("deliveries", "stored"),
    "connections_made": ("connections", "made"),
    "bytes_in": ("connections", "bytes_in"),
    "bytes_out": ("connections", "bytes_out"),
}
_LABELLED = {
    "publishes_refused": ("publishes", "refused"),
    "deliveries_dropped": ("deliveries", "dropped"),
    "connections_ended": ("connections", "ended"),
    "engine": ("overlay", "engine"),
}
_GAUGES = {
    "publishes_storing": ("publishes", "storing"),
    "deliveries_waiting": ("deliveries", "waiting"),
    "connections_open": ("connections", "open"),
    "overlay_interest": ("overlay", "interest"),
    "overlay_subscriptions": ("overlay", "subscriptions"),
    "overlay_packets_waiting": ("overlay", "waiting"),
}


def metrics(found: dict[str, Any]) -> str:
    """Of a status."""
    made = Metrics("vicinal_broker")
    for name, (group, key) in _COUNTERS.items():
        made.add(name, "counter", [({}, found[group][key])])
    for name, (group, key) in _LABELLED.items():
        made.add(name, "counter", [({"reason": why}, count) for why, count in sorted(found[group][key].items())])
    for name, (group, key) in _GAUGES.items():
        made.add(name, "gauge", [({}, found[group][key])])
    made.add("neighbour_up", "gauge", [({"neighbour": one["name"]}, int(one["up"])) for one in found["neighbours"]])
    made.add("clients", "gauge", [({}, len(found["clients"]))])
    return made.text()
