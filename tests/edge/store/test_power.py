"""Power cuts: block snapshots of a mounted ext4 while a process accepts and forwards; see cloud/log/test_power_real.py.

What the producers know is read immediately before the snapshot, and the service hears nothing from then until it is
made. Then a store is opened on the copy, and sends what it has to a copy of the service."""

import asyncio
import copy
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from cloud.log.test_power_real import Disk, mount, why_not
from edge.store.forwarder import OPTIONS, Shared
from edge.store.rig import Service, accepted, verdict, wait_for
from edge.store.sink import Identity, Sink, Verdict
from nursery import nursery

from vicinal_edge.store import QueueOptions, Store

CUTS = int(os.environ.get("VICINAL_CUTS", "1000" if os.environ.get("VICINAL_SOAK") else "12"))
MUTANT_CUTS = 20

pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=f"REAL POWER CUTS NOT TESTED: {why_not()}"),
    pytest.mark.xdist_group("loop"),
]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with ExitStack() as stack:
        yield Disk(tmp_path, stack)


def cut_often(disk: Disk, folder: Path, times: int, mutant: str | None = None) -> list[Verdict]:
    shared = Shared(folder / "shared", new=True)
    service = Service(folder / "uplink", 1, late=0.05, breaks=0.001)
    verdicts: list[Verdict] = []
    try:
        with nursery("edge.store.forwarder") as children:
            pid = children.start(disk.mounted / "store.sqlite", shared.path, service.path, False, mutant)
            for number in range(times):
                wait_for(shared, 100 + 37 * (number % 7))
                known: set[Identity] = set()

                def know(known: set[Identity] = known) -> list[int]:
                    known |= accepted(shared)
                    return []

                with service.lock:
                    image, _ = disk.cut(know)
                    sink = copy.deepcopy(service.sink)
                children.signal(pid, signal.SIGSTOP)
                with ExitStack() as stack:
                    mount(stack, image, disk.after)
                    asyncio.run(forward_all(disk.after / "store.sqlite", sink))
                    verdicts.append(verdict(sink, shared, known))
                image.unlink()
                children.signal(pid, signal.SIGCONT)
                if mutant and verdicts[-1]:
                    break
            assert children.signal(pid, signal.SIGKILL) == -9
    finally:
        service.close()
    return verdicts


async def forward_all(path: Path, sink: Sink) -> None:
    store = await Store.open(path, OPTIONS)
    queue = await store.stored_queue("wide", QueueOptions(durable=True))
    while queue.counters()["stored"]:
        for number, event in await queue.take(100):
            assert event.identity is not None
            sink.hear(number, event.identity)
            queue.done([number])
    await store.close()


def test_nothing_accepted_is_lost_or_comes_twice(disk: Disk, tmp_path: Path) -> None:
    verdicts = cut_often(disk, tmp_path, CUTS)
    assert len(verdicts) == CUTS
    assert not any(verdicts), [one for one in verdicts if one]


@pytest.mark.parametrize("mutant", ["no_fsync", "accept_before_commit"])
def test_mutants_are_caught(disk: Disk, tmp_path: Path, mutant: str) -> None:
    assert any(one.lost for one in cut_often(disk, tmp_path, MUTANT_CUTS, mutant))
