"""The benchmark of the gateway runs; what it measures is for `make bench`."""

from pathlib import Path

import pytest

from vicinal_tools.bench import gateway
from vicinal_tools.bench.peers.systems import missing


@pytest.mark.skipif(bool(missing(("mosquitto",))), reason="mosquitto is not installed")
def test_its_rows(tmp_path: Path) -> None:
    rows = list(gateway.rows(events=300, rounds=1, seconds=0.1, folder=tmp_path))
    assert [row.goal for row in rows] == ["50,000/s", "20,000/s", "5,000/s", "under 20 ms", "under 80 MB"]
    assert all(row.met is not None for row in rows)
    assert list(tmp_path.iterdir()) == []


def test_what_is_lost_is_no_figure(tmp_path: Path) -> None:
    """A queue that drops is not fast."""
    config = gateway.in_memory() + "[service.flow]\n"
    text = config.replace('name = "wide"\ntype = "memory"', 'name = "wide"\ntype = "memory"\nflow = { out_count = 8 }')
    with pytest.raises(RuntimeError, match="are missing, dropped"):
        gateway._work(tmp_path, text.replace("[service.flow]\n", ""), 300)
