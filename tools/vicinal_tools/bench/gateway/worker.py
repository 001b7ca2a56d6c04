"""The gateway of a measurement, in a process of its own: python -m vicinal_tools.bench.gateway.worker JOB

JOB is JSON: {"config": TOML, "folder": where, "source": service, "target": service, "events": how many}. What goes
in is made before the clock runs, and is given in turns, no faster than the queue of the target empties. Frames of CAN
are given to the adapter where python-can's recv would have given them: a bus that is fast enough is not at
hand, and what recv costs is the driver's. Prints {"events": ..., "wall": seconds, "cpu": seconds of all threads}.
With "rate", events a second, they are given at that rate, and "gone" says when each was, by its license_no and the
machine's monotonic clock.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import can

from vicinal.event import Event
from vicinal_edge.adapters.cosmic import CosmicAdapter
from vicinal_edge.adapters.memory import spaces
from vicinal_edge.gateway.config import loads
from vicinal_edge.gateway.node import Node
from vicinal_edge.gateway.run import at_rest

from .configs import FRAME_ID

__all__ = ["main"]

# Given before others have a turn, and in the queue of the target before it is waited for.
_TURN = 64
_AHEAD = 4096
_POLL = 0.001
_WARM_UP = 2000
_PATIENCE = 120.0


async def measure(job: dict[str, Any]) -> dict[str, Any]:
    folder = Path(job["folder"])
    node = await Node.open(loads(job["config"].encode(), folder / "gateway.toml"))
    node.start()
    try:
        await _until(lambda: _is_ready(node, job["source"]))
        give = _giver(node, job["source"])
        await _run(node, job, give(_WARM_UP, 0))  # decoders, plans and the like are made with the first events
        gifts = give(job["events"], _WARM_UP)
        at_rest()
        return await (_pace(node, job, gifts) if "rate" in job else _run(node, job, gifts))
    finally:
        await node.stop()


def _giver(node: Node, source: str) -> Callable[[int, int], list[Callable[[], object]]]:
    adapter = node.services[source].adapter
    if isinstance(adapter, CosmicAdapter):
        shell = adapter._shell
        assert shell is not None
        take = shell._on_message
        return lambda count, first: [partial(take, _frame(first + n)) for n in range(count)]
    publish = spaces[source].publish
    return lambda count, first: [partial(publish, _event(first + n)) for n in range(count)]


def _frame(number: int) -> can.Message:
    data = b"%07d" % (number % 10_000_000) + bytes([31 + number % 200])
    return can.Message(arbitration_id=FRAME_ID, is_extended_id=True, data=data)


def _event(number: int) -> Event:
    params = [("license_no", f"{number % 10_000_000:07}"), ("rate", 31.0 + number % 200)]
    return Event("Speed", params, producer="car", seq=number)


async def _run(node: Node, job: dict[str, Any], gifts: list[Callable[[], object]]) -> dict[str, Any]:
    queue = node.services[job["target"]].queue
    outbox = queue.outbox
    goal = outbox.delivered + len(gifts)
    wall, cpu = time.perf_counter(), time.process_time()
    at = 0
    while at < len(gifts):
        while at < len(gifts) and outbox.count < _AHEAD:
            for gift in gifts[at : at + _TURN]:
                gift()
            at += _TURN
            await asyncio.sleep(0)
        await asyncio.sleep(_POLL)
    end = wall + _PATIENCE
    while outbox.delivered < goal and not outbox.dropped and time.perf_counter() < end:
        await asyncio.sleep(_POLL)
    found = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "events": len(gifts)}
    if outbox.delivered != goal or outbox.dropped:
        raise RuntimeError(f"{goal - outbox.delivered} of {len(gifts)} events are missing, dropped: {outbox.dropped}")
    return found


async def _pace(node: Node, job: dict[str, Any], gifts: list[Callable[[], object]]) -> dict[str, Any]:
    outbox = node.services[job["target"]].queue.outbox
    goal = outbox.delivered + len(gifts)
    gone: dict[str, float] = {}
    begin, cpu = time.monotonic(), time.process_time()
    for count, gift in enumerate(gifts):
        wait = begin + count / job["rate"] - time.monotonic()
        if wait > 0:
            await asyncio.sleep(wait)
        gone[f"{_WARM_UP + count:07}"] = time.monotonic()
        gift()
    while outbox.delivered < goal and time.monotonic() < begin + _PATIENCE:
        await asyncio.sleep(_POLL)
    return {"gone": gone, "cpu": time.process_time() - cpu, "events": len(gifts)}


def _is_ready(node: Node, source: str) -> bool:
    """All services are up, and what is asked of the source is applied."""
    notes = node.engine.services[source].notes
    up = all(service.state == "up" for service in node.services.values())
    return up and bool(notes) and all(note.state == "applied" for note in notes.values())


async def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the gateway's services did not come up")
        await asyncio.sleep(0.01)


def main() -> None:
    print(json.dumps(asyncio.run(measure(json.loads(sys.argv[1])))), flush=True)


if __name__ == "__main__":
    main()
