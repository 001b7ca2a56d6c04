"""Who sends how much to whom, and one run of it with one system."""

import multiprocessing
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from .clients import PROTOCOLS
from .events import condition
from .systems import started
from .workers import Published, Received, publish, subscribe

__all__ = ["SCENARIOS", "Lost", "Run", "Scenario", "median", "run", "rounds"]

FAN = 100
BY_CONNECTION = 10
# Connection c subscribes to the steps (c + offset) % 100: ten different ones, and ten connections for each step.
_OFFSETS = (0, 3, 11, 23, 34, 47, 55, 68, 81, 92)
# Each event is a hundred deliveries there.
WIDE = 400
PACE = 250
_READY_SECONDS = 120


class Scenario(NamedTuple):
    name: str
    what: str
    publishers: int = 1
    subscribers: int = 1
    content: bool = False
    """each subscriber wants a tenth of the events, with ten filters"""
    a_write: int = 100
    window: int = 2_000
    """how many events the publishers may be ahead of the subscribers"""
    pace: int = 0
    most: int = 500_000
    seconds: float = 1.5
    timed: bool = False


SCENARIOS = {
    one.name: one
    for one in (
        Scenario("1to1", "1 -> 1, flood"),
        Scenario("fanin", f"{FAN} -> 1, flood", publishers=FAN, a_write=10),
        Scenario("fanout", f"1 -> {FAN}, flood", subscribers=FAN, window=WIDE, most=60_000),
        Scenario("content", "1,000 filters, flood", subscribers=FAN, content=True, window=WIDE, most=60_000),
    )
}


class Lost(Exception):
    """A run that does not count, because not everything that was published arrived once."""


class Run(NamedTuple):
    system: str
    events: int
    deliveries: int
    """those that the subscribers wanted"""
    seconds: float
    broker_cpu: float
    clients_cpu: float
    memory: int

    @property
    def rate(self) -> float:
        """Wanted deliveries a second."""
        return self.deliveries / self.seconds

    @property
    def broker_us(self) -> float:
        return self.broker_cpu / self.deliveries * 1e6

    @property
    def system_us(self) -> float:
        return (self.broker_cpu + self.clients_cpu) / self.deliveries * 1e6


def run(scenario: Scenario, system: str, durable: Path | None = None) -> Run:
    """Raises Lost."""
    wanted = [[(c + offset) % 100 for offset in _OFFSETS] for c in range(scenario.subscribers)]
    if scenario.content:
        filters = [[condition(step, variant) for variant, step in enumerate(steps)] for steps in wanted]
        useful = BY_CONNECTION * scenario.subscribers // 100
    else:
        filters = [["subject = 'Speed'"] for _ in wanted]
        useful = scenario.subscribers
    looks = scenario.content and not PROTOCOLS[system].filters
    an_event = scenario.subscribers if looks else useful
    with started(system, durable) as broker:
        tickets_in, tickets_out = multiprocessing.Pipe(duplex=False)
        subscribers = _Worker(
            subscribe,
            system,
            broker.port,
            filters,
            wanted if looks else [],
            an_event,
            scenario.window,
            scenario.timed,
            more=tickets_out,
        )
        publishers = _Worker(
            publish,
            system,
            broker.port,
            scenario.publishers,
            scenario.most,
            scenario.a_write,
            scenario.window,
            scenario.pace,
            scenario.seconds,
            more=tickets_in,
        )
        with subscribers, publishers:
            subscribers.receive()
            publishers.receive()
            cpu = broker.cpu()
            subscribers.control.send("go")
            publishers.control.send("go")
            published: Published = publishers.receive()
            subscribers.control.send(published.events)
            received: Received = subscribers.receive()
            cpu = broker.cpu() - cpu
            memory = broker.peak_memory()
            publishers.control.send("done")
    if received.wrong:
        raise Lost(f"{system}, {scenario.what}: of {published.events:,} events: {received.wrong}")
    if (received.deliveries, received.useful) != (published.events * an_event, published.events * useful):
        raise Lost(f"{system}, {scenario.what}: {published.events:,} events, {received.useful:,} wanted deliveries")
    return Run(
        system,
        published.events,
        received.useful,
        received.ended - published.began,
        cpu,
        published.cpu + received.cpu,
        memory,
    )


class _Worker:
    """A process of clients."""

    def __init__(self, target: Callable[..., None], *arguments: Any, more: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.control, theirs = context.Pipe()
        self.process = context.Process(target=target, args=(*arguments, theirs, more), daemon=True)
        self.process.start()
        theirs.close()

    def receive(self) -> Any:
        if not self.control.poll(_READY_SECONDS):
            raise TimeoutError(f"the clients have said nothing for {_READY_SECONDS} s")
        return self.control.recv()

    def __enter__(self) -> "_Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.join()
        self.control.close()


def rounds(scenario: Scenario, systems: tuple[str, ...], count: int) -> dict[str, list[Run]]:
    """Systems take turns, so that a slow moment slows all of them. Raises Lost."""
    found: dict[str, list[Run]] = {system: [] for system in systems}
    for _ in range(count):
        for system in systems:
            found[system].append(run(scenario, system))
    return found


def median(runs: list[Run], figure: Callable[[Run], float]) -> float:
    return statistics.median([figure(one) for one in runs])
