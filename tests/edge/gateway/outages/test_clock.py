"""The clock of the gateway's machine jumps, an hour and ten years, ahead and back: nothing is lost, nothing comes twice
and nothing expires early. Only the gateway's: libfaketime gives it an offset from a file. Monotonic time stays."""

import asyncio
import time
from pathlib import Path

import pytest
from edge.gateway.outages.rig import Rig, event_of_load, out

from vicinal.event import Event
from vicinal_edge.gateway.node import wall_clock

LIBRARY = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)
HOUR, YEARS = 3600, 10 * 365 * 86400
JUMPS = [HOUR, 0, -HOUR, 0, YEARS, 0, -YEARS, 0, 30, -30, 0]

with_library = pytest.mark.skipif(LIBRARY is None, reason="CLOCK TESTS SKIPPED: apt-get install libfaketime")


def faked(offset: Path) -> dict[str, str]:
    return {
        "LD_PRELOAD": str(LIBRARY),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_NO_CACHE": "1",
        # Else it corrects waits of threads for a monotonic clock that is not faked, and they take seconds.
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }


class Clocks:
    def __init__(self, wall: int = 1_800_000_000_000) -> None:
        self.wall, self.steady = wall, 5_000
        self.now = wall_clock(lambda: self.wall * 1_000_000, lambda: self.steady * 1_000_000)

    def pass_(self, milliseconds: int, jump: int = 0) -> int:
        self.steady += milliseconds
        self.wall += milliseconds + jump
        return self.now()


def test_a_clock_that_drifts_is_followed_and_never_goes_back() -> None:
    clocks = Clocks()
    last = clocks.now()
    for jump in (3, -3, 1500, -1500, -1999, 7):
        found = clocks.pass_(1000, jump)
        assert last <= found
        assert abs(found - clocks.wall) <= 2000
        last = found
    assert clocks.pass_(5000) == clocks.wall


@pytest.mark.parametrize("jump", [HOUR * 1000, -HOUR * 1000, YEARS * 1000, -YEARS * 1000, 30_000, -30_000])
def test_a_clock_that_jumps_is_followed_when_it_stays(jump: int) -> None:
    clocks = Clocks()
    right = clocks.wall
    assert clocks.pass_(1000, jump) == right + 1000
    assert clocks.pass_(50_000) == right + 51_000
    # There and back again: it was nothing.
    assert clocks.pass_(1000, -jump) == right + 52_000
    assert clocks.pass_(90_000) == clocks.wall == right + 142_000
    # For good.
    clocks.pass_(1000, jump)
    assert clocks.pass_(61_000) == clocks.wall


def test_a_clock_that_was_never_set_is_followed_at_once() -> None:
    clocks = Clocks(1_000)
    assert clocks.pass_(1000) == 2_000
    assert clocks.pass_(1000, 1_800_000_000_000) == 1_800_000_003_000


@with_library
@pytest.mark.slow
def test_jumps(tmp_path: Path) -> None:
    """With the uplink and without; half of the events are good for an hour and a quarter, as a clock that is right sees
    it, and none of them is too old when it could go."""
    offset = tmp_path / "offset"

    def say(seconds: int) -> None:
        new = tmp_path / "offset.new"
        new.write_text(f"{seconds:+d}s\n")
        new.replace(offset)

    say(0)

    async def run() -> None:
        async with Rig(tmp_path, env=faked(offset)) as rig:
            rig.load.make = with_expiry
            load = asyncio.create_task(rig.load.forever(150))
            for number, jump in enumerate(JUMPS):
                if number % 3 == 1:
                    rig.link.cut()
                else:
                    rig.link.heal()
                say(jump)
                await asyncio.sleep(0.7)
                assert abs((await rig.status())["now"] // 1000 - time.time()) < 60
            rig.link.heal()
            load.cancel()
            await load
            await rig.check()
            assert not out(await rig.status())["dropped"]

    asyncio.run(run())


@with_library
@pytest.mark.slow
def test_restarts_with_another_clock(tmp_path: Path) -> None:
    """No number is used twice, whatever the clock says when it starts."""
    offset = tmp_path / "offset"
    offset.write_text("+0s\n")

    async def run() -> None:
        async with Rig(tmp_path, env=faked(offset)) as rig:
            for jump in (-YEARS, YEARS, 0, -HOUR, HOUR):
                await rig.load.run(100, rate=300)
                rig.link.cut()
                await rig.load.run(50, rate=300)
                await rig.kill()
                offset.write_text(f"{jump:+d}s\n")
                rig.link.heal()
                await rig.start()
            await rig.load.run(100, rate=300)
            await rig.check()

    asyncio.run(run())


def with_expiry(producer: str, seq: int) -> Event:
    event = event_of_load(producer, seq)
    if seq % 2:
        return event
    return event.replace(attrs={**event.attrs, "Expires": time.time_ns() // 1_000_000 + 75 * 60_000})
