"""How much later an event is at a subscriber because it came through a gateway.

    frame at the adapter ──▶ gateway: stored on disk ──▶ broker: logged on disk ──▶ subscriber
    event from a client ────────────────────────────────▶ broker: logged on disk ──▶ subscriber

Both at the same rate, one after the other, by the machine's monotonic clock. Frames are given to the adapter by the
gateway's own process (worker.py): the virtual bus has the times of a real one, and takes longer than a gateway does.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from vicinal.event import Event
from vicinal_cloud.broker.client import Advertisement, Client, Subscription, connect

from ..peers.systems import started
from .configs import bus_to_broker

__all__ = ["WORKER", "Late", "latency"]

WORKER = [sys.executable, "-m", "vicinal_tools.bench.gateway.worker"]
_PATIENCE = 60.0
# What the worker gives first has lower numbers.
_FIRST = 5_000_000


class Late(NamedTuple):
    """ms"""

    median: float
    p99: float


def latency(folder: Path, rate: int, seconds: float) -> tuple[Late, Late, float]:
    """Through a gateway that stores, and directly; and the CPU of the gateway for an event, us. `folder` is on a
    disk."""
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix="bench-gateway-") as place,
        started("vicinal", Path(place, "log")) as broker,
    ):
        address, channel = f"tcp://127.0.0.1:{broker.port}", f"bench-{os.getpid()}"
        job: dict[str, Any] = {"config": bus_to_broker(Path(place), channel, address, store=True), "folder": place}
        job |= {"source": "car", "target": "wide", "events": int(rate * seconds), "rate": rate}
        return asyncio.run(_measure(address, job))


async def _measure(address: str, job: dict[str, Any]) -> tuple[Late, Late, float]:
    async with await connect(address, "bench-subscriber") as hearing, await connect(address, "bench-direct") as client:
        came: dict[str, float] = {}
        reading = asyncio.get_running_loop().create_task(_read(await hearing.subscribe("subject = 'Speed'"), came))
        try:
            found = await _work(job)
            through = await _late(found["gone"], came)
            advertisement = await client.advertise("subject = 'Speed'")
            direct = await _late(await _publish(client, advertisement, job["events"], job["rate"]), came)
        finally:
            reading.cancel()
    return through, direct, found["cpu"] / found["events"] * 1e6


async def _read(speeds: Subscription, came: dict[str, float]) -> None:
    async for delivery in speeds:
        came[str(delivery.event["license_no"])] = time.monotonic()


async def _work(job: dict[str, Any]) -> dict[str, Any]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*WORKER, json.dumps(job), stdout=pipe, stderr=pipe)
    said, errors = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"the gateway failed: {errors.decode()[-2000:]}")
    found: dict[str, Any] = json.loads(said)
    return found


async def _publish(client: Client, advertisement: Advertisement, count: int, rate: int) -> dict[str, float]:
    gone: dict[str, float] = {}
    begin = time.monotonic()
    for number in range(count):
        wait = begin + number / rate - time.monotonic()
        if wait > 0:
            await asyncio.sleep(wait)
        name = f"{_FIRST + number:07}"
        gone[name] = time.monotonic()
        await client.submit(Event("Speed", [("license_no", name), ("rate", 57.0)]), advertisement)
    return gone


async def _late(gone: dict[str, float], came: dict[str, float]) -> Late:
    end = time.monotonic() + _PATIENCE
    while not gone.keys() <= came.keys():
        if time.monotonic() > end:
            raise TimeoutError(f"{len(gone.keys() - came.keys())} of {len(gone)} events never came")
        await asyncio.sleep(0.01)
    late = sorted((came[key] - at) * 1e3 for key, at in gone.items())
    return Late(late[len(late) // 2], late[len(late) * 99 // 100])
