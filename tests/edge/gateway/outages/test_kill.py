"""`kill -9` of the gateway at random points under load, now and then of the broker as well, with a link that is late.

200 kills in `make test`, 2,000 in `make soak`; VICINAL_GATEWAY_KILLS says otherwise, VICINAL_SEED another start.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from edge.gateway.outages import rig as rig_module
from edge.gateway.outages.mutants import MUTANTS
from edge.gateway.outages.rig import Rig, out

KILLS = int(os.environ.get("VICINAL_GATEWAY_KILLS", "2000" if os.environ.get("VICINAL_SOAK") else "200"))
SEED = int(os.environ.get("VICINAL_SEED", "1"))


async def attack(rig: Rig, kills: int) -> None:
    chance = rig.chance
    rig.link.delay = 0.005
    load = asyncio.create_task(rig.load.forever(400))
    try:
        while rig.kills < kills:
            await asyncio.sleep(chance.random() ** 2 * 0.8)
            if chance.random() < 0.1:
                await rig.broker.kill("b1")
                await asyncio.sleep(chance.random() * 0.3)
                await rig.kill()
                await rig.broker.start("b1")
            else:
                await rig.kill()
            while chance.random() < 0.2:
                await rig.interrupt(chance.random() * 0.2)
            await rig.start()
            await rig.keep_up()
    finally:
        load.cancel()
        await load


# In parts, so that the workers of a test run share them.
@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_what_the_bus_has_taken_is_in_the_log_once(tmp_path: Path, part: int) -> None:
    async def run() -> None:
        async with Rig(tmp_path, seed=4 * SEED + part) as rig:
            await attack(rig, -(-KILLS // 4))
            await rig.check()
            print(f"{rig.kills} kills, {len(rig.load.accepted)} events, {rig.polls} polls")

    asyncio.run(run())


async def calm(rig: Rig) -> None:
    """All is delivered, and nothing of it is on disk any more, when it is killed."""
    await rig.load.run(100, rate=400)
    await rig.all_logged()
    await rig.until(lambda status: out(status)["stored"] == 0, "all is delivered")
    await asyncio.sleep(1.5)
    await rig.kill()
    await rig.start()
    await rig.load.run(100, rate=400)


async def cuts(rig: Rig) -> None:
    load = asyncio.create_task(rig.load.forever(400))
    for _ in range(8):
        await asyncio.sleep(rig.chance.random() * 0.3)
        rig.link.cut()
        rig.link.heal()
    load.cancel()
    await load


async def kills(rig: Rig) -> None:
    await attack(rig, rig.kills + 5)


# The others are caught in test_life.py and test_can.py.
HERE = [one for one in MUTANTS if "requests" not in one and "of events" not in one]
CAUGHT_BY = {"numbers are not reserved": calm, "nothing goes again": cuts}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", HERE)
def test_mutants_are_caught(tmp_path: Path, mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig_module, "QUIET", 2.0)

    async def run() -> bool:
        """As often as it takes, and not for ever."""
        async with Rig(tmp_path, seed=SEED, mutant=mutant) as rig:
            for _ in range(8):
                await CAUGHT_BY.get(mutant, kills)(rig)
                if await rig.verdict():
                    return True
        return False

    assert asyncio.run(run())


@pytest.mark.parametrize("fate", [calm, cuts])
def test_what_catches_a_mutant_is_survived(tmp_path: Path, fate: Callable[[Rig], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Rig(tmp_path, seed=SEED) as rig:
            await fate(rig)
            await rig.check()

    asyncio.run(run())
