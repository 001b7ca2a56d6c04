"""Spark's offences are those of the office of traffic control: the same log through both."""

import json
import math
import random
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from cloud.traffic.world import LAT, LON, NOW, Bureau, network

pytest.importorskip("pyspark")

from vicinal.errors import VicinalError
from vicinal.event import Event
from vicinal_cloud.log import Log, LogReader, Stored, entry_of, event_of
from vicinal_cloud.spark.traffic.places import Places
from vicinal_cloud.spark.traffic.rules import read_limits
from vicinal_cloud.spark.traffic.run import Tables, batch
from vicinal_cloud.traffic import Settings, TrafficControl
from vicinal_cloud.traffic.limits import Hours, Rule
from vicinal_cloud.traffic.posted import Shown
from vicinal_cloud.traffic.reports import monitor_of
from vicinal_cloud.traffic.tariff import DEFAULT

BORDER = LAT + 27_000
"""to the north of it 50, to the south 30"""
METRE = 90
RULES = [
    Rule("centre", 20, NOW + 40_000, None, "operator"),
    Rule("town", 60, NOW + 50_000, None, "operator"),
    Rule("centre", 35, NOW + 70_000, Hours.parse("20:27-20:29"), "council", NOW + 90_000),
]
SHOWN = (Shown("m1", 20, NOW + 45_000), Shown("m2", 20, NOW + 60_000), Shown("m3", 60, NOW + 50_000))


class Roadside:
    """What monitors pass on, in the order in which it is received."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def hear(self, monitor: str, subject: str, params: dict[str, Any], at: int, vehicle: str, seq: int) -> None:
        attrs = {"Time": at, "OriginProducer": vehicle, "OriginSeq": seq}
        self.events.append(Event(subject, params, attrs, f"{monitor}.siena", 0))


def drive(road: Roadside, plate: str, chance: random.Random) -> None:
    """Down the road, over the border and on, with and without places, heard by one monitor or by several. As in the
    demo, a vehicle has a pseudonym in each area, and what is not over the limit stays at the roadside, or nearly so."""
    at, lat, speed = NOW + chance.randrange(60_000), BORDER + chance.randrange(-200, 200) * METRE, 50.0
    monitors = chance.choice((["m1"], ["m3"], ["m1", "m3"], ["m1", "m2", "m3"]))
    says_where = chance.choice((0.0, 0.3, 0.9))
    for seq in range(0, 2 * chance.randrange(1, 14), 2):
        at += chance.choice((100, 500, 1000, 1999, 2000, 2001, 9999, 10_000, 10_001, 15_000))
        lat -= chance.choice((0, 5, 14, 15, 30)) * METRE
        speed = chance.choice((speed, 20.0, 23.9, 24.0, 33.0, 33.9, 34.0, 53.9, 54.0, 57.0, 63.99, 99.9, 102.2, 131.0))
        for area in sorted({road_area(monitor) for monitor in monitors}):
            heard = [monitor for monitor in monitors if road_area(monitor) == area]
            vehicle = f"{plate}-{area}"
            if chance.random() < says_where:
                beside = at + chance.choice((0, 0, 10, -10, 700, -700, 1999, 2000, -2000, 2001, -2001))
                for monitor in heard:
                    road.hear(monitor, "Location", {"lat": lat, "lon": LON}, beside, vehicle, seq)
            if speed > 30 or chance.random() < 0.3:
                for monitor in [*heard, *heard[: chance.randrange(10) // 9]]:  # now and then one says it twice
                    road.hear(monitor, "Speed", {"license_no": plate, "rate": speed}, at, vehicle, seq + 1)


def road_area(monitor: str) -> str:
    return str(network().monitors[monitor].area)


def written(folder: Path, events: list[Event], received: int) -> Path:
    log = Log(folder)
    numbered = [event.replace(seq=at) for at, event in enumerate(events)]
    assert all(isinstance(one, Stored) for one in log.append_batch([entry_of(event) for event in numbered], received))
    log.close()
    return folder


def office_of(log: Path, settings: Settings) -> list[tuple[Any, ...]]:
    """All places first: which of them it has heard when it judges is not the question here."""
    control = TrafficControl(network(), settings)
    for rule in RULES:
        control.limits.add(rule)
    for sign in SHOWN:
        control.sign_shows(*sign)
    reader = LogReader(log)
    records, _ = reader.read(0, 1 << 20)
    events = [(event_of(record), record.time) for record in records]
    reader.close()
    for event, time in sorted(events, key=lambda one: one[0].subject == "Speed"):
        control.receive(event, monitor_of(event.producer), time)
    control.handle_timeout(1 << 50)
    return sorted(
        (
            *(one.plate, one.reports, one.duration, one.worst.time, one.worst.speed, one.worst.tolerance),
            *(one.worst.limit, one.worst.limit_source, one.worst.area, one.worst.over, one.worst.place),
            one.worst.place_source,
        )
        for one in control.changes().cases
        if one.state == "fined"
    )


def spark_of(out: Path) -> list[tuple[Any, ...]]:
    import pandas as pd

    if not (out / "offences").exists():
        return []
    return sorted(
        (
            *(one.plate, one.reports, round(one.duration_s * 1000), round(one.event_time.timestamp() * 1000)),
            *(one.speed_kmh, one.tolerance_kmh, one.limit_kmh, one.limit_source, one.area, one.over_kmh),
            (round(one.lat_deg * 1e7), round(one.lon_deg * 1e7)),
            one.place_source,
        )
        for one in pd.read_parquet(out / "offences").itertuples()
    )


def places() -> Places:
    town = network()
    limits, _ = read_limits(town)
    for rule in RULES:
        limits.add(rule)
    return Places(town, limits, SHOWN)


@pytest.fixture(scope="module")
def ready(spark: Any) -> Any:
    from vicinal_cloud.spark.source import register

    register(spark)
    return spark


STRICT = Settings(tariff=DEFAULT._replace(tolerance_kmh=0, tolerance_percent=1), gap_ms=4000)


@pytest.mark.parametrize("settings", [Settings(), STRICT], ids=["usual", "strict"])
def test_the_same_log_gives_the_same_offences(ready: Any, tmp_path: Path, settings: Settings) -> None:
    """Some hundred drives, of all that is at a border: of areas, of times, of tolerances."""
    chance = random.Random(11)
    road = Roadside()
    for number in range(400):
        drive(road, f"P-{number}", chance)
    chance.shuffle(road.events)
    log = written(tmp_path / "log", road.events, NOW + 300_000)
    wanted = office_of(log, settings)
    batch(ready, {"path": str(log)}, tmp_path / "tables", places(), settings)
    assert spark_of(tmp_path / "tables") == wanted
    assert len(wanted) > 300
    assert {one[-1] for one in wanted} == {"vehicle", "monitor"}
    assert {one[8] for one in wanted} == {"town", "centre"}
    assert any("not yet" in one[7] for one in wanted)


def test_a_speed_is_judged_where_it_was_said(ready: Any, tmp_path: Path) -> None:
    """A car is at 57 where 50 is allowed, brakes, and rolls into 30: what it says there stays at the roadside. Another
    has two pseudonyms, as monitors of two areas hear it; a third is at 33.9 where 30 is allowed."""
    road = Roadside()
    road.hear("m3", "Location", {"lat": LAT + 40_000, "lon": LON}, NOW, "a", 1)
    road.hear("m3", "Speed", {"license_no": "A", "rate": 57.0}, NOW + 10, "a", 2)
    for step in range(1, 6):
        road.hear("m1", "Location", {"lat": LAT + 40_000 - step * 4000, "lon": LON}, NOW + step * 1000, "a", step + 2)
    for step in range(3):
        for monitor, vehicle in (("m1", "b-centre"), ("m3", "b-town")):
            road.hear(monitor, "Location", {"lat": LAT + 45_000, "lon": LON}, NOW + step, vehicle, 2 * step)
            road.hear(monitor, "Speed", {"license_no": "B", "rate": 70.0}, NOW + step, vehicle, 2 * step + 1)
    road.hear("m1", "Location", {"lat": LAT, "lon": LON}, NOW, "c", 1)
    road.hear("m1", "Speed", {"license_no": "C", "rate": 33.9}, NOW, "c", 2)
    log = written(tmp_path / "log", road.events, NOW + 6000)
    batch(ready, {"path": str(log)}, tmp_path / "tables", places())
    found = spark_of(tmp_path / "tables")
    assert [(one[0], one[1], one[4], one[6]) for one in found] == [("A", 1, 57.0, 50), ("B", 3, 70.0, 50)]


def test_plates_are_with_offences_alone(ready: Any, tmp_path: Path) -> None:
    """Of who kept to the limit, was not believed or came late, none is anywhere."""
    road = Roadside()
    road.hear("m1", "Speed", {"license_no": "OVER", "rate": 57.0}, NOW, "a", 1)
    road.hear("m3", "Speed", {"license_no": "WITHIN", "rate": 51.5}, NOW, "b", 1)  # over 20, which somewhere is
    road.hear("m3", "Speed", {"license_no": "SLOW", "rate": 11.5}, NOW, "b", 2)
    road.hear("m1", "Speed", {"license_no": "WRONG", "rate": 255.0}, NOW, "c", 1)
    road.hear("m1", "Speed", {"license_no": "LATE", "rate": 90.0}, NOW - 3_600_000, "d", 1)
    road.hear("m1", "Speed", {"license_no": "LONG" * 5, "rate": 90.0}, NOW, "e", 1)
    log = written(tmp_path / "log", road.events, NOW + 1000)
    counts = batch(ready, {"path": str(log)}, tmp_path / "tables", places())
    assert (counts["position"], counts["late"], counts["quarantine: impossible speed"]) == (3, 1, 1)
    assert counts["quarantine: malformed"] == 1
    assert plates_in(tmp_path / "tables") == {"offences": {"OVER"}, "speeding": {"OVER"}}


def test_a_plate_is_forgotten_when_nothing_can_make_it_an_offence(ready: Any, tmp_path: Path) -> None:
    """It was heard by a monitor where 30 is allowed, and said later that it was not there. Between two batches time
    passes, and nothing is read: what is due is done all the same."""
    late = Settings().rules.late_ms
    road = Roadside()
    road.hear("m3", "Speed", {"license_no": "A", "rate": 45.0}, NOW, "a", 1)
    road.hear("m1", "Speed", {"license_no": "B", "rate": 45.0}, NOW, "b", 1)
    tables = Tables(ready, tmp_path / "tables", places(), query="test", refresh_s=3600)
    try:
        for number, (events, received) in enumerate(
            (
                (road.events, NOW + 1000),
                ([Event("Location", {"lat": LAT + 45_000, "lon": LON}, {"Time": NOW}, "b", 9)], NOW + 1500),
                ([Event("Location", {"lat": LAT, "lon": LON}, {"Time": NOW + late}, "c", 1)], NOW + late + 60_000),
            )
        ):
            log = written(tmp_path / f"log-{number}", events, received)
            tables.ingest(ready.read.format("vicinal").schema(_events()).option("path", str(log)).load(), number, True)
            tables.tick()
            assert tables.store.notes["dirty"]
            tables._refreshed -= 3600
            tables.tick()
            assert not tables.store.notes["dirty"]
            found = plates_in(tmp_path / "tables")
            assert found.get("offences", set()) == ({"B"} if number == 0 else set())
            assert found.get("speeding", set()) == ({"A", "B"} if number < 2 else set())
    finally:
        tables.close()


def _events() -> str:
    from vicinal_cloud.spark.traffic.reports import EVENTS

    return EVENTS


def plates_in(out: Path) -> dict[str, set[str]]:
    """By table, wherever the word is in a file of it."""
    import pandas as pd

    found: dict[str, set[str]] = {}
    words = ("OVER", "WITHIN", "SLOW", "WRONG", "LATE", "LONG", "A", "B")
    for file in out.rglob("*.parquet"):
        frame = pd.read_parquet(file, partitioning=None)
        for name in frame.columns:
            for value in frame[name]:
                if isinstance(value, str) and value.strip() and any(value.startswith(one) for one in words):
                    found.setdefault(file.relative_to(out).parts[0], set()).add(value)
    return found


# Limits


def test_limits_have_the_form_of_the_office(tmp_path: Path) -> None:
    control = TrafficControl(network())
    for rule in RULES:
        control.limits.add(rule)
    rules = [{**one._asdict(), "hours": one.hours and str(one.hours)} for one in control.limits.rules()]
    file = tmp_path / "limits.json"
    signs = [one._asdict() for one in SHOWN]
    for text, shown in (({"rules": rules, "shown": signs}, SHOWN), ({"rules": rules}, None), (rules, None)):
        file.write_text(json.dumps(text))
        limits, known = read_limits(network(), file)
        assert known == shown
        for area in network().areas:
            for at in range(NOW - 5000, NOW + 200_000, 500):
                assert limits.in_force(area, at) == control.limits.in_force(area, at)


def test_limits_set_at_the_office_are_followed(capsys: pytest.CaptureFixture[str]) -> None:
    """By its address, as it sets and ends them; while it is away those of before hold."""
    from vicinal_tools.spark._tables import limits_of

    bureau = Bureau()

    class Door(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = bureau.pages.get(self.path)
            self.send_response(answer.status_code)
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, *what: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        town = network()
        known = limits_of(Places(town, *read_limits(town, address)), address)
        assert known is not None
        assert bureau.post("/api/limits", area="centre", value=20, who="council", hours="20:00-21:00")[0] == 201
        bureau.office.control.sign_shows("m1", 20, NOW + 5)
        limits, shown = known()
        assert limits.in_force("centre", NOW + 5) == bureau.office.control.limits.in_force("centre", NOW + 5)
        assert limits.in_force("centre", NOW + 5) == (20, "centre", "council, 20:00-21:00")
        assert shown == tuple(bureau.office.control.posted.history()) == (Shown("m1", 20, NOW + 5),)
    finally:
        server.shutdown()
        server.server_close()
        bureau.close()
    for _ in range(2):
        assert known() == (limits, shown)
    assert capsys.readouterr().err.count("the limits of before hold on") == 1


def test_where_nothing_is_known_of_signs_a_limit_counts_when_it_is_set() -> None:
    import pandas as pd

    from vicinal_cloud.spark.traffic.offences import _of_driver

    limits, _ = read_limits(network())
    limits.add(Rule("centre", 20, NOW, None, "council"))
    row = {"day": "d", "who": "plate A", "vehicle_id": "a", "seq": 1, "monitor": "m1", "ms": NOW + 1, "received": NOW}
    row |= {"speed_kmh": 27.0, "plate": "A", "log": "l", "log_offset": 0, "lat_deg": math.nan, "lon_deg": math.nan}
    for shown, wanted in (
        (None, [20]),
        ((), []),
        ((Shown("m1", 20, NOW + 1),), [20]),
        ((Shown("m1", 20, NOW + 2),), []),
    ):
        town = Places(network(), limits, shown)
        found = _of_driver(pd.DataFrame([row]), town, Settings(reach_m=100))
        assert list(found["limit_kmh"]) == wanted


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[{"area": "town", "value": 900}]', r"rule 0: .*900 km/h"),
        ('[{"area": "x", "value": 30}]', r"rule 0: area 'x' is not known"),
        ('[{"area": "town"}]', r"rule 0: it has no 'value'"),
        ('[{"area": "town", "value": "30"}]', r"rule 0: value is '30'"),
        ("[7]", "rule 0: want an object"),
        ("{", r"limits\.json"),
        ('{"rules": 7}', "/api/limits"),
        ('{"rules": [], "shown": 7}', "/api/limits"),
        ('{"rules": [], "shown": [{"monitor": "m1"}]}', "shown 0: it has no 'value'"),
    ],
)
def test_rules_that_are_wrong_are_named(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "limits.json"
    file.write_text(text)
    with pytest.raises(VicinalError, match=why):
        read_limits(network(), file)
