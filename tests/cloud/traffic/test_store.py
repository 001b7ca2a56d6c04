"""What traffic control keeps, in SQLite and in a real PostgreSQL: the same tests."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cloud.traffic.world import LAT, LON, NOW, Bureau, control, location, network, postgresql, speed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vicinal.event import Event
from vicinal.pseudonyms_cpython import day_key, day_of, pseudonym
from vicinal_cloud.traffic import Hours, NotAllowed, TrafficControl
from vicinal_cloud.traffic.export import COLUMNS, to_csv, to_geojson
from vicinal_cloud.traffic.store import NoSuchCase, Retention, Store, StoreError
from vicinal_cloud.traffic.tables import metadata

DAY = 86_400_000


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgresql() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/traffic.sqlite"
        return
    found: str = request.getfixturevalue("server")
    yield found
    store = Store(found)
    metadata.drop_all(store._engine)
    store.close()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    made = Store(url)
    yield made
    made.close()


def busy(made: TrafficControl) -> None:
    for tick in range(4):
        at = NOW + tick * 1000
        made.receive(location(LAT, LON + tick, at), "m1", at + 50)
        made.receive(speed(57.0 + tick, at + 10), "m1", at + 100)
        made.receive(speed(57.0 + tick, at + 10), "m2", at + 110)
    made.receive(speed(255.0, NOW), "m1", NOW)
    made.receive(speed(45.0, NOW + 20, plate="99-X-1", vehicle="other"), "m1", NOW + 300)
    made.set_limit("centre", 20, NOW + 5000, "operator")
    made.set_limit("town", 40, NOW + 5000, "operator", Hours.parse("Mo-Fr 07:30-16:30"))


def test_what_was_saved_is_there_after_a_restart(store: Store, url: str) -> None:
    made = control()
    busy(made)
    before = made.open_cases()
    store.save(made.changes(), 17)
    assert store.counts() == {"cases": 2, "evidence": 9, "quarantine": 1, "sightings": 4}
    again = Store(url)
    assert again.offset() == 17
    found = control()
    again.restore(found)
    assert found.open_cases() == before == again.cases()
    assert found.limits.rules() == made.limits.rules()
    assert found.stretches.next_number == 3
    # It goes on as if nothing had been.
    found.receive(speed(90.0, NOW + 5000), "m1", NOW + 5000)
    assert [case.number for case in found.handle_timeout(NOW + 10**6)] == [1, 2]
    again.save(found.changes(), 18)
    assert [(case.state, case.reports) for case in again.cases()] == [("fined", 5), ("fined", 1)]
    assert again.offset() == 18
    assert again.quarantine()[0].reason == "impossible speed"
    again.close()


def test_one_case_that_became_part_of_another(store: Store) -> None:
    for at_once in (True, False):
        made = control(gap_ms=10_000)
        for at in (0, 18_000):
            made.receive(speed(57.0, NOW + at), "m1", NOW + 18_000)
        if not at_once:
            store.save(made.changes())
            assert len(store.cases()) == 2
        made.receive(speed(80.0, NOW + 9_000), "m1", NOW + 20_000)
        store.save(made.changes())
        assert [(case.number, case.reports) for case in store.cases()] == [(1, 3)]
        assert len(store.evidence(1)) == 3
        assert store.evidence(2) == []
        store._engine.dispose()
        metadata.drop_all(store._engine)
        metadata.create_all(store._engine)


def test_appeal_and_void(store: Store) -> None:
    made = control()
    busy(made)
    made.handle_timeout(NOW + 10**6)
    store.save(made.changes())
    store.move(1, "appealed", NOW + 1, "driver", "it was not me")
    with pytest.raises(NotAllowed, match="is appealed"):
        store.move(1, "paid", NOW + 2, "driver")
    store.move(1, "void", NOW + 3, "court", "the plate was stolen")
    assert [step.state for step in store.case(1).steps] == ["open", "fined", "appealed", "void"]
    assert [case.number for case in store.cases(state="fined")] == [2]
    with pytest.raises(NoSuchCase, match="no case 7"):
        store.move(7, "paid", NOW, "x")


def test_a_drivers_data_are_listed_and_erased(store: Store) -> None:
    made = control()
    master = b"m" * 32
    hidden = pseudonym(day_key(master, "centre", day_of(NOW)), "car-9/can")
    made.receive(location(LAT, LON, NOW, vehicle=hidden), "m1", NOW)
    busy(made)
    made.handle_timeout(NOW + 10**6)
    store.save(made.changes())
    listed = store.driver("00D1234", [hidden])
    assert [case["number"] for case in listed["cases"]] == [1]
    assert len(listed["cases"][0]["evidence"]) == 8
    assert {one["vehicle"] for one in listed["sightings"]} == {"car-1/can", hidden}
    json.dumps(listed)
    # What is needed for a fine is kept, and that is said.
    held = store.erase("00D1234", [hidden])
    assert (held.cases, held.sightings, held.held) == (0, 5, (1,))
    assert store.driver("00D1234", [hidden])["sightings"] == []
    store.move(1, "paid", NOW, "driver")
    assert store.erase("00D1234").cases == 1
    assert store.driver("00D1234", [hidden]) == {"plate": "00D1234", "cases": [], "sightings": []}
    assert store.evidence(1) == []
    assert [case.plate for case in store.cases()] == ["99-X-1"]
    assert store.counts()["quarantine"] == 0  # of the same vehicle


def test_retention(store: Store) -> None:
    made = control()
    busy(made)
    made.handle_timeout(NOW + 10**6)
    store.save(made.changes())
    store.move(1, "void", NOW, "court", "x")
    store.move(2, "paid", NOW, "driver")
    keep = Retention()
    assert not any(store.retain(NOW + keep.sightings, keep))
    assert store.retain(NOW + keep.sightings + 2001, keep).sightings == 3
    assert store.retain(NOW + keep.void + 3011, keep) == (1, 1, (1,), {"car-1/can"})
    assert [case.number for case in store.cases()] == [2]
    assert store.retain(NOW + keep.cases + 21, keep).cases == (2,)
    assert store.counts() == {"cases": 0, "evidence": 0, "quarantine": 0, "sightings": 0}


def test_a_fine_is_not_forgotten_while_it_is_due(store: Store) -> None:
    made = control()
    busy(made)
    made.handle_timeout(NOW + 10**6)
    store.save(made.changes())
    assert store.retain(NOW + 10 * 365 * DAY, Retention()).cases == ()


ODD = st.text(st.characters() | st.sampled_from("\0\ud800…"), max_size=80)
NUMBERS = st.one_of(st.floats(), st.integers(-(1 << 63), (1 << 63) - 1), st.booleans(), st.binary(max_size=9))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ODD, ODD, st.dictionaries(ODD, ODD | NUMBERS, max_size=3), ODD | NUMBERS, NUMBERS)
def test_whatever_comes_can_be_saved(
    store: Store, plate: str, vehicle: str, params: dict[str, Any], rate: Any, heading: Any
) -> None:
    """And the rest with it. Events from the wire are narrower, but the office does not rely on that."""
    made = control()
    for subject, more in (
        ("Speed", {"license_no": plate, "rate": rate}),
        ("Location", {"lat": LAT, "lon": LON, "heading": heading}),
    ):
        event = Event(subject, {}, {"Time": NOW, "OriginSeq": 1}, "m1.office", 7)
        event.params.update({**params, **more})
        event.attrs["OriginProducer"] = vehicle
        made.receive(event, "m1" if rate != 0 else plate, NOW)
    before = store.counts()
    changes = made.changes()
    store.save(changes)
    after = store.counts()
    assert after["quarantine"] - before["quarantine"] == sum(made.quarantined.values()) == len(changes.quarantined)
    assert after["evidence"] - before["evidence"] == made.counters["over"]
    assert "refused by the database" not in {one.reason for one in store.quarantine()}
    json.dumps([one._asdict() for one in store.quarantine()], allow_nan=False)


def test_what_the_database_refuses_is_in_quarantine_and_the_rest_is_saved(store: Store) -> None:
    """Past all checks: a number that no column holds."""
    made = control()
    busy(made)
    changes = made.changes()
    huge = 1 << 70
    changes.sightings.append(changes.sightings[0]._replace(time=huge))
    changes.quarantined.append(changes.quarantined[0]._replace(seq=huge))
    number, evidence = changes.evidence[0]
    changes.evidence.append((number, evidence._replace(seq=huge, vehicle="car-2/can")))
    changes.rules.append(changes.rules[0]._replace(since=huge))
    bad = changes.cases[-1]
    changes.cases[-1] = bad._replace(first=huge)
    store.save(changes, 17)
    assert store.offset() == 17
    assert [case.number for case in store.cases()] == [1]
    assert store.counts() == {"cases": 1, "evidence": 8, "quarantine": 6, "sightings": 4}
    assert len(store.rules()) == 2
    refused = [one for one in store.quarantine() if one.reason == "refused by the database"]
    assert sorted(one.subject for one in refused) == ["Location", "Speed", "Speed", "Speed", "limit"]
    assert "car-2/can" in {one.vehicle for one in refused}
    assert not any(bad.plate in repr(one) or evidence.limit_source in one.detail for one in refused)


def test_what_is_asked_for_and_cannot_be_is_told_so(url: str) -> None:
    made = Bureau(url)
    made.hear(speed(57.0, NOW), NOW)
    made.office._save()
    for path, body, why in (
        ("/api/limits", {"area": "town", "value": 40, "who": "x" * 200}, "length of who is 200 characters"),
        ("/api/limits", {"area": "town", "value": 40, "who": "a\0b"}, "who has a NUL in it"),
        ("/api/cases/1", {"state": "void", "note": "\ud800"}, "note has half a character in it"),
        ("/api/cases/1", {"state": "void", "note": "x" * 5000}, "length of note is 5000 characters"),
        ("/api/cases/1", {"state": "void", "note": "x", "who": "x" * 129}, "length of who is 129 characters"),
    ):
        status, answer = made.post(path, **body)
        assert (status, why in answer["error"]) == (400, True), answer
    assert made.post("/api/drivers/00D1234", vehicles=["a\0b", "\ud800"])[0] == 200
    assert made.post(f"/api/cases/{1 << 70}", state="void", note="x")[0] in (400, 404)
    for path in (f"/api/cases/{1 << 70}", "/api/cases?state=%00", "/api/drivers/%00"):
        assert made.pages.get(path).status_code in (200, 400, 404), path
    assert made.store.case(1).state == "open"
    assert made.store.rules() == []
    made.close()


def test_exports() -> None:
    made = control()
    busy(made)
    made.receive(speed(57.0, NOW, plate="=1+1", vehicle="evil"), "m1", NOW)
    cases = made.open_cases()
    rows = list(csv.DictReader(io.StringIO(to_csv(cases), newline="")))
    assert list(rows[0]) == list(COLUMNS)
    assert [row["license_no"] for row in rows] == ["00D1234", "99-X-1", "'=1+1"]
    first = rows[0]
    assert (first["speed_kmh"], first["limit_kmh"], first["over_kmh"]) == ("60.0", "30", "27")
    assert (first["first"], first["fine"]) == ("2026-05-28T20:26:40.010Z", "120.00")
    assert first["monitors"] == "m1 m2"
    found = to_geojson(cases)
    json.dumps(found)
    assert found["features"][0]["geometry"] == {"type": "Point", "coordinates": [-6.2599997, 53.34]}
    assert network().contains((533_400_000, -62_599_997))


def test_databases_that_are_none(tmp_path: Path) -> None:
    for wrong in ("mysql://x", "nonsense", f"sqlite:///{tmp_path}/none/x.sqlite"):
        with pytest.raises(StoreError, match="database"):
            Store(wrong)
