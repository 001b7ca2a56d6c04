"""Everything here that takes the fixture `server` runs in the worker that has Kafka, and a topic of its own."""

import itertools

import pytest
from cloud.kafka.server import Kafka
from kafka_server import kafka

_NUMBERS = itertools.count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"server", "spark"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def server() -> Kafka:
    return kafka()


@pytest.fixture
def topic() -> str:
    return f"events-{next(_NUMBERS)}"
