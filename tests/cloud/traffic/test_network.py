"""The network file: what it says, and what is wrong with it."""

import json
from pathlib import Path
from typing import Any

import pytest
from cloud.traffic.world import LAT, LON, network, square
from hypothesis import given
from hypothesis import strategies as st

from vicinal_cloud.traffic.network import NetworkError, inside, load


def test_written_and_read_it_is_the_same(tmp_path: Path) -> None:
    made, file = network("Europe/Dublin"), tmp_path / "town.geojson"
    file.write_text(json.dumps(made.geojson()))
    found = load(file)
    assert (found.roads, found.areas, found.monitors) == (made.roads, made.areas, made.monitors)
    assert str(found.timezone) == "Europe/Dublin"


@given(st.integers(-40_000, 40_000), st.integers(-40_000, 40_000))
def test_inside_a_square(lat: int, lon: int) -> None:
    ring = square(0, 0, 27_000)
    expected = -27_000 <= lat < 27_000 and -27_000 <= lon < 27_000
    assert inside((lat, lon), ring) == expected
    assert inside((lat, lon), tuple(reversed(ring))) == expected


def test_the_higher_rank_counts_and_near_a_border_both() -> None:
    town = network()
    assert town.area_of((LAT, LON)) == town.areas["centre"]
    assert town.area_of((LAT + 60_000, LON)) == town.areas["town"]
    assert town.area_of((LAT + 600_000, LON)) is None
    assert [area.name for area in town.areas_near((LAT, LON), 15)] == ["centre"]
    edge = (LAT + 27_000 + 500, LON)  # 6 m outside
    assert sorted(area.name for area in town.areas_near(edge, 15)) == ["centre", "town"]


def feature(shape: str, coordinates: Any, **properties: Any) -> dict[str, Any]:
    return {"properties": properties, "geometry": {"type": shape, "coordinates": coordinates}}


TRIANGLE = [[[0, 0], [0, 1], [1, 1], [0, 0]]]
BROKEN = [
    ({"properties": {"kind": "tree"}}, "kind is 'tree'"),
    (feature("Point", [0, 0], kind="road", id="r"), "want a LineString"),
    (feature("LineString", [[0, 0]], kind="road", id="r"), "at least 2"),
    (feature("Point", [0, 91], kind="monitor", name="m", area="a"), "latitude -90..90"),
    (feature("Point", [0, 9], kind="monitor", name="", area="a"), "name is ''"),
    (feature("Polygon", TRIANGLE, kind="area", name="a", limit=300), "limit is 300, want 5 .. 130"),
]


@pytest.mark.parametrize(("broken", "message"), BROKEN)
def test_what_is_wrong_is_said(broken: dict[str, Any], message: str, tmp_path: Path) -> None:
    file = tmp_path / "town.geojson"
    file.write_text(json.dumps({"features": [broken]}))
    with pytest.raises(NetworkError, match=message) as said:
        load(file)
    assert str(file) in str(said.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="No such file"):
        load(tmp_path / "none")
    (tmp_path / "bad").write_text("{")
    with pytest.raises(NetworkError, match="not JSON"):
        load(tmp_path / "bad")
    (tmp_path / "empty").write_text('{"features": []}')
    with pytest.raises(NetworkError, match="no roads"):
        load(tmp_path / "empty")
