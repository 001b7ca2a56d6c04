"""The adapter to the overlay where brokers ask who we are: tokens, and rights that end and come again."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cloud.broker.brokers import PATIENCE, Brokers, Process, until
from cloud.broker.issuing import IDENTITY, Issuing
from edge.adapters.test_siena import SPEED, acknowledged, adapter, port, speed

from vicinal.filter import Filter
from vicinal_cloud.broker.client import Refused as NotAccepted
from vicinal_cloud.broker.client import connect
from vicinal_edge.adapter import Refused, Unavailable
from vicinal_edge.adapters.siena import SienaAdapter

FLOOR = {"market": "floor"}


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    found = Brokers(tmp_path)
    yield found
    found.stop()


@pytest.fixture
def issuing(brokers: Brokers) -> Issuing:
    return Issuing(brokers.folder)


@pytest.fixture
def broker(brokers: Brokers, issuing: Issuing) -> Process:
    issuing.deploy()
    return brokers.start("b1", scopes="deployment.toml", join=("floor", "hall"), more=IDENTITY, log=True)


def member(broker: Process, issuing: Issuing, role: str, **more: Any) -> SienaAdapter:
    return adapter(broker.address, client="match", token=issuing.file("match", role, **more), scopes=FLOOR)


def test_a_token_says_who_we_are_on_all_connections(broker: Process, issuing: Issuing, tmp_path: Path) -> None:
    async def work() -> None:
        one, said = member(broker, issuing, "engine"), port(tmp_path / "g1")
        await one.connect(said)
        async with await connect(broker.address, "ann", token=issuing.token("ann", "trader")) as ann:
            heard = await ann.subscribe("subject = 'Speed'", FLOOR)
            await acknowledged(one, speed(1))
            await acknowledged(one, speed(2, StoreSeq=1))  # under a name of its own: match~...
            events = [(await anext(heard)).event for _ in range(2)]
            assert [event.attrs["OriginSeq"] for event in events] == [1, 2]
            assert [(event.producer or "").partition("~")[0] for event in events] == ["match"] * 2
            assert one.status()["connections"] == 2
        await one.disconnect()
        nobody = adapter(broker.address, client="match", scopes=FLOOR)
        await nobody.connect(said)
        with pytest.raises(Refused, match="'match' may not publish in 'floor': its rule for join"):
            await nobody.publish(speed(3))
        with pytest.raises(Refused, match="'match' may not subscribe in 'floor'"):
            await nobody.subscribe(SPEED)
        await nobody.disconnect()

    asyncio.run(work())


def test_the_file_is_read_at_each_connection(broker: Process, issuing: Issuing, tmp_path: Path) -> None:
    async def work() -> None:
        one, said = member(broker, issuing, "engine"), port(tmp_path / "g1")
        file = issuing.folder / "match.token"
        for wrong, why in (
            (b"nonsense", "not admitted: your token is not one of EdDSA"),
            (issuing.token("other", "engine").encode(), "you say 'match', your token says 'other'"),
            (b"\xff\xfe\x00", "match.token holds no token"),
            (None, "No such file"),
        ):
            file.unlink(missing_ok=True)
            if wrong is not None:
                file.write_bytes(wrong)
            with pytest.raises(Unavailable, match=why):
                await one.connect(said)
        issuing.file("match", "engine", lasting=2)
        await one.connect(said)
        await acknowledged(one, speed(1, StoreSeq=1))
        await said.until(lambda: said.lost_because, "that it has expired")
        assert "expired" in said.lost_because[0]
        with pytest.raises(Unavailable):
            await one.publish(speed(2, StoreSeq=2))
        await one.disconnect()  # as a gateway does
        issuing.file("match", "engine")  # whoever renews tokens writes them there
        await one.connect(said)
        await acknowledged(one, speed(2, StoreSeq=2))
        await one.disconnect()

    asyncio.run(work())


def test_a_right_that_ends_and_comes_again(broker: Process, issuing: Issuing, tmp_path: Path) -> None:
    """What is published meanwhile is refused at once, with the reason; then it goes on, on the same connection."""

    async def work() -> None:
        one, said = member(broker, issuing, "engine"), port(tmp_path / "g1")
        await one.connect(said)
        root = await connect(broker.address, "root", token=issuing.token("root", "administrator"))
        await acknowledged(one, speed(1, StoreSeq=1))
        await root.administer("deny", "match", "floor")
        for n in range(2, 6):
            with pytest.raises(Refused):  # the reason, or that there is no advertisement any more
                await asyncio.wait_for(acknowledged(one, speed(n, StoreSeq=n)), PATIENCE)
            results: list[Any] = []
            await asyncio.wait_for(one.publish_many([speed(10 * n, StoreSeq=10 * n)], results), PATIENCE)
            assert "'match' was denied 'floor'" in str(results[0])
        await root.administer("approve", "match", "floor", ("publish",), None)
        await acknowledged(one, speed(100, StoreSeq=100))
        assert said.lost_because == []
        await one.disconnect()
        await root.close()

    asyncio.run(work())


def test_a_subscription_whose_right_ends_is_told(broker: Process, issuing: Issuing, tmp_path: Path) -> None:
    """Whichever it is: the gateway connects anew, asks again, and knows then why not."""

    async def work() -> None:
        one, said = member(broker, issuing, "trader"), port(tmp_path / "g1")
        await one.connect(said)
        for condition in (SPEED, Filter("rate > 30")):
            await one.subscribe(condition)
        root = await connect(broker.address, "root", token=issuing.token("root", "administrator"))
        await root.administer("deny", "match", "floor")
        await said.until(lambda: said.lost_because, "that it may no longer")
        assert "'match' was denied 'floor'" in said.lost_because[0]
        await one.disconnect()  # as a gateway does
        await one.connect(said)
        with pytest.raises(Refused, match="'match' was denied 'floor'"):
            await one.subscribe(SPEED)
        await one.disconnect()
        await root.close()

    asyncio.run(work())


def test_a_client_whose_advertisement_has_ended_is_refused_at_once(broker: Process, issuing: Issuing) -> None:
    async def work() -> None:
        match = await connect(broker.address, "match", token=issuing.token("match", "engine"))
        root = await connect(broker.address, "root", token=issuing.token("root", "administrator"))
        says = await match.advertise("TRUE", FLOOR)
        await root.administer("deny", "match", "floor")
        await until(lambda: says.number is None)
        with pytest.raises(NotAccepted, match="'match' was denied 'floor'"):
            await asyncio.wait_for(match.publish(speed(1).replace(producer="match"), says), PATIENCE)
        with pytest.raises(NotAccepted, match="'match' was denied 'floor'"):
            await asyncio.wait_for(match.submit_many([speed(1).replace(producer="match")], says), PATIENCE)
        await asyncio.gather(match.close(), root.close())

    asyncio.run(work())
