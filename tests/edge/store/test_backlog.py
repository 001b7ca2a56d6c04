"""A long outage: what is kept in memory for it, and starting again with it."""

import asyncio
import tracemalloc
from pathlib import Path

from vicinal.event import Event
from vicinal.federation.outbox import NEVER, Outbox
from vicinal_edge._store_queue import OVERHEAD
from vicinal_edge.store import QueueOptions, Store, StoreOptions

BACKLOG = 100_000
# 256 MB of events of 130 bytes, and 64 for each, in 100 MB.
MOST_FOR_ONE = (100 << 20) // ((256 << 20) // (130 + OVERHEAD))


def event(n: int) -> Event:
    return Event("Speed", [("rate", n)], {"Priority": 2000 if n % 1000 == 7 else 0}, producer=f"car-{n % 100}", seq=n)


def test_the_index_takes_few_bytes_for_each() -> None:
    tracemalloc.start()
    try:
        box = Outbox(1 << 30, 1 << 30)
        before, _ = tracemalloc.get_traced_memory()
        count = 60_000
        for n in range(count):
            box.accept(1 << 50 | n, f"car-{n % 100}", n % 7, 1 << 41 if n % 2 else NEVER, 194, 0)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / count < MOST_FOR_ONE


def test_what_flows_through_leaves_nothing_behind() -> None:
    tracemalloc.start()
    try:
        box = Outbox(1 << 30, 1 << 30)
        box.accept(1, "slow", -5, NEVER, 100, 0)  # stays, behind all others
        sizes = []
        for n in range(2, 20_000):
            box.accept(n, f"car-{n % 1000}", 0, 1 << 41, 100, 0)
            (one,) = box.take(1, 0)
            box.done([one.number])
            if n in (8_000, 19_999):
                sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert box.count == 1
    assert sizes[1] < sizes[0] + 50_000


def test_restarts_with_a_backlog(tmp_path: Path) -> None:
    async def work() -> None:
        path = tmp_path / "store.sqlite"
        options, wide = StoreOptions(), QueueOptions(durable=True)
        store = await Store.open(path, options)
        queue = await store.stored_queue("wide", wide)
        for start in range(0, BACKLOG, 10_000):
            await asyncio.gather(*[queue.accept(event(n)) for n in range(start, start + 10_000)])
        await store.close()
        found: dict[str, list[int]] = {}
        numbers: list[int] = []
        for life in range(3):
            store = await Store.open(path, options)
            queue = await store.stored_queue("wide", wide)
            while len(numbers) < BACKLOG * (life + 1) // 3:
                taken = await queue.take(500)
                for number, one in taken:
                    numbers.append(number)
                    found.setdefault(one.producer or "", []).append(one.seq or 0)
                queue.done([number for number, _ in taken])
            counters = queue.counters()
            assert counters["accepted"] == BACKLOG == counters["stored"] + counters["delivered"]
            await store.close()
        assert numbers == sorted(set(numbers))
        assert all(seqs == sorted(set(seqs)) for seqs in found.values())
        assert sum(map(len, found.values())) == BACKLOG
        # The urgent ones, and what their producers had before them, were first.
        assert found["car-7"][-1] == BACKLOG - 93

    asyncio.run(work())
    assert (tmp_path / "store.sqlite").stat().st_size < 60 << 20
