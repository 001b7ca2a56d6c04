"""Which way events took, hop by hop with times: the viewer of seed 001, 6.4, and the latency of each hop.

    vehicle's gateway ──air──▶ monitor ──uplink──▶ broker ──overlay──▶ broker ──▶ office

Gateways write the first part into the attribute `Trace` (FED-26), brokers give the second as the trail of a delivery,
with the scopes that the event was in there, one of each dimension.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Collection
from itertools import islice, pairwise
from typing import Any, NamedTuple

from vicinal.event import Event

__all__ = ["VEHICLES", "Hop", "Path", "Paths", "hops_of"]

KEPT = 20_000
"""paths, of the last minutes"""
SAMPLES = 100_000
"""of each hop's latency"""
ERASED = "erased"
DIGITS = 18
"""of a time, and more than there will be"""
VEHICLES = "vehicles"
"""how links call them"""


class Hop(NamedTuple):
    where: str
    kind: str
    """vehicle, monitor, broker or office"""
    time: int
    scopes: tuple[tuple[str, ...], ...] = ()
    """of a broker: where it was when it came, and after each mapping"""


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


def hops_of(event: Event, received: int) -> tuple[Hop, ...]:
    """All but the brokers."""
    time = event.attrs.get("Time")
    found = [Hop(str(event.attrs.get("OriginProducer", event.producer)), "vehicle", time)] if type(time) is int else []
    trace = event.attrs.get("Trace")
    for hop in trace.split(", ") if type(trace) is str else ():
        where, _, at = hop.rpartition(" ")
        if at.isdecimal() and len(at) <= DIGITS:
            found.append(Hop(where, "monitor", int(at)))
    return (*found, Hop("office", "office", received))


class Paths:
    """A durable delivery has no trail, and a live one comes before it or after it: both are put together here, by the
    event's identity in the overlay."""

    def __init__(self) -> None:
        self._paths: dict[int, Path] = {}
        self._waiting: dict[Any, int] = {}
        """paths without their brokers"""
        self._trails: dict[Any, tuple[Hop, ...]] = {}
        """brokers without their path"""
        self._latency: dict[str, deque[int]] = {}
        self.links: dict[tuple[str, str], int] = {}
        """events that went from one to another; all vehicles are one, as they are many and come and go"""

    def add(self, identity: Any, path: Path) -> None:
        self._paths[path.number] = path
        if len(self._paths) > KEPT:
            del self._paths[next(iter(self._paths))]
        self._sample("whole", path.hops[0], path.hops[-1])
        for hop in path.hops[1:]:
            if hop.kind == "monitor":
                self._sample("air", path.hops[0], hop)
        trail = self._trails.pop(identity, None)
        if trail is None:
            _keep(self._waiting, identity, path.number)
        else:
            self._complete(path, trail)

    def trail(self, identity: Any, trail: tuple[Any, ...]) -> None:
        """Of a delivery: the brokers it went through, each once, however many scopes it came through there."""
        hops: tuple[Hop, ...] = ()
        for broker, state, at in trail:
            scopes = tuple([scope for scope, _ in state])
            if not hops or hops[-1].where != broker:
                hops += (Hop(broker, "broker", at, (scopes,)),)
            elif hops[-1].scopes[-1] != scopes:
                hops = (*hops[:-1], hops[-1]._replace(scopes=(*hops[-1].scopes, scopes)))
        path = self._paths.get(self._waiting.pop(identity, 0))
        if path is None:
            _keep(self._trails, identity, hops)
        else:
            self._complete(path, hops)

    def _complete(self, path: Path, trail: tuple[Hop, ...]) -> None:
        if not trail:
            return
        *before, office = path.hops
        hops = (*before, *trail, office)
        self._paths[path.number] = path._replace(hops=hops)
        for a, b in pairwise(hops):
            link = _place(a), _place(b)
            self.links[link] = self.links.get(link, 0) + 1
        if before:
            self._sample("uplink", before[-1], trail[0])
        self._sample("overlay", trail[0], trail[-1])
        self._sample("office", trail[-1], office)

    def _sample(self, name: str, a: Hop, b: Hop) -> None:
        self._latency.setdefault(name, deque(maxlen=SAMPLES)).append(b.time - a.time)

    @property
    def last(self) -> int:
        return next(reversed(self._paths), 0)

    def get(self, number: int) -> Path | None:
        return self._paths.get(number)

    def after(self, number: int, count: int) -> list[Path]:
        """Those after the one with this number, the oldest first."""
        first = max(number + 1, next(iter(self._paths), 1))
        return [self._paths[one] for one in range(first, min(first + count, self.last + 1))]

    def of(self, vehicle: str, seq: int) -> list[Path]:
        """One for each monitor that heard it."""
        return [path for path in self._paths.values() if path.seq == seq and path.vehicle == vehicle]

    def judge(self, monitor: str, vehicle: str, seq: int, verdict: str) -> None:
        """It turned out to be something else: who was not over the limit has no plate here."""
        for number, path in reversed(self._paths.items()):
            if path.seq == seq and path.vehicle == vehicle and path.monitor == monitor:
                params = {
                    name: value for name, value in path.params.items() if name != "license_no" or verdict == "over"
                }
                self._paths[number] = path._replace(verdict=verdict, params=params)
                break

    def latest(self, count: int, subject: str | None = None) -> list[Path]:
        found = []
        for path in reversed(self._paths.values()):
            if subject is None or path.subject == subject:
                found.append(path)
                if len(found) >= count:
                    break
        return found

    def erase(self, vehicles: Collection[str]) -> None:
        """What they were and where is gone, that something passed remains: numbers have no gaps."""
        for number, path in list(self._paths.items()):
            if path.vehicle in vehicles:
                self._paths[number] = _erased(path)

    def forget(self, before: int) -> None:
        """The same, of all that the office had before then."""
        for number, path in list(self._paths.items()):
            if path.hops[-1].time >= before:
                break
            self._paths[number] = _erased(path)

    def until(self, time: int) -> int:
        """The number of the last one that the office had by then; less than the first one's if there is none."""
        first = next(iter(self._paths), 1)
        numbers = range(first, self.last + 1)
        return first - 1 + bisect_right(numbers, time, key=lambda number: self._paths[number].hops[-1].time)

    def latency(self, last: int = SAMPLES) -> dict[str, dict[str, int]]:
        """ms, of each hop that there is, for the last so many events."""
        found = {}
        for name in ("air", "uplink", "overlay", "office", "whole"):
            times = sorted(islice(reversed(self._latency.get(name, ())), last))
            if times:
                found[name] = {
                    "p50": times[len(times) // 2], "p99": times[len(times) * 99 // 100], "max": times[-1],
                    "events": len(times),
                }  # fmt: skip
        return found


def _erased(path: Path) -> Path:
    """A vehicle's own gateway may be among the hops, by the vehicle's name."""
    hops = tuple(
        hop._replace(where=ERASED) if hop.kind == "vehicle" or hop.where == path.vehicle else hop for hop in path.hops
    )
    return path._replace(vehicle=ERASED, params={}, hops=hops)


def _place(hop: Hop) -> str:
    """m1 of m1/air-m1: a gateway's name is before the service that it heard the event from."""
    return VEHICLES if hop.kind == "vehicle" else hop.where.partition("/")[0]


def _keep(known: dict[Any, Any], key: Any, value: Any) -> None:
    known[key] = value
    if len(known) > KEPT:
        del known[next(iter(known))]
