"""A disk that is full, and a store that is: every drop is counted, and what is not dropped comes."""

import asyncio
import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from edge.gateway.outages.rig import Rig, balanced, is_up, out

from vicinal.event import Event

SOAK = bool(os.environ.get("VICINAL_SOAK"))


def _mounts() -> bool:
    return subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode == 0


async def check_with_drops(rig: Rig) -> dict[str, int]:
    """All that was said has come or is counted as dropped, and nothing twice. Which reasons, and how often."""
    status = await rig.until(lambda status: out(status)["stored"] == 0, "the store is empty")
    assert not rig.wrong, rig.wrong[0]
    rig.read_log()
    found = await rig.verdict()
    dropped: dict[str, int] = out(status)["dropped"]
    lost = len(found.lost)
    assert lost == sum(dropped.values()), (rig.story(found), dropped)
    found.lost = []
    assert not found, rig.story(found)
    said = len(rig.load.accepted)
    assert out(status)["accepted"] == said
    assert out(status)["delivered"] == said - lost
    return dropped


@pytest.mark.slow
@pytest.mark.skipif(not _mounts(), reason="DISK TESTS SKIPPED: no mount namespaces (root, and unshare of util-linux)")
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge.gateway.outages.rig.QUIET", 3.0)

    async def run() -> None:
        async with Rig(tmp_path, disk="6m") as rig:
            await rig.load.run(300, rate=600)
            await rig.check()
            for round in range(20 if SOAK else 2):
                to_the_last = round % 2 == 1  # others also take the room that the store keeps for this case
                failures = failed(await rig.status())
                rig.link.cut()
                fill(rig.seen_state / "filler")
                while failed(status := await rig.status()) == failures:  # there is room within its file
                    await rig.load.run(400, rate=800)
                if to_the_last:
                    fill(rig.seen_state / "filler")
                    await rig.load.run(400, rate=800)
                assert balanced(status)
                rig.link.heal()
                await rig.until(is_up, "the uplink is back")
                if not to_the_last:  # what is stored goes out, and what comes now goes through
                    before = len(rig.read_log().order)
                    await rig.load.run(200, rate=400)
                    await rig.until(lambda _, least=before + 200: len(rig.read_log().order) >= least, "some go through")
                rig.link.cut()
                await rig.load.run(50, rate=400)
                (rig.seen_state / "filler").unlink()
                failures = failed(await rig.status())
                await rig.load.run(50, rate=100)
                await rig.until(lambda status: not status["store"]["broken"], "the disk takes again what is written")
                # It tries every half second: no more than ten times is within five seconds.
                assert failed(await rig.status()) - failures <= 10
                rig.link.heal()
                await rig.until(lambda status: out(status)["stored"] == 0, "the store is empty")
                dropped = await check_with_drops(rig)
                assert set(dropped) == {"no space on the disk"}, dropped

    asyncio.run(run())


def large(producer: str, seq: int) -> Event:
    return Event("Speed", [("rate", seq), ("pad", "x" * 500)], {"Priority": 500 * (seq % 3)}, producer, seq)


def failed(status: dict[str, Any]) -> int:
    return sum(status["store"]["failures"].values())


def fill(file: Path) -> None:
    with file.open("ab", buffering=0) as out:
        for size in (65536, 4096, 1):
            with contextlib.suppress(OSError):
                while out.write(b"\0" * size):
                    pass


@pytest.mark.slow
def test_the_bound_of_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1 MB, and two of them come while the uplink is away: what is dropped is counted, by reason and class."""
    monkeypatch.setattr("edge.gateway.outages.rig.QUIET", 3.0)

    async def run() -> None:
        async with Rig(tmp_path, more="[store]\nmax_mb = 1\n") as rig:
            rig.load.make = large
            await rig.load.run(100, rate=500)
            await rig.check()
            rig.link.cut()
            await rig.load.run(3000)
            status = await rig.until(lambda status: out(status)["accepted"] >= 3100, "all is accepted")
            assert out(status)["bytes"] <= 1 << 20
            assert out(status)["stored"] > 500
            rig.link.heal()
            dropped = await check_with_drops(rig)
            assert dropped
            assert all(reason.startswith("no room: ") for reason in dropped), json.dumps(dropped)

    asyncio.run(run())
