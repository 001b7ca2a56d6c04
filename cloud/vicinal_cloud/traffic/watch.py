"""What the overlay does, a sample a while: how many events a second go over each link, and how its nodes are.

Links and their rates the office knows from the paths of what it hears. Whether a broker or a gateway is up, what a
monitor hears and keeps back, and who is connected where, their status pages say: [watch] in its configuration. A node
that does not answer is down, and the rest is shown all the same.

    vehicles ──heard──▶ monitor ──left──▶ broker ──▶ broker ──▶ office
                           └ kept back: no offence
"""

import asyncio
import json
import urllib.request
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

__all__ = ["Counted", "Sample", "Watch", "read_status", "sample_of"]

EVERY = 2.0
"""seconds"""
KEPT = 1_800
"""samples: an hour"""
PATIENCE = 1.0
MAX_STATUS = 1_000_000
KEPT_BACK = "event dropped: filter"
"""how the STEAM adapter counts what nobody asked for"""

Link = tuple[str, str]


class Counted(NamedTuple):
    """What one look found. Counters only grow, while their process lives."""

    time: int
    received: int
    """by the office"""
    links: dict[Link, int]
    nodes: dict[str, dict[str, Any]]
    """read_status of those that answered"""


class Sample(NamedTuple):
    time: int
    rates: dict[str, float | None]
    """events a second: heard at the roadside, left it, reached the office"""
    nodes: list[dict[str, Any]]
    links: list[dict[str, Any]]


class Watch:
    def __init__(
        self,
        addresses: Mapping[str, str],
        count: Callable[[], tuple[int, int, dict[Link, int]]],
        looked: Callable[[int, dict[str, dict[str, Any]]], None] = lambda asked_at, nodes: None,
    ) -> None:
        """`count` gives the time, what the office has received, and the events of each link; `looked` is told what each
        look found, and when it began."""
        self._addresses = dict(addresses)
        self._count = count
        self._looked = looked
        self._before: Counted | None = None
        self.samples: deque[Sample] = deque(maxlen=KEPT)

    async def run(self) -> None:
        while True:
            asked_at = self._count()[0]
            statuses = await asyncio.to_thread(self._ask)
            self._looked(asked_at, statuses)
            time, received, links = self._count()
            found = Counted(time, received, dict(links), statuses)
            if self._before is not None and found.time > self._before.time:
                self.samples.append(sample_of(self._before, found, self._addresses))
            self._before = found
            await asyncio.sleep(EVERY)

    def _ask(self) -> dict[str, dict[str, Any]]:
        found = {}
        for name, address in self._addresses.items():
            try:
                with urllib.request.urlopen(f"{address}/status", timeout=PATIENCE) as answer:
                    found[name] = read_status(json.loads(answer.read(MAX_STATUS)))
            except (OSError, ValueError, KeyError, TypeError):
                continue  # it is down, and shown so
        return found

    def at(self, time: int) -> Sample | None:
        """The last one then."""
        return next((one for one in reversed(self.samples) if one.time <= time), None)

    def after(self, time: int) -> list[Sample]:
        found = []
        for one in reversed(self.samples):
            if one.time <= time:
                break
            found.append(one)
        return found[::-1]


def read_status(status: Mapping[str, Any]) -> dict[str, Any]:
    """Of a broker's status page, or a gateway's: its counters, who it is connected with, and what each of its services
    is asked for, applied or not."""
    if "publishes" in status:
        return {
            "kind": "broker",
            "counters": {"published": status["publishes"]["accepted"], "delivered": status["deliveries"]["delivered"]},
            "stored": status["deliveries"]["waiting"],
            "clients": [one["name"] for one in status["clients"]],
            "neighbours": [one["name"] for one in status["neighbours"] if one["up"]],
        }
    passed = sum([one["in"]["received"] for one in status["services"] if one["type"] == "steam"])
    kept_back = sum([one["adapter"].get(KEPT_BACK, 0) for one in status["services"] if one["type"] == "steam"])
    asked: dict[str, list[str]] = {}
    for one in status["notes"]:
        asked.setdefault(one["service"], []).append(one["filter"])
    return {
        "kind": "gateway",
        "asked": asked,
        "counters": {"heard": passed + kept_back, "kept_back": kept_back, "left": status["delivered"]},
        "stored": status["stored"],
        "filters": sorted([one["filter"] for one in status["notes"] if one["state"] == "applied"]),
    }


def sample_of(before: Counted, now: Counted, known: Mapping[str, str]) -> Sample:
    seconds = (now.time - before.time) / 1000

    def rate(new: int, old: int) -> float:
        return round((new - old if new >= old else new) / seconds, 2)  # less than before: it was started anew

    nodes, sums = [], {"heard": 0.0, "left": 0.0}
    for name in known:
        status = now.nodes.get(name)
        if status is None:
            nodes.append({"name": name, "kind": before.nodes.get(name, {}).get("kind", ""), "up": False})
            continue
        old = before.nodes.get(name, status)["counters"]
        rates = {key: rate(value, old.get(key, 0)) for key, value in status["counters"].items()}
        for key in sums:
            sums[key] += rates.get(key, 0.0)
        more: dict[str, Any] = {key: status[key] for key in ("stored", "filters") if key in status}
        nodes.append({"name": name, "kind": status["kind"], "up": True, "rates": rates, **more})
    links = {link: rate(count, before.links.get(link, 0)) for link, count in now.links.items()}
    for link in _connected(now, known):
        if link not in links and link[::-1] not in links:
            links[link] = 0.0
    whole = {key: round(value, 2) if known else None for key, value in sums.items()}
    return Sample(
        now.time, {**whole, "office": rate(now.received, before.received)}, nodes,
        [{"from": a, "to": b, "rate": value} for (a, b), value in sorted(links.items())],
    )  # fmt: skip


def _connected(now: Counted, known: Mapping[str, str]) -> list[Link]:
    """Links over which nothing may have come yet: between brokers, and from clients of theirs that are watched too."""
    found: list[Link] = []
    for name, status in now.nodes.items():
        for client in status.get("clients", ()):
            if client in known:
                found.append((client, name))
        for other in status.get("neighbours", ()):
            if (other, name) not in found:
                found.append((name, other))
    return found
