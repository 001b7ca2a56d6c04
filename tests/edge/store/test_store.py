"""What a store does, one thing at a time. What it does when everything happens at once is in test_model.py."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from vicinal import limits
from vicinal.event import Event
from vicinal.federation.drop_policy import Class
from vicinal_edge.store import (
    TOO_SLOW,
    Dropped,
    Queue,
    QueueOptions,
    Store,
    StoredQueue,
    StoreInUse,
    StoreOptions,
)

NOW = 1_700_000_000_000
HOUR = 3_600_000
YEAR = 365 * 24 * HOUR
HERE = (533498000, -62603000)


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now


def event(n: int, producer: str = "car-7", **attrs: Any) -> Event:
    return Event("Speed", [("rate", n)], attrs, producer=producer, seq=n)


def books(queue: Queue) -> bool:
    found = queue.counters()
    return bool(found["accepted"] == found["delivered"] + found["stored"] + sum(found["dropped"].values()))


class Rig:
    """A store that is closed and opened again."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.path = folder / "state" / "store.sqlite"
        self.clock = Clock()
        self.options = StoreOptions(**options)
        self.queue_options = QueueOptions(durable=True)
        self.position: tuple[int, int] | None = None
        self.store: Store
        self.queue: StoredQueue

    async def open(self, **queue: Any) -> StoredQueue:
        self.store = await Store.open(self.path, self.options, self.clock, lambda: self.position)
        self.queue = await self.store.stored_queue("wide", QueueOptions(durable=True, **queue))
        return self.queue

    async def take(self, count: int) -> list[tuple[int, Event]]:
        found: list[tuple[int, Event]] = []
        async with asyncio.timeout(30):
            while len(found) < count:
                found += await self.queue.take(count - len(found))
        return found

    async def nothing(self) -> bool:
        """Nothing is given, for a while."""
        try:
            async with asyncio.timeout(0.1):
                found = await self.queue.take(1)
        except TimeoutError:
            return True
        raise AssertionError(found)


def run(work: Callable[[Rig], Awaitable[None]], folder: Path, **options: Any) -> None:
    async def whole() -> None:
        rig = Rig(folder, **options)
        try:
            await work(rig)
        finally:
            await rig.store.close()

    asyncio.run(whole())


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


def rates(taken: list[tuple[int, Event]]) -> list[Any]:
    return [one["rate"] for _, one in taken]


def test_what_was_accepted_is_there_after_a_restart(tmp_path: Path) -> None:
    async def work(rig: Rig) -> None:
        queue = await rig.open()
        ids = [await queue.accept(event(n)) for n in range(5)]
        assert ids == sorted(set(ids))
        await rig.store.close()
        queue = await rig.open()
        assert queue.counters()["stored"] == 5
        assert await queue.accept(event(5)) > ids[-1]
        taken = await rig.take(6)
        assert rates(taken) == list(range(6))
        assert [one.identity for _, one in taken] == [("car-7", n) for n in range(6)]
        assert [one.attrs["StoreSeq"] for _, one in taken] == [number for number, _ in taken]
        queue.done([number for number, _ in taken])
        await rig.store.close()
        queue = await rig.open()
        found = queue.counters()
        assert (found["accepted"], found["delivered"], found["stored"]) == (6, 6, 0)

    run(work, tmp_path)


def test_numbers_and_ids_are_never_given_again(tmp_path: Path) -> None:
    """Also where all rows were deleted, and where the clock is wrong."""

    async def work(rig: Rig) -> None:
        numbers: list[int] = []
        ids: list[int] = []
        for jump in (0, -HOUR, -10 * YEAR, 10 * YEAR):
            rig.clock.now = NOW + jump
            queue = await rig.open()
            for n in range(40):
                accepted = queue.accept(event(n))
                while accepted.done() and accepted.exception():  # until the next block is reserved
                    await asyncio.sleep(0.001)
                    accepted = queue.accept(event(n))
                ((number, _),) = await rig.take(1)
                numbers.append(number)
                queue.done([number])
                ids.append(await accepted)
            await rig.store.close()
        assert numbers == sorted(set(numbers))
        assert ids == sorted(set(ids))

    run(work, tmp_path, block=30)


def test_what_is_under_way_comes_again_under_its_number(tmp_path: Path) -> None:
    async def work(rig: Rig) -> None:
        queue = await rig.open(window=3)
        for n in range(6):
            await queue.accept(event(n))
        first = await rig.take(3)
        assert await rig.nothing(), "the window is full"
        await rig.store.close()
        queue = await rig.open(window=3)
        await queue.accept(event(9, Priority=3000))
        again = await rig.take(3)
        assert again == first
        queue.done([number for number, _ in again])
        rest = await rig.take(3)
        # The urgent one brings its producer's earlier ones with it: all of them.
        assert rates(rest) == [3, 4, 5]
        assert rest[0][0] > again[-1][0]

    run(work, tmp_path)


def test_what_the_service_has_at_once_is_never_written(tmp_path: Path) -> None:
    async def work(rig: Rig) -> None:
        queue = await rig.open()

        async def service() -> None:
            queue.done([number for number, _ in await queue.take(9)])

        taking = asyncio.create_task(service())
        await until(lambda: rig.store.commits)  # numbers are reserved
        commits = rig.store.commits
        accepted = [queue.accept(event(n)) for n in range(3)]
        await taking
        assert [done.done() for done in accepted] == [True] * 3
        await asyncio.sleep(0.05)
        assert rig.store.commits == commits
        found = queue.counters()
        assert (found["never_written"], found["accepted"], found["delivered"], found["stored"]) == (3, 3, 3, 0)

    run(work, tmp_path)


def test_an_insert_may_wait_for_the_acknowledgement(tmp_path: Path) -> None:
    async def work(rig: Rig) -> None:
        queue = await rig.open()
        taking = asyncio.create_task(queue.take(9))
        await until(lambda: rig.store.commits)
        commits = rig.store.commits
        first = queue.accept(event(1))
        ((number, _),) = await taking
        await asyncio.sleep(0.1)
        assert not first.done()
        queue.done([number])
        assert first.done()
        second = queue.accept(event(2))  # nobody acknowledges it
        async with asyncio.timeout(30):
            await second
        assert rig.store.commits == commits + 1

    run(work, tmp_path, linger=0.4)


def test_urgent_first_and_each_producer_in_order(tmp_path: Path) -> None:
    async def work(rig: Rig) -> None:
        queue = await rig.open()
        for n, producer, priority in [(1, "a", 0), (2, "b", 0), (3, "a", 2000), (4, "c", 5)]:
            await queue.accept(event(n, producer, Priority=priority))
        assert rates(await rig.take(4)) == [1, 3, 4, 2]

    run(work, tmp_path)


def test_a_failure_sends_again_in_order_and_before_others(tmp_path: Path) -> None:
    async def work(rig: Rig) -> None:
        queue = await rig.open(window=4)
        for n in range(6):
            queue.accept(event(n))
        first = await rig.take(3)
        queue.accept(event(7, Priority=5000, producer="x"))
        queue.failed()
        again = await rig.take(4)
        assert again[:3] == first
        queue.done([number for number, _ in again])
        rest = await rig.take(3)
        numbers = [number for number, _ in again + rest]
        assert numbers == sorted(set(numbers))
        assert sorted(rates(again + rest)) == [0, 1, 2, 3, 4, 5, 7]

    run(work, tmp_path)


def test_the_expired_are_dropped_and_counted_wherever_they_are(tmp_path: Path) -> None:
    async def work(rig: Rig) -> None:
        queue = await rig.open(window=2)
        for n in range(6):
            await queue.accept(event(n, Expires=NOW + 1000 if n % 2 else NOW + HOUR))
        late = queue.accept(event(9, Expires=NOW - 1))
        with pytest.raises(Dropped, match="expired"):
            await late
        ((number, one),) = await rig.take(1)
        rig.clock.now += 1001
        queue.failed()
        queue.refused(number, "made room")
        assert one["rate"] == 0
        assert rates(await rig.take(2)) == [2, 4]
        queue.sweep()  # the last of them waits behind
        assert queue.counters()["dropped"] == {"expired": 4, "made room": 1}
        assert books(queue)

    run(work, tmp_path)


@pytest.mark.parametrize("jump", [-10 * YEAR, -HOUR, HOUR, 10 * YEAR])
def test_a_clock_that_jumps_loses_nothing_that_has_not_expired(tmp_path: Path, jump: int) -> None:
    async def work(rig: Rig) -> None:
        queue = await rig.open(rate=200, burst=5)
        for n in range(10):
            await queue.accept(event(n, Expires=NOW + 2 * HOUR) if n % 2 else event(n))
        rig.clock.now += jump
        ticking = asyncio.create_task(tick(rig.clock))
        found = await rig.take(5 if jump == 10 * YEAR else 10)
        ticking.cancel()
        assert rates(found) == ([0, 2, 4, 6, 8] if jump == 10 * YEAR else list(range(10)))
        assert books(queue)

    async def tick(clock: Clock) -> None:
        while True:
            await asyncio.sleep(0.005)
            clock.now += 5

    run(work, tmp_path)


def test_what_left_its_proximity_is_not_for_a_bus_here(tmp_path: Path) -> None:
    near, far = "0, 0, 53.3498, -6.2603, 500", "0, 0, 52.3498, -6.2603, 500"

    async def work(rig: Rig) -> None:
        queue = await rig.open(located=True)
        for n in range(4):
            await queue.accept(event(n, Proximity=far if n % 2 else near))
        await rig.store.close()
        rig.position = HERE
        queue = await rig.open(located=True)  # the areas are known again
        assert rates(await rig.take(2)) == [0, 2]
        assert queue.counters()["dropped"] == {"outside its proximity": 2} or await rig.nothing()
        assert queue.counters()["dropped"] == {"outside its proximity": 2}

    run(work, tmp_path)


def test_the_rate_holds_back_a_backlog_and_not_the_urgent(tmp_path: Path) -> None:
    async def work(rig: Rig) -> None:
        queue = await rig.open(rate=10, burst=3, free_from=1000)
        for n in range(8):
            await queue.accept(event(n))
        assert rates(await rig.take(3)) == [0, 1, 2]
        assert await rig.nothing()  # this clock stands
        await queue.accept(event(100, "x", Priority=1000))
        assert rates(await rig.take(1)) == [100]
        rig.clock.now += 200
        assert rates(await rig.take(2)) == [3, 4]

    run(work, tmp_path)


def test_full_by_bytes_and_every_drop_counted(tmp_path: Path) -> None:
    async def work(rig: Rig) -> None:
        queue = await rig.open(classes=(Class("urgent", 1000, "never"), Class("rest", -32767, "oldest")))
        urgent = [queue.accept(event(n, "u", Priority=1000)) for n in range(4)]
        first = await queue.accept(event(0))
        for n in range(1, 100):
            await queue.accept(event(n))
        assert first
        assert all([await done for done in urgent])
        found = queue.counters()
        assert found["bytes"] <= 5000
        assert found["dropped"] == {"no room: rest": 104 - found["stored"]}
        assert books(queue)
        await rig.store.close()
        queue = await rig.open()
        assert queue.counters()["stored"] == found["stored"]
        taken = await rig.take(found["stored"])
        assert rates(taken) == [0, 1, 2, 3, *range(100 - found["stored"] + 4, 100)]

    run(work, tmp_path, max_bytes=5000)


def test_queues_share_the_room_and_not_the_numbers(tmp_path: Path) -> None:
    async def work(rig: Rig) -> None:
        wide = await rig.open()
        other = await rig.store.stored_queue("other")
        for n in range(30):
            await wide.accept(event(n))
        alone = wide.counters()["stored"]
        for n in range(10):
            await other.accept(event(n))
            assert wide.outbox.bytes + other.outbox.bytes <= 3000 or other.counters()["stored"] == 0
        assert alone == 30 - wide.counters()["dropped"].get("no room: normal", 0)
        assert books(wide)
        assert books(other)

    run(work, tmp_path, max_bytes=3000)


def test_what_waits_for_a_slow_disk_is_bounded(tmp_path: Path) -> None:
    async def work(rig: Rig) -> None:
        queue = await rig.open()
        done = [queue.accept(event(n)) for n in range(100)]
        results = await asyncio.gather(*done, return_exceptions=True)
        refused = [one for one in results if isinstance(one, Dropped)]
        assert 0 < len(refused) < 100
        assert str(refused[0]) == TOO_SLOW
        assert queue.counters()["dropped"] == {TOO_SLOW: len(refused)}
        assert books(queue)

    run(work, tmp_path, waiting_bytes=1000)


def test_events_of_a_service_that_is_configured_no_more_are_kept(tmp_path: Path) -> None:
    async def work(rig: Rig) -> None:
        await rig.open()
        other = await rig.store.stored_queue("other")
        await other.accept(event(1))
        await rig.store.close()
        await rig.open()
        assert rig.store.counters()["unclaimed"] == 1
        other = await rig.store.stored_queue("other")
        assert rig.store.counters()["unclaimed"] == 0
        assert rates(await other.take(1)) == [1]

    run(work, tmp_path)


def test_a_store_belongs_to_one_gateway(tmp_path: Path) -> None:
    async def work(rig: Rig) -> None:
        await rig.open()
        with pytest.raises(StoreInUse, match=r"store\.sqlite is in use by another process"):
            await Store.open(rig.path)

    run(work, tmp_path)


def test_an_event_with_all_the_attributes_there_may_be(tmp_path: Path) -> None:
    async def work(rig: Rig) -> None:
        queue = await rig.open()
        full = event(1, **{f"a{n}": n for n in range(limits.MAX_ATTRS)})
        await queue.accept(full)
        ((number, one),) = await rig.take(1)
        assert dict(one.attrs) == {**full.attrs, "StoreSeq": number}
        assert "StoreSeq" not in full.attrs

    run(work, tmp_path)


def test_a_closed_store_takes_nothing(tmp_path: Path) -> None:
    async def work(rig: Rig) -> None:
        queue = await rig.open()
        kept = queue.accept(event(1))
        await rig.store.close()
        assert await kept
        with pytest.raises(Dropped, match="closed"):
            await queue.accept(event(2))
        assert books(queue)

    run(work, tmp_path)


def test_a_queue_in_memory_does_the_same_without_a_disk(tmp_path: Path) -> None:
    async def work(rig: Rig) -> None:
        await rig.open()
        queue = await rig.store.queue("bus", QueueOptions(window=2, max_count=3))
        assert [queue.offer(event(n)) for n in range(4)] == [""] * 4
        first = await queue.take(9)
        assert rates(first) == [1, 2]
        assert "StoreSeq" not in first[0][1].attrs
        queue.failed([number for number, _ in first])
        again = await queue.take(9)
        assert again == first
        queue.done([again[0][0]])
        queue.refused(again[1][0], "too large")
        assert rates(await queue.take(9)) == [3]
        assert queue.counters()["dropped"] == {"no room: normal": 1, "too large": 1}
        assert books(queue)
        waiting = asyncio.create_task(queue.take(1))
        await asyncio.sleep(0)
        queue.offer(event(7))
        assert rates(await waiting) == [7]

    run(work, tmp_path)
