"""Many events at once into the overlay: to each happens what would have happened to it alone."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cloud.broker.brokers import Brokers
from cloud.broker.inside import server
from edge.adapters.test_siena import NO_SPACE, adapter, in_log, port, speed

from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal_edge.adapter import Refused, Result, Unavailable
from vicinal_edge.adapters.siena import SienaAdapter


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    found = Brokers(tmp_path)
    yield found
    found.stop()


async def one_by_one(one: SienaAdapter, events: list[Event]) -> list[str]:
    """In a batch without waiting for the answers, as `publish_many` does."""
    results: list[Result] = []
    for event in events:
        try:
            results.append(await one.publish(event))
        except LocalProtocolError as error:
            results.append(error)
    found = []
    for result in results:
        try:
            if isinstance(result, asyncio.Future):
                await asyncio.wait_for(result, 30)
                result = None
            found.append(str(result or ""))
        except LocalProtocolError as error:
            found.append(str(error))
    return found


async def many(one: SienaAdapter, events: list[Event]) -> list[str]:
    results: list[Result] = []
    await one.publish_many(events, results)
    assert len(results) == len(events)
    return [str(error or "") for error in await fates(results)]


async def fates(results: list[Result]) -> list[BaseException | None]:
    found: list[BaseException | None] = []
    places: dict[int, int] = {}
    for result in results:
        if isinstance(result, asyncio.Future):
            place = places.get(id(result), 0)
            places[id(result)] = place + 1
            errors = await asyncio.wait_for(result, 30)
            found.append((errors or {}).get(place))
        else:
            found.append(result)
    return found


def some_events(seed: int, heard: Event) -> list[list[Event]]:
    """In batches. Numbers of the store rise, but for a few."""
    chance = random.Random(seed)
    found: list[list[Event]] = []
    stored, missed = 0, []
    for batch in range(12):
        made: list[Event] = []
        for place in range(chance.choice([1, 2, 30, 64])):
            seq = 1000 * batch + place
            attrs: dict[str, Any] = {"Priority": 3}
            kind = chance.randrange(40)
            if chance.randrange(3):
                step = chance.choice([1, 1, 1, 5])
                missed += range(stored + 1, stored + step)
                stored += step
                attrs["StoreSeq"] = stored
            if kind == 0:
                attrs["StoreSeq"] = "x"
            elif kind == 1 and missed:
                # One that was never said: what comes of one that was depends on whether its answer is there yet.
                attrs["StoreSeq"] = missed[-1]
            elif kind == 2:
                attrs |= {f"n{n}": n for n in range(63 - len(attrs))}
            elif kind == 3:
                made.append(heard)
                continue
            size = 64_600 if kind == 4 else 10
            subject = "Brake" if kind in (5, 6) else "Speed"
            identity = (None, None) if kind == 7 else ("car-7", seq)
            made.append(Event(subject, {"rate": seq, "data": bytes(size)}, attrs, *identity))
        found.append(made)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_as_one_by_one(brokers: Brokers, tmp_path: Path, seed: int) -> None:
    async def work() -> None:
        b1 = brokers.start("b1", log=True)
        fates_of = []
        heard = speed(77)
        for name, publish in (("g1", one_by_one), ("g2", many)):
            one = adapter(b1.address)
            await one.connect(port(tmp_path / name, name))
            assert heard.identity is not None
            one._heard.add(heard.identity)
            found = []
            for batch in some_events(seed, heard):
                found += await publish(one, batch)
            fates_of.append((found, one.returned))
            await one.disconnect()
        assert fates_of[0] == fates_of[1]
        assert {text[:9] for text in fates_of[0][0]} >= {"", "StoreSeq "}

    asyncio.run(work())
    brokers.stop()
    events = in_log(tmp_path)
    logs: dict[str, dict[bool, list[Any]]] = {"g1": {}, "g2": {}}  # of each lane by itself: it is a connection
    for one in events:
        name, kept = str(one.producer).split(".")[0], "~" in str(one.producer)
        found = (one.subject, one.params, one.attrs, one.seq if kept else None)
        logs[name].setdefault(kept, []).append(found)
    assert all(len(lane) > 50 for lane in logs["g1"].values())
    assert logs["g1"] == logs["g2"]
    for lane in {one.producer for one in events}:
        numbers = [one.seq or 0 for one in events if one.producer == lane]
        assert numbers == sorted(set(numbers))


def test_what_a_full_disk_refused_is_not_lost(tmp_path: Path) -> None:
    async def work() -> None:
        async with server(tmp_path, log=True) as broker:
            storage: Any = broker.node.storage
            real, full = storage.submit, {2, 3}

            def submit(entries: list[Any]) -> Any:
                found = asyncio.get_running_loop().create_future()

                def stored(done: Any) -> None:
                    good = iter(done.result())
                    found.set_result([NO_SPACE if one.seq in full else next(good) for one in entries])
                    full.difference_update([one.seq for one in entries])

                real([one for one in entries if one.seq not in full]).add_done_callback(stored)
                return found

            storage.submit = submit
            one, said = adapter(str(broker.addresses[0])), port(tmp_path / "g1")
            await one.connect(said)
            results: list[Result] = []
            await one.publish_many([speed(n, StoreSeq=n) for n in (1, 2, 3, 4)], results)
            found = await fates(results)
            assert [type(error) for error in found] == [type(None), Unavailable, Unavailable, type(None)]
            assert said.lost_because == [NO_SPACE]
            with pytest.raises(Unavailable, match="No space"):
                await one.publish_many([speed(5, StoreSeq=5)], [])
            await one.disconnect()
            one = adapter(str(broker.addresses[0]))
            await one.connect(said)
            again: list[Result] = []
            await one.publish_many([speed(n, StoreSeq=n) for n in (2, 3, 5)], again)
            assert await fates(again) == [None, None, None]
            assert one.out_of_order == 2
            await one.disconnect()

    asyncio.run(work())
    assert sorted(event.attrs["OriginSeq"] for event in in_log(tmp_path)) == [1, 2, 3, 4, 5]


def test_what_cannot_be_advertised_is_refused_and_no_fault(brokers: Brokers, tmp_path: Path) -> None:
    async def work() -> None:
        b1 = brokers.start("b1")
        one = adapter(b1.address, scopes={"geography": "mars"})
        await one.connect(port(tmp_path / "g1"))
        results: list[Result] = []
        await one.publish_many([speed(1), speed(2, StoreSeq=2)], results)
        assert [type(result) for result in results] == [Refused, Refused]
        assert "mars" in str(results[0])
        await one.disconnect()

    asyncio.run(work())


def test_a_broker_that_dies_leaves_nobody_waiting(brokers: Brokers, tmp_path: Path) -> None:
    async def work() -> None:
        b1 = brokers.start("b1", log=True)
        one, said = adapter(b1.address), port(tmp_path / "g1")
        await one.connect(said)
        await many(one, [speed(1), speed(1, StoreSeq=1)])
        results: list[Result] = []
        b1.process.kill()
        await one.publish_many([speed(n, StoreSeq=n) for n in range(2, 60)], results)
        found = await fates(results)
        assert {type(error) for error in found} <= {Unavailable, type(None)}
        assert Unavailable in {type(error) for error in found}
        assert said.lost_because
        await one.disconnect()

    asyncio.run(work())


def test_one_of_a_run_that_comes_again_waits_for_it(brokers: Brokers, tmp_path: Path) -> None:
    async def work() -> None:
        b1 = brokers.start("b1", log=True)
        one = adapter(b1.address)
        await one.connect(port(tmp_path / "g1"))
        results: list[Result] = []
        await one.publish_many([speed(n, StoreSeq=n) for n in range(1, 9)], results)
        again = await one.publish(speed(3, StoreSeq=3))
        assert again is not None
        await asyncio.wait_for(again, 30)
        assert await fates(results) == [None] * 8
        with pytest.raises(Refused, match="in a lane they rise"):
            await one.publish(speed(3, StoreSeq=3))
        await one.disconnect()

    asyncio.run(work())


async def at_once(one: SienaAdapter, events: list[Event]) -> dict[int, BaseException] | None:
    """None: not now."""
    answer: asyncio.Future[dict[int, BaseException]] = asyncio.get_running_loop().create_future()
    if not one.publish_at_once(events, answer.set_result):
        return None
    return await asyncio.wait_for(answer, 30)


def test_at_once_where_the_lane_and_the_subject_are_known_and_else_not(brokers: Brokers, tmp_path: Path) -> None:
    async def work() -> None:
        b1 = brokers.start("b1", log=True)
        one = adapter(b1.address)
        assert await at_once(one, [speed(0, StoreSeq=1)]) is None, "it is not connected"
        await one.connect(port(tmp_path / "g1"))
        assert await at_once(one, [speed(1, StoreSeq=1)]) is None, "there is no lane"
        assert await many(one, [speed(1, StoreSeq=1)]) == [""]
        assert await at_once(one, [speed(2, StoreSeq=2)]) == {}
        assert await at_once(one, [speed(n, StoreSeq=n) for n in (3, 4, 5)]) == {}
        assert await at_once(one, [speed(6)]) is None, "it has no number"
        assert await at_once(one, [speed(6, StoreSeq=5)]) is None, "it has one of another"
        assert await at_once(one, [speed(6, StoreSeq=6), Event("Other", {}, {"StoreSeq": 7}, "p", 7)]) is None
        assert await at_once(one, [Event("Other", {}, {"StoreSeq": 7}, "p", 7)]) is None, "it is not advertised"
        one._heard.add(("car-7", 6))
        heard = speed(6, StoreSeq=6).replace(producer="car-7", seq=6)
        assert await at_once(one, [heard]) is None, "it came from there"
        await one.disconnect()

    asyncio.run(work())
    brokers.stop()
    assert [event.attrs["OriginSeq"] for event in in_log(tmp_path)] == [1, 2, 3, 4, 5]


def test_at_once_one_that_comes_again_waits_for_the_first(brokers: Brokers, tmp_path: Path) -> None:
    async def work() -> None:
        b1 = brokers.start("b1", log=True)
        one = adapter(b1.address)
        await one.connect(port(tmp_path / "g1"))
        await many(one, [speed(1, StoreSeq=1)])
        told: list[dict[int, BaseException]] = []
        assert one.publish_at_once([speed(2, StoreSeq=2), speed(3, StoreSeq=3)], told.append)
        again = await one.publish(speed(3, StoreSeq=3))
        assert again is not None
        await asyncio.wait_for(again, 30)
        assert told == [{}]
        await one.disconnect()

    asyncio.run(work())
    brokers.stop()
    assert [event.attrs["OriginSeq"] for event in in_log(tmp_path)] == [1, 2, 3]


def test_at_once_a_broker_that_dies_leaves_nobody_waiting(brokers: Brokers, tmp_path: Path) -> None:
    async def work() -> None:
        b1 = brokers.start("b1", log=True)
        one, said = adapter(b1.address), port(tmp_path / "g1")
        await one.connect(said)
        await many(one, [speed(1, StoreSeq=1)])
        b1.process.kill()
        told: list[dict[int, BaseException]] = []
        assert one.publish_at_once([speed(2, StoreSeq=2), speed(3, StoreSeq=3)], told.append)
        async with asyncio.timeout(30):
            while not told:
                await asyncio.sleep(0.01)
        assert {type(error) for error in told[0].values()} == {Unavailable}
        assert sorted(told[0]) == [0, 1]
        assert len(told) == 1
        assert said.lost_because
        assert not one.publish_at_once([speed(4, StoreSeq=4)], told.append)
        await one.disconnect()

    asyncio.run(work())


def test_at_once_too_large_is_for_who_can_say_so(brokers: Brokers, tmp_path: Path) -> None:
    async def work() -> None:
        b1 = brokers.start("b1", log=True)
        one = adapter(b1.address)
        await one.connect(port(tmp_path / "g1"))
        await many(one, [speed(1, StoreSeq=1)])
        large = Event("Speed", {"all": b"x" * (SienaAdapter.capabilities.max_bytes - 8)}, {"StoreSeq": 2}, "car-7", 2)
        assert await at_once(one, [large]) is None
        (said,) = await many(one, [large])
        assert str(SienaAdapter.capabilities.max_bytes) in said
        await one.disconnect()

    asyncio.run(work())
