"""Limits of areas: what was in force when."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.errors import LimitError, LocalProtocolError
from vicinal_cloud.traffic import Hours, Limits, Rule

DUBLIN = ZoneInfo("Europe/Dublin")


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=DUBLIN).timestamp() * 1000)


def value(limits: Limits, when: str) -> int | None:
    found = limits.in_force("a", at(when))
    return None if found is None else found.value


def test_times_of_day_in_the_time_of_the_town() -> None:
    limits = Limits(DUBLIN)
    limits.add(Rule("a", 50, 0))
    limits.add(Rule("a", 30, 0, Hours.parse("Mo-Fr 07:30-16:30"), "school"))
    limits.add(Rule("a", 40, 0, Hours.parse("Fr,Sa 22:00-06:00"), "night"))
    assert value(limits, "2026-07-01T07:29") == 50  # a Wednesday
    assert value(limits, "2026-07-01T07:30") == 30
    assert value(limits, "2026-07-01T16:30") == 50
    assert value(limits, "2026-07-03T23:00") == 40  # Friday, and past midnight
    assert value(limits, "2026-07-04T05:59") == 40
    assert value(limits, "2026-07-04T06:00") == 50
    assert value(limits, "2026-07-06T05:00") == 50  # Monday: what began on Sunday is none
    # An hour earlier by UTC than in winter.
    assert value(limits, "2026-01-07T07:30") == 30
    found = limits.in_force("a", at("2026-07-01T08:00"))
    assert found is not None
    assert found.source == "school, Mo,Tu,We,Th,Fr 07:30-16:30"


def test_hours_hold_before_what_is_set_later_for_always() -> None:
    limits = Limits(DUBLIN)
    limits.add(Rule("a", 30, 0, Hours.parse("07:30-16:30")))
    limits.add(Rule("a", 50, at("2026-07-01T08:00")))
    assert value(limits, "2026-07-01T09:00") == 30
    assert value(limits, "2026-07-01T17:00") == 50
    limits.add(Rule("a", 20, at("2026-07-01T10:00"), Hours.parse("07:00-18:00")))
    assert value(limits, "2026-07-01T11:00") == 20


def test_a_change_does_not_reach_back() -> None:
    limits = Limits(DUBLIN)
    limits.add(Rule("a", 50, 0))
    limits.add(Rule("a", 30, 1000))
    limits.add(Rule("a", 80, 500))
    assert [limits.in_force("a", when).value for when in (0, 499, 500, 999, 1000)] == [50, 50, 80, 80, 30]  # type: ignore[union-attr]
    assert limits.in_force("a", -1) is None
    assert limits.in_force("b", 5000) is None


def test_a_rule_that_ends() -> None:
    limits = Limits(DUBLIN)
    limits.add(Rule("a", 50, 0))
    limits.add(Rule("a", 20, 100, until=200))
    assert [limits.in_force("a", when).value for when in (99, 100, 199, 200)] == [50, 20, 20, 50]  # type: ignore[union-attr]
    assert limits.next_change("a", 0) == 100
    assert limits.next_change("a", 100) == 200
    assert limits.next_change("a", 200) is None


def test_a_rule_that_is_ended_later() -> None:
    """It held until then, and what was beneath it does again."""
    limits = Limits(DUBLIN)
    always = Rule("a", 20, 100, Hours.parse("00:00-24:00"), "operator")
    for rule in (Rule("a", 50, 0), always, Rule("a", 40, 200), always._replace(until=300)):
        limits.add(rule)
    assert [limits.in_force("a", when).value for when in (99, 100, 299, 300)] == [50, 20, 20, 40]  # type: ignore[union-attr]
    assert len(limits.rules()) == 3


@given(
    st.lists(
        st.tuples(st.sampled_from([20, 30, 50]), st.integers(1, 50), st.booleans(), st.none() | st.integers(1, 50)),
        max_size=8, unique_by=lambda one: one[1],
    ),
    st.integers(0, 110),
)  # fmt: skip
def test_what_holds_is_what_was_set_last_and_not_ended(
    rules: list[tuple[int, int, bool, int | None]], when: int
) -> None:
    limits, day = Limits(DUBLIN), Hours.parse("00:00-24:00")
    limits.add(Rule("a", 80, 0))
    made = [Rule("a", value, since, day if hours else None) for value, since, hours, _ in rules]
    for rule in made:
        limits.add(rule)
    for rule, (_, since, _, lasts) in zip(made, rules):
        if lasts is not None:
            limits.add(rule._replace(until=since + lasts))
    left = [(hours, since, value) for value, since, hours, lasts in rules
            if since <= when and (lasts is None or when < since + lasts)]  # fmt: skip
    found = limits.in_force("a", when)
    assert found is not None
    assert found.value == max(left, default=(False, 0, 80))[2]


def test_next_change() -> None:
    limits = Limits(DUBLIN)
    limits.add(Rule("a", 50, 0))
    limits.add(Rule("a", 30, 0, Hours.parse("Mo-Fr 07:30-16:30")))
    assert limits.next_change("a", at("2026-07-01T08:00")) == at("2026-07-01T16:30")
    assert limits.next_change("a", at("2026-07-03T17:00")) == at("2026-07-06T07:30")


@pytest.mark.parametrize(
    "text", ["", "Mo", "Xx 07:00-08:00", "07:00", "7-8", "Mo-Fr 25:00-26:00", "Fr-Mo 07:00-08:00", "Mo 07:00-08:00 x"]
)
def test_hours_that_are_none(text: str) -> None:
    with pytest.raises(LocalProtocolError, match="want for example"):
        Hours.parse(text)


@given(
    st.sets(st.integers(0, 6), min_size=1),
    st.integers(0, 24 * 60 - 1),
    st.integers(0, 24 * 60),
    st.integers(0, 6),
    st.integers(0, 24 * 60 - 1),
)
def test_hours_are_the_minutes_between(days: set[int], start: int, end: int, day: int, minute: int) -> None:
    hours = Hours(tuple(sorted(days)), start, end)
    length = (end - start) % (24 * 60) or 24 * 60
    begins = [one * 24 * 60 + start for one in days]
    week = 7 * 24 * 60
    expected = any((day * 24 * 60 + minute - begin) % week < length for begin in begins)
    assert hours.include(day, minute) == expected
    assert Hours.parse(str(hours)) == hours


def test_limits_have_limits() -> None:
    limits = Limits(DUBLIN)
    for wrong in (4, 131):
        with pytest.raises(LimitError, match=f"{wrong} km/h"):
            limits.add(Rule("a", wrong, 0))
    with pytest.raises(LocalProtocolError, match="before it begins"):
        limits.add(Rule("a", 50, 10, until=10))
