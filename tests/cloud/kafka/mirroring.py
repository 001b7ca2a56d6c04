"""A real mirror in a process of its own, until it is killed: main(log, servers, topic)."""

import asyncio
import time
from pathlib import Path

import confluent_kafka
import confluent_kafka.admin  # noqa: F401

from vicinal_cloud.kafka import mirror
from vicinal_cloud.kafka.sources import DirectorySource


def main(folder: str, servers: str, topic: str, name: str = "b1") -> None:
    mirror.MOST = 60  # so that there are many transactions to be killed in
    source = DirectorySource(Path(folder), name)
    asyncio.run(mirror.Mirror(source, servers, topic, lambda: time.time_ns() // 1_000_000, partitions=3).run())
