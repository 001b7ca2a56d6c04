"""How much later an event is at a subscriber because it came through a gateway.

    frame on the virtual bus ──▶ gateway: stored on disk ──▶ broker: logged on disk ──▶ subscriber
    event from a client ─────────────────────────────────────▶ broker: logged on disk ──▶ subscriber

Both at the same rate, one after the other; who sends and who receives are one process, with one clock.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import can

from vicinal.event import Event
from vicinal_cloud.broker.client import Client, Subscription, connect

from ..peers.systems import Process, started
from .configs import FRAME_ID, bus_to_broker

__all__ = ["COMMAND", "Late", "latency"]

COMMAND = [sys.executable, "-c", "from vicinal_tools.main import main; main()", "gateway", "run"]
_PATIENCE = 60.0


class Late(NamedTuple):
    """ms"""

    median: float
    p99: float
    cpu: float
    """of the gateway for an event, us"""


def latency(folder: Path, rate: int, seconds: float) -> tuple[Late, Late]:
    """Through a gateway that stores, and directly; `folder` is on a disk."""
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix="bench-gateway-") as place,
        started("vicinal", Path(place, "log")) as broker,
    ):
        address, channel = f"tcp://127.0.0.1:{broker.port}", f"bench-{os.getpid()}"
        file = Path(place, "gateway.toml")
        text = bus_to_broker(Path(place), channel, address, store=True)
        file.write_text(text + '[status]\naddress = "http://127.0.0.1:0"\n')
        with Path(place, "messages").open("wb") as said:
            process = subprocess.Popen([*COMMAND, str(file), "--json"], stdout=subprocess.PIPE, stderr=said, text=True)
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError(f"the gateway did not start: {Path(place, 'messages').read_text()}")
            gateway = Process(process.pid, 0)
            return asyncio.run(_measure(address, channel, rate, seconds, gateway))
        finally:
            process.terminate()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


async def _measure(address: str, channel: str, rate: int, seconds: float, gateway: Process) -> tuple[Late, Late]:
    bus = can.Bus(interface="vicinal", channel=channel)
    async with await connect(address, "bench-subscriber") as hearing, await connect(address, "bench-direct") as client:
        came: dict[str, float] = {}
        speeds = await hearing.subscribe("subject = 'Speed'")
        reading = asyncio.get_running_loop().create_task(_read(speeds, came))
        try:
            advertisement = await client.advertise("subject = 'Speed'")
            await _wait_for_the_gateway(bus, came)
            through = await _send(lambda number: _frame(bus, number), 10_000, rate, seconds, came, gateway)
            direct = await _send(
                lambda number: _submit(client, number, advertisement), 5_000_000, rate, seconds, came, gateway
            )
        finally:
            reading.cancel()
            bus.shutdown()
    return through, direct


async def _read(speeds: Subscription, came: dict[str, float]) -> None:
    async for delivery in speeds:
        came[str(delivery.event["license_no"])] = time.perf_counter()


def _frame(bus: can.BusABC, number: int) -> None:
    bus.send(can.Message(arbitration_id=FRAME_ID, is_extended_id=True, data=b"%07d" % number + b"\x39"))


_submitted: set["asyncio.Task[object]"] = set()


def _submit(client: Client, number: int, advertisement: object) -> None:
    event = Event("Speed", [("license_no", f"{number:07}"), ("rate", 57.0)])
    task: asyncio.Task[object] = asyncio.get_running_loop().create_task(client.submit(event, advertisement))  # type: ignore[arg-type]
    _submitted.add(task)
    task.add_done_callback(_submitted.discard)


async def _wait_for_the_gateway(bus: can.BusABC, came: dict[str, float]) -> None:
    end = time.monotonic() + _PATIENCE
    number = 0
    while not came:
        if time.monotonic() > end:
            raise TimeoutError("nothing comes through the gateway")
        number += 1
        _frame(bus, number)
        await asyncio.sleep(0.05)


async def _send(
    send: Callable[[int], None], first: int, rate: int, seconds: float, came: dict[str, float], gateway: Process
) -> Late:
    gone: dict[str, float] = {}
    cpu = gateway.cpu()
    begin = time.perf_counter()
    for count in range(int(rate * seconds)):
        wait = begin + count / rate - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        gone[f"{first + count:07}"] = time.perf_counter()
        send(first + count)
    end = time.monotonic() + _PATIENCE
    while not gone.keys() <= came.keys():
        if time.monotonic() > end:
            raise TimeoutError(f"{len(gone.keys() - came.keys())} of {len(gone)} events never came")
        await asyncio.sleep(0.01)
    spent = gateway.cpu() - cpu
    late = sorted((came[key] - at) * 1e3 for key, at in gone.items())
    return Late(late[len(late) // 2], late[len(late) * 99 // 100], spent / len(late) * 1e6)
