"""What the office has heard is kept whatever the database does: it is away, comes back, or refuses."""

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cloud.broker.brokers import COMMAND, PATIENCE, Brokers, until
from cloud.traffic.test_office import OfficeProcess, monitor
from cloud.traffic.test_office import speed as fast
from cloud.traffic.world import LAT, LON, NOW, Bureau, location, postgresql, speed
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy.exc import OperationalError

from vicinal_cloud.traffic.store import Store, StoreError


class Flaky:
    """A database that goes away: everything that begins a transaction fails then."""

    def __init__(self, store: Store) -> None:
        self.away = False
        real = store._engine.connect

        def connect() -> Any:
            if self.away:
                raise OperationalError("SELECT 1", {}, Exception("the server closed the connection"))
            return real()

        store._engine.connect = connect  # type: ignore[method-assign]


def test_what_could_not_be_saved_is_saved_later_with_its_offset() -> None:
    made = Bureau()
    database = Flaky(made.store)
    made.hear(speed(57.0, NOW), NOW)
    database.away = True
    with pytest.raises(StoreError, match="the server closed the connection"):
        made.office._save()
    made.hear(location(LAT, LON, NOW + 100), NOW + 100)
    database.away = False
    assert (made.store.offset(), made.store.cases()) == (None, [])
    made.office._save()
    assert made.store.offset() == 2
    assert made.store.counts() == {"cases": 1, "evidence": 1, "quarantine": 0, "sightings": 1}
    made.close()


def test_a_call_that_cannot_be_kept_is_answered_with_503_and_changes_nothing() -> None:
    made = Bureau()
    database = Flaky(made.store)
    made.hear(speed(57.0, NOW), NOW)
    made.office._save()
    database.away = True
    for path, body in (
        ("/api/cases/1", {"state": "void", "note": "an ambulance"}),
        ("/api/limits", {"area": "town", "value": 40}),
        ("/api/drivers/00D1234", {}),
    ):
        status, answer = made.post(path, **body)
        assert (status, "the server closed the connection" in answer["error"]) == (503, True), answer
    for page in ("/api/cases", "/api/live", "/api/accounts", "/api/quarantine", f"/api/at?time={NOW}"):
        assert made.pages.get(page).status_code == 503, page
    assert made.pages.get("/api/state").json()["areas"][0]["limit"] == 50
    database.away = False
    made.office._save()
    assert made.store.case(1).state == "open"
    assert made.post("/api/limits", area="town", value=40)[0] == 201
    assert [rule.value for rule in made.store.rules()] == [40]
    made.close()


def test_what_is_changed_when_the_database_goes_away_is_told_and_kept_later() -> None:
    """Between the question whether it is there and the answer."""
    made = Bureau()
    database = Flaky(made.store)
    made.hear(speed(57.0, NOW), NOW)
    made.office._save()
    real = made.office.control.move

    def move(*what: Any) -> Any:
        database.away = True
        return real(*what)

    made.office.control.move = move  # type: ignore[method-assign]
    status, answer = made.post("/api/cases/1", state="void", note="an ambulance")
    assert (status, "it counts, and is kept when the database is there again" in answer["error"]) == (503, True), answer
    database.away = False
    made.office._save()
    assert made.store.case(1).state == "void"
    made.close()


def test_when_a_part_of_the_office_dies_what_was_heard_is_saved_at_its_end() -> None:
    made = Bureau()
    made.hear(speed(57.0, NOW), NOW)

    def die(*_: Any) -> Any:
        raise RuntimeError("a bug")

    made.office.control.handle_timeout = die  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        made.office._pass_time(NOW)
    made.hear(speed(58.0, NOW + 1000), NOW + 1000)  # until the others are told to end
    made.hands.close = lambda: asyncio.sleep(0)
    asyncio.run(made.office.stop())
    assert [case.reports for case in made.store.cases()] == [2]
    assert made.store.offset() == 2
    made.close()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("report"), st.integers(0, 40)),
        st.sampled_from([("save",), ("away",), ("back",), ("crash",), ("time",)]),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_nothing_is_missing_and_nothing_twice(steps: list[Any]) -> None:
    """A log that gives again what is behind the offset, a database that goes and comes, and an office that dies."""
    made, log = Bureau(gap_ms=3_000, late_ms=100_000), []
    url_store = made.store
    database = Flaky(url_store)
    read = 0

    def catch_up() -> None:
        nonlocal read
        for at in log[read:]:
            made.hear(speed(57.0, NOW + at * 1000), NOW + 40_000)
        read = len(log)

    for kind, *what in steps:
        if kind == "report":
            if what[0] not in log:
                log.append(what[0])
        elif kind in ("away", "back"):
            database.away = kind == "away"
        elif kind == "crash":
            database.away = False
            again = Bureau(store=url_store, gap_ms=3_000, late_ms=100_000)
            made, read = again, url_store.offset() or 0
        else:
            catch_up()
            try:
                if kind == "time":
                    made.office.control.handle_timeout(NOW + 200_000)
                made.office._save()
                assert database.away or (url_store.offset() or 0) == read  # there may be nothing to save
            except StoreError:
                assert database.away
    database.away = False
    catch_up()
    made.office._save()
    kept = sorted(one.time for case in url_store.cases() for one in url_store.evidence(case.number))
    assert kept == sorted(NOW + at * 1000 for at in log)
    made.close()


def test_a_database_that_starts_anew_costs_nothing(tmp_path: Path) -> None:
    """PostgreSQL is ended and started while the office works: it says that it is behind, and then it is not."""
    brokers = Brokers(tmp_path)
    with postgresql() as database:
        address = brokers.start("b1", log=True).address
        made = OfficeProcess(tmp_path, address, f'database = "{database}"\n')
        made.start()

        async def work() -> None:
            async with monitor("m1", address) as m1:
                await m1.say("Speed", fast(57.0))
                await until(lambda: made.get("/api/cases")["cases"], "a case")
                database.stop()
                await m1.say("Speed", fast(58.0))
                await until(lambda: made.get("/api/state")["behind"], "it says that it is behind")
                status, answer = made.ask("/api/cases")
                assert (status, "database" in answer["error"]) == (503, True), answer
                await m1.say("Speed", fast(59.0))
                database.start()
                await until(lambda: not made.get("/api/state")["behind"], "it is not behind")
                await until(lambda: [one["reports"] for one in made.get("/api/cases")["cases"]] == [3], "all three")

        try:
            asyncio.run(work())
            assert made.process.poll() is None
            database.stop()
            assert made.stop() == 0
            said = (tmp_path / "office.txt").read_text()
            assert "Traceback" not in said, said
        finally:
            made.stop()
            brokers.stop()


def test_an_office_without_its_database_says_so_and_ends(tmp_path: Path) -> None:
    made = OfficeProcess(tmp_path, "tcp://127.0.0.1:1", 'database = "postgresql+psycopg://x:secret@127.0.0.1:1/x"\n')
    command = [*COMMAND, "traffic", "run", str(made.file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, "database postgresql" in done.stderr, "Traceback" in done.stderr) == (1, True, False)
    assert "secret" not in done.stderr
