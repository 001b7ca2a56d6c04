"""Logs to mirror, mirrors to run, and what is in a topic then."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vicinal.event import Event
from vicinal_cloud.kafka.mirror import Mirror
from vicinal_cloud.kafka.reader import KafkaReader
from vicinal_cloud.kafka.sources import DirectorySource
from vicinal_cloud.kafka.topics import ends
from vicinal_cloud.log import Log, LogReader, Record, Stored, entry_of

START = 1_700_000_000_000
PRODUCERS = 7


def event(number: int) -> Event:
    return Event("Speed", {"rate": number / 8}, {"Time": START + number}, f"car-{number % PRODUCERS}", number)


def append(log: Log, numbers: range) -> None:
    done = log.append_batch([entry_of(event(one)) for one in numbers], START + numbers[0])
    assert all(isinstance(one, Stored) for one in done)


def mirror_of(folder: Path, servers: str, topic: str, name: str = "b1", scoped: bool = False, **more: Any) -> Mirror:
    source = DirectorySource(folder, name, scoped)
    return Mirror(source, servers, topic, lambda: time.time_ns() // 1_000_000, partitions=3, **more)


def mirrored(folder: Path, servers: str, topic: str, name: str = "b1", **more: Any) -> Mirror:
    mirror = mirror_of(folder, servers, topic, name, **more)
    asyncio.run(mirror.run(once=True))
    return mirror


def in_topic(servers: str, topic: str) -> dict[int, list[Record]]:
    """By partition, all that is committed. Kafka tells a writer that it is before it tells readers."""
    reader = KafkaReader(servers, topic)
    try:
        found = {}
        wait_until(lambda: reader.ends() == ends(servers, topic), "a transaction is still under way")
        for partition, (at, end) in reader.ends().items():
            found[partition] = []
            while at < end:
                records, at = reader.read(partition, at, 1 << 30)
                found[partition] += records
        return found
    finally:
        reader.close()


def judge(folder: Path, servers: str, topic: str) -> None:
    """Every event of the log once, as it came, each producer in one partition and in its order."""
    wanted, _ = LogReader(folder).read(0, 1 << 30)
    parts = in_topic(servers, topic)
    found = [record for some in parts.values() for record in some]
    counts = Counter((record.producer, record.seq) for record in found)
    twice = sorted(one for one, count in counts.items() if count > 1)
    lost = sorted({(one.producer, one.seq) for one in wanted} - set(counts))
    assert not twice, f"twice: {twice[:5]} and more, {len(twice)}"
    assert not lost, f"lost: {lost[:5]} and more, {len(lost)}"
    assert sorted(_kept(one) for one in found) == sorted(_kept(one) for one in wanted)
    for some in parts.values():
        for producer in {record.producer for record in some}:
            seqs = [record.seq for record in some if record.producer == producer]
            assert seqs == sorted(seqs)
            assert len(seqs) == sum(record.producer == producer for record in found), "a producer in two partitions"


def _kept(record: Record) -> tuple[str, int, int, bytes]:
    return record.producer, record.seq, record.time, record.event


def wait_until(there: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    limit = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < limit, what
        time.sleep(0.02)
