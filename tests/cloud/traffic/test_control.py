"""Traffic control: offences and their evidence, no double fine, and what never becomes one."""

from typing import Any

import pytest
from cloud.traffic.world import HUNDRED_M, LAT, LON, NOW, balanced, control, location, speed

from vicinal.event import Event
from vicinal_cloud.traffic import NotAllowed
from vicinal_cloud.traffic.cases import moved
from vicinal_cloud.traffic.tariff import DEFAULT


def test_an_offence_and_its_evidence() -> None:
    made = control()
    made.receive(location(LAT + 5000, LON, NOW + 100, heading=91.5, braking=True), "m1", NOW + 150)
    assert made.receive(speed(57.0, NOW + 200), "m1", NOW + 420) == "over"
    made.receive(location(LAT + 6000, LON, NOW + 1100), "m1", NOW + 1150)
    assert made.receive(speed(61.0, NOW + 1200), "m1", NOW + 1400) == "over"
    (case,) = made.open_cases()
    assert (case.plate, case.state, case.reports, case.duration) == ("00D1234", "open", 2, 1000)
    worst = case.worst
    assert (worst.speed, worst.tolerance, worst.limit, worst.over) == (61.0, 3, 30, 28)
    assert (worst.limit_source, worst.area) == ("network", "centre")
    assert (worst.place, worst.place_source) == ((LAT + 6000, LON), "vehicle")
    assert (worst.time, worst.received, worst.monitor) == (NOW + 1200, NOW + 1400, "m1")
    assert (worst.vehicle, worst.seq) == ("car-1/can", NOW + 1200)
    assert (case.fine, case.points, case.currency) == (12_000, 1, "EUR")
    first = next(one for _, one in made.changes().evidence if one.time == NOW + 200)
    assert (first.heading, first.braking) == (91.5, True)
    assert balanced(made)


def test_without_a_location_the_monitor_says_where() -> None:
    made = control()
    made.receive(location(LAT, LON, NOW - 5000), "m1", NOW - 4000)  # too old to say where it is now
    assert made.receive(speed(57.0, NOW), "m1", NOW) == "over"
    (case,) = made.open_cases()
    assert (case.worst.place, case.worst.place_source) == ((LAT, LON), "monitor")


def test_the_limit_is_that_of_the_place_and_the_time() -> None:
    made = control()
    # Heard by a monitor of the centre, and in the town: 50, not 30.
    made.receive(location(LAT + 60_000, LON, NOW), "m1", NOW)
    assert made.receive(speed(52.0, NOW), "m1", NOW) == "within"
    made.receive(location(LAT, LON, NOW + 9000), "m1", NOW + 9000)
    assert made.receive(speed(52.0, NOW + 9000), "m1", NOW + 9000) == "over"
    made.set_limit("centre", 70, NOW + 10_000, "operator")
    made.receive(location(LAT, LON, NOW + 10_000), "m1", NOW + 10_000)
    assert made.receive(speed(52.0, NOW + 10_000), "m1", NOW + 10_000) == "within"
    # It was over before, whenever that is told.
    assert made.receive(speed(52.0, NOW + 9500), "m1", NOW + 12_000) == "over"
    assert [case.worst.limit for case in made.open_cases()] == [30]


def test_near_a_border_the_higher_limit_counts() -> None:
    made = control()
    made.receive(location(LAT + 26_500, LON, NOW), "m1", NOW)  # 6 m inside the centre
    assert made.receive(speed(52.0, NOW), "m1", NOW) == "within"
    assert made.receive(speed(60.0, NOW + 1000), "m1", NOW + 1000) == "over"
    (case,) = made.open_cases()
    assert (case.worst.limit, case.worst.limit_source) == (50, "network; the highest of centre, town")


@pytest.mark.parametrize(
    ("rate", "over"), [(33.0, 0), (33.9, 0), (34.0, 1), (100.0, 67), (101.0, 67), (103.0, 69), (150.0, 115)]
)
def test_tolerance_is_for_the_driver(rate: float, over: int) -> None:
    assert max(0, DEFAULT.over(rate, 30)) == over
    assert control().receive(speed(rate, NOW), "m1", NOW) == ("over" if over else "within")


@pytest.mark.parametrize(
    ("over", "fine", "points"), [(1, 3000, 0), (10, 3000, 0), (11, 6000, 0), (21, 12000, 1), (300, 70000, 2)]
)
def test_the_table_of_fines(over: int, fine: int, points: int) -> None:
    band = DEFAULT.band(over)
    assert band is not None
    assert (band.fine, band.points) == (fine, points)
    assert DEFAULT.band(0) is None


def test_two_monitors_are_two_witnesses_of_one_offence() -> None:
    made = control()
    for tick in range(5):
        at = NOW + tick * 1000
        assert made.receive(speed(57.0, at), "m1", at + 200) == "over"
        assert made.receive(speed(57.0, at), "m2", at + 210) == "witnessed"
    # Also where the second knows the vehicle under another pseudonym.
    assert made.receive(speed(57.0, NOW, vehicle="p-other", seq=7), "m3", NOW + 5000) == "witnessed"
    (case,) = made.open_cases()
    assert (case.reports, case.monitors) == (5, ("m1", "m2", "m3"))
    assert balanced(made)


def test_one_stretch_one_fine_and_after_a_gap_another() -> None:
    made = control(gap_ms=10_000, late_ms=30_000)
    for at in (0, 5_000, 15_000, 25_000, 35_001):
        made.receive(speed(57.0, NOW + at), "m1", NOW + at)
    assert [case.reports for case in made.open_cases()] == [4, 1]
    # What counts for a report may come two seconds after it, and late.
    assert made.handle_timeout(NOW + 25_000 + 42_000) == []
    fined = made.handle_timeout(NOW + 25_000 + 42_001)
    assert [(case.number, case.state) for case in fined] == [(1, "fined")]
    assert made.next_timeout() == NOW + 35_001 + 42_001
    assert [case.number for case in made.handle_timeout(NOW + 90_000)] == [2]
    assert made.next_timeout() is None


def test_a_report_between_two_makes_them_one() -> None:
    made = control(gap_ms=10_000)
    for at in (0, 18_000):
        made.receive(speed(57.0, NOW + at), "m1", NOW + 18_000)
    assert len(made.open_cases()) == 2
    made.receive(speed(80.0, NOW + 9_000), "m1", NOW + 20_000)
    (case,) = made.open_cases()
    assert (case.number, case.reports, case.worst.speed) == (1, 3, 80.0)
    assert made.changes().merged == [(2, 1)]


def test_a_single_report_is_enough() -> None:
    made = control()
    made.receive(speed(40.0, NOW), "m1", NOW)
    (case,) = made.handle_timeout(NOW + 100_000)
    assert (case.duration, case.reports, case.fine) == (0, 1, 3000)


BAD: list[tuple[Event, str]] = [
    (speed(255.0, NOW), "impossible speed"),
    (speed(-1.0, NOW), "impossible speed"),
    (speed(float("nan"), NOW), "impossible speed"),
    (speed(250.1, NOW), "impossible speed"),
    (speed(57.0, NOW + 2001), "time in the future"),
    (speed(57.0, NOW - 30_001), "late"),
    (speed("57", NOW), "malformed"),
    (speed(57.0, NOW, plate=""), "malformed"),
    (speed(57.0, NOW, plate=7), "malformed"),
    (speed(57.0, NOW, plate="x" * 17), "malformed"),
    (Event("Speed", {"license_no": "x", "rate": 57.0}, {"OriginProducer": "c", "OriginSeq": 1}), "no time"),
    (Event("Speed", {"license_no": "x", "rate": 57.0}, {"Time": NOW}), "malformed"),
    (Event("Speed", {"rate": 57.0}, producer="c", seq=1), "malformed"),
    (Event("Weather", {"rain": 3}, producer="c", seq=1), "malformed"),
    (location(LAT, LON, NOW, heading="north"), "malformed"),
    (location(LAT, LON, NOW, braking=1), "malformed"),
    (location(LON, LAT, NOW), "latitude and longitude swapped"),
    (location(LAT + 10_000_000, LON, NOW), "position outside the network"),
    (location(0, 0, NOW), "position outside the network"),
]


@pytest.mark.parametrize(("event", "reason"), BAD)
def test_what_cannot_be_true_never_becomes_a_fine(event: Event, reason: str) -> None:
    made = control()
    assert made.receive(event, "m1", NOW) == reason
    assert made.quarantined == {reason: 1}
    (kept,) = made.changes().quarantined
    assert (kept.reason, kept.monitor, kept.received) == (reason, "m1", NOW)
    assert "license_no" not in kept.values
    assert made.open_cases() == []
    assert made.whereabouts.latest() == []
    assert made.handle_timeout(NOW + 10**9) == []
    assert balanced(made)


@pytest.mark.parametrize("plate", ["191-D-12345 Dublin", b"191-D-12345", 19112345, True, None, "\t"])
def test_a_plate_that_is_none_is_not_kept_and_whose_it_was_is_known(plate: Any) -> None:
    """So that who is erased is erased there, too."""
    made = control()
    params: list[tuple[str, Any]] = [("rate", 57.0)] if plate is None else [("license_no", plate), ("rate", 57.0)]
    event = Event("Speed", params, {"OriginProducer": "p-1", "OriginSeq": 7, "Time": NOW}, producer="m1.office", seq=99)
    assert made.receive(event, "m1", NOW) == "malformed"
    (kept,) = made.changes().quarantined
    assert (kept.vehicle, kept.seq) == ("p-1", 7)
    assert kept.detail.startswith("license_no ")
    assert not any(piece in repr(kept) for piece in ("191", "Dublin"))


def test_just_inside_is_believed() -> None:
    made = control()
    assert made.receive(speed(57.0, NOW + 2000, seq=1), "m1", NOW) == "over"
    assert made.receive(speed(57.0, NOW - 30_000, seq=2), "m1", NOW) == "over"
    assert made.receive(speed(250.0, NOW, seq=3), "m1", NOW) == "over"


def test_duplicates_and_monitors_that_nobody_knows() -> None:
    made = control()
    assert made.receive(speed(57.0, NOW), "m1", NOW) == "over"
    assert made.receive(speed(57.0, NOW), "m1", NOW + 5) == "duplicate"
    assert made.receive(speed(57.0, NOW), "m9", NOW + 5) == "unknown monitor"
    assert [case.reports for case in made.open_cases()] == [1]
    assert balanced(made)


def test_an_open_case_may_be_void_and_stays_so() -> None:
    made = control()
    made.receive(speed(57.0, NOW), "m1", NOW)
    with pytest.raises(NotAllowed, match="needs a reason"):
        made.move(1, "void", NOW, "clerk", " ")
    assert made.move(1, "void", NOW, "clerk", "an ambulance").state == "void"
    made.receive(speed(67.0, NOW + 1000), "m1", NOW + 1000)
    assert made.handle_timeout(NOW + 100_000) == []
    assert made.changes().cases[-1].state == "void"
    assert not made.holds(1)


ALLOWED = {
    ("open", "void"), ("fined", "paid"), ("fined", "appealed"), ("fined", "void"),
    ("appealed", "upheld"), ("appealed", "void"), ("upheld", "paid"), ("upheld", "void"),
}  # fmt: skip
STATES = ("open", "fined", "paid", "appealed", "upheld", "void")


@pytest.mark.parametrize("before", STATES)
@pytest.mark.parametrize("after", STATES)
def test_what_may_follow_what(before: str, after: str) -> None:
    made = control()
    made.receive(speed(57.0, NOW), "m1", NOW)
    case = made.open_cases()[0]._replace(state=before)
    if (before, after) in ALLOWED:
        found = moved(case, after, NOW + 1, "clerk", "because")
        assert (found.state, found.steps[-1]) == (after, (after, NOW + 1, "clerk", "because"))
    else:
        with pytest.raises(NotAllowed, match=f"is {before}"):
            moved(case, after, NOW, "clerk", "because")


def test_what_is_remembered_is_bounded() -> None:
    made = control(late_ms=10_000)
    for tick in range(200):
        at = NOW + tick * 1000
        made.receive(location(LAT, LON + HUNDRED_M, at), "m1", at)
        made.receive(speed(20.0, at), "m1", at)
        made.handle_timeout(at)
    assert len(made._seen) <= 2 * 22
    assert sum(len(times) for times in made.whereabouts._times.values()) <= 13
    assert len(made.measured) <= 13
