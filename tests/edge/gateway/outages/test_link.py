"""The way to the broker is cut for long, flaps, hangs and is slow: nothing is lost, twice or out of order.

A cut of 30 minutes is scaled: what matters is the backlog, how it is written, read again and drained.
"""

import asyncio
import os
from pathlib import Path

import pytest
from edge.gateway.outages.rig import Rig, out

SOAK = bool(os.environ.get("VICINAL_SOAK"))
BACKLOG = 200_000 if SOAK else 12_000
FLAPPING = 300.0 if SOAK else 12.0
SEED = int(os.environ.get("VICINAL_SEED", "1"))


@pytest.mark.slow
def test_a_long_cut_and_a_paced_drain(tmp_path: Path) -> None:
    """Urgent events need not wait for the pace."""

    async def run() -> None:
        async with Rig(tmp_path, more="[store]\ndrain_rate = 4000\n") as rig:
            await rig.load.run(500, rate=500)
            rig.link.cut()
            await rig.load.run(BACKLOG)
            status = await rig.until(lambda status: out(status)["accepted"] >= BACKLOG + 500, "all is accepted")
            assert out(status)["stored"] >= BACKLOG
            assert out(status)["not_yet_on_disk"] == 0 or await rig.until(
                lambda status: out(status)["not_yet_on_disk"] == 0, "all is on disk"
            )
            rig.link.heal()
            # It goes on meanwhile.
            await rig.load.run(1000, rate=500)
            await rig.check()

    asyncio.run(run())


@pytest.mark.slow
def test_a_link_that_flaps(tmp_path: Path) -> None:
    async def run() -> None:
        async with Rig(tmp_path, seed=SEED) as rig:
            rig.link.slice, rig.link.delay = 700, 0.002
            loop = asyncio.get_running_loop()
            end = loop.time() + FLAPPING
            load = asyncio.create_task(rig.load.forever(300))
            while loop.time() < end:
                await asyncio.sleep(rig.chance.uniform(0.05, 0.5))
                rig.link.cut()
                await asyncio.sleep(rig.chance.uniform(0.0, 0.1))
                rig.link.heal()
            rig.link.slice, rig.link.delay = 65536, 0
            load.cancel()
            await load
            assert rig.link.connections > 3
            await rig.check()

    asyncio.run(run())


def test_a_link_that_hangs_and_then_is_reset(tmp_path: Path) -> None:
    """Half open: what was sent into it is with nobody, or with the broker and not acknowledged."""

    async def run() -> None:
        async with Rig(tmp_path, seed=SEED) as rig:
            load = asyncio.create_task(rig.load.forever(400))
            for _ in range(20 if SOAK else 4):
                await asyncio.sleep(rig.chance.uniform(0.1, 0.6))
                rig.link.freeze()
                await asyncio.sleep(rig.chance.uniform(0.1, 1.0))
                rig.link.cut()
                rig.link.heal()
            load.cancel()
            await load
            await rig.check()

    asyncio.run(run())


def test_the_broker_dies_and_comes_back(tmp_path: Path) -> None:
    async def run() -> None:
        async with Rig(tmp_path, seed=SEED) as rig:
            load = asyncio.create_task(rig.load.forever(400))
            for _ in range(50 if SOAK else 5):
                await asyncio.sleep(rig.chance.uniform(0.2, 0.8))
                await rig.broker.kill("b1")
                await asyncio.sleep(rig.chance.uniform(0.0, 0.5))
                await rig.broker.start("b1")
            load.cancel()
            await load
            await rig.check()

    asyncio.run(run())
