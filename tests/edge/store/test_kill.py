"""`kill -9` of a process that accepts and forwards, at random points, with an uplink that breaks off now and then."""

import os
import random
import signal
import time
from pathlib import Path

import pytest
from edge.store.forwarder import Shared
from edge.store.rig import Service, accepted, verdict, wait_for
from edge.store.sink import Verdict
from nursery import Nursery, nursery

KILLS = int(os.environ.get("VICINAL_KILLS", "10000" if os.environ.get("VICINAL_SOAK") else "200"))


def kill(folder: Path, times: int, seed: int, mutant: str | None = None) -> tuple[int, int, Verdict]:
    """How many were accepted, how many were sent again after a crash, and the verdict."""
    chance = random.Random(seed)
    shared = Shared(folder / "shared", new=True)
    service = Service(folder / "uplink", seed)
    store = folder / "store.sqlite"
    try:
        with nursery("edge.store.forwarder") as children:
            for _ in range(times):
                pid = children.start(store, shared.path, service.path, False, mutant)
                if chance.random() < 0.9:  # else it is killed while it starts
                    wait_for(shared, chance.randrange(1, 400))
                time.sleep(chance.random() ** 3 * 0.05)
                # Lives before it are of no use if one of them had ended by itself.
                assert children.signal(pid, signal.SIGKILL) == -9
                if service.sink.wrong:
                    return 0, service.sink.repeated, verdict(service.sink, shared)
            drain(children, store, shared, service, mutant)
    finally:
        service.close()
    return len(accepted(shared)), service.sink.repeated, verdict(service.sink, shared)


def drain(children: Nursery, store: Path, shared: Shared, service: Service, mutant: str | None) -> None:
    """The last life accepts nothing new, and its uplink works."""
    service.late = service.breaks = 0
    pid = children.start(store, shared.path, service.path, True, mutant)
    give_up = time.monotonic() + 60
    while shared.counted() != 1:
        assert time.monotonic() < give_up, f"{shared.counted() - 1} are still there"
        assert not service.sink.wrong, service.sink.wrong
        time.sleep(0.005)
    assert children.signal(pid, signal.SIGKILL) == -9


# In parts, so that the workers of a test run share them.
@pytest.mark.parametrize("part", range(4))
def test_nothing_accepted_is_lost_or_comes_twice(tmp_path: Path, part: int) -> None:
    count, repeated, found = kill(tmp_path, -(-KILLS // 4), part)
    assert not found, found
    assert count > 1000
    assert repeated > 0, "nothing was under way when it was killed"


@pytest.mark.parametrize(
    "mutant",
    [
        "accept_before_commit",
        "deleted_when_handed_out",
        "numbers_given_again",
        "record_forgotten",
        "retried_in_the_wrong_order",
    ],
)
def test_mutants_are_caught(tmp_path: Path, mutant: str) -> None:
    def until_caught() -> bool:
        for seed in range(6):
            folder = tmp_path / str(seed)
            folder.mkdir()
            if kill(folder, 20, seed, mutant)[2]:
                return True
        return False

    assert until_caught()
