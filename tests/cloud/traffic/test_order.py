"""Who is fined does not depend on the order of reports, of Locations neither; and what is not known is for the driver.

The model looks at all that was said at once: of each measurement the nearest Locations, the highest limit there, and
what is best for the driver of what several monitors make of it.
"""

import random
from typing import Any, NamedTuple
from zlib import crc32

import pytest
from cloud.traffic.world import LAT, LON, NOW, balanced, control, location, speed
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vicinal.event import Event
from vicinal_cloud.traffic import TrafficControl
from vicinal_cloud.traffic.control import no_changes
from vicinal_cloud.traffic.store import Store
from vicinal_cloud.traffic.tariff import DEFAULT

CENTRE, BORDER, TOWN = LAT, LAT + 26_500, LAT + 60_000
LIMITS = {CENTRE: 30, BORDER: 50, TOWN: 50}
GAP, NEAR = 5_000, 2_000


class Heard(NamedTuple):
    """What a monitor says; the rate of a Speed, or where a Location is."""

    subject: str
    car: str
    at: int
    monitor: str
    value: int

    @property
    def event(self) -> Event:
        plate, time = self.car[0], NOW + self.at * 500
        if self.subject == "Speed":
            return speed(float(self.value), time, plate, self.car, crc32(repr(self).encode()))
        return location(self.value, LON, time, self.car, crc32(repr(self).encode()), heading=float(self.at))


CARS = st.sampled_from(["A1", "A2", "B1"])
"""A is known under two pseudonyms, as it is in two areas"""
TIMES = st.integers(0, 60)
MONITORS = st.sampled_from(["m1", "m2", "m3"])
SAID = st.lists(
    st.one_of(
        st.builds(Heard, st.just("Speed"), CARS, TIMES, MONITORS, st.sampled_from([31, 45, 60, 90])),
        st.builds(Heard, st.just("Location"), CARS, TIMES, MONITORS, st.sampled_from([CENTRE, BORDER, TOWN])),
    ),
    max_size=30,
    unique=True,
)
CHANCES = st.integers(0, 1 << 32).map(random.Random)


def model(said: list[Heard]) -> list[Any]:
    """Offences: plate, first, last, over, and how many measurements."""
    measured: dict[tuple[str, int], dict[str, Heard]] = {}
    for one in said:
        if one.subject == "Speed":
            known = measured.setdefault((one.car[0], one.at), {})
            rank = lambda one: (one.value, one.car, one.event.attrs["OriginSeq"])  # noqa: E731
            known[one.monitor] = min([one, *([known[one.monitor]] if one.monitor in known else [])], key=rank)
    over: dict[str, dict[int, int]] = {}
    for (plate, at), reports in measured.items():
        judged = []
        for monitor, one in reports.items():
            where = [other for other in said if other.subject == "Location" and other.car == one.car]
            places = [(abs(other.at - at) * 500, other.value) for other in where if abs(other.at - at) * 500 <= NEAR]
            nearest = [LIMITS[place] for apart, place in places if apart == min(places)[0]]
            fallback = 30 if monitor in ("m1", "m2") else 50
            judged.append((not nearest, DEFAULT.over(one.value, max(nearest, default=fallback))))
        much = min(much for unknown, much in judged if unknown == min(judged)[0])
        if much > 0:
            over.setdefault(plate, {})[at] = much
    found = []
    for plate, times in over.items():
        run: list[int] = []
        for at in [*sorted(times), 10**9]:
            if run and (at - run[-1]) * 500 > GAP:
                first, last = NOW + run[0] * 500, NOW + run[-1] * 500
                found.append((plate, first, last, max(times[one] for one in run), len(run)))
                run = []
            run.append(at)
    return sorted(found)


def offences(cases: Any) -> list[Any]:
    return sorted((one.plate, one.first, one.last, one.worst.over, one.reports) for one in cases)


def details(made: TrafficControl) -> list[Any]:
    """All but numbers, and when it was opened."""
    return sorted((offences([case]), case.worst, case.fine, case.monitors) for case in made.open_cases())


@settings(max_examples=200, deadline=None)
@given(SAID, CHANCES)
@example([Heard("Speed", "A1", 0, "m1", 45), Heard("Location", "A1", 0, "m1", TOWN)], random.Random(1))
def test_the_order_of_reports_says_nothing(said: list[Heard], chance: random.Random) -> None:
    ways = [sorted(said), sorted(said, reverse=True), chance.sample(said, len(said))]
    found = []
    for way in ways:
        made = control(gap_ms=GAP, late_ms=100_000)
        for one in way:
            made.receive(one.event, one.monitor, NOW + 31_000)
            assert balanced(made)
        assert offences(made.open_cases()) == model(said)
        found.append((details(made), made.accounts()))
        fined = made.handle_timeout(NOW + 10**7)
        assert offences(fined) == model(said)
        assert len(made.measured) == 0
    assert found[0] == found[1] == found[2]


@settings(max_examples=100, deadline=None)
@given(SAID, CHANCES)
def test_what_is_kept_is_what_is_known(said: list[Heard], chance: random.Random) -> None:
    """Whenever it is saved, or cannot be and is kept until it can; with restarts in between, and cases made void."""
    store, made, unsaved = Store(), control(gap_ms=GAP, late_ms=100_000), no_changes()
    void: set[int] = set()
    try:
        for one in chance.sample(said, len(said)):
            made.receive(one.event, one.monitor, NOW + 31_000)
            if chance.random() < 0.1 and (known := made.open_cases()):
                case = chance.choice(known)
                made.move(case.number, "void", NOW + 31_000, "clerk", "an ambulance")
                void.add(case.number)
            if chance.random() < 0.4:
                unsaved = unsaved.then(made.changes())
                if chance.random() < 0.6:
                    store.save(unsaved)
                    unsaved = no_changes()
                    if chance.random() < 0.3:
                        before = made
                        made = control(gap_ms=GAP, late_ms=100_000)
                        store.restore(made)
                        assert details(made) == details(before)
        store.save(unsaved.then(made.changes()))
        assert offences(store.cases()) == offences(made._cases.values())
        assert {case.number for case in store.cases() if case.state == "void"} == void
        for stretch in made.stretches.open():
            assert sorted(store.evidence(stretch.number)) == sorted(stretch.all())
        assert store.counts()["evidence"] == sum(len(one.all()) for one in made.stretches.open())
    finally:
        store.close()


@pytest.mark.parametrize("first", ["Speed", "Location"])
def test_who_keeps_to_the_limit_where_it_is_is_not_fined(first: str) -> None:
    """45 where 50 is allowed, heard by a monitor of the centre, where 30 is."""
    made = control()
    events = [speed(45.0, NOW), location(TOWN, LON, NOW)]
    for event in sorted(events, key=lambda one: one.subject != first):
        made.receive(event, "m1", NOW + 10)
    assert made.counters["within"] == 1
    assert made.open_cases() == []
    assert made.handle_timeout(NOW + 10**6) == []


def test_without_a_location_the_highest_limit_in_reach_counts() -> None:
    made = control(reach_m=400)
    assert made.receive(speed(45.0, NOW), "m1", NOW) == "within"
    assert made.receive(speed(54.0, NOW + 1000), "m1", NOW + 1000) == "over"
    (case,) = made.open_cases()
    assert (case.worst.limit, case.worst.limit_source) == (50, "network; the highest of centre, town")
    # A Location that comes later says where it was: 45 was too fast there.
    made.receive(location(CENTRE, LON, NOW + 300), "m1", NOW + 2000)
    assert [(one.reports, one.worst.limit, one.worst.place_source) for one in made.open_cases()] == [(2, 30, "vehicle")]
    assert made.changes().verdicts == [("m1", "car-1/can", NOW, "over")]


def test_the_place_is_as_uncertain_as_the_time_between_is_long() -> None:
    made = control()
    inside = LAT + 27_000 - 3_000  # 33 m from the border: more than the accuracy
    made.receive(location(inside, LON, NOW), "m1", NOW)
    assert made.receive(speed(45.0, NOW), "m1", NOW) == "over"
    assert made.receive(speed(45.0, NOW + 2000), "m1", NOW + 2000) == "within"  # 25 m on it may have left


def test_an_erased_driver_is_not_judged_worse() -> None:
    made = control(reach_m=400)
    made.receive(location(TOWN, LON, NOW), "m1", NOW)
    assert made.receive(speed(45.0, NOW), "m1", NOW) == "within"
    assert made.receive(speed(70.0, NOW + 400), "m1", NOW + 400) == "over"
    assert made.receive(speed(45.0, NOW + 450, vehicle="p-other"), "m1", NOW + 450) == "within"
    made.forget_vehicles("00D1234", ["car-1/can"])
    assert len(made.measured) == 1  # that of the case
    assert made.receive(speed(45.0, NOW + 500), "m1", NOW + 500) == "within"
