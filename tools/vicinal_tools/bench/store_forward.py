"""Store and forward: how many events a second go through a queue of a gateway, on disk or not, and how late.

Producers have a window of accepts in flight, each awaited; a service takes what is handed out and acknowledges it at
once, after 2 ms as a broker nearby does, or after 50 ms as one behind a radio. What is acknowledged before its insert
was begun is never written: how much was is said beside it. Wall-clock time, as a disk is waited for, and CPU time.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from vicinal.event import Event
from vicinal_edge.store import Queue, QueueOptions, Store, StoredQueue

from . import Row

GOAL_MEMORY = 100_000
GOAL_DURABLE = 15_000
GOAL_P99_MS = 20
OFFERED = 5_000
WINDOW = 500
_EVENTS = 20_000
_ROUNDS = 3


class Measured(NamedTuple):
    rate: float
    cpu: float
    """events for a second of CPU"""
    late: float
    """p99, from its acceptance until it is handed out, in ms"""
    written: int


def rows(events: int = _EVENTS, rounds: int = _ROUNDS, folder: Path | None = None) -> Iterator[Row]:
    """`folder` must lie on a disk: on a tmpfs syncs cost nothing, and the figures mean nothing."""
    if folder is None:
        folder = Path("build")
        folder.mkdir(exist_ok=True)
    found: dict[str, list[Measured]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(dir=folder, prefix="bench-store-") as place:
            for name, work in (
                ("memory", _memory(events)),
                ("at once", _through(Path(place, "a"), events, 0.0)),
                ("2 ms", _through(Path(place, "b"), events, 0.002)),
                ("50 ms", _through(Path(place, "c"), events, 0.05)),
                ("offered", _offered(Path(place, "d"), events // 4)),
                ("backlog", _backlog(Path(place, "e"), events)),
            ):
                found.setdefault(name, []).append(asyncio.run(work))
    best = {name: max(results, key=lambda one: one.rate) for name, results in found.items()}
    cpu = {name: max(one.cpu for one in results) for name, results in found.items()}
    yield Row(
        "queue in memory: events through it",
        f"{cpu['memory']:,.0f} events for 1 s of CPU",
        "",
        "",
        f"{GOAL_MEMORY:,}/s",
        cpu["memory"] >= GOAL_MEMORY,
    )
    for name in ("at once", "2 ms", "50 ms"):
        one = best[name]
        yield Row(
            f"store: accepted and delivered, acknowledged {name if name == 'at once' else f'after {name}'}",
            f"{one.rate:,.0f} events/s",
            f"{cpu[name]:,.0f} for 1 s of CPU; {one.written * 100 // events} % were written",
            f"{cpu[name] / cpu['memory']:.2f} x in memory",
            "" if name == "50 ms" else f"{GOAL_DURABLE:,}/s",
            None if name == "50 ms" else one.rate >= GOAL_DURABLE,
        )
    late = min(one.late for one in found["offered"])
    yield Row(
        f"store: handed out after acceptance, {OFFERED:,} offered a second, p99",
        f"{late:.1f} ms",
        "",
        "",
        f"under {GOAL_P99_MS} ms",
        late < GOAL_P99_MS,
    )
    yield Row(
        "store: a backlog after a restart",
        f"{best['backlog'].rate:,.0f} events/s",
        f"{cpu['backlog']:,.0f} for 1 s of CPU",
    )


def _events(count: int) -> list[Event]:
    """As a gateway has them: their bytes are made when they are stored."""
    params = [("license_no", "00D12345"), ("rate", 57.2), ("lat", 533438000), ("lon", -62546000)]
    return [Event("Speed", params, {"Time": 1700000000000 + seq}, "car-7", seq) for seq in range(count)]


async def _memory(count: int) -> Measured:
    events = _events(count)
    queue = Queue("bus", QueueOptions(window=WINDOW), _clock, lambda: None)
    begin, cpu = time.perf_counter(), time.process_time()
    for start in range(0, count, 100):
        for event in events[start : start + 100]:
            queue.offer(event)
        taken = await queue.take(100)
        queue.done([number for number, _ in taken])
    spent, used = time.perf_counter() - begin, time.process_time() - cpu
    assert queue.counters()["delivered"] == count
    return Measured(count / spent, count / used, 0.0, 0)


async def _through(folder: Path, count: int, after: float) -> Measured:
    """Producers wait for their accepts, as an adapter does that acknowledges to its service."""
    events = _events(count)
    store, queue = await _opened(folder)
    serving = asyncio.create_task(_serve(queue, after, {}))

    async def produce(number: int) -> None:
        for event in events[number::WINDOW]:
            await queue.accept(event)

    begin, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(produce(number) for number in range(WINDOW)))
    while queue.counters()["stored"]:
        await asyncio.sleep(0.001)
    spent, used = time.perf_counter() - begin, time.process_time() - cpu
    written = count - queue.skipped
    await _close(store, serving)
    return Measured(count / spent, count / used, 0.0, written)


async def _offered(folder: Path, count: int) -> Measured:
    """As many a second as a CAN bus gives, whether or not they are accepted."""
    events = _events(count)
    store, queue = await _opened(folder)
    times: dict[int, float] = {}
    serving = asyncio.create_task(_serve(queue, 0.002, times))
    await queue.accept(events[0].replace(seq=count))
    begin = time.perf_counter()
    accepted: list[float] = []
    while len(accepted) < count:
        due = min(count, int((time.perf_counter() - begin) * OFFERED) + 1)
        for seq in range(len(accepted), due):
            accepted.append(time.perf_counter())
            queue.accept(events[seq])
        await asyncio.sleep(0.001)
    while queue.counters()["stored"]:
        await asyncio.sleep(0.001)
    late = sorted(times[seq] - accepted[seq] for seq in range(count))
    written = count - queue.skipped
    await _close(store, serving)
    return Measured(count / (time.perf_counter() - begin), 0.0, late[len(late) * 99 // 100] * 1e3, written)


async def _backlog(folder: Path, count: int) -> Measured:
    store, queue = await _opened(folder)
    events = _events(count)
    await asyncio.gather(*[queue.accept(event) for event in events])
    await store.close()
    begin, cpu = time.perf_counter(), time.process_time()
    store, queue = await _opened(folder)
    serving = asyncio.create_task(_serve(queue, 0.002, {}))
    while queue.counters()["stored"]:
        await asyncio.sleep(0.001)
    spent, used = time.perf_counter() - begin, time.process_time() - cpu
    await _close(store, serving)
    return Measured(count / spent, count / used, 0.0, count)


async def _opened(folder: Path) -> tuple[Store, StoredQueue]:
    store = await Store.open(folder / "store.sqlite")
    return store, await store.stored_queue("wide", QueueOptions(durable=True, window=WINDOW))


async def _serve(queue: StoredQueue, after: float, times: dict[int, float]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        taken = await queue.take(100)
        now = time.perf_counter()
        for _, event in taken:
            times[event.seq or 0] = now
        numbers = [number for number, _ in taken]
        if after:
            loop.call_later(after, queue.done, numbers)
        else:
            queue.done(numbers)


async def _close(store: Store, serving: "asyncio.Task[None]") -> None:
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    await store.close()


def _clock() -> int:
    return time.time_ns() // 1_000_000
