"""What is erased of a driver is gone from the database and from memory, and what must be held is named."""

import json
from typing import Any

from cloud.traffic.world import LAT, LON, NOW, Bureau, location, speed
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal_cloud.traffic.live import Telling
from vicinal_cloud.traffic.store import Retention
from vicinal_cloud.traffic.whereabouts import NEAR_MS

GAP, LATE = 10_000, 30_000 + NEAR_MS  # a Location may come so much later than what it is near to
PLATE, HIDDEN = "00D1234", "p-car"
DAY = 86_400_000


def everything(made: Bureau) -> str:
    """All that anybody can see, and all rows that there are."""
    pages = ["/api/state", "/api/cases", "/api/events", "/api/quarantine", f"/api/at?time={made.hands.time}"]
    seen = "".join(made.pages.get(page).text for page in pages)
    kept = [made.store.cases(), made.store.sightings(0, 1 << 62), made.store.quarantine()]
    told = json.dumps(Telling(made.office).news(made.hands.time))
    core = [made.office.control.whereabouts.latest(), [one.plate for one in made.office.control.stretches.open()]]
    return seen + repr(kept) + told + repr(core)


def test_a_void_case_is_held_until_nothing_can_be_added_and_then_it_is_gone() -> None:
    """Erased before, the next report of that drive would be a case again, and fined."""
    made = Bureau()
    made.hear(location(LAT, LON, NOW, vehicle=HIDDEN), NOW)
    made.hear(speed(57.0, NOW, vehicle=HIDDEN), NOW)
    made.hear(speed(255.0, NOW + 1, vehicle=HIDDEN), NOW)
    assert made.post("/api/cases/1", state="void", note="an ambulance")[0] == 200
    assert PLATE not in made.pages.get("/api/state").text
    found = made.office.erase(PLATE)
    assert (found.cases, found.held) == (0, (1,))
    made.hear(speed(58.0, NOW + 1000, vehicle=HIDDEN), NOW + 1000)
    made.pass_time(NOW + 1000 + GAP + LATE)
    assert made.office.erase(PLATE).held == (1,)
    made.pass_time(NOW + 1000 + GAP + LATE + 1)
    assert [(case.state, case.reports) for case in made.store.cases()] == [("void", 2)]
    found = made.office.erase(PLATE)
    assert (found.cases, found.held) == (1, ())
    assert PLATE not in everything(made)
    assert HIDDEN not in everything(made)
    made.pass_time(NOW + 10**7)
    assert PLATE not in everything(made)
    # Who speeds another day is another case.
    made.hear(speed(58.0, NOW + 10**7), NOW + 10**7)
    made.pass_time(NOW + 2 * 10**7)
    assert [(case.number, case.state) for case in made.store.cases()] == [(2, "fined")]
    made.close()


def test_what_is_too_old_is_gone_from_memory_too() -> None:
    made = Bureau()
    made.hear(location(LAT, LON, NOW, vehicle=HIDDEN), NOW)
    made.hear(speed(57.0, NOW, vehicle=HIDDEN), NOW)
    made.hear(speed(58.0, NOW, vehicle="p-other", plate="99-X-1"), NOW)
    made.pass_time(NOW + 10**6)
    made.post("/api/cases/1", state="void", note="because")
    keep = Retention()
    made.hands.time = NOW + keep.sightings + 1
    made.office.retain()
    assert HIDDEN not in made.pages.get("/api/events").text
    assert len(made.pages.get("/api/events").json()["events"]) == 3  # that something passed is no secret
    assert PLATE in everything(made)
    page = Telling(made.office)
    page.news(made.hands.time)
    made.hands.time = NOW + keep.void + 1
    made.office.retain()
    assert page.news(made.hands.time)["gone"] == [1]
    assert PLATE not in everything(made)
    assert HIDDEN not in everything(made)
    assert "99-X-1" in everything(made)
    made.close()


def test_a_shorter_retention_of_cases_than_of_sightings_counts_for_events() -> None:
    made = Bureau()
    made.office.config = made.office.config._replace(retention=Retention(sightings=40 * DAY))
    made.hear(speed(57.0, NOW, vehicle=HIDDEN), NOW)
    made.pass_time(NOW + 10**6)
    made.post("/api/cases/1", state="void", note="because")
    made.hands.time = NOW + 30 * DAY + 1
    made.office.retain()
    assert PLATE not in everything(made)
    made.close()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("report"), st.integers(0, 90)),
        st.sampled_from([("void",), ("erase",), ("paid",), ("time", 20), ("time", 60)]),
    ),
    max_size=20,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_an_erased_driver_is_nowhere_but_in_what_is_held(steps: list[Any]) -> None:
    made, now, latest = Bureau(), NOW, 0
    for kind, *what in steps:
        if kind == "report":
            latest = max(latest, what[0])
            now = max(now, NOW + what[0] * 1000)
            made.hear(speed(57.0, NOW + what[0] * 1000), now)
            made.office._save()
        elif kind == "time":
            now += what[0] * 1000
            made.pass_time(now)
        elif kind == "erase":
            found = made.office.erase(PLATE)
            assert [case.number for case in made.store.cases()] == list(found.held)
            if not found.held:
                assert PLATE not in everything(made)
        else:
            for case in made.store.cases():
                made.post(f"/api/cases/{case.number}", state=kind, note="because")
    made.close()
