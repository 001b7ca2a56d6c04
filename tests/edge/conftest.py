from collections.abc import Iterator
from pathlib import Path

import pytest
from cloud.broker.brokers import Brokers
from edge.gateways import Gateways


@pytest.fixture
def gateways(tmp_path: Path) -> Iterator[Gateways]:
    found = Gateways(tmp_path)
    yield found
    found.stop()


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    found = Brokers(tmp_path)
    yield found
    found.stop()
