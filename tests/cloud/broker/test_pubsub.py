"""Publish and subscribe through real brokers: one, and three in a line; scopes, traces, durable subscriptions."""

import asyncio
from typing import Any

import pytest
from cloud.broker.brokers import PATIENCE, Brokers, Process, balanced, until

from vicinal.event import Event
from vicinal_cloud.broker.client import Client, Refused, Subscription, connect

spec = pytest.mark.spec


async def take(subscription: Subscription, count: int) -> list[Any]:
    async with asyncio.timeout(PATIENCE):
        return [await anext(subscription) for _ in range(count)]


async def rates(subscription: Subscription, count: int) -> list[Any]:
    return [delivery.event["rate"] for delivery in await take(subscription, count)]


def speed(rate: int, **attrs: Any) -> Event:
    return Event("Speed", {"rate": rate}, attrs)


async def line(brokers: Brokers, **more: Any) -> list[Process]:
    """b1 - b2 - b3, linked."""
    b2 = brokers.start("b2", {"b1": None, "b3": None}, **more)
    b1 = brokers.start("b1", {"b2": b2.address}, **more)
    b3 = brokers.start("b3", {"b2": b2.address}, **more)
    for one in (b1, b2, b3):
        await until(lambda one=one: len(one.status()["overlay"]["brokers"]) == 3, f"{one.name} knows all")
    return [b1, b2, b3]


async def known(process: Process, count: int) -> None:
    """So many subscriptions have come to where the producer is."""
    await until(lambda: process.status()["overlay"]["interest"] >= count, f"{process.name} knows {count} subscriptions")


async def one_broker(brokers: Brokers) -> None:
    b1 = brokers.start("b1")
    async with await connect(b1.address, "car-7") as car, await connect(b1.address, "office") as office:
        assert (car.broker, office.broker) == ("b1", "b1")
        fast = await office.subscribe("rate > 30")
        other = await office.subscribe("rate > 40")
        speeds = await car.advertise("subject = 'Speed'")
        for rate in (20, 35, 45):
            assert await car.publish(speed(rate), speeds) == (rate > 30)
        assert await rates(fast, 2) == [35, 45]
        assert await rates(other, 1) == [45]
        with pytest.raises(Refused, match="outside the advertisement"):
            await car.publish(Event("Brake"), speeds)
        with pytest.raises(Refused, match="column 7"):
            await office.subscribe("rate >")
        with pytest.raises(Refused, match="'mars' is no scope"):
            await office.subscribe("TRUE", {"geography": "mars"})
        with pytest.raises(Refused, match=r"has no \[log\]"):
            await office.subscribe("TRUE", durable="nightly")
        await office.cancel(fast)
        assert await car.publish(speed(99), speeds) == 1
        assert await rates(other, 1) == [99]
        status = await until(lambda: (found := b1.status())["deliveries"]["waiting"] == 0 and found)
        assert status["publishes"]["refused"] == {"outside the advertisement": 1}
        assert status["deliveries"]["delivered"] == 3  # 45 once, for two subscriptions
        assert [client["name"] for client in status["clients"]] == ["car-7", "office"]
        assert balanced(status)
        assert "vicinal_broker_publishes_accepted_total 4\n" in b1.metrics()
        assert 'vicinal_broker_publishes_refused_total{reason="outside the advertisement"} 1' in b1.metrics()
    assert b1.terminate()[0] == 0


@spec("OVER-16", "OVER-17", "OVER-18", "OVER-20")
def test_one_broker(brokers: Brokers) -> None:
    asyncio.run(one_broker(brokers))


async def three_brokers(brokers: Brokers) -> None:
    b1, b2, b3 = await line(brokers)
    async with await connect(b1.address, "car-7") as car, await connect(b3.address, "office") as office:
        fast = await office.subscribe("rate > 30")
        speeds = await car.advertise("subject = 'Speed'")
        await known(b1, 1)
        count = 500
        answers = [await car.submit(speed(rate), speeds) for rate in range(31, 31 + count)]
        assert await rates(fast, count) == list(range(31, 31 + count))
        assert set(await asyncio.gather(*answers)) == {1}
        for one in (b1, b2, b3):
            assert balanced(one.status())
        assert b2.status()["deliveries"]["handed"] == 0


def test_three_brokers_in_a_line(brokers: Brokers) -> None:
    asyncio.run(three_brokers(brokers))


SCOPES = """
[[scope]]
name = "uk"
dimension = "geography"
[[scope]]
name = "london"
dimension = "geography"
supers = ["uk"]
output = "rate > 50"
[[scope]]
name = "paris"
dimension = "geography"
"""


async def arrives(car: Client, advert: Any, subscription: Subscription, rate: int) -> None:
    """Publishes until the first is there: that a subscription is made does not mean that all know of it."""

    async def knocking() -> None:
        while True:
            await car.publish(speed(rate), advert)
            await asyncio.sleep(0.05)

    task = asyncio.create_task(knocking())
    await take(subscription, 1)
    task.cancel()


async def scopes(brokers: Brokers) -> None:
    """london is at b1, uk at b1 and b2, paris at b3 alone, which is linked to b2."""
    b2 = brokers.start("b2", {"b1": None, "b3": None}, join=("uk",), scopes=SCOPES)
    b1 = brokers.start("b1", {"b2": b2.address}, join=("london", "uk"), scopes=SCOPES)
    b3 = brokers.start("b3", {"b2": b2.address}, join=("paris",), scopes=SCOPES)
    async with (
        await connect(b1.address, "car") as car,
        await connect(b2.address, "uk") as uk,
        await connect(b3.address, "paris") as paris,
        await connect(b3.address, "anybody") as anybody,
    ):
        with pytest.raises(Refused, match="'b3' is not in scope 'london'"):
            await paris.subscribe("TRUE", {"geography": "london"})
        in_uk = await uk.subscribe("TRUE", {"geography": "uk"})
        in_paris = await paris.subscribe("TRUE", {"geography": "paris"})
        anywhere = await anybody.subscribe("TRUE")
        londons = await car.advertise("TRUE", {"geography": "london"}, rest=False)
        plain = await car.advertise("TRUE")
        await arrives(car, londons, in_uk, 60)
        for rate in (40, 70):
            await car.publish(speed(rate), londons)
        last = (await take(in_uk, 1))[0].event["rate"]
        while last == 60:
            last = (await take(in_uk, 1))[0].event["rate"]
        assert last == 70  # 40 stays in london: it does not pass the interface
        await arrives(car, plain, in_paris, 7)
        # A broker outside the scopes has not held, passed on or delivered anything of theirs.
        seen = (await take(anywhere, 1))[0].event["rate"]
        assert seen == 7
        for one in (b1, b2, b3):
            counts = one.status()["overlay"]["engine"]
            assert "dropped: not in its scopes" not in counts


def test_scopes_end_to_end(brokers: Brokers) -> None:
    asyncio.run(scopes(brokers))


@spec("OVER-22")
def test_a_traced_event_shows_its_way(brokers: Brokers) -> None:
    async def trace() -> None:
        b1, _, b3 = await line(brokers, scopes=SCOPES, join=("uk", "london"))
        async with await connect(b1.address, "car") as car, await connect(b3.address, "office") as office:
            fast = await office.subscribe("TRUE", {"geography": "uk"})
            speeds = await car.advertise("TRUE", {"geography": "london"})
            await known(b1, 1)
            await car.publish(speed(60, Trace=True), speeds)
            await car.publish(speed(61), speeds)
            traced, plain = await take(fast, 2)
            assert plain.trail == ()
            assert list(dict.fromkeys(name for name, _, _ in traced.trail)) == ["b1", "b2", "b3"]
            states = [state for _, state, _ in traced.trail]
            assert states[0] == (("london", True),)
            assert states[-1] == (("uk", True),)
            assert all(time > 1_600_000_000_000 for _, _, time in traced.trail)

    asyncio.run(trace())


@spec("OVER-21", "OVER-22")
def test_durable_subscriptions_go_on_from_an_offset(brokers: Brokers) -> None:
    async def durable() -> None:
        b1 = brokers.start("b1", log=True)
        async with await connect(b1.address, "car") as car:
            speeds = await car.advertise("TRUE")
            async with await connect(b1.address, "office") as office:
                nightly = await office.subscribe("rate > 30", durable="nightly")
                for rate in (35, 36, 20):
                    await car.publish(speed(rate), speeds)
                first = await take(nightly, 2)
                assert [(one.event["rate"], one.offset) for one in first] == [(35, 0), (36, 1)]
                assert [one.trail for one in first] == [(("b1", (), one.stored),) for one in first]
            await car.publish(speed(37), speeds)  # while nobody is there
            async with await connect(b1.address, "office") as office:
                nightly = await office.subscribe("rate > 30", durable="nightly", offset=1)
                again = await take(nightly, 2)
                assert [one.event["rate"] for one in again] == [36, 37]
                assert again[0].stored == first[1].stored  # when it came to the broker, not when it came from there
                with pytest.raises(Refused, match="has the filter rate > 30"):
                    await office.subscribe("rate > 40", durable="nightly")
                with pytest.raises(Refused, match="offset 99 of 'nightly' is not there"):
                    await office.subscribe("rate > 30", durable="nightly", offset=99)
            status = await until(lambda: (found := b1.status())["deliveries"]["waiting"] == 0 and found)
            assert status["deliveries"]["stored"] == 3
            assert status["log"]["published"]["next"] == 4
            assert balanced(status)
            b1.kill()
            b1 = brokers.start("b1", log=True, listen=b1.address)
            # The producer connects by itself, and what the broker has on disk it does not take twice.
            await car.publish(speed(38), speeds)
            async with await connect(b1.address, "office") as office:
                nightly = await office.subscribe("rate > 30", durable="nightly")
                assert await rates(nightly, 4) == [35, 36, 37, 38]
                await office.cancel(nightly)
            assert b1.status()["log"]["durable"] == []

    asyncio.run(durable())


def test_publishes_are_on_disk_when_they_are_answered(brokers: Brokers) -> None:
    """kill -9 right after the last answer, again and again: the log has each answered event once and in order."""
    from vicinal.wire import decode
    from vicinal_cloud.log import Log

    async def publish() -> int:
        answered = 0
        address = None
        for _ in range(4):
            b1 = brokers.start("b1", log=True, **({} if address is None else {"listen": address}))
            address = b1.address
            async with await connect(address, "car") as car:
                speeds = await car.advertise("TRUE")
                answers = [await car.submit(speed(answered + n), speeds) for n in range(300)]
                await asyncio.gather(*answers)
                answered += len(answers)
                b1.kill()
        return answered

    count = asyncio.run(publish())
    log = Log(brokers.folder / "b1.log" / "published")
    records, offset = [], log.first
    while offset < log.next:
        more, offset = log.read(offset, 1000)
        records += more
    log.close()
    assert [decode(record.event)["rate"] for record in records] == list(range(count))
