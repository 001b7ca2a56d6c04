"""An office that was away judges what it hears then as if it had been there."""

from typing import Any

from cloud.traffic.world import NOW, Bureau, speed
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal_cloud.traffic.progress import LAG_MS, QUIET_MS, Progress

HOUR = 3_600_000


def offences(made: Bureau) -> list[Any]:
    return [
        (one.plate, one.first, one.last, one.reports, one.monitors, one.fine, one.state, one.worst.received)
        for one in made.store.cases()
    ]


def test_what_the_broker_had_in_time_is_not_late_however_long_the_office_was_away() -> None:
    made = Bureau()
    back = NOW + HOUR
    made.hands.time = back
    made.office.progress.connected(back)
    assert made.hear(speed(57.0, NOW), back, stored=NOW + 100) == "over"
    made.pass_time(back + 1)  # more may come that belongs to it
    assert made.hear(speed(58.0, NOW + 1000), back + 2, stored=NOW + 1100) == "over"
    assert made.hear(speed(59.0, NOW + 2000), back + 3, stored=NOW + 2000 + 30_001) == "late"
    made.pass_time(back + 4)
    assert [one[6] for one in offences(made)] == ["open"]
    made.pass_time(back + 4 + QUIET_MS)
    assert [(one[3], one[6], one[7]) for one in offences(made)] == [(2, "fined", NOW + 1100)]
    assert made.store.case(1).steps[-1].time == back + 4 + QUIET_MS  # that is when it was done
    made.close()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 120), st.integers(0, 40), st.sampled_from(["m1", "m2"])), max_size=20),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 400)), max_size=3),
)
def test_an_outage_changes_no_fine(reports: list[tuple[int, int, str]], outages: list[tuple[int, int]]) -> None:
    """Reports with their way to the broker, in seconds; when the office was away, and for how long."""
    log = sorted({(NOW + (second + way) * 1000, NOW + second * 1000, monitor) for second, way, monitor in reports})
    found = []
    for away in ([], outages):
        made, waiting = Bureau(gap_ms=5_000), list(log)
        connected = True
        for now in range(NOW, NOW + 700_000, 500):
            made.hands.time = now
            is_away = any(NOW + start * 1000 <= now < NOW + (start + length) * 1000 for start, length in away)
            if is_away and connected:
                made.office.progress.lost()
            elif not is_away and not connected:
                made.office.progress.connected(now)
            connected = not is_away
            made.pass_time(now)
            for stored, at, monitor in [one for one in waiting if one[0] <= now][:2] if connected else []:
                made.hear(speed(57.0, at), now, stored, monitor)
                waiting.remove((stored, at, monitor))
        made.pass_time(NOW + HOUR)
        assert not waiting
        found.append((offences(made), made.office.control.accounts()))
        made.close()
    assert found[0] == found[1]


def test_who_is_not_behind_goes_by_the_clock() -> None:
    made = Progress()
    assert made.until(NOW) == 0
    made.connected(NOW)
    assert made.until(NOW + QUIET_MS - 1) == 0
    assert made.until(NOW + QUIET_MS) == NOW + QUIET_MS
    made.heard(NOW - HOUR, NOW + 20_000)
    assert made.until(NOW + 20_001) == NOW - HOUR
    made.heard(NOW + 20_100 - LAG_MS, NOW + 20_100)
    assert made.until(NOW + 90_000) == NOW + 90_000
    made.lost()
    assert made.until(NOW + HOUR) == NOW + 20_100 - LAG_MS
