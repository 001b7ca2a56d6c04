"""Bits that flip and files that end too early: the store opens all the same, nothing wrong is sent, what is lost is
counted, and no number is given again."""

import asyncio
import os
import random
import shutil
from pathlib import Path

import pytest
from edge.store.mutants import apply

from vicinal.errors import VicinalError
from vicinal.event import Event
from vicinal_edge.store import DAMAGED, QueueOptions, Store, StoredQueue, StoreOptions

TIMES = 5000 if os.environ.get("VICINAL_SOAK") else 60
EVENTS = 400
OPTIONS = StoreOptions(ballast=0, cache_bytes=0)


def event(n: int) -> Event:
    return Event("Speed", [("rate", n), ("pad", f"{n:05d}" * (n % 40))], producer=f"car-{n % 5}", seq=n)


async def opened(folder: Path) -> tuple[Store, StoredQueue]:
    store = await Store.open(folder / "store.sqlite", OPTIONS)
    return store, await store.stored_queue("wide", QueueOptions(durable=True, window=50))


async def make(folder: Path) -> int:
    """A store with a backlog, of which some is under way; the highest number that was given."""
    store, queue = await opened(folder)
    await asyncio.gather(*[queue.accept(event(n)) for n in range(EVENTS)])
    taken = await queue.take(30)
    queue.done([number for number, _ in taken[:10]])
    await store.close()
    return max(number for number, _ in taken)


def damage(file: Path, chance: random.Random) -> None:
    data = bytearray(file.read_bytes())
    how = chance.random()
    if how < 0.15:
        del data[chance.randrange(len(data)) :]
    elif how < 0.3:
        at = chance.randrange(len(data))
        data[at : at + 4096] = bytes(4096)
    else:
        for _ in range(chance.choice([1, 1, 3, 30])):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    file.write_bytes(data)


async def look(folder: Path, highest: int) -> tuple[int, int]:
    """How many were sent, and how many are counted as damaged."""
    store, queue = await opened(folder)
    sent: list[Event] = []
    numbers: list[int] = []
    await queue.accept(event(EVENTS))
    async with asyncio.timeout(60):
        while queue.counters()["stored"]:
            taken = await queue.take(50)
            numbers += [number for number, _ in taken]
            for number, one in taken:
                attrs = {name: value for name, value in one.attrs.items() if name != "StoreSeq"}
                sent.append(one.replace(attrs=attrs))
                queue.done([number])
    found = queue.counters()
    assert found["accepted"] == found["delivered"] + sum(found["dropped"].values())
    await store.close()
    for one in sent:
        assert one == event(one.seq or 0), "sent, and not what was accepted"
    assert len({one.seq for one in sent}) == len(sent)
    assert event(EVENTS) in sent
    assert len(set(numbers)) == len(numbers)
    assert max(numbers) > highest, "the new one has a new number"
    return len(sent), found["dropped"].get(DAMAGED, 0)


def attack(folder: Path, seeds: range) -> list[tuple[int, int]]:
    good = folder / "good"
    highest = asyncio.run(make(good))
    found = []
    for seed in seeds:
        bad = folder / "bad"
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(good, bad)
        damage(bad / "store.sqlite", random.Random(seed))
        found.append(asyncio.run(look(bad, highest)))
    return found


def test_nothing_wrong_is_sent_and_what_is_lost_is_counted(tmp_path: Path) -> None:
    results = attack(tmp_path, range(TIMES))
    assert any(damaged for _, damaged in results)
    # Most of it is there, whatever happened to one page.
    assert sorted(sent for sent, _ in results)[len(results) // 4] > EVENTS // 2


def test_the_mutant_is_caught(tmp_path: Path) -> None:
    with apply("damage_not_noticed"), pytest.raises((AssertionError, VicinalError)):
        attack(tmp_path, range(max(200, TIMES)))


def test_no_store_at_all(tmp_path: Path) -> None:
    async def work() -> None:
        folder = tmp_path / "state"
        folder.mkdir()
        (folder / "store.sqlite").write_bytes(b"this was never a database, and is longer than its header" * 100)
        store, queue = await opened(folder)
        assert "not a database" in store.damaged
        assert store.counters()["set_aside"] == 1
        await queue.accept(event(1))
        await store.close()
        store, queue = await opened(folder)
        assert store.damaged == ""
        assert queue.counters()["stored"] == 1
        assert (folder / "store.sqlite.damaged").exists()
        await store.close()

    asyncio.run(work())


def large(n: int) -> Event:
    return event(n).replace(params=[("rate", n), ("pad", f"{n:05d}" * 1500)])


def test_a_file_that_is_damaged_while_it_is_open(tmp_path: Path) -> None:
    """More of it than SQLite has in memory."""

    async def work() -> None:
        folder = tmp_path / "state"
        store, queue = await opened(folder)
        await asyncio.gather(*[queue.accept(large(n)) for n in range(600)])
        await store.close()
        store, queue = await opened(folder)
        file = folder / "store.sqlite"
        size = file.stat().st_size
        with file.open("r+b") as opened_file:
            opened_file.seek(size // 4)
            opened_file.write(random.Random(1).randbytes(size // 2))
        accepted = 0
        async with asyncio.timeout(60):
            while queue.counters()["stored"]:
                for number, one in await queue.take(50):
                    assert one.replace(attrs={}) == large(one.seq or 0)
                    queue.done([number])
                if accepted < 3:
                    done = queue.accept(large(600 + accepted))
                    await asyncio.wait([done])
                    accepted += done.exception() is None
        found = queue.counters()
        assert found["accepted"] == found["delivered"] + sum(found["dropped"].values())
        assert 100 < found["dropped"][DAMAGED] < 600
        assert accepted == 3
        await store.close()
        store, queue = await opened(folder)
        assert queue.counters()["stored"] == 0
        await store.close()

    asyncio.run(work())
