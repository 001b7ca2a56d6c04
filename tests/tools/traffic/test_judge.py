"""The judge of the demo: it must notice whatever is missing, too much, or changed on the way."""

import json
from pathlib import Path
from typing import Any

import pytest

from vicinal.pseudonyms_cpython import day_key, day_of, pseudonym
from vicinal_cloud.traffic.network import Network
from vicinal_tools.demo.accounts import account
from vicinal_tools.demo.judge import INNER, OUTER, Change, Said, judge, read_truth
from vicinal_tools.traffic.tracks import shipped

KEY = b"k" * 32
START = 1_780_000_000_000
TOWN = shipped()
CHANGES = [Change("m1", 30, START - 9000, START - 8000), Change("m2", 30, START - 9000, START - 8000)]
CHANGES += [Change("m3", 70, START - 9000, START - 8000), Change("m1", 50, START + 10_000, START + 10_100)]


def drive(metres: float, car: str = "car-1/can", rate: float = 40.0, seconds: int = 20) -> list[Said]:
    """A car that stands so far west of m1."""
    x, y = TOWN.plane.metres(*TOWN.monitors["m1"].place)
    place = TOWN.plane.degrees(x - metres, y)
    found = []
    for second in range(seconds):
        at = START + second * 1000
        where = {"lat": place[0], "lon": place[1], "heading": 0.0, "braking": False}
        found.append(Said(car, 2 * second, "Location", at, where, place, at + 200))
        speed = {"license_no": "00D1234", "rate": rate}
        found.append(Said(car, 2 * second + 1, "Speed", at, speed, place, at + 400))
    return found


def heard(said: list[Said], monitor: str = "m1", network: Network = TOWN) -> list[dict[str, Any]]:
    """All that a monitor would hear that is asked for everything over 30 for 10 s, and then over 50."""
    found = []
    for one in said:
        scope = network.monitors[monitor].area
        limit = 30 if one.time < START + 10_000 else 50
        if one.subject == "Location" or one.params["rate"] > limit:
            hidden = pseudonym(day_key(KEY, scope, day_of(one.time)), one.producer)
            found.append(
                {"monitor": monitor, "vehicle": hidden, "seq": one.seq, "subject": one.subject, "params": one.params}
            )
    return found


def test_when_all_is_well() -> None:
    said = drive(120.0)
    found = judge(TOWN, KEY, said, heard(said), CHANGES)
    assert found.holds
    # From the fourth second on 17 locations, and speeds until the limit is raised.
    assert (found.must, found.crossed) == (17 + 7, 30)


@pytest.mark.parametrize("subject", ["Location", "Speed"])
def test_one_that_is_missing(subject: str) -> None:
    said = drive(120.0)
    all_heard = heard(said)
    gone = next(one for one in all_heard if one["subject"] == subject and one["seq"] > 10)
    found = judge(TOWN, KEY, said, [one for one in all_heard if one is not gone], CHANGES)
    assert [(monitor, one.seq) for monitor, one in found.missing] == [("m1", gone["seq"])]
    # While the monitor was away, it may be.
    at = next(one.time for one in said if one.seq == gone["seq"])
    away = [("m1", at, at + 1)]
    assert judge(TOWN, KEY, said, [one for one in all_heard if one is not gone], CHANGES, away).holds


def test_one_too_many() -> None:
    said = drive(120.0)
    all_heard = heard(said)
    assert judge(TOWN, KEY, said, [*all_heard, all_heard[3]], CHANGES).extra[0][1].endswith("came twice")
    stranger = {**all_heard[3], "seq": 4711}
    assert "nobody has said" in judge(TOWN, KEY, said, [*all_heard, stranger], CHANGES).extra[0][1]
    changed = [{**one, "params": {**one["params"], "rate": 41.0}} if one["seq"] == 13 else one for one in all_heard]
    assert "was said as" in judge(TOWN, KEY, said, changed, CHANGES).extra[0][1]


def test_what_is_within_the_limit_must_not_leave() -> None:
    said = drive(120.0, rate=29.0)
    speed = {**heard(said)[8], "seq": 15, "subject": "Speed", "params": said[15].params}
    found = judge(TOWN, KEY, said, [*heard(said), speed], CHANGES)
    assert "must not be heard" in found.extra[0][1]
    # Over 30, and after the limit was raised to 50.
    said = drive(120.0, rate=40.0)
    late = {**heard(said)[8], "seq": 35, "subject": "Speed", "params": said[35].params}
    assert "must not be heard" in judge(TOWN, KEY, said, [*heard(said), late], CHANGES).extra[0][1]


def test_out_of_reach_is_never_heard_and_at_the_edge_either() -> None:
    said = drive(OUTER + 5)
    assert judge(TOWN, KEY, said, [], CHANGES).holds
    assert len(judge(TOWN, KEY, said, heard(said), CHANGES).extra) == 30
    edge = drive((INNER + OUTER) / 2)
    assert judge(TOWN, KEY, edge, [], CHANGES).holds
    assert judge(TOWN, KEY, edge, heard(edge), CHANGES).holds
    assert not judge(TOWN, KEY, drive(INNER - 5), [], CHANGES).holds


def test_a_car_that_is_too_slow_is_not_judged_strictly() -> None:
    said = [one._replace(said=None) if one.seq == 20 else one for one in drive(120.0)]
    found = judge(TOWN, KEY, said, heard(said), CHANGES)
    assert found.slow == 1
    assert found.must < judge(TOWN, KEY, drive(120.0), heard(drive(120.0)), CHANGES).must


def test_the_file(tmp_path: Path) -> None:
    file = tmp_path / "truth.jsonl"
    lines = [
        {"producer": "c", "seq": 1, "subject": "Speed", "time": 5, "params": {"rate": 1.0}, "place": [1, 2]},
        {"producer": "c", "seq": 1, "said": 9, "place": [1, 3]},
    ]
    file.write_text("".join(json.dumps(one) + "\n" for one in lines))
    assert read_truth(file) == [Said("c", 1, "Speed", 5, {"rate": 1.0}, (1, 2), 9)]


def sums(**changed: int) -> dict[str, int]:
    """What is lost where, when one of the numbers is another."""
    car = {"frames": 10, "refused by the bus": 1, "heard on the bus": 10, "accepted": 10, "said": 8, "waiting": 1}
    out = {"accepted": 5, "delivered": 3, "stored": 1, "dropped": {"x": 1}}
    office = {"received": 3, "over": 1, "within": 0, "witnessed": 1, "sightings": 0}
    for part in (car, out, office):
        part.update({name: value for name, value in changed.items() if name in part})  # type: ignore[attr-defined]
    services = [{"name": "siena", "out": out}, {"name": "air-m1", "in": {"received": 5}}]
    found = account(
        {"car-1": {**car, "dropped": {"expired": 1}}},
        {"m1": {"services": services}},
        {"control": {**office, "quarantined": {"late": 1}}},
    )
    return {name: lost for name, lost in found.losses.items() if lost}


@pytest.mark.parametrize(
    ("changed", "lost"),
    [
        ({}, {}),
        ({"said": 7}, {"air": 1}),
        ({"stored": 0}, {"roadside": 1}),
        ({"over": 0}, {"office": 1}),
        ({"frames": 12}, {"bus": 2}),
        ({"delivered": 4, "stored": 0}, {"overlay": 1}),
    ],
)
def test_the_sums(changed: dict[str, int], lost: dict[str, int]) -> None:
    assert sums(**changed) == lost
