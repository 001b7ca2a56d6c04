"""Tracks replayed: laws of interpolation, gaps, rates."""

from fractions import Fraction

import pytest
from hw.location.drive import drive, sentences
from hypothesis import given
from hypothesis import strategies as st

from vicinal.errors import LocalProtocolError
from vicinal_hw.location.fix import Fix
from vicinal_hw.location.nmea import Nmea
from vicinal_hw.location.track import Track

LAT = st.integers(-900_000_000, 900_000_000)
LON = st.integers(-1_800_000_000, 1_800_000_000)
HEADING = st.none() | st.integers(0, 35999)
SPEED = st.none() | st.integers(0, 100_000)


@st.composite
def tracks(draw: st.DrawFn) -> list[Fix]:
    time = draw(st.integers(0, 2_000_000_000_000))
    fixes = []
    for _ in range(draw(st.integers(1, 8))):
        fixes.append(Fix(draw(LAT), draw(LON), time, draw(SPEED), draw(HEADING), draw(SPEED)))
        time += draw(st.integers(1, 8000))
    return fixes


def at(fix: Fix) -> int:
    assert fix.time is not None
    return fix.time


def turned(a: int, b: int, turn: int) -> int:
    """How far it is from a to b, the short way."""
    return min((a - b) % turn, (b - a) % turn)


@given(tracks(), st.integers(0, 10**9), st.integers(-100, 70_000), st.booleans())
def test_what_a_track_may_say(fixes: list[Fix], start: int, later: int, interpolate: bool) -> None:
    """At each recorded time the recorded fix; between two, something between them; in gaps and outside, nothing."""
    track = Track(fixes, start, interpolate=interpolate)
    time = at(fixes[0]) + later
    found = track.fix(start + later)
    before = [fix for fix in fixes if at(fix) <= time]
    after = [fix for fix in fixes if at(fix) > time]
    if not before:
        assert found is None
        return
    a = before[-1]
    if at(a) == time:
        assert found == a
    elif not interpolate or not after or at(after[0]) - at(a) > 5000:
        assert found == (a if time - at(a) <= 5000 else None)
    else:
        b = after[0]
        assert found is not None
        assert found.time == time
        part = Fraction(time - at(a), at(b) - at(a))
        assert abs(found.lat - (a.lat + (b.lat - a.lat) * part)) <= Fraction(1, 2)
        way = turned(a.lon, b.lon, 3_600_000_000)
        assert way <= 1_800_000_000
        assert abs(turned(a.lon, found.lon, 3_600_000_000) - way * part) <= 1
        assert abs(turned(found.lon, b.lon, 3_600_000_000) - way * (1 - part)) <= 1
        assert (found.speed is None) == (None in (a.speed, b.speed))
        assert (found.heading is None) == (None in (a.heading, b.heading))
        if a.heading is not None and b.heading is not None and found.heading is not None:
            turn = turned(a.heading, b.heading, 36000)
            assert abs(turned(a.heading, found.heading, 36000) - turn * part) <= 1
            assert abs(turned(found.heading, b.heading, 36000) - turn * (1 - part)) <= 1


def test_where_an_age_ends_and_what_is_known_between() -> None:
    track = Track([Fix(0, 0, 0, accuracy=4000), Fix(0, 0, 5000, accuracy=7000), Fix(0, 0, 10001, accuracy=1)], 0)
    ages = [(now, found and found.accuracy) for now in (4999, 10000, 10001, 15001, 15002) for found in [track.fix(now)]]
    assert ages == [(4999, 7000), (10000, 7000), (10001, 1), (15001, 1), (15002, None)]


def test_over_the_date_line() -> None:
    track = Track([Fix(0, 1_799_999_900, 0), Fix(0, -1_799_999_900, 1000)], 0)
    assert [track.fix(now).lon for now in (0, 250, 500, 750, 1000)] == [  # type: ignore[union-attr]
        1_799_999_900,
        1_799_999_950,
        1_800_000_000,
        -1_799_999_950,
        -1_799_999_900,
    ]


@given(tracks(), st.tuples(st.integers(1, 50), st.integers(1, 50)), st.integers(0, 60_000))
def test_rates(fixes: list[Fix], rate: tuple[int, int], later: int) -> None:
    slow, scaled = Track(fixes, 1000), Track(fixes, 1000, rate)
    assert scaled.fix(1000 + later) == slow.fix(1000 + later * rate[0] // rate[1])
    end = scaled.ends()
    last = scaled.fix(end)
    assert last is not None
    assert at(last) >= at(fixes[-1])
    assert end == 1000 or at(scaled.fix(end - 1) or fixes[0]) < at(fixes[-1])


def test_tracks_that_are_none() -> None:
    with pytest.raises(LocalProtocolError, match="one fix at least"):
        Track([], 0)
    with pytest.raises(LocalProtocolError, match="fix 1 of the track has no time"):
        Track([Fix(0, 0, 1), Fix(0, 0)], 0)
    with pytest.raises(LocalProtocolError, match="fix 1 of the track is at 1, not after 1"):
        Track([Fix(0, 0, 1), Fix(0, 0, 1)], 0)
    with pytest.raises(LocalProtocolError, match="rate is 0/1"):
        Track([Fix(0, 0, 1)], 0, (0, 1))


def test_a_drive_is_the_same_replayed() -> None:
    nmea = Nmea()
    fixes = []
    for second in drive(200):
        nmea.receive_data(sentences(second).encode(), 0)
        fix = nmea.fix(0)
        assert fix is not None
        fixes.append(fix)
    track = Track(fixes, 77, (10, 1))
    assert [track.fix(77 + 100 * number) for number in range(200)] == fixes
    assert track.ends() == 77 + 19900
