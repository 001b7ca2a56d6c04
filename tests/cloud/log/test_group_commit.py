"""GroupCommit: many appends, one sync; followers; what happens when the disk does not do as it is told."""

import asyncio
import errno
import threading
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

import pytest

from vicinal.errors import LimitError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.wire import encode
from vicinal_cloud.log import (
    AppendRefused,
    Duplicate,
    GroupCommit,
    Log,
    LogClosed,
    LogFailed,
    LogOptions,
    OffsetGone,
    Record,
    Refused,
    Stored,
    entry,
    group_commit,
)
from vicinal_cloud.log.simulated_files import SimulatedFiles


class SlowFiles(SimulatedFiles):
    """Its syncs wait until the test lets them go."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs = 0
        self.gate = threading.Event()
        self.gate.set()

    def sync(self, name: str) -> None:
        self.syncs += name.endswith(".segment")
        assert self.gate.wait(20)
        super().sync(name)


def data(seq: int) -> bytes:
    return encode(Event("Speed", [("rate", seq)], producer="p", seq=seq))


def run(test: Callable[[SlowFiles, GroupCommit], Coroutine[Any, Any, None]], options: LogOptions | None = None) -> None:
    async def main() -> None:
        files, clock = SlowFiles(), count(1)
        commits = GroupCommit(Log(files, options), lambda: next(clock))
        try:
            await asyncio.wait_for(test(files, commits), 30)
        finally:
            files.gate.set()
            await commits.close()

    asyncio.run(main())


def test_what_arrives_during_a_sync_is_one_batch() -> None:
    async def test(files: SlowFiles, commits: GroupCommit) -> None:
        await commits.append(data(0), "p", 0)
        before = files.syncs
        files.gate.clear()
        first = asyncio.ensure_future(commits.append(data(1), "p", 1))
        await asyncio.sleep(0.01)
        rest = [asyncio.ensure_future(commits.append(data(seq), "p", seq)) for seq in range(2, 200)]
        await asyncio.sleep(0.01)
        assert not first.done()
        assert not any(one.done() for one in rest)
        assert commits.log.next == 1  # what is not synced is nowhere to be seen
        assert commits.log.read(0, 10)[1] == 1
        files.gate.set()
        assert await first == Stored(1)
        assert await asyncio.gather(*rest) == [Stored(seq) for seq in range(2, 200)]
        assert files.syncs - before == 2
        assert await commits.append(data(190), "p", 190) == Duplicate(190)

    run(test)


def test_refusals_raise_and_results_of_a_group_stand_apart() -> None:
    async def test(files: SlowFiles, commits: GroupCommit) -> None:
        results = await commits.append_all([entry(data(seq), "p", seq) for seq in (5, 7, 6, 7)])
        assert results[:2] == [Stored(0), Stored(1)]
        assert isinstance(results[2], Refused)
        assert results[3] == Duplicate(1)
        with pytest.raises(AppendRefused, match="seq 6 of producer 'p' comes after 7") as refused:
            await commits.append(data(6), "p", 6)
        assert refused.value.reason == "out of order"

    run(test)


def test_what_waits_behind_a_refused_batch_is_refused_too() -> None:
    """Else the later ones would be stored, and the refused one shut out for good."""

    async def test(files: SlowFiles, commits: GroupCommit) -> None:
        await commits.append(data(0), "p", 0)
        files.gate.clear()
        held = asyncio.ensure_future(commits.append(data(1), "p", 1))
        await asyncio.sleep(0.01)
        files.fault = lambda number, kind, name: OSError(errno.ENOSPC, "full") if kind == "append" else None
        second = asyncio.ensure_future(commits.append(data(2), "p", 2))
        files.gate.set()
        assert await held == Stored(1)
        third = asyncio.ensure_future(commits.append(data(3), "p", 3))
        for one in (second, third):
            with pytest.raises(AppendRefused) as refused:
                await one
            assert refused.value.reason == "no space"
        files.fault = None
        assert await asyncio.gather(*(commits.append(data(seq), "p", seq) for seq in (2, 3))) == [Stored(2), Stored(3)]
        counters = commits.log.counters
        assert counters.accepted == counters.stored + counters.duplicates + sum(counters.refused.values()) == 6

    run(test)


def test_after_a_failed_sync_everybody_is_told() -> None:
    async def test(files: SlowFiles, commits: GroupCommit) -> None:
        await commits.append(data(0), "p", 0)
        files.fault = lambda number, kind, name: OSError(errno.EIO, "bad") if kind == "sync" else None
        tasks = [asyncio.ensure_future(commits.append(data(seq), "p", seq)) for seq in range(1, 5)]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, LogFailed) for result in results)
        files.fault = None
        with pytest.raises(LogFailed, match="read-only since"):
            await commits.append(data(9), "p", 9)
        assert [record.seq for record in commits.log.read(0, 10)[0]] == [0]

    run(test)


def test_nobody_waits_for_ever_when_something_unforeseen_happens() -> None:
    async def test(files: SlowFiles, commits: GroupCommit) -> None:
        commits.log.append_batch = lambda entries, now: 1 / 0  # type: ignore[assignment,method-assign,misc,return-value]
        with pytest.raises(ZeroDivisionError):
            await commits.append(data(1), "p", 1)

    run(test)


def test_followers_get_what_is_there_and_what_comes() -> None:
    async def test(files: SlowFiles, commits: GroupCommit) -> None:
        for seq in range(5):
            await commits.append(data(seq), "p", seq)
        seen: list[int] = []
        wanted: list[int] = []

        async def follow(offset: int, into: list[int], condition: Filter | None = None) -> None:
            async for record in commits.follow(offset, condition):
                into.append(record.seq)

        tasks = [
            asyncio.ensure_future(follow(2, seen)),
            asyncio.ensure_future(follow(0, wanted, Filter("rate > 3 AND rate <> 6"))),
        ]
        while len(seen) < 3:
            await asyncio.sleep(0.001)
        files.gate.clear()
        append = asyncio.ensure_future(commits.append_all([entry(data(seq), "p", seq) for seq in (5, 6, 7)]))
        await asyncio.sleep(0.02)
        assert seen == [2, 3, 4]
        files.gate.set()
        await append
        while len(seen) < 6 or len(wanted) < 3:
            await asyncio.sleep(0.001)
        assert seen == [2, 3, 4, 5, 6, 7]
        assert wanted == [4, 5, 7]
        await commits.close()
        await asyncio.gather(*tasks)  # they end with the log

    run(test)


def test_a_follower_that_stops_disturbs_nobody() -> None:
    async def test(files: SlowFiles, commits: GroupCommit) -> None:
        async def one(offset: int) -> Record:
            async for record in commits.follow(offset):
                return record
            raise AssertionError("ended")

        waiting = [asyncio.ensure_future(one(0)) for _ in range(3)]
        await asyncio.sleep(0.01)
        waiting[0].cancel()
        await commits.append(data(1), "p", 1)
        assert [(await follower).seq for follower in waiting[1:]] == [1, 1]

    run(test)


def test_a_follower_meets_retention() -> None:
    async def test(files: SlowFiles, commits: GroupCommit) -> None:
        for seq in range(40):
            await commits.append(data(seq), "p", seq)
        assert await commits.retain() > 0
        with pytest.raises(OffsetGone):
            async for _ in commits.follow(0):
                pass

    run(test, LogOptions(segment_bytes=300, max_age_ms=5))


def test_a_full_queue_makes_appends_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "MAX_PENDING_BYTES", 200)

    async def test(files: SlowFiles, commits: GroupCommit) -> None:
        files.gate.clear()
        tasks = [asyncio.ensure_future(commits.append(data(seq), "p", seq)) for seq in range(100)]
        await asyncio.sleep(0.02)
        assert commits._bytes < 200 + 30
        with pytest.raises(LimitError, match=r"bytes that wait for a commit is .*, the limit is 200"):
            commits.submit([entry(data(200), "p", 200)])
        files.gate.set()
        assert [(await task).offset for task in tasks] == list(range(100))

    run(test)


def test_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "MAX_BATCH_RECORDS", 3)

    async def test(files: SlowFiles, commits: GroupCommit) -> None:
        await asyncio.gather(*(commits.append(data(seq), "p", seq) for seq in range(10)))
        assert max(record.lag for record in commits.log.read(0, 10)[0]) == 2

    run(test)


def test_closing_commits_what_waits() -> None:
    async def main() -> None:
        files = SlowFiles()
        commits = GroupCommit(Log(files), lambda: 1)
        tasks = [asyncio.ensure_future(commits.append(data(seq), "p", seq)) for seq in range(20)]
        await asyncio.sleep(0)
        await commits.close()
        assert [await task for task in tasks] == [Stored(seq) for seq in range(20)]
        with pytest.raises(LogClosed):
            await commits.append(data(99), "p", 99)
        assert Log(files).next == 20

    asyncio.run(main())
