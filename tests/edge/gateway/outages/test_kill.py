"""`kill -9` of the gateway at random points under load, now and then of the broker as well, with a link that is late.

40 kills in `make test`, 200 and more in `make soak`; VICINAL_GATEWAY_KILLS says otherwise, VICINAL_SEED another start.
"""

import asyncio
import os
from pathlib import Path

import pytest
from edge.gateway.outages.rig import Rig

KILLS = int(os.environ.get("VICINAL_GATEWAY_KILLS", "1000" if os.environ.get("VICINAL_SOAK") else "40"))
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
    finally:
        load.cancel()
        await load


@pytest.mark.slow
def test_what_the_bus_has_taken_is_in_the_log_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with Rig(tmp_path, seed=SEED) as rig:
            await attack(rig, KILLS)
            await rig.check()
            print(f"{rig.kills} kills, {len(rig.load.accepted)} events, {rig.polls} polls")

    asyncio.run(run())
