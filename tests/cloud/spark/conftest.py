"""Everything here that takes the fixture `spark` runs in the worker that has Spark."""

from typing import Any

import pytest
from spark_session import base_session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Any:
    return base_session()
