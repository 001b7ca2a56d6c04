"""One Kafka for the test run. Tests that use it are in the xdist group "spark": one worker starts it, once."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import pytest
from cloud.kafka.server import Kafka

__all__ = ["kafka"]


@cache
def kafka() -> Kafka:
    pytest.importorskip("confluent_kafka", reason="KAFKA TESTS SKIPPED: pip install confluent-kafka")
    folder = Path(tempfile.mkdtemp(prefix="kafka-"))
    server = Kafka(folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    server.start()
    atexit.register(server.kill)
    return server
