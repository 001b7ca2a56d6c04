"""Where the office goes on in a log that is the same, a copy of it, or another one: nothing is missing, none twice."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.event import Event
from vicinal_cloud.broker.client import Delivery, Refused
from vicinal_cloud.traffic import following
from vicinal_cloud.traffic.control import no_changes
from vicinal_cloud.traffic.following import Following
from vicinal_cloud.traffic.store import Store


@pytest.fixture(autouse=True, scope="module")
def _soon() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(following, "PROOF_S", 0.01)
        yield


class Log:
    """Of a broker: the numbers of events, the n-th stored at the n-th second of all that ever were."""

    def __init__(self, numbers: list[int], first: int = 0) -> None:
        self.numbers = numbers
        self.first = first
        self.is_open = False

    async def subscribe(self, offset: int | None) -> Any:
        assert not self.is_open, "it is open in this connection already"
        start = self.first if offset is None else offset
        if not self.first <= start <= len(self.numbers):
            raise Refused(f"offset {start} is not there")
        self.is_open = True
        return self._from(start)

    async def _from(self, start: int) -> AsyncIterator[Delivery]:
        for offset, number in list(enumerate(self.numbers))[start:]:
            stored = 1000 * (number + 1)
            yield Delivery(Event("Speed", (), {}, "m1", number), offset, (("b1", (), stored),), stored)
        await asyncio.Event().wait()

    async def reconnect(self) -> None:
        self.is_open = False


async def listen(one: Following, log: Log, most: int) -> list[int]:
    """What it judges, of so many deliveries."""
    await log.reconnect()
    events: Any = await one.begin(log.subscribe, log.reconnect)
    judged = []
    for _ in range(most):
        try:
            async with asyncio.timeout(0.01):
                delivery = await anext(events)
        except TimeoutError:
            break
        assert delivery.stored is not None
        if one.heard(delivery, delivery.stored):
            judged.append(delivery.event.seq or 0)
    return judged


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6), st.integers(0, 6), st.integers(0, 9))
def test_every_event_is_judged_once(old: int, heard: int, copied: int, more: int, before_it_dies: int) -> None:
    """The broker had `old` events, of which the office heard some; then it is one that has the first `copied` of them,
    and `more`. In the middle of that the office dies, and knows then what it had saved."""
    heard, copied = min(heard, old), min(copied, old)
    fresh = list(range(old, old + more))

    async def run() -> list[int]:
        store, judged = Store(), []
        for log, most in (
            (Log(list(range(old))), heard),
            (Log([*range(copied), *fresh]), before_it_dies),
            (Log([*range(copied), *fresh]), 99),
        ):
            one = Following(store.offset(), store.mark())
            judged += await listen(one, log, most)
            store.save(no_changes(), one.offset, (), one.mark)
        store.close()
        return judged

    judged = asyncio.run(run())
    assert judged == [*range(heard), *range(heard, copied), *fresh]


def test_what_retention_has_taken_is_told_and_the_rest_is_heard(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        one = Following(None, None)
        assert await listen(one, Log([0, 1, 2]), 2) == [0, 1]
        assert await listen(one, Log(list(range(6)), first=4), 9) == [4, 5]
        assert (one.offset, one.again) == (6, 0)

    asyncio.run(run())
    assert "has removed what was not heard" in caplog.text


def test_a_database_that_is_older_than_marks_goes_on() -> None:
    async def run() -> None:
        assert await listen(Following(2, None), Log([0, 1, 2]), 9) == [2]
        assert await listen(Following(2, None), Log([7]), 9) == [7]

    asyncio.run(run())


def test_what_is_refused_for_another_reason_is_told() -> None:
    async def refuse(offset: int | None) -> Any:
        raise Refused("you may not")

    with pytest.raises(Refused, match="you may not"):
        asyncio.run(Following(2, None).begin(refuse, refuse))  # type: ignore[arg-type]
