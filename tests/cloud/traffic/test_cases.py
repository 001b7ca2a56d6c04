"""What becomes of cases: no step is taken back, neither by time nor by reports that come later, nor by a restart."""

from typing import Any

import pytest
from cloud.traffic.world import NOW, Bureau, control, speed
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal_cloud.traffic import NotAllowed
from vicinal_cloud.traffic.store import Store
from vicinal_cloud.traffic.whereabouts import NEAR_MS

GAP, LATE = 10_000, 30_000 + NEAR_MS  # a Location may come so much later than what it is near to


def test_an_open_case_is_fined_by_time_alone_and_what_is_paid_stays_paid() -> None:
    made = Bureau()
    made.hear(speed(57.0, NOW), NOW)
    made.office._save()
    assert made.pages.get("/api/cases/1").json()["next"] == ["void"]
    status, answer = made.post("/api/cases/1", state="fined")
    assert (status, "is fined when no report can be added" in answer["error"]) == (400, True), answer
    made.hear(speed(58.0, NOW + 1000), NOW + 1000)
    made.pass_time(NOW + 1000 + GAP + LATE + 1)
    assert made.post("/api/cases/1", state="paid")[1]["state"] == "paid"
    made.pass_time(NOW + 10**7)
    assert [step.state for step in made.store.case(1).steps] == ["open", "fined", "paid"]
    made.close()


def test_a_void_case_is_void_after_a_restart_and_so_is_the_rest_of_that_drive(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/traffic.sqlite"
    made = Bureau(url)
    made.hear(speed(57.0, NOW), NOW)
    assert made.post("/api/cases/1", state="void", note="an ambulance")[0] == 200
    made.close()
    again = Bureau(url)
    again.hear(speed(58.0, NOW + 1000), NOW + 1000)
    again.pass_time(NOW + 10**7)
    assert [(one.number, one.state, one.reports) for one in again.store.cases()] == [(1, "void", 2)]
    # When nothing can be added any more another drive is another case.
    again.hear(speed(58.0, NOW + 10**7), NOW + 10**7)
    assert [(one.number, one.state) for one in again.office.control.open_cases()] == [(2, "open")]
    again.close()


@pytest.mark.parametrize(("void", "fined"), [(2, 1), (1, 2)])
def test_a_report_between_a_void_case_and_another_joins_neither_to_the_other(void: int, fined: int) -> None:
    """As near to both it is of the void one: for the driver."""
    made = control(gap_ms=GAP)
    made.receive(speed(57.0, NOW), "m1", NOW)
    made.receive(speed(97.0, NOW + 18_000), "m1", NOW + 18_000)
    made.move(void, "void", NOW + 18_001, "clerk", "an ambulance")
    made.receive(speed(57.0, NOW + 9_000), "m1", NOW + 20_000)
    assert made.receive(speed(57.0, NOW + 9_000), "m2", NOW + 20_000) == "witnessed"
    found = {one.number: one for one in made.changes().cases}
    assert (found[void].state, found[void].reports, found[void].monitors) == ("void", 2, ("m1", "m2"))
    assert [(one.number, one.reports) for one in made.handle_timeout(NOW + 10**6)] == [(fined, 1)]


def test_what_is_held_by_the_core_moves_there() -> None:
    made = control()
    made.receive(speed(57.0, NOW), "m1", NOW)
    for state in ("fined", "paid", "appealed", "open"):
        with pytest.raises(NotAllowed, match="case 1 is open"):
            made.move(1, state, NOW, "clerk", "because")
    made.move(1, "void", NOW, "clerk", "because")
    with pytest.raises(NotAllowed, match="case 1 is void: after that comes nothing"):
        made.move(1, "fined", NOW, "clerk", "because")
    assert made.open_cases() == []


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("report"), st.integers(0, 60), st.sampled_from(["m1", "m2"])),
        st.tuples(st.just("void"), st.integers(1, 4)),
        st.tuples(st.just("restart")),
    ),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_voids_hold_and_no_report_is_lost_whatever_comes_after_them(steps: list[Any]) -> None:
    """Against a model that knows of each report only whether it was void: then it never belongs to a fine."""
    made, store = control(gap_ms=5_000, late_ms=100_000), Store()
    heard: set[tuple[int, str]] = set()
    voided: set[tuple[int, str]] = set()
    history: dict[int, list[str]] = {}

    def look() -> None:
        store.save(made.changes())
        for case in store.cases():
            states = [step.state for step in case.steps]
            assert states[: len(history.get(case.number, []))] == history.get(case.number, [])[: len(states)]
            history[case.number] = states
        assert all("void" not in states for number, states in history.items() if not _there(store, number))

    for kind, *what in steps:
        if kind == "report":
            second, monitor = what
            made.receive(speed(57.0, NOW + second * 1000), monitor, NOW + 61_000)
            heard.add((NOW + second * 1000, monitor))
        elif kind == "void" and made.holds(what[0]) and what[0] in {one.number for one in made.open_cases()}:
            made.move(what[0], "void", NOW + 61_000, "clerk", "because")
            look()
            voided |= {(one.time, one.monitor) for one in store.evidence(what[0])}
        elif kind == "restart":
            look()
            made = control(gap_ms=5_000, late_ms=100_000)
            store.restore(made)
        look()
    made.handle_timeout(NOW + 10**7)
    look()
    found = [(one.time, one.monitor, case.state) for case in store.cases() for one in store.evidence(case.number)]
    assert sorted((time, monitor) for time, monitor, _ in found) == sorted(heard)
    assert not {(time, monitor) for time, monitor, state in found if state == "fined"} & voided
    assert {case.state for case in store.cases()} <= {"fined", "void"}
    store.close()


def _there(store: Store, number: int) -> bool:
    return number in {case.number for case in store.cases()}
