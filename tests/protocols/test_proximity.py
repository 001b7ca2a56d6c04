"""Areas and distances, against the geodesic of geographiclib and against each other."""

import random

import pytest
from geographiclib.geodesic import Geodesic
from hypothesis import given
from hypothesis import strategies as st

from vicinal import limits
from vicinal._areas import bounding_box, parse_degrees
from vicinal.errors import LocalProtocolError
from vicinal.proximity import Proximity, distance
from vicinal_tools.bench.geometry import LIMIT_METRES, worst_error

lats = st.integers(-limits.MAX_LAT, limits.MAX_LAT)
lons = st.integers(-limits.MAX_LON, limits.MAX_LON)
sizes = st.integers(1, 50_000)


@pytest.mark.parametrize("bits", [64, 32])
@pytest.mark.parametrize("seed", range(3))
def test_distance_is_good_to_half_a_metre_over_100_km(bits, seed):
    assert worst_error(bits, 700, seed) < LIMIT_METRES


def test_far_away_it_is_still_roughly_right():
    rng = random.Random(1)
    for _ in range(500):
        lat, lon = rng.uniform(-85, 85), rng.uniform(-180, 180)
        far = Geodesic.WGS84.Direct(lat, lon, rng.uniform(0, 360), rng.uniform(1e5, 1e7))
        points = [round(degrees * 1e7) for degrees in (lat, lon, far["lat2"], far["lon2"])]
        true = Geodesic.WGS84.Inverse(*(point / 1e7 for point in points))["s12"]
        assert distance(*points) == pytest.approx(true, rel=0.01)


@given(lats, lons, lats, lons)
def test_distance_is_symmetric_and_zero_only_at_home(lat1, lon1, lat2, lon2):
    assert distance(lat1, lon1, lat1, lon1) == 0
    there, back = distance(lat1, lon1, lat2, lon2), distance(lat2, lon2, lat1, lon1)
    assert there == pytest.approx(back, rel=1e-12)
    assert there >= 0


def test_the_date_line_is_no_wall():
    assert distance(0, 1799999999, 0, -1799999999) < 1
    assert Proximity.circle(0, 1799999000, 100).contains(0, -1799999000)


@given(lats, lons, st.integers(1, 1_000_000), st.randoms(use_true_random=False))
def test_no_point_of_a_circle_is_outside_its_box(lat, lon, metres, rng):
    box = bounding_box(lat, lon, metres)
    if box is None:
        return
    south, west, north, east = box
    for _ in range(30):
        there = Geodesic.WGS84.Direct(lat / 1e7, lon / 1e7, rng.uniform(0, 360), rng.uniform(0.9, 1.01) * metres)
        y, x = round(there["lat2"] * 1e7), round(there["lon2"] * 1e7)
        if abs(y) <= limits.MAX_LAT and distance(lat, lon, y, x) <= metres:
            assert south <= y <= north
            assert west <= x <= east


@st.composite
def areas(draw):
    """Near each other, so that they meet."""
    lat, lon = draw(st.integers(-300_000, 300_000)), draw(st.integers(-300_000, 300_000))
    if draw(st.booleans()):
        return Proximity.circle(530000000 + lat, -60000000 + lon, draw(st.integers(1, 4000)))
    return Proximity.rectangle(530000000 + lat, -60000000 + lon, draw(sizes) % 8000 + 1, draw(sizes) % 8000 + 1)


@given(
    areas(), areas(), st.lists(st.tuples(st.integers(-500_000, 500_000), st.integers(-500_000, 500_000)), max_size=30)
)
def test_covering_and_overlap_agree_with_points(a, b, points):
    """Up to a metre at the edges, where the Earth is not flat."""
    grown = Proximity(a.shape, False, a.lat, a.lon, a.dimx + 4, a.dimy + 4)
    for dy, dx in [(0, 0), *points]:
        y, x = b.lat + dy, b.lon + dx
        if b.contains(y, x):
            if a.covers(b):
                assert grown.contains(y, x)
            if a.contains(y, x):
                assert grown.overlaps(b)
    if a.covers(b):
        assert a.overlaps(b)
        assert a.contains(b.lat, b.lon)
    assert a.overlaps(b) == b.overlaps(a) or grown.overlaps(b)


@given(areas(), st.booleans())
def test_the_string_form_goes_both_ways(area, relative):
    area = Proximity(area.shape, relative, area.lat, area.lon, area.dimx, area.dimy)
    assert Proximity.parse(str(area)) == area == Proximity.from_fields(list(area.fields()))


@given(lats)
def test_degrees_go_both_ways_without_a_float(lat):
    assert parse_degrees(str(Proximity.circle(lat, 0, 1)).split(", ")[2]) == lat


def test_a_relative_area_moves_with_its_producer():
    ambulance = Proximity.circle(0, 0, 200, relative=True)
    with pytest.raises(LocalProtocolError, match="relative: use at"):
        ambulance.contains(533438000, -62546000)
    assert ambulance.at(533438000, -62546000).contains(533438000, -62546000)
    assert not ambulance.at(533438000, -62546000).contains(533538000, -62546000)
    ahead = Proximity.circle(10000, 0, 50, relative=True)
    assert ahead.at(533438000, -62546000).lat == 533448000
    crossing = Proximity.circle(5, 5, 50)
    assert crossing.at(1, 1) is crossing


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "type is ''"),
        ("2, 0, 0, 0, 5", "type is '2'"),
        ("0, 2, 0, 0, 5", "sub-type is '2'"),
        ("0, 0, 0, 0", "has 4 fields, want 5"),
        ("1, 0, 0, 0, 5", "has 5 fields, want 6"),
        ("0, 0, x, 0, 5", "are not degrees"),
        ("0, 0, 1e3, 0, 5", "are not degrees"),
        ("0, 0, ², 0, 5", "are not degrees"),
        ("0, 0, 91, 0, 5", "latitude is 910000000"),
        ("0, 0, 0, -180.0000001, 5", "longitude is -1800000001"),
        ("0, 0, 0, 0, 2.5", "whole metres"),
        ("0, 0, 0, 0, ²", "whole metres"),
        ("0, 0, 0, 0, 0", "1 .. 20037508 whole metres"),
        ("0, 0, 0, 0, 99999999", "1 .. 20037508 whole metres"),
    ],
)
def test_what_is_wrong_with_a_string_form_is_said(text, complaint):
    with pytest.raises(LocalProtocolError) as caught:
        Proximity.parse(text)
    assert complaint in str(caught.value)
