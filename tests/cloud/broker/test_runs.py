"""Many publishes at once: the frames, the answers, and what the broker has at the end are those of one by one."""

import asyncio
import random
from typing import Any

import pytest
from cloud.broker.brokers import PATIENCE, Brokers, balanced, until
from hypothesis import given
from hypothesis import strategies as st

from vicinal import limits
from vicinal.event import Event
from vicinal.siena.messages import MAX_REASON_CHARS, encode, framed
from vicinal.siena.messages_read import _accepted, decode
from vicinal_cloud.broker._runs import FIRST_REQUEST, publication
from vicinal_cloud.broker.client import Closed, Refused, connect

REQUESTS = st.one_of(
    st.integers(0, 1 << 40), st.sampled_from([FIRST_REQUEST, FIRST_REQUEST - 1, (1 << 32) - 1, 1 << 32])
)


@given(REQUESTS, st.integers(1, 70_000), st.integers(0, 70), st.integers(0, limits.INT_MAX))
def test_a_frame_by_hand_is_the_frame(request: int, advertisement: int, size: int, seq: int) -> None:
    event = Event("Speed", {"data": bytes(size * 11)}, {}, "car-7", seq)
    assert publication(request, advertisement, event) == framed(encode(("publish", request, advertisement, event)))


def test_the_number_of_a_request_may_be_elsewhere_too() -> None:
    """Those four bytes stand in the advertisement's number and in the event."""
    event = Event("Speed", {"data": FIRST_REQUEST.to_bytes(4, "big") * 3}, {}, "car-7", FIRST_REQUEST)
    for request in (FIRST_REQUEST, FIRST_REQUEST + 1, 0x0A1A0001):
        for advertisement in (FIRST_REQUEST, 7):
            frame = publication(request, advertisement, event)
            assert frame == framed(encode(("publish", request, advertisement, event)))


@given(st.integers(0, 1 << 64), st.booleans(), st.integers(0, 1 << 64), st.text(max_size=20))
def test_an_answer_by_hand_is_the_answer(request: int, accepted: bool, goals: int, reason: str) -> None:
    request, goals = min(request, limits.INT_MAX), min(goals, limits.INT_MAX)
    message = ("answer", request, accepted, goals if accepted else reason[:MAX_REASON_CHARS])
    data = encode(message)
    assert decode(data) == message
    assert _accepted(data) in (None, message)


@given(st.binary(max_size=12))
def test_what_is_read_by_hand_is_in_its_one_right_form(noise: bytes) -> None:
    data = b"\x84\x0b" + noise
    found = _accepted(data) if len(data) > 4 else None
    assert found is None or encode(found) == data


async def one_by_one_or_many(brokers: Brokers, log: bool) -> None:
    b1 = brokers.start("b1", log=log)
    chance = random.Random(4)
    async with await connect(b1.address, "office") as office:
        heard = await office.subscribe("rate >= 0")
        for name in ("car-1", "car-2"):
            async with await connect(b1.address, name) as car:
                speeds = await car.advertise("subject = 'Speed'")
                fates = []
                seq = 0
                for _ in range(30):
                    events = []
                    for _ in range(chance.randint(1, 90)):
                        seq += 1
                        subject = "Brake" if not chance.randrange(9) else "Speed"
                        producer = "another" if not chance.randrange(20) else name
                        size = 65_600 if not chance.randrange(100) else 1
                        events.append(Event(subject, {"rate": seq, "data": bytes(size)}, {}, producer, seq))
                    if name == "car-1":
                        fates += await many(car, events, speeds)
                    else:
                        fates += await one_by_one(car, events, speeds)
                chance = random.Random(4)
                fates = [(one is None) or type(one).__name__ for one in fates]
                if name == "car-1":
                    first = fates
                    assert True in first
                    assert "Refused" in first
                else:
                    assert fates == first
                good = [n for n, fate in enumerate(fates, 1) if fate is True]
                async with asyncio.timeout(PATIENCE):
                    found = [(await anext(heard)).event for _ in good]
                assert [(one.producer, one["rate"]) for one in found] == [(name, n) for n in good]
    await until(lambda: balanced(b1.status()), "the books are balanced")


async def many(car: Any, events: list[Event], speeds: Any) -> list[Any]:
    runs = [events[at : at + 40] for at in range(0, len(events), 40)]
    found: list[Any] = []
    futures = [await car.submit_many(run, speeds) for run in runs]
    for run, future in zip(runs, futures, strict=True):
        refused = await future
        found += [refused.get(place) for place in range(len(run))]
    return found


async def one_by_one(car: Any, events: list[Event], speeds: Any) -> list[Any]:
    found: list[Any] = []
    for event in events:
        try:
            await car.publish(event, speeds)
            found.append(None)
        except Exception as error:
            found.append(Refused(str(error)))
    return found


@pytest.mark.parametrize("log", [False, True])
def test_one_by_one_or_many(brokers: Brokers, log: bool) -> None:
    asyncio.run(one_by_one_or_many(brokers, log))


def test_a_run_outlives_a_connection_and_ends_with_the_client(brokers: Brokers) -> None:
    async def work() -> None:
        b1 = brokers.start("b1", log=True)
        async with await connect(b1.address, "office") as office:
            heard = await office.subscribe("rate >= 0")
            async with await connect(b1.address, "car") as car:
                speeds = await car.advertise("subject = 'Speed'")
                futures = []
                for first in range(0, 2000, 50):
                    events = [Event("Speed", {"rate": n}, {}, "car", n) for n in range(first, first + 50)]
                    futures.append(await car.submit_many(events, speeds))
                    if first in (300, 1200):
                        assert car._link is not None
                        assert car._link.transport is not None
                        car._link.transport.abort()
                async with asyncio.timeout(PATIENCE):
                    assert [await future for future in futures] == [{}] * len(futures)
                    assert [(await anext(heard)).event["rate"] for _ in range(2000)] == list(range(2000))
                last = await car.submit_many([Event("Speed", {"rate": 1}, {}, "car", 5000)], speeds)
                await car.close()
                with pytest.raises(Closed):
                    await last
                with pytest.raises(Closed):
                    await car.submit_many([Event("Speed", {"rate": 1}, {}, "car", 5001)], speeds)

    asyncio.run(work())
