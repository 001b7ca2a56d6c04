"""The agent's tree is compiled once for all of these tests."""

import pytest

from vicinal_tools.flash import release


@pytest.fixture(scope="session")
def built() -> release.Release:
    return release.build()
