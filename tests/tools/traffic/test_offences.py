"""The offences that must come of a run: by what the office can know, and compared with where the cars truly were."""

from typing import Any

from cloud.traffic.world import LAT, LON, NOW, network

from vicinal.pseudonyms_cpython import day_key, day_of, pseudonym
from vicinal_tools.demo.judge import Said
from vicinal_tools.demo.offences import Expected, Offence, expected

KEY = b"k" * 32
CENTRE, TOWN = (LAT, LON), (LAT + 60_000, LON)
ROADS = network()
LIMITS = {
    "rules": [
        {"area": "town", "value": 50, "since": 0, "until": None},
        {"area": "centre", "value": 30, "since": 0, "until": None},
    ],
    "shown": [],
}


def said(seq: int, rate: float, true: tuple[int, int], says: tuple[int, int] | None = None) -> list[Said]:
    """A Speed, and a Location at the same time."""
    at, place = NOW + seq * 1000, says or true
    where = {"lat": place[0], "lon": place[1]}
    return [
        Said("00D1/can", 2 * seq, "Location", at, where, true),
        Said("00D1/can", 2 * seq + 1, "Speed", at, {"license_no": "00D1", "rate": rate}, true),
    ]


def heard(events: list[Said], monitor: str = "m1") -> list[dict[str, Any]]:
    hidden = pseudonym(day_key(KEY, ROADS.monitors[monitor].area, day_of(NOW)), "00D1/can")
    return [
        {"monitor": monitor, "vehicle": hidden, "seq": one.seq, "subject": one.subject, "verdict": "within"}
        for one in events
    ]


def look(events: list[Said], at_office: list[dict[str, Any]], limits: dict[str, Any] | None = None) -> Expected:
    return expected(ROADS, KEY, events, at_office, limits or LIMITS, 5_000)


def test_by_where_it_was_in_whatever_order_it_was_heard() -> None:
    events = [*said(0, 45.0, CENTRE), *said(1, 45.0, TOWN), *said(9, 60.0, TOWN)]
    for way in (heard(events), heard(events)[::-1]):
        found = look(events, way)
        assert found.offences == [Offence("00D1", 7, 1, "m1", "30.00"), Offence("00D1", 12, 1, "m1", "60.00")]
        assert (found.speeds, found.over, found.lenient, found.unjust) == (3, 2, 0, [])


def test_what_the_office_cannot_know_is_counted() -> None:
    events = said(0, 45.0, CENTRE)
    found = look(events, heard([one for one in events if one.subject == "Speed"], "m2"))
    assert (found.offences, found.over, found.lenient, found.unjust) == ([], 1, 1, [])


def test_who_would_be_judged_by_less_than_where_it_was_is_named() -> None:
    events = said(0, 45.0, TOWN, says=CENTRE)
    (wrong,) = look(events, heard(events)).unjust
    assert wrong == f"00D1 at {NOW}: 45.0 is -8 over where it was, judged as 12"


def test_a_limit_that_no_sign_shows_is_none_yet() -> None:
    rules = [*LIMITS["rules"], {"area": "centre", "value": 20, "since": NOW - 1000, "until": None}]
    events = said(0, 30.0, CENTRE)
    found = look(events, heard(events), {"rules": rules, "shown": []})
    assert (found.offences, found.over, found.lenient) == ([], 1, 1)
    shown = [{"monitor": "m1", "value": 20, "since": NOW - 500}]
    assert len(look(events, heard(events), {"rules": rules, "shown": shown}).offences) == 1
