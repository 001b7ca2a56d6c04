"""Servers that the tests of adapters share: started for the first test that asks, stopped with the run."""

from collections.abc import Iterator

import pytest
from edge.servers import ActiveMq, Mosquitto


@pytest.fixture(scope="session")
def mosquitto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path_factory.mktemp("mosquitto"), lines=("max_queued_messages 0",)) as server:
        yield server


@pytest.fixture(scope="session")
def activemq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ActiveMq]:
    with ActiveMq(tmp_path_factory.mktemp("activemq")) as server:
        yield server
