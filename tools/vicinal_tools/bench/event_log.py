"""The event log: how many events a second are on disk before they are acknowledged, and how long that takes.

Clients keep a window of appends in flight, each awaited by itself, as a broker's connections do. Beside it the same
without fdatasync, which no power cut survives, and what the disk alone can do: the same bytes in groups of the
window, each with its fdatasync. Wall-clock time, as a disk is waited for; the rounds take turns.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from vicinal.event import Event
from vicinal.wire import encode
from vicinal_cloud.log import DirectoryFiles, GroupCommit, Log, LogReader

from . import Row

GOAL_RATE = 15_000
GOAL_P99_MS = 50
WINDOW = 200
_EVENTS = 20_000
_ROUNDS = 3


class _NoSync(DirectoryFiles):
    def sync(self, name: str) -> None:
        pass


def rows(events: int = _EVENTS, rounds: int = _ROUNDS, folder: Path | None = None) -> Iterator[Row]:
    """`folder` must lie on a disk: on a tmpfs syncs cost nothing, and the figures mean nothing."""
    durable: list[tuple[float, float]] = []
    loose: list[tuple[float, float]] = []
    bare: list[float] = []
    read: list[float] = []
    if folder is None:
        folder = Path("build")
        folder.mkdir(exist_ok=True)
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(dir=folder, prefix="bench-log-") as place:
            durable.append(asyncio.run(_append(DirectoryFiles(Path(place, "durable")), events)))
            loose.append(asyncio.run(_append(_NoSync(Path(place, "loose")), events)))
            bare.append(_bare(Path(place, "bare"), events))
            read.append(_read(Path(place, "durable"), events))
    rate, _ = max(durable)
    p99 = min(late for _, late in durable)
    yield Row(
        f"log: durable appends, {WINDOW} in flight",
        f"{rate:,.0f} events/s",
        f"without fdatasync {max(loose)[0]:,.0f}/s; fdatasync alone, {WINDOW} a group, {max(bare):,.0f}/s",
        f"{rate / max(loose)[0]:.2f} x without",
        f"{GOAL_RATE:,}/s",
        rate >= GOAL_RATE,
    )
    yield Row(
        "log: acknowledgement of a durable append, p99",
        f"{p99:.1f} ms",
        f"without fdatasync {min(late for _, late in loose):.1f} ms",
        "",
        f"under {GOAL_P99_MS} ms",
        p99 < GOAL_P99_MS,
    )
    yield Row("log: read from another process's log", f"{max(read):,.0f} events/s")


def _data(seq: int) -> bytes:
    params = [("license_no", "00D12345"), ("rate", 57.2), ("lat", 533438000), ("lon", -62546000)]
    return encode(Event("Speed", params, {"Time": 1700000000000 + seq}, producer="car-7", seq=seq))


async def _append(files: DirectoryFiles, events: int) -> tuple[float, float]:
    """Events a second, and the p99 of one append in ms."""
    commits = GroupCommit(Log(files), lambda: time.time_ns() // 1_000_000)
    data = [_data(seq) for seq in range(events)]
    late: list[float] = []

    async def client(number: int) -> None:
        for seq in range(number, events, WINDOW):
            begin = time.perf_counter()
            await commits.append(data[seq], f"car-{number}", seq)
            late.append(time.perf_counter() - begin)

    begin = time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(WINDOW)))
    spent = time.perf_counter() - begin
    await commits.close()
    return events / spent, sorted(late)[len(late) * 99 // 100] * 1e3


def _bare(path: Path, events: int) -> float:
    group = b"".join(_data(seq) for seq in range(WINDOW))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        begin = time.perf_counter()
        for _ in range(events // WINDOW):
            os.write(descriptor, group)
            os.fdatasync(descriptor)
        return events / (time.perf_counter() - begin)
    finally:
        os.close(descriptor)


def _read(path: Path, events: int) -> float:
    reader = LogReader(path)
    begin = time.perf_counter()
    offset = 0
    while offset < reader.next:
        _, offset = reader.read(offset, 10_000)
    assert offset == events
    return events / (time.perf_counter() - begin)
