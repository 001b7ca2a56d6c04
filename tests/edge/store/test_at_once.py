"""The short way of what comes alone, and how what comes fast shares a turn."""

import asyncio
from pathlib import Path

import pytest
from edge.store.test_store import Rig, books, event

from vicinal.event import Event


def test_the_rate_holds_back_what_comes_while_somebody_waits_for_more(tmp_path: Path) -> None:
    async def work() -> None:
        rig = Rig(tmp_path)
        queue = await rig.open(rate=100, burst=1)
        waits = asyncio.create_task(queue.take(1))
        await asyncio.sleep(0)
        await queue.accept(event(0))
        ((number, _),) = await waits
        queue.done([number])
        waits = asyncio.create_task(queue.take(1))
        await asyncio.sleep(0)
        await queue.accept(event(1))
        assert not waits.done()
        rig.clock.now += 10
        async with asyncio.timeout(30):
            ((_, found),) = await waits
        assert found.seq == 1
        await rig.store.close()

    asyncio.run(work())


def test_what_is_taken_at_once_is_not_given_again_and_what_is_not_comes_of_take(tmp_path: Path) -> None:
    async def work() -> None:
        rig = Rig(tmp_path)
        queue = await rig.open()
        pushed: list[int] = []
        willing = True

        def at_once(flights: list[tuple[int, Event]]) -> bool:
            if willing:
                pushed.extend(number for number, _ in flights)
            return willing

        queue.at_once = at_once
        waits = asyncio.create_task(queue.take(3))
        await asyncio.sleep(0)
        for n in range(5):
            await queue.accept(event(n))
        assert len(pushed) == 5
        assert not waits.done()
        assert queue.outbox.under_way == 5
        willing = False
        futures = [queue.accept(event(n)) for n in (5, 6, 7, 8)]
        taken = await waits
        assert [one.seq for _, one in taken] == [5, 6, 7]
        assert [one.seq for _, one in await rig.take(1)] == [8]
        queue.done([*pushed, *[number for number, _ in taken]])
        await asyncio.gather(*futures)
        assert queue.counters()["delivered"] == 8
        assert books(queue)
        await rig.store.close()

    asyncio.run(work())


def test_what_could_not_go_at_once_goes_again_when_its_taker_has_ended(tmp_path: Path) -> None:
    async def work() -> None:
        rig = Rig(tmp_path)
        queue = await rig.open()
        waits = asyncio.create_task(queue.take(3))

        def at_once(flights: list[tuple[int, Event]]) -> bool:
            waits.cancel()  # before it can take them
            return False

        queue.at_once = at_once
        await asyncio.sleep(0)
        kept = queue.accept(event(1))
        with pytest.raises(asyncio.CancelledError):
            await waits
        queue.failed()
        queue.at_once = None
        ((number, found),) = await rig.take(1)
        assert found.seq == 1
        queue.done([number])
        await kept
        assert queue.counters()["stored"] == 0
        await rig.store.close()

    asyncio.run(work())


def test_what_comes_fast_gathers_and_what_comes_alone_or_is_urgent_does_not(tmp_path: Path) -> None:
    async def work() -> None:
        rig = Rig(tmp_path, gather=3600.0)
        queue = await rig.open(free_from=1000)
        alone = queue.accept(event(0))
        async with asyncio.timeout(30):
            await alone
        commits = rig.store.commits
        several = [queue.accept(event(n)) for n in range(1, 9)]
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert not any(one.done() for one in several)
        async with asyncio.timeout(30):
            await queue.accept(event(9, Priority=1000))
            await asyncio.gather(*several)
        assert rig.store.commits == commits + 1
        await rig.store.close()

    asyncio.run(work())
