"""A disk that is full, now and then or for ever: no false acceptance, every refusal counted, and it goes on by itself
when there is room. A real file system, as small as the test."""

import asyncio
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from edge.store.sink import Identity, Sink, judge

from vicinal.event import Event
from vicinal_edge.store import NO_SPACE, Dropped, QueueOptions, Store, StoredQueue, StoreOptions

OPTIONS = StoreOptions(ballast=2 << 20, retry=0.05, cache_bytes=0)
FILLS = 200 if os.environ.get("VICINAL_SOAK") else 8


def why_not() -> str:
    if os.geteuid() != 0:
        return "mounting needs root"
    return "" if shutil.which("mount") else "no mount"


pytestmark = pytest.mark.skipif(bool(why_not()), reason=f"FULL DISKS NOT TESTED: {why_not()}")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)  # a test that failed may still have it open


def fill(folder: Path) -> None:
    """To the last byte."""
    with (folder / "filler").open("ab", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def make_room(folder: Path) -> None:
    (folder / "filler").unlink()


def event(n: int, producer: str = "car-7") -> Event:
    return Event("Speed", [("rate", n), ("pad", "x" * 300)], producer=producer, seq=n)


async def opened(folder: Path) -> tuple[Store, StoredQueue]:
    store = await Store.open(folder / "store.sqlite", OPTIONS)
    return store, await store.stored_queue("wide", QueueOptions(durable=True, window=20))


def books(queue: StoredQueue) -> bool:
    found = queue.counters()
    return bool(found["accepted"] == found["delivered"] + found["stored"] + sum(found["dropped"].values()))


async def fill_until_refused(store: Store, queue: StoredQueue, folder: Path, first: int = 0) -> tuple[list[int], int]:
    """Those that were accepted, and the next."""
    fill(folder)
    kept = []
    for n in range(first, first + 100_000):
        try:
            await queue.accept(event(n))
            kept.append(n)
        except Dropped:
            return kept, n + 1
    raise AssertionError("there is no end of the room")


def test_refused_while_it_is_full_and_taken_when_it_is_not(small: Path) -> None:
    async def work() -> None:
        store, queue = await opened(small)
        kept, n = await fill_until_refused(store, queue, small)
        fill(small)  # also what the store has given up to go on
        for _ in range(3):
            with pytest.raises(Dropped, match=NO_SPACE):
                await queue.accept(event(n))
        assert store.broken == NO_SPACE
        assert queue.counters()["dropped"] == {NO_SPACE: 4}
        assert books(queue)
        make_room(small)
        async with asyncio.timeout(30):
            while True:
                try:
                    n += 1
                    await queue.accept(event(n))
                    break
                except Dropped:
                    continue
        assert store.broken == ""
        await store.close()
        store, queue = await opened(small)
        assert queue.counters()["stored"] == len(kept) + 1
        assert books(queue)
        found: list[int] = []
        while len(found) <= len(kept):
            for number, one in await queue.take(50):
                found.append(int(one["rate"]))  # type: ignore[arg-type]
                queue.done([number])
        assert found == [*kept, n]
        await store.close()

    asyncio.run(work())


def test_what_is_stored_goes_out_though_nothing_can_be_written(small: Path) -> None:
    """To make room, room is needed: the ballast is given up for it."""

    async def work() -> None:
        store, queue = await opened(small)
        for n in range(500):
            await queue.accept(event(n))
        kept, _ = await fill_until_refused(store, queue, small, 500)
        total = 500 + len(kept)
        found: list[int] = []
        async with asyncio.timeout(60):
            while len(found) < total:
                for number, one in await queue.take(50):
                    found.append(int(one["rate"]))  # type: ignore[arg-type]
                    queue.done([number])
        assert found == list(range(total))
        # What was deleted is room for others, too, and none of the filler has gone.
        async with asyncio.timeout(30):
            while True:
                try:
                    await queue.accept(event(0, "other"))
                    break
                except Dropped:
                    continue
        assert books(queue)
        await store.close()

    asyncio.run(work())


def test_what_the_service_takes_goes_on_without_a_disk(small: Path) -> None:
    async def work() -> None:
        store, queue = await opened(small)

        async def service() -> None:
            while True:
                taken = await queue.take(20)
                await asyncio.sleep(0.001)
                queue.done([number for number, _ in taken])

        serving = asyncio.create_task(service())
        await queue.accept(event(0))
        while queue.counters()["stored"]:
            await asyncio.sleep(0.001)
        fill(small)
        for n in range(1, 50):
            assert await queue.accept(event(n)), "delivered, if not on disk"
        assert queue.counters()["delivered"] == 50
        assert books(queue)
        serving.cancel()
        make_room(small)
        await store.close()

    asyncio.run(work())


def test_what_was_sent_and_not_answered_is_not_counted_as_dropped(small: Path) -> None:
    """The service may have it, so that it goes again; what was not sent yet is refused."""

    async def work() -> None:
        store, queue = await opened(small)
        await fill_until_refused(store, queue, small)
        while queue.counters()["stored"]:
            queue.done([number for number, _ in await queue.take(20)])
        fill(small)
        before = queue.counters()
        waits = asyncio.create_task(queue.take(1))
        await asyncio.sleep(0)
        sent, other = queue.accept(event(1, "sent")), queue.accept(event(1, "other"))
        ((number, _),) = await waits
        queue.failed()
        with pytest.raises(Dropped, match=NO_SPACE):
            await other
        assert not sent.done()
        ((again, one),) = await queue.take(1)
        assert (again, one.producer) == (number, "sent")
        queue.done([again])
        assert await sent
        after = queue.counters()
        assert after["delivered"] == before["delivered"] + 1
        assert after["dropped"][NO_SPACE] == before["dropped"][NO_SPACE] + 1
        assert books(queue)
        make_room(small)
        await store.close()

    asyncio.run(work())


def test_full_and_not_full_at_random_loses_nothing_that_was_accepted(small: Path) -> None:
    chance = random.Random(7)
    sink = Sink()
    attempted: set[Identity] = set()
    accepted: set[Identity] = set()

    async def life(number: int) -> None:
        store, queue = await opened(small)

        async def service() -> None:
            while True:
                taken = await queue.take(chance.randrange(1, 20))
                for number, one in taken:
                    assert one.identity is not None
                    sink.hear(number, one.identity)
                if chance.random() < 0.1:
                    queue.failed()
                else:
                    await asyncio.sleep(chance.random() * 0.003)
                    queue.done([number for number, _ in taken])

        def told(identity: Identity, done: "asyncio.Future[int]") -> None:
            if done.exception() is None:
                accepted.add(identity)

        serving = asyncio.create_task(service())
        for n in range(600):
            identity = (f"car-{n % 3}", number * 1000 + n)
            attempted.add(identity)
            done = queue.accept(event(identity[1], identity[0]))
            done.add_done_callback(lambda done, identity=identity: told(identity, done))  # type: ignore[misc]
            if n % 150 == 50:
                fill(small)
            if n % 150 == 130:
                make_room(small)
            if chance.random() < 0.2:
                await asyncio.sleep(0.002)
            assert books(queue)
        if number == FILLS - 1:
            while queue.counters()["stored"]:
                await asyncio.sleep(0.01)
        serving.cancel()
        await store.close()
        await asyncio.sleep(0)

    for number in range(FILLS):
        asyncio.run(life(number))
    verdict = judge(sink, accepted, attempted)
    assert not verdict, verdict
    assert len(accepted) > 100
