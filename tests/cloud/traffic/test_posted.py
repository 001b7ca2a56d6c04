"""Nobody is fined by a limit that no sign showed; a limit that is raised holds at once."""

from cloud.traffic.world import LAT, LON, NOW, control, location, network, speed
from hypothesis import given
from hypothesis import strategies as st

from vicinal_cloud.traffic.posted import Posted, Shown
from vicinal_cloud.traffic.store import Store

TOWN = LAT + 60_000


def test_a_lower_limit_counts_when_its_sign_shows_it() -> None:
    made = control()
    made.set_limit("town", 30, NOW, "operator")
    made.receive(location(TOWN, LON, NOW + 100), "m3", NOW + 200)
    assert made.receive(speed(52.0, NOW + 100), "m3", NOW + 300) == "within"
    assert made.receive(speed(57.0, NOW + 200), "m3", NOW + 300) == "over"
    (case,) = made.open_cases()
    assert (case.worst.limit, case.worst.limit_source) == (50, "shown at m3, not yet 30 (operator)")
    made.sign_shows("m3", 30, NOW + 1000)
    made.receive(location(TOWN, LON, NOW + 1000), "m3", NOW + 1000)
    assert made.receive(speed(52.0, NOW + 1000), "m3", NOW + 1300) == "over"
    assert [(one.worst.limit, one.worst.over) for one in made.open_cases()] == [(30, 19)]
    # What was said before the sign changed is judged by what it showed, whenever it comes.
    assert made.receive(speed(52.0, NOW + 900), "m3", NOW + 5000) == "within"


def test_a_higher_limit_counts_at_once() -> None:
    made = control()
    made.set_limit("town", 70, NOW, "operator")
    made.receive(location(TOWN, LON, NOW), "m3", NOW)
    assert made.receive(speed(65.0, NOW), "m3", NOW) == "within"


def test_heard_by_a_monitor_of_another_area_the_signs_of_this_one_count() -> None:
    """m1 and m2 stand in the centre: both have to show it, if the monitor that heard it is none of them."""
    made = control()
    made.set_limit("centre", 20, NOW, "operator")
    made.sign_shows("m1", 20, NOW + 10)
    made.receive(location(LAT, LON, NOW + 100), "m3", NOW + 100)
    assert made.receive(speed(30.0, NOW + 100), "m3", NOW + 100) == "within"
    assert made.receive(speed(30.0, NOW + 100, vehicle="p", plate="B"), "m1", NOW + 100) == "over"
    made.sign_shows("m2", 20, NOW + 200)
    made.receive(location(LAT, LON, NOW + 300), "m3", NOW + 300)
    assert made.receive(speed(30.0, NOW + 300), "m3", NOW + 300) == "over"


def test_what_signs_showed_is_known_after_a_restart() -> None:
    store, made = Store(), control()
    try:
        made.set_limit("town", 30, NOW, "operator")
        made.sign_shows("m3", 30, NOW + 10)
        made.sign_shows("m3", 30, NOW + 20)
        store.save(made.changes())
        again = control()
        store.restore(again)
        assert again.posted.history() == [Shown("m3", 30, NOW + 10)]
        assert [again.posted.at("m3", at) for at in (0, NOW + 9, NOW + 10)] == [50, 50, 30]
    finally:
        store.close()


CHANGES = st.lists(st.tuples(st.booleans(), st.sampled_from([20, 30, 50, 70])), max_size=12)


@given(CHANGES, st.integers(0, 13), st.sampled_from([24.0, 34.0, 54.0, 74.0]))
def test_the_limit_for_fines_is_the_higher_of_what_holds_and_what_is_shown(
    changes: list[tuple[bool, int]], at: int, rate: float
) -> None:
    made, holds, shown = control(), 50, 50
    for second, (is_sign, value) in enumerate(changes):
        if is_sign:
            made.sign_shows("m3", value, NOW + second * 1000)
            shown = value if second <= at else shown
        else:
            made.set_limit("town", value, NOW + second * 1000, "operator")
            holds = value if second <= at else holds
    made.receive(location(TOWN, LON, NOW + at * 1000), "m3", NOW + 14_000)
    over = made.receive(speed(rate, NOW + at * 1000), "m3", NOW + 14_000)
    assert over == ("over" if rate - 3 > max(holds, shown) else "within")


def test_a_sign_of_no_monitor_is_none() -> None:
    posted = Posted(network())
    assert not posted.add(Shown("m9", 30, NOW))
    assert posted.highest("town", "m1", NOW) == (50, "m3")
