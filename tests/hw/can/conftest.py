"""A channel of its own for each test, in a folder of its own: nothing is left behind, nothing is met by chance."""

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture(autouse=True, scope="session")
def _own_buses() -> Iterator[None]:
    """Not pytest's tmp_path: a Unix socket's path may have 107 characters."""
    with TemporaryDirectory(prefix="can") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("VICINAL_CAN_DIR", folder)
        yield
        for _ in range(100):
            if not list(Path(folder).rglob("*.sock")):
                break
            time.sleep(0.1)
        assert [path.name for path in Path(folder).rglob("*.sock")] == [], "a bus outlived its clients"


@pytest.fixture
def channel() -> str:
    return f"t{uuid.uuid4().hex[:12]}"
