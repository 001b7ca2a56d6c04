"""Power cut at every write and every sync, with everything that a disk may then have kept or not."""

import errno
from collections.abc import Callable

import pytest
from cloud.log.mutants import apply
from cloud.log.workload import Workload
from hypothesis import given
from hypothesis import strategies as st
from strategies import cases

from vicinal_cloud.log import LogFailed
from vicinal_cloud.log.simulated_files import AFTER, BEFORE, KEPT, LOST, TORN, PowerCut, SimulatedFiles

# A sector smaller than a record, so that a cut tears records and leaves holes between them.
SECTOR = 32


class Violation(Exception):
    pass


def workload(seed: int, sector: int = SECTOR) -> Workload:
    return Workload(SimulatedFiles(seed, sector), seed)


def run_until_cut(work: Workload) -> bool:
    try:
        work.open()
        while not work.done():
            work.step()
        assert work.log is not None
        work.log.close()
    except PowerCut:
        if work.reader is not None:
            work.look()  # in the last instant
        return True
    return False


def judge(work: Workload) -> None:
    """Opens, reads, goes on to the end, reads again."""
    work.files.restart()
    work.open()
    if verdict := work.verdict():
        raise Violation(f"after the cut: {verdict}")
    work.files.restart()
    work.finish()
    if verdict := work.verdict():
        raise Violation(f"at the end: {verdict}")
    if missing := work.missing():
        raise Violation(f"never stored: {missing}")


def operations(seed: int) -> int:
    work = workload(seed)
    run_until_cut(work)
    return work.files.operations


def cut_everywhere(seed: int, fates: tuple[str, ...]) -> int:
    runs = 0
    for at in range(1, operations(seed) + 1):
        for when in (BEFORE, TORN, AFTER):
            for fate in fates:
                work = workload(seed)
                work.files.cut(at, when)
                assert run_until_cut(work)
                work.files.power_on(fate)
                judge(work)
                runs += 1
    return runs


@pytest.mark.parametrize("seed", [1, 2])
def test_no_cut_loses_or_repeats_anything(seed: int) -> None:
    assert cut_everywhere(seed, (LOST, KEPT, TORN, TORN)) > 500


def kill_then_cut(seed: int, at: int) -> None:
    """The process is killed, opened again, does a few batches, then the power goes: what the second process
    acknowledged because the first had written it must be there."""
    work = workload(seed)
    work.files.cut(at, AFTER)
    if not run_until_cut(work):
        return
    work.files.restart()
    work.open()
    work.step()
    work.step()
    work.files.power_on(LOST)
    judge(work)


def test_a_second_process_does_not_trust_the_memory_of_the_first() -> None:
    for at in range(1, operations(3) + 1):
        kill_then_cut(3, at)


def many_cuts(seed: int) -> None:
    """Cuts and kills at random, again and again, in recovery too."""
    work = workload(seed, sector=(16, 64, 512)[seed % 3])
    work.files.writeback = (0, 0.3)[seed % 2]
    for _ in range(4):
        work.files.cut(work.random.randrange(1, 40), work.random.choice((BEFORE, TORN, AFTER)))
        if not run_until_cut(work):
            break
        if work.random.random() < 0.3:
            work.files.restart()
        else:
            work.files.power_on(work.random.choice((LOST, KEPT, TORN, TORN)))
    work.files.restart()
    judge(work)


@given(seed=st.integers(0, 1 << 40))
@cases(400)
def test_many_cuts(seed: int) -> None:
    many_cuts(seed)


def sync_fails(seed: int, at: int, then: Callable[[Workload], None]) -> bool:
    """Whether the operation was a sync of a segment, and it failed."""
    work = workload(seed)
    failed = False

    def fault(number: int, kind: str, name: str) -> OSError | None:
        nonlocal failed
        if number == at and kind in ("sync", "sync_directory"):
            failed = True
            return OSError(errno.EIO, "Input/output error", name)
        return None

    work.open()
    work.files.fault = fault
    try:
        while not work.done():
            work.step()
    except LogFailed:
        assert work.log is not None
        with pytest.raises(LogFailed, match="read-only since"):
            work.log.append_batch([], 0)
        work.verdict()  # it can still be read
    then(work)
    judge(work)
    return failed


def power_off(work: Workload) -> None:
    work.files.power_on(LOST)


def open_then_power_off(work: Workload) -> None:
    """Another process opens it in the same boot and acknowledges repetitions; then the power goes."""
    work.files.restart()
    work.open()
    if not work.done():
        work.step()
    work.files.power_on(LOST)


@pytest.mark.parametrize("then", [power_off, open_then_power_off])
def test_a_failed_sync_is_never_believed(then: Callable[[Workload], None]) -> None:
    assert sum(sync_fails(4, at, then) for at in range(1, operations(4) + 1)) > 20


def full_disk(seed: int, cut: str | None = None) -> None:
    """Space runs out in the middle, comes back, runs out: nothing refused is stored, nothing acknowledged lost."""
    work = workload(seed)
    work.files.writeback = 0.5
    work.open()
    refused = 0
    for turn in range(60):
        if work.done():
            break
        work.files.capacity = work.files.used() + work.random.randrange(200) if turn % 3 else None
        work.step()
        assert work.log is not None
        refused += sum(work.log.counters.refused.get(reason, 0) for reason in ("no space", "write failed"))
        counters = work.log.counters
        assert counters.accepted == counters.stored + counters.duplicates + sum(counters.refused.values())
        if verdict := work.verdict():
            raise Violation(str(verdict))
        if cut is not None and refused and work.random.random() < 0.5:
            break
    work.files.capacity = None
    if cut is not None:
        work.files.power_on(cut)
        work.open()
        if verdict := work.verdict():
            raise Violation(str(verdict))
    work.history.refused = {key for key in work.history.refused if key in work.late}
    judge(work)


@given(seed=st.integers(0, 1 << 40))
@cases(150)
def test_a_full_disk_refuses_and_recovers(seed: int) -> None:
    full_disk(seed)


@given(seed=st.integers(0, 1 << 40), fate=st.sampled_from([LOST, KEPT, TORN]))
@cases(150)
def test_a_full_disk_then_a_power_cut(seed: int, fate: str) -> None:
    full_disk(seed, fate)


# Each mutant with the test that must catch it.


def any_cut() -> None:
    cut_everywhere(1, (LOST, TORN))


def any_cuts() -> None:
    for seed in range(300):
        many_cuts(seed)


def any_kill() -> None:
    for at in range(1, operations(3) + 1):
        kill_then_cut(3, at)


def any_failed_sync() -> None:
    for then in (power_off, open_then_power_off):
        for at in range(1, operations(4) + 1):
            sync_fails(4, at, then)


def any_full_disk() -> None:
    for seed in range(200):
        full_disk(seed)
        full_disk(seed, LOST)


@pytest.mark.parametrize(
    ("mutant", "trial"),
    [
        ("no_fsync", any_cut),
        ("acknowledge_first", any_cut),
        ("dedup_not_persisted", any_cut),
        ("no_crc_check", any_cut),
        ("no_order_check", any_cut),
        ("no_dedup", any_cut),
        ("no_directory_sync", any_cut),
        ("readers_see_what_is_not_committed", any_cut),
        ("keeps_what_lies_behind_a_hole", any_cuts),
        ("no_sync_on_opening", any_kill),
        ("fsync_tried_again", any_failed_sync),
        ("tail_not_written_again", any_failed_sync),
        ("refused_not_taken_back", any_full_disk),
        ("undo_not_synced", any_full_disk),
        ("acknowledges_what_was_refused", any_full_disk),
    ],
)
def test_mutants_are_caught(mutant: str, trial: Callable[[], None]) -> None:
    with apply(mutant), pytest.raises((Violation, AssertionError, UnicodeDecodeError)):
        trial()
