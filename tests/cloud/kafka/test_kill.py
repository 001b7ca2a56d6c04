"""kill -9 of a real mirror, at random moments, and now and then of Kafka itself: nothing lost, nothing twice."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka")

from cloud.kafka.server import Kafka
from cloud.kafka.topics import append, judge, mirrored
from nursery import nursery

from vicinal_cloud.kafka.topics import ends
from vicinal_cloud.log import Log

KILLS = int(os.environ.get("VICINAL_KAFKA_KILLS", "60" if os.environ.get("VICINAL_SOAK") else "4"))
# Of Kafka, each of which costs seconds: the test of the mirror has one.
SERVER_KILLS = KILLS // 10
AT_ONCE = 400


def test_a_mirror_killed_at_random_loses_and_repeats_nothing(server: Kafka, topic: str, tmp_path: Path) -> None:
    chance = random.Random(11)
    log = Log(tmp_path / "log")
    append(log, range(AT_ONCE))
    with nursery("cloud.kafka.mirroring") as children:
        for number in range(1, KILLS + 1):
            append(log, range(number * AT_ONCE, (number + 1) * AT_ONCE))
            before = _written(server, topic) if number > 1 else 0
            pid = children.start(tmp_path / "log", server.servers, topic)
            limit = time.monotonic() + 60
            # In the middle of it: something of a transaction is there, and the rest is on its way.
            while number % 4 and _written(server, topic) <= before:
                assert children.signal(pid, 0) is None, "the mirror has ended by itself"
                assert time.monotonic() < limit, "the mirror does nothing"
            time.sleep(chance.uniform(0, 0.3))
            assert children.signal(pid, signal.SIGKILL) == -signal.SIGKILL
            if SERVER_KILLS and number % (KILLS // SERVER_KILLS) == 0:
                server.kill()
                server.start()
    log.close()
    cursor = mirrored(tmp_path / "log", server.servers, topic).cursor
    assert cursor[:4] == ((KILLS + 1) * AT_ONCE, (KILLS + 1) * AT_ONCE, 0, 0)
    judge(tmp_path / "log", server.servers, topic)


def _written(server: Kafka, topic: str) -> int:
    """Committed or not."""
    try:
        return sum(end for _, end in ends(server.servers, topic).values())
    except Exception:  # the topic is not there yet
        return 0
