"""A gateway: how many events a second go through it, what each costs, how late they are, and what it takes at rest.

The gateway is a process of its own, and so is the broker. Frames are given to the CAN adapter where python-can's recv
would give them (worker.py). Of the best of the rounds both figures must meet a goal: events by the clock, and events
for a second of CPU of the gateway, all its threads. Of how late events are the median of the rounds is shown.
"""

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .. import Row, cpu_time
from ..peers.systems import started
from .configs import bus_to_broker, in_memory
from .idle import resident
from .latency import WORKER, latency

__all__ = ["rows"]

GOAL_PAIR = 50_000
GOAL_VOLATILE = 20_000
GOAL_DURABLE = 5_000
GOAL_P99_MS = 20
GOAL_RESIDENT_MB = 80
_EVENTS = 30_000
_ROUNDS = 3
_RATE = 1000
_SECONDS = 5.0


class Measured(NamedTuple):
    wall: float
    """events a second"""
    cpu: float
    """events for a second of CPU"""
    broker: float = 0.0
    """CPU of the broker for an event, us"""


def rows(
    events: int = _EVENTS, rounds: int = _ROUNDS, seconds: float = _SECONDS, folder: Path | None = None
) -> Iterator[Row]:
    """`folder` must lie on a disk: on a tmpfs syncs cost nothing, and the figures mean nothing."""
    if folder is None:
        folder = Path("build")
        folder.mkdir(exist_ok=True)
    pairs: list[Measured] = []
    live: list[Measured] = []
    stored: list[Measured] = []
    for _ in range(rounds):
        pairs.append(_pair(folder, events))
        live.append(_to_broker(folder, events, durable=False))
        stored.append(_to_broker(folder, events, durable=True))
    yield _row("gateway: two services in memory", pairs, GOAL_PAIR)
    yield _row("gateway: CAN frame to broker", live, GOAL_VOLATILE)
    yield _row("gateway: CAN frame to broker, stored on disk, logged by the broker", stored, GOAL_DURABLE)
    late = sorted([latency(folder, _RATE, seconds) for _ in range(rounds)], key=lambda one: one[0].p99 - one[1].median)
    through, direct, cpu = late[len(late) // 2]
    added = through.p99 - direct.median
    yield Row(
        f"gateway: added to a frame's way to a subscriber, p99 at {_RATE:,} events/s, stored",
        f"{added:.1f} ms",
        f"direct: median {direct.median:.1f} ms, p99 {direct.p99:.1f}; through it: median {through.median:.1f} ms, "
        f"{cpu:.0f} us of its CPU each",
        f"{added / GOAL_P99_MS:.2f} of the limit",
        f"under {GOAL_P99_MS} ms",
        added < GOAL_P99_MS,
    )
    memory, services = resident(folder)
    yield Row(
        f"gateway: resident at rest, {services} adapters of {services} kinds",
        f"{memory:.0f} MB",
        f"limit {GOAL_RESIDENT_MB} MB",
        f"{memory / GOAL_RESIDENT_MB:.2f} of it",
        f"under {GOAL_RESIDENT_MB} MB",
        memory < GOAL_RESIDENT_MB,
    )


def _row(what: str, found: list[Measured], goal: int) -> Row:
    wall, cpu = max(one.wall for one in found), max(one.cpu for one in found)
    broker = min(one.broker for one in found)
    peer = f"json.dumps of the event {_dumps():.1f} us"
    return Row(
        what,
        f"{wall:,.0f} events/s; {1e6 / cpu:.1f} us of CPU each: {cpu:,.0f} for 1 s of it",
        peer + (f"; the broker's CPU {broker:.1f} us each" if broker else ""),
        f"{min(wall, cpu) / goal:.2f} of the goal",
        f"{goal:,}/s",
        min(wall, cpu) >= goal,
    )


def _dumps() -> float:
    """What the machine is like just now."""
    event = {
        "subject": "Speed",
        "params": {"license_no": "00D1234", "rate": 57.2},
        "attrs": {"Priority": 3},
        "producer": "car-7",
        "seq": 12,
    }
    return cpu_time(lambda: json.dumps(event))[0] * 1e6


def _pair(folder: Path, events: int) -> Measured:
    with tempfile.TemporaryDirectory(dir=folder, prefix="bench-gateway-") as place:
        return _work(Path(place), in_memory(), 2 * events)


def _to_broker(folder: Path, events: int, durable: bool) -> Measured:
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix="bench-gateway-") as place,
        started("vicinal", Path(place, "log") if durable else None) as broker,
    ):
        channel = f"bench-{time.monotonic_ns()}"
        config = bus_to_broker(Path(place), channel, f"tcp://127.0.0.1:{broker.port}", store=durable)
        cpu = broker.cpu()
        found = _work(Path(place), config, events)
        return found._replace(broker=(broker.cpu() - cpu) / events * 1e6)


def _work(place: Path, config: str, events: int) -> Measured:
    job = {"config": config, "folder": str(place), "source": "car", "target": "wide", "events": events}
    done = subprocess.run([*WORKER, json.dumps(job)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the gateway failed: {done.stderr[-2000:]}")
    found = json.loads(done.stdout)
    return Measured(found["events"] / found["wall"], found["events"] / found["cpu"])
