"""The sentences of protocols/spec/proximity.md."""

from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy
import pytest
from geographiclib.geodesic import Geodesic
from hypothesis import given
from hypothesis import strategies as st
from spec_helpers import areas, lats, lons, move, spec

from vicinal import proximity
from vicinal._areas import parse_degrees
from vicinal.errors import LimitError, LocalProtocolError
from vicinal.proximity import Proximity, distance

NAN, INF = float("nan"), float("inf")


@spec("PROX-1", "PROX-2")
def test_proximity_limits() -> None:
    assert Proximity.rectangle(900000000, -1800000000, 1, 20037508)
    for bad in (
        (900000001, 0, 1),
        (0, 1800000001, 1),
        (0, 0, 0),
        (0, 0, 20037509),
        (0.5, 0, 1),
        (0, 0, 1.5),
        (True, 0, 1),
    ):
        with pytest.raises(LimitError):
            Proximity.circle(*bad)  # type: ignore[arg-type]
    with pytest.raises(LimitError):
        Proximity.rectangle(0, 0, 1, 0)


@spec("PROX-3", "PROX-4", "PROX-9")
@given(st.integers(-800000000, 800000000), lons, st.integers(100, 2000), st.integers(100, 2000), st.floats(0, 360))
def test_proximity_shapes(lat: int, lon: int, width: int, height: int, azimuth: float) -> None:
    box, disc = Proximity.rectangle(lat, lon, width, height), Proximity.circle(lat, lon, width)
    for factor, inside in ((0.99, True), (1.01, False)):
        slack = -0.05 if inside else 0.05
        for turn, side in ((0, height), (180, height), (90, width), (270, width)):
            assert box.contains(*move(lat, lon, turn, factor * side / 2 + slack)) is inside
        assert disc.contains(*move(lat, lon, azimuth, factor * width + slack)) is inside
    assert box.contains(lat, lon)


@spec("PROX-5", "PROX-6")
@given(areas, lats, lons)
def test_proximity_relative_areas(area: Proximity, lat: int, lon: int) -> None:
    here = area.at(lat, lon)
    if not area.relative:
        assert here == area
        return
    assert not here.relative
    assert here.lat == max(-900000000, min(900000000, area.lat + lat))
    assert (here.lon - area.lon - lon) % 3600000000 == 0
    assert (here.shape, here.dimx, here.dimy) == (area.shape, area.dimx, area.dimy)


@spec("PROX-7")
def test_proximity_of_relative_areas_is_not_asked() -> None:
    moving, fixed = Proximity.circle(0, 0, 1, relative=True), Proximity.circle(0, 0, 1)
    for question in (
        lambda: moving.contains(0, 0),
        lambda: moving.covers(fixed),
        lambda: fixed.covers(moving),
        lambda: moving.overlaps(fixed),
        lambda: fixed.overlaps(moving),
    ):
        with pytest.raises(LocalProtocolError, match="is relative"):
            question()


@spec("PROX-8")
@pytest.mark.parametrize("single", [False, True])
@given(lats, lons, st.floats(0, 360), st.floats(0, 100000))
def test_proximity_distance(single: bool, lat: int, lon: int, azimuth: float, metres: float) -> None:
    end = move(lat, lon, azimuth, metres)
    if single and max(abs(lat), abs(end[0])) > 850000000:
        return
    true = Geodesic.WGS84.Inverse(lat / 1e7, lon / 1e7, end[0] / 1e7, end[1] / 1e7)["s12"]
    with pytest.MonkeyPatch.context() as patch:
        if single:
            patch.setattr(proximity, "_float", numpy.float32)
        assert abs(float(distance(lat, lon, *end)) - true) <= 0.5


@spec("PROX-9", "PROX-10")
@given(
    st.integers(-800000000, 800000000),
    lons,
    st.lists(st.tuples(st.booleans(), *[st.integers(1, 5000)] * 4), min_size=2, max_size=2),
    st.data(),
)
def test_proximity_covering_and_overlap(lat: int, lon: int, drawn: list[Any], data: st.DataObject) -> None:
    made = []
    for round_, size, other, azimuth, away in drawn:
        centre = move(lat, lon, azimuth % 360, away)
        made.append(Proximity.circle(*centre, size) if round_ else Proximity.rectangle(*centre, size, other))
    a, b = made
    point = move(b.lat, b.lon, data.draw(st.floats(0, 360)), data.draw(st.floats(0, 7000)))
    if b.contains(*point) and a.covers(b):
        # The planes of the two questions touch the Earth at different places: some centimetres at this size.
        wider = Proximity(a.shape, False, a.lat, a.lon, a.dimx + 2 + a.dimx // 500, a.dimy + 2 + a.dimy // 500)
        assert wider.contains(*point)
    assert a.covers(a)
    assert a.overlaps(a)
    assert a.overlaps(b) is b.overlaps(a)
    assert a.overlaps(b) or not a.covers(b)


@spec("PROX-11", "PROX-12", "PROX-14")
@given(areas)
def test_proximity_forms(area: Proximity) -> None:
    text = str(area)
    fields = text.split(", ")
    assert len(fields) == (5 if area.shape == proximity.CIRCLE else 6)
    assert [int(fields[0]), int(fields[1])] == [area.shape, int(area.relative)]
    for field, value in zip(fields[2:4], (area.lat, area.lon)):
        assert float(field) == pytest.approx(value / 1e7, abs=1e-9)
        assert "." not in field or not field.endswith(("0", "."))
    assert Proximity.parse(text) == Proximity.parse("  " + text.replace(", ", " ,")) == area
    assert Proximity.from_fields(list(area.fields())) == area


@spec("PROX-13")
@given(st.integers(-99999999999, 99999999999))
def test_proximity_degrees_round_half_away_from_zero(hundred_millionths: int) -> None:
    text = f"{Decimal(hundred_millionths).scaleb(-8):f}"
    want = int(Decimal(hundred_millionths).scaleb(-1).to_integral_value(ROUND_HALF_UP))
    assert parse_degrees(text) == want
    assert parse_degrees(text + "9999") == want
    for bad in ("1000", "", ".", "1e1", "1.2.3", "- 1", "١"):
        with pytest.raises(ValueError):
            parse_degrees(bad)


@spec("PROX-14", "PROX-15")
def test_proximity_strings() -> None:
    assert str(Proximity.parse("0,0, +53.34380 ,-6.2546000,500.0")) == "0, 0, 53.3438, -6.2546, 500"
    for bad in (
        "",
        "2, 0, 0, 0, 1",
        "0, 2, 0, 0, 1",
        "0, 0, 0, 0",
        "1, 0, 0, 0, 1",
        "0, 0, x, 0, 1",
        "0, 0, 0, 0, 1.5",
        "0, 0, 0, 0, x",
    ):
        with pytest.raises(LocalProtocolError, match="proximity"):
            Proximity.parse(bad)
