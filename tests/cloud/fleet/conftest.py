from collections.abc import Iterator
from pathlib import Path

import pytest
from cloud.broker.brokers import Brokers


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    found = Brokers(tmp_path)
    yield found
    found.stop()
