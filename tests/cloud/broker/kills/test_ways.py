"""The ways in which an acknowledged event could be lost when brokers die, one by one."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from cloud.broker.brokers import until
from cloud.broker.kills.attack import Attack, Plan, check, quiet, started, verdict_of

spec = pytest.mark.spec
PAIR = Plan("pair", 0, 1, publishers=("b1",), subscribers=("b2",))


def after(folder: Path, plan: Plan, fate: Callable[[Attack], Awaitable[None]]) -> int:
    """What was acknowledged and has all come, in spite of a fate."""

    async def run() -> int:
        async with started(folder, plan) as under:
            for publisher in under.publishers:
                await publisher.say(10)
            await until(lambda: all(one.got for one in under.subscribers), "the first event comes")
            await asyncio.sleep(0.5)
            await fate(under)
            await quiet(under)
            verdict = verdict_of(under)
            assert verdict.fine, verdict.text(under.overlay.downs)
            return verdict.acknowledged

    return asyncio.run(run())


@pytest.mark.parametrize("scoped", [False, True])
def test_it_is_on_the_disk_of_its_broker_alone_which_dies(tmp_path: Path, scoped: bool) -> None:
    async def fate(under: Attack) -> None:
        overlay, publisher = under.overlay, under.publishers[0]
        await overlay.kill("b2")
        await publisher.say(200)
        await overlay.kill("b1")
        await overlay.start("b2")
        await overlay.start("b1")

    assert after(tmp_path, PAIR._replace(scoped=scoped), fate) == 210


def test_and_its_producer_never_comes_back(tmp_path: Path) -> None:
    """So that nobody advertises at its broker any more."""

    async def fate(under: Attack) -> None:
        overlay, publisher = under.overlay, under.publishers[0]
        await overlay.kill("b2")
        await publisher.say(200)
        await overlay.kill("b1")
        await publisher.close()
        await overlay.start("b1")
        await overlay.start("b2")

    assert after(tmp_path, PAIR, fate) == 210


def test_its_producer_goes_on_before_others_have_come_back(tmp_path: Path) -> None:
    """What is published next must not overtake what is still on the disk."""

    async def fate(under: Attack) -> None:
        overlay, publisher = under.overlay, under.publishers[0]
        await overlay.kill("b2")
        await publisher.say(200)
        await overlay.kill("b1")
        await overlay.start("b1")
        await publisher.say(200)
        await overlay.start("b2")
        await publisher.say(200)

    assert after(tmp_path, PAIR, fate) == 610


def test_it_has_come_and_is_not_yet_on_the_disk_of_the_subscriber(tmp_path: Path) -> None:
    check(tmp_path, PAIR._replace(kills=12, seed=2, targets=("b2",), rate=1000, pauses=0, renewals=0))


def test_the_broker_of_the_subscriber_is_away_for_more_than_may_wait(tmp_path: Path) -> None:
    """More than MAX_QUEUE packets: the rest is left to the log."""

    async def fate(under: Attack) -> None:
        overlay, publisher = under.overlay, under.publishers[0]
        await overlay.kill("b2")
        await publisher.say(6000)
        await overlay.start("b2")
        await publisher.say(100)

    assert after(tmp_path, PAIR, fate) == 6110


@spec("OVER-33")
def test_the_way_is_cut_for_more_than_may_wait(tmp_path: Path) -> None:
    """The broker in the middle is away; both ends live, and keep what they had in memory."""

    async def fate(under: Attack) -> None:
        overlay, publisher = under.overlay, under.publishers[0]
        await overlay.kill("b2")
        await publisher.say(6000)
        await overlay.start("b2")
        await publisher.say(100)

    plan = Plan("line", 0, 1, publishers=("b1",), subscribers=("b3",))
    assert after(tmp_path, plan, fate) == 6110


def test_publisher_and_subscriber_have_the_same_broker(tmp_path: Path) -> None:
    check(tmp_path, Plan("alone", kills=12, seed=3, rate=1000, subscribers=("b1", "b1"), pauses=0, renewals=0))


def test_all_brokers_die_at_once(tmp_path: Path) -> None:
    async def fate(under: Attack) -> None:
        overlay = under.overlay
        for _ in range(3):
            await asyncio.gather(*[publisher.say(100) for publisher in under.publishers])
            await overlay.kill(*overlay.names)
            for name in overlay.names:
                await overlay.start(name)

    assert after(tmp_path, Plan("ring", 0, 1), fate) == 930
