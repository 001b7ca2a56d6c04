"""The whole demo with vehicles from elsewhere, recorded or of SUMO, in towns that nobody prepared."""

import io
import json
import os
import subprocess
from pathlib import Path

import pytest
from cloud.broker.brokers import COMMAND, PATIENCE
from tools.traffic.test_sources import CAPTURES, SIGNAL, gpx, grid_net, needs_captures, needs_sumo

from vicinal_tools.traffic.towns import make_town
from vicinal_tools.traffic.tracks import write
from vicinal_tools.traffic.world import World

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("traffic")]
soak = pytest.mark.skipif(not os.environ.get("VICINAL_SOAK"), reason="VICINAL_SOAK is not set")


def demo(*options: str) -> dict[str, object]:
    done = subprocess.run(
        [*COMMAND, "demo", "--json", "--no-browser", "--port", "0", "--for", "8", *options],
        capture_output=True, text=True, timeout=5 * PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    assert found["holds"]
    assert found["must_cross"] or found["may_cross"]
    return found


def test_tracks_of_another_town(tmp_path: Path) -> None:
    """One drives past a monitor of a town that is made of its track."""
    found = demo("--replay", str(gpx(tmp_path, 48.1, 11.5)))
    assert found["vehicles"] == 1


@soak
def test_a_town_of_ones_own_and_its_tracks(tmp_path: Path) -> None:
    town = make_town(2)
    (tmp_path / "town.geojson").write_text(json.dumps(town.geojson()))
    out = io.StringIO()
    write(World(town, 4, 6), 30, out)
    (tmp_path / "tracks.csv").write_text(out.getvalue())
    found = demo("--network", str(tmp_path / "town.geojson"), "--replay", str(tmp_path / "tracks.csv"))
    assert found["vehicles"] == 6


@soak
@needs_captures
def test_cars_whose_buses_were_recorded() -> None:
    logs = [option for file in sorted(CAPTURES.glob("*.candump")) for option in ("--replay", str(file))]
    found = demo(*logs, "--dbc", str(CAPTURES / "ford_lincoln_base_pt.opendbc.dbc"), "--signal", SIGNAL, "--seed", "5")
    assert found["vehicles"] == 2


@needs_sumo
def test_sumo(tmp_path: Path) -> None:
    found = demo("--sumo", str(grid_net(tmp_path)), "--vehicles", "6", "--speeders", "0.5")
    assert found["vehicles"] == 6
