"""Who sends how much to whom, and one run of it with one system."""

import multiprocessing
import statistics
import subprocess
import sys
import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from .clients import PROTOCOLS
from .durable import PublishingDurably
from .events import SHORT_STEP, STEPS, are_short, condition, step_of
from .systems import Process, started
from .workers import Published, Publishing, Received, Subscribing

__all__ = ["SCENARIOS", "Lost", "Outcome", "Run", "Scenario", "percentile", "rounds", "run"]

FAN = 100
PACE = 250
# Connection c subscribes to the steps (c + offset) % 100: ten different ones, and ten connections for each step.
_OFFSETS = (0, 3, 11, 23, 34, 47, 55, 68, 81, 92)
# Events ahead where an event is a hundred deliveries.
_WIDE = 400
_SAY_SECONDS = 60
_WORKER = [sys.executable, "-c", "from vicinal_tools.bench.peers.workers import main; main()"]


class Scenario(NamedTuple):
    name: str
    what: str
    publishers: int = 1
    subscribers: int = 1
    filters: int = 0
    """how many on content each subscriber has, each true of one event in a hundred; 0: it wants everything. With them
    there are as many subscribers as there are steps, so that each event is for the same number"""
    a_write: int = 100
    window: int = 2_000
    """how many events the publishers may be ahead of the subscribers"""
    pace: int = 0
    most: int = 500_000
    seconds: float = 1.5
    timed: bool = False
    durable: bool = False
    mixed: bool = False
    """whether events have several sizes"""

    @property
    def is_ours(self) -> bool:
        """Whether it is for Vicinal alone: who must look at what comes finds the byte by counting in one size."""
        return self.durable or (self.mixed and self.filters > 0)


def _paced(name: str, what: str, **more: Any) -> Scenario:
    return Scenario(name, f"{what}, {PACE}/s", a_write=1, pace=PACE, most=PACE * 3, seconds=60, **more)


SCENARIOS = {
    one.name: one
    for one in (
        Scenario("1to1", "1 -> 1, flood"),
        Scenario("1to1-mixed", "1 -> 1, flood, events of mixed sizes", mixed=True),
        Scenario("fanin", f"{FAN} -> 1, flood", publishers=FAN, window=FAN * 200),
        Scenario("fanin-mixed", f"{FAN} -> 1, flood, mixed sizes", publishers=FAN, window=FAN * 200, mixed=True),
        Scenario("fanout", f"1 -> {FAN}, flood", subscribers=FAN, window=_WIDE, most=100_000),
        Scenario(
            "fanout-mixed", f"1 -> {FAN}, flood, mixed sizes", subscribers=FAN, window=_WIDE, most=100_000, mixed=True
        ),
        Scenario("content", "1,000 filters, flood", subscribers=FAN, filters=10, window=_WIDE, most=200_000),
        Scenario(
            "content-mixed",
            "1,000 filters, flood, mixed sizes",
            subscribers=FAN,
            filters=10,
            window=_WIDE,
            most=200_000,
            mixed=True,
        ),
        _paced("1to1-paced", "1 -> 1"),
        _paced("fanout-paced", f"1 -> {FAN}", subscribers=FAN),
        _paced("content-paced", "1,000 filters", subscribers=FAN, filters=10),
        Scenario("latency", "1 -> 1, 1,000/s", a_write=1, pace=1_000, most=2_500, seconds=60, timed=True),
        Scenario("durable", "durable publish", most=200_000, durable=True),
    )
}


class Lost(Exception):
    """A run that does not count: what was published did not all come once, or the clients could not go on."""


class Run(NamedTuple):
    events: int
    deliveries: int
    """those that the subscribers wanted"""
    seconds: float
    broker_cpu: float
    clients_cpu: float
    memory: int
    """of the broker, at its most"""
    late: list[float]
    """how long each event, or each acknowledgement, took, sorted; if the scenario asks for it"""
    kept: list[bytes]
    """all that came, by connection, if that was asked for"""

    @property
    def rate(self) -> float:
        """Wanted deliveries a second."""
        return self.deliveries / self.seconds

    @property
    def broker_us(self) -> float:
        """Microseconds of CPU for a wanted delivery."""
        return self.broker_cpu / self.deliveries * 1e6

    @property
    def system_us(self) -> float:
        """The same of broker, publishers and subscribers."""
        return (self.broker_cpu + self.clients_cpu) / self.deliveries * 1e6


class Outcome(NamedTuple):
    runs: list[Run]
    lost: list[str]

    def median(self, figure: Callable[[Run], float]) -> float:
        return statistics.median([figure(one) for one in self.runs])


def rounds(scenario: Scenario, systems: tuple[str, ...], count: int, place: Path) -> dict[str, Outcome]:
    """Systems take turns, so that a slow moment slows all of them."""
    found = {system: Outcome([], []) for system in systems}
    for _ in range(count):
        for system in systems:
            try:
                found[system].runs.append(run(scenario, system, place))
            except Lost as lost:
                found[system].lost.append(str(lost))
    return found


def run(scenario: Scenario, system: str, place: Path, keep: bool = False) -> Run:
    """With a fresh broker. `place` is a folder on a disk, for a log if the scenario is durable. Raises Lost. To `keep`
    what came is for tests: it takes time."""
    wanted = [[(c + offset) % STEPS for offset in _OFFSETS[: scenario.filters]] for c in range(scenario.subscribers)]
    looks = bool(scenario.filters) and not PROTOCOLS[system].filters
    by_event = scenario.filters or scenario.subscribers
    with (
        tempfile.TemporaryDirectory(dir=place, prefix="bench-peers-") as log,
        started(system, Path(log) if scenario.durable else None) as broker,
    ):
        subscribing = Subscribing(
            system,
            broker.port,
            [[condition(step, n) for n, step in enumerate(steps)] or ["subject = 'Speed'"] for steps in wanted],
            wanted if looks else [],
            scenario.subscribers if looks else by_event,
            scenario.window,
            scenario.timed,
            [not some or SHORT_STEP in some for some in wanted] if scenario.mixed else [],
            keep,
        )
        publishing = _publishing(scenario, system, broker.port)
        published, received, cpu = _run(broker, subscribing, publishing)
        memory = broker.peak_memory()
    where = f"{system}: {scenario.what}: {published.events:,} events"
    if received.wrong:
        raise Lost(f"{where}: {received.wrong}")
    if published.stuck:
        raise Lost(f"{where}: the publishers waited in vain for the subscribers")
    _check(where, received, published, wanted, looks)
    late = published.sent if scenario.durable else _late(published.sent, received.times)
    ended = published.ended if scenario.durable else received.ended
    seconds = ended - published.began
    clients = published.cpu + received.cpu
    return Run(published.events, sum(received.useful), seconds, cpu, clients, memory, sorted(late), received.kept)


def _check(where: str, received: Received, published: Published, wanted: list[list[int]], looks: bool) -> None:
    """Every connection got as many as it wants, and those that must look everything."""
    events = published.events
    flags = are_short(events) if published.short and any(wanted) else [False] * events
    steps = Counter([SHORT_STEP if is_short else step_of(number) for number, is_short in enumerate(flags)])
    useful = [sum(steps[step] for step in some) if some else events for some in wanted]
    for what, got, want in (
        ("deliveries", received.deliveries, [events] * len(wanted) if looks else useful),
        ("wanted deliveries", received.useful, useful),
    ):
        for number, (one, right) in enumerate(zip(got, want)):
            if one != right:
                raise Lost(f"{where}: {one:,} {what} to connection {number}, want {right:,}")


def _publishing(scenario: Scenario, system: str, port: int) -> "Publishing | PublishingDurably":
    if scenario.durable:
        return PublishingDurably(port, scenario.most, scenario.seconds)
    return Publishing(
        system,
        port,
        scenario.publishers,
        scenario.most,
        scenario.a_write,
        scenario.window,
        scenario.pace,
        scenario.seconds,
        scenario.mixed,
    )


def _run(
    broker: Process, subscribing: Subscribing, publishing: "Publishing | PublishingDurably"
) -> tuple[Published, Received, float]:
    tickets_in, tickets_out = multiprocessing.Pipe(duplex=False)
    with (
        tickets_in,
        tickets_out,
        _Worker(subscribing, tickets_out) as subscribers,
        _Worker(publishing, tickets_in) as publishers,
    ):
        subscribers.receive()
        publishers.receive()
        cpu = broker.cpu()
        subscribers.control.send("go")
        publishers.control.send("go")
        published: Published = publishers.receive()
        subscribers.control.send((published.events, published.short))
        received: Received = subscribers.receive()
        return published, received, broker.cpu() - cpu


class _Worker:
    """A process of clients."""

    def __init__(self, job: "Publishing | PublishingDurably | Subscribing", tickets: Connection) -> None:
        self.control, theirs = multiprocessing.Pipe()
        with theirs:
            descriptors = (theirs.fileno(), tickets.fileno())
            self.process = subprocess.Popen([*_WORKER, *map(str, descriptors)], pass_fds=descriptors)
        self.control.send(job)

    def receive(self) -> Any:
        if not self.control.poll(_SAY_SECONDS):
            raise Lost(f"the clients have said nothing for {_SAY_SECONDS} s")
        try:
            return self.control.recv()
        except EOFError as error:
            raise Lost(f"the clients ended with exit code {self.process.wait()}") from error

    def __enter__(self) -> "_Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.control.close()


def _late(sent: list[float], times: list[tuple[float, int]]) -> list[float]:
    """For each event, from when it was sent to the first time that more than those before it had come."""
    counts = [count for _, count in times]
    return [times[bisect_right(counts, number)][0] - when for number, when in enumerate(sent)] if times else []


def percentile(late: list[float], percent: int) -> float:
    """Of what is sorted."""
    return late[len(late) * percent // 100]
