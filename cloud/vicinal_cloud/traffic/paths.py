"""Which way events took, hop by hop with times: the viewer of seed 001, 6.4, and the latency of each hop.

    vehicle's gateway ──air──▶ monitor ──uplink──▶ broker ──overlay──▶ broker ──▶ office

Gateways write the first part into the attribute `Trace` (FED-26), brokers give the second as the trail of a delivery.
"""

from collections import deque
from itertools import islice, pairwise
from typing import Any, NamedTuple

from vicinal.event import Event

__all__ = ["Hop", "Path", "Paths", "hops_of"]

KEPT = 20_000
"""paths, of the last minutes"""
SAMPLES = 100_000
"""of each hop's latency"""


class Hop(NamedTuple):
    where: str
    kind: str
    """vehicle, monitor, broker or office"""
    time: int


class Path(NamedTuple):
    number: int
    """of the delivery, from 1"""
    vehicle: str
    seq: int
    subject: str
    monitor: str
    params: dict[str, Any]
    verdict: str
    hops: tuple[Hop, ...]


def hops_of(event: Event, trail: tuple[Any, ...], received: int) -> tuple[Hop, ...]:
    time = event.attrs.get("Time")
    found = [Hop(str(event.attrs.get("OriginProducer", event.producer)), "vehicle", time)] if type(time) is int else []
    trace = event.attrs.get("Trace")
    for hop in trace.split(", ") if type(trace) is str else ():
        where, _, at = hop.rpartition(" ")
        if at.isdecimal():
            found.append(Hop(where, "monitor", int(at)))
    found += [Hop(broker, "broker", at) for broker, _, at in trail]
    return (*found, Hop("office", "office", received))


class Paths:
    def __init__(self) -> None:
        self._paths: deque[Path] = deque(maxlen=KEPT)
        self._latency: dict[str, deque[int]] = {}

    def add(self, path: Path) -> None:
        self._paths.append(path)
        for a, b in pairwise(path.hops):
            name = {"monitor": "air", "broker": "overlay", "office": "office"}[b.kind]
            if name == "overlay" and a.kind == "monitor":
                name = "uplink"
            self._latency.setdefault(name, deque(maxlen=SAMPLES)).append(b.time - a.time)
        if len(path.hops) > 1:
            whole = path.hops[-1].time - path.hops[0].time
            self._latency.setdefault("whole", deque(maxlen=SAMPLES)).append(whole)

    @property
    def last(self) -> int:
        return self._paths[-1].number if self._paths else 0

    def after(self, number: int, count: int) -> list[Path]:
        """Those after the one with this number, the oldest first."""
        skipped = max(0, number + 1 - self._paths[0].number) if self._paths else 0
        return list(islice(self._paths, skipped, skipped + count))

    def of(self, vehicle: str, seq: int) -> list[Path]:
        """One for each monitor that heard it."""
        return [path for path in self._paths if path.seq == seq and path.vehicle == vehicle]

    def latest(self, count: int, subject: str | None = None) -> list[Path]:
        found = []
        for path in reversed(self._paths):
            if subject is None or path.subject == subject:
                found.append(path)
                if len(found) >= count:
                    break
        return found

    def latency(self) -> dict[str, dict[str, int]]:
        """ms, of each hop that there is."""
        found = {}
        for name in ("air", "uplink", "overlay", "office", "whole"):
            times = sorted(self._latency.get(name, ()))
            if times:
                found[name] = {
                    "p50": times[len(times) // 2], "p99": times[len(times) * 99 // 100], "max": times[-1],
                    "events": len(times),
                }  # fmt: skip
        return found
