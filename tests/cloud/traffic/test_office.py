"""The office as a process at a real broker: it is killed and goes on, its pages answer, and bad input is told so.

The monitors are played by clients of the overlay that do what a monitor's gateway does there.
"""

import asyncio
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cloud.broker.brokers import COMMAND, PATIENCE, Brokers, free_port, until
from cloud.broker.issuing import IDENTITY, Issuing
from cloud.traffic.world import LAT, LON, network

from vicinal.control import SUBJECT, Answer, from_event
from vicinal.event import Event
from vicinal.pseudonyms_cpython import day_key, day_of, pseudonym
from vicinal_cloud.broker.client import Advertisement, Client, connect
from vicinal_cloud.traffic.office import monitor_of
from vicinal_cloud.traffic.paths import Path as Route
from vicinal_cloud.traffic.paths import Paths, hops_of
from vicinal_tools.main import cli


class OfficeProcess:
    def __init__(self, folder: Path, broker: str, more: str = "") -> None:
        (folder / "town.geojson").write_text(json.dumps(network().geojson()))
        self.file = folder / "office.toml"
        self.file.write_text(
            f'[office]\nnetwork = "town.geojson"\nbroker = "{broker}"\n{more}[listen]\naddress = "http://127.0.0.1:0"\n'
            "[rules]\nlate_ms = 300_000\ngap_ms = 300_000\n"
        )

    def start(self) -> None:
        with (self.file.parent / "office.txt").open("ab") as log:
            self.process = subprocess.Popen(
                [*COMMAND, "traffic", "run", str(self.file), "--json"], stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (self.file.parent / "office.txt").read_text()
        self.address = json.loads(line)["address"]

    def kill(self) -> None:
        self.process.kill()
        self._over()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        return self._over()

    def _over(self) -> int:
        code = self.process.wait(PATIENCE)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def ask(self, path: str, body: Any = None, method: str | None = None, kind: str = "application/json") -> Any:
        """The status, and what is answered: JSON, or text."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}{path}", data, {"Content-Type": kind}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                text = answer.read().decode()
                is_json = "json" in answer.headers["Content-Type"]
                return answer.status, json.loads(text) if is_json else text
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def get(self, path: str) -> Any:
        status, found = self.ask(path)
        assert status == 200, found
        return found


@pytest.fixture
def office(tmp_path: Path) -> Iterator[OfficeProcess]:
    brokers = Brokers(tmp_path)
    made = OfficeProcess(tmp_path, brokers.start("b1", log=True).address)
    made.start()
    made.broker = brokers.running[0].address  # type: ignore[attr-defined]
    try:
        yield made
    finally:
        made.stop()
        brokers.stop()


class Monitor:
    """What the gateway of a monitor does in the overlay."""

    def __init__(self, name: str, client: Client, advertisement: Advertisement) -> None:
        self.name = name
        self.client = client
        self.advertisement = advertisement
        self.filters: set[str] = set()
        self._seq = time.time_ns() // 1000

    async def say(
        self,
        subject: str,
        params: dict[str, Any],
        at: int | None = None,
        seq: int | None = None,
        vehicle: str = "p-car",
    ) -> int:
        now = time.time_ns() // 1_000_000 if at is None else at
        self._seq += 1
        attrs = {
            "OriginProducer": vehicle,
            "OriginSeq": seq or self._seq,
            "Time": now,
            "Trace": f"{self.name}/air {now}",
        }
        event = Event(subject, params, attrs, producer=self.client.name, seq=self._seq)
        await self.client.publish(event, self.advertisement)
        return self._seq

    async def obey(self) -> None:
        asked = await self.client.subscribe(f"subject = '{SUBJECT}' AND Type IN (2, 4)")
        answers = await self.client.advertise(f"subject = '{SUBJECT}'")
        async for delivery in asked:
            message = from_event(delivery.event)
            if message.to.text != f"air-{self.name}":
                continue
            assert delivery.event.identity is not None
            (self.filters.add if message.type == 2 else self.filters.discard)(message.filter.text)
            answer = Answer("siena", message.to.text, delivery.event.identity)
            self._seq += 1
            await self.client.publish(answer.to_event().stamp(self.client.name, self._seq), answers)


@asynccontextmanager
async def monitor(name: str, broker: str) -> AsyncIterator[Monitor]:
    async with await connect(broker, f"{name}.siena") as client:
        made = Monitor(name, client, await client.advertise("subject IN ('Speed', 'Location')"))
        task = asyncio.get_running_loop().create_task(made.obey())
        try:
            yield made
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def speed(rate: float) -> dict[str, Any]:
    return {"license_no": "00D1234", "rate": rate}


def test_killed_it_goes_on_where_it_was_and_nothing_is_twice(office: OfficeProcess) -> None:
    async def work() -> None:
        async with monitor("m1", office.broker) as m1:  # type: ignore[attr-defined]
            await until(lambda: m1.filters == {"subject = 'Speed' AND rate >= 34"}, "the limit of the network")
            await m1.say("Location", {"lat": LAT, "lon": LON, "heading": 90.0, "braking": False})
            await m1.say("Speed", speed(57.0))
            await until(lambda: office.get("/api/cases")["cases"], "a case")
            assert office.ask("/api/limits", {"area": "centre", "value": 20})[0] == 201
            await until(lambda: m1.filters == {"subject = 'Speed' AND rate >= 24"}, "the new limit")
            office.kill()
            await m1.say("Speed", speed(58.0))  # while nobody is there
            office.start()
            await m1.say("Speed", speed(59.0))
            await until(lambda: [one["reports"] for one in office.get("/api/cases")["cases"]] == [3], "all three")
            (case,) = office.get("/api/cases")["cases"]
            assert (case["speed_kmh"], case["limit_kmh"], case["limit_source"]) == (59.0, 20, "operator")
            assert m1.filters == {"subject = 'Speed' AND rate >= 24"}
            shown = {one["name"]: one["shown"] for one in office.get("/api/state")["monitors"]}
            assert shown["m1"] == 20
            assert office.get(f"/api/cases/{case['number']}")["evidence"][0]["heading"] == 90.0
            assert len(office.get("/api/cases")["cases"]) == 1

    asyncio.run(work())


def test_what_came_in_time_while_it_was_away_is_not_late(office: OfficeProcess) -> None:
    office.stop()
    office.file.write_text(office.file.read_text().replace("late_ms = 300_000", "late_ms = 1_000"))

    async def work() -> None:
        async with monitor("m1", office.broker) as m1:  # type: ignore[attr-defined]
            await m1.say("Speed", speed(57.0))
            await m1.say("Speed", speed(58.0), at=time.time_ns() // 1_000_000 - 2_000)  # late when the broker gets it
            await asyncio.sleep(1.5)
            office.start()
            await until(lambda: office.get("/api/accounts")["control"]["received"] == 2, "both")

    asyncio.run(work())
    found = office.get("/api/accounts")["control"]
    assert (found["over"], found["quarantined"]) == (1, {"late": 1})


@pytest.mark.parametrize("already", [0, 1, 2, 5])
def test_an_old_database_with_a_new_broker_begins_anew(tmp_path: Path, already: int) -> None:
    """Whether the new log is shorter than what was heard of the old one, as long, or longer; and it says so."""
    brokers = Brokers(tmp_path)
    b1 = brokers.start("b1", log=True)
    made = OfficeProcess(tmp_path, b1.address)

    async def say(count: int, first: float) -> None:
        async with monitor("m1", b1.address) as m1:
            for place in range(count):
                await m1.say("Speed", speed(first + place))

    def speeds() -> list[float]:
        return sorted(one["speed"] for one in made.get("/api/cases/1")["evidence"])

    try:
        made.start()
        asyncio.run(say(2, 57.0))
        asyncio.run(until(lambda: made.get("/api/accounts")["offset"] == 2, "both"))
        assert made.stop() == 0
        database = (tmp_path / "traffic.sqlite").read_bytes()
        b1.kill()
        shutil.rmtree(tmp_path / "b1.log")
        b1 = brokers.start("b1", log=True, listen=b1.address)
        if already:  # somebody has used the new broker with another database
            (tmp_path / "traffic.sqlite").unlink()
            made.start()
            asyncio.run(say(already, 67.0))
            asyncio.run(until(lambda: made.get("/api/accounts")["offset"] == already, "those"))
            assert made.stop() == 0
            (tmp_path / "traffic.sqlite").write_bytes(database)
        made.start()
        asyncio.run(say(1, 87.0))
        wanted = [57.0, 58.0, *[67.0 + place for place in range(already)], 87.0]
        asyncio.run(until(lambda: speeds() == wanted, "all of them"))
        assert made.stop() == 0
        said = (tmp_path / "office.txt").read_text()
        assert said.count("the broker's log is another one") == 1, said
        made.start()  # now it is the same
        asyncio.run(say(1, 88.0))
        asyncio.run(until(lambda: speeds() == [*wanted, 88.0], "the last"))
        assert (tmp_path / "office.txt").read_text().count("the broker's log is another one") == 1
        assert made.get("/api/accounts")["again"] == 0
    finally:
        made.stop()
        brokers.stop()


def test_a_broker_that_loses_its_log_while_the_office_runs(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path)
    b1 = brokers.start("b1", log=True)
    made = OfficeProcess(tmp_path, b1.address)

    async def work() -> None:
        nonlocal b1
        async with monitor("m1", b1.address) as m1:
            await m1.say("Speed", speed(57.0))
            await until(lambda: made.get("/api/accounts")["offset"] == 1, "one")
            b1.kill()
            shutil.rmtree(tmp_path / "b1.log")
            b1 = brokers.start("b1", log=True, listen=b1.address)
            await until(lambda: len(b1.status()["log"]["durable"]) == 1, "it is there again")
            await m1.say("Speed", speed(58.0))
            await until(lambda: [one["reports"] for one in made.get("/api/cases")["cases"]] == [2], "both")

    try:
        made.start()
        asyncio.run(work())
        assert made.stop() == 0
    finally:
        made.stop()
        brokers.stop()


def test_pages_and_what_they_refuse(office: OfficeProcess) -> None:
    async def work() -> None:
        async with monitor("m1", office.broker) as m1:  # type: ignore[attr-defined]
            seq = await m1.say("Speed", speed(57.0), seq=77)
            assert seq
            await m1.say("Speed", speed(255.0))
            await m1.say("Speed", speed(40.0), at=1000)
            await until(lambda: office.get("/api/accounts")["control"]["received"] == 3, "all of them")

    asyncio.run(work())
    found = office.get("/api/accounts")["control"]
    assert found["quarantined"] == {"impossible speed": 1, "late": 1}
    time.sleep(0.5)
    assert {one["reason"] for one in office.get("/api/quarantine")["quarantine"]} == {"impossible speed", "late"}
    (path,) = office.get("/api/events/p-car/77")["paths"]
    assert [hop["where"] for hop in path["hops"]][:2] == ["p-car", "m1/air"]
    assert [hop["kind"] for hop in path["hops"]] == ["vehicle", "monitor", "broker", "office"]
    assert len(office.get("/api/events?after=1&count=10")["events"]) == 2
    page = office.get("/")
    assert "<title>Vicinal: traffic control</title>" in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")  # nothing of anybody else
    assert office.get("/api/network")["type"] == "FeatureCollection"
    assert office.get("/api/cases.csv").startswith("number,state,license_no")
    assert office.get("/api/cases.geojson")["features"][0]["properties"]["license_no"] == "00D1234"
    assert len(office.get("/api/drivers/00D1234")["cases"]) == 1

    def refused(path: str, body: Any = None, method: str | None = None, kind: str = "application/json") -> str:
        status, answer = office.ask(path, body, method, kind)
        assert status in (400, 404), (status, answer)
        return str(answer["error"])

    assert "not known, want one of town, centre" in refused("/api/limits", {"area": "x", "value": 30})
    assert "300 km/h" in refused("/api/limits", {"area": "town", "value": 300})
    assert "value is '30', want int" in refused("/api/limits", {"area": "town", "value": "30"})
    assert "value is missing" in refused("/api/limits", {"area": "town"})
    assert "'size' is not known" in refused("/api/limits", {"area": "town", "value": 30, "size": 1})
    assert "want for example" in refused("/api/limits", {"area": "town", "value": 30, "hours": "always"})
    assert "not JSON" in refused("/api/limits", b"{")
    assert "longer than" in refused("/api/limits", b" " * 200_000)
    assert "application/json" in refused("/api/limits", {"area": "town", "value": 30}, kind="text/plain")
    assert "no case 99" in refused("/api/cases/99")
    assert "after that comes void" in refused("/api/cases/1", {"state": "paid"})
    assert "needs a reason" in refused("/api/cases/1", {"state": "void"})
    assert "want a number" in refused("/api/at?time=now")
    assert "no such event" in refused("/api/events/p-car/78")
    assert office.ask("/api/limits", {"area": "town", "value": 40, "hours": "Mo-Fr 07:30-16:30"})[0] == 201
    _, always = office.ask("/api/limits", {"area": "town", "value": 20, "hours": "00:00-24:00"})
    status, plain = office.ask("/api/limits", {"area": "town", "value": 45})
    assert (status, plain["value"], plain["holds"]["limit"]) == (201, 45, 20)
    assert plain["holds"]["source"] == "operator, 00:00-24:00"
    status, ended = office.ask("/api/limits", {"area": "town", "since": always["since"]}, "DELETE")
    assert (status, [one["hours"] for one in ended["ended"]]) == (200, ["00:00-24:00"])
    assert ended["holds"]["limit"] in (40, 45)  # by the time of day
    assert "cannot be ended" in refused("/api/limits", {"area": "centre", "since": 0}, "DELETE")
    assert office.ask("/api/drivers/00D1234", {}, "DELETE")[1]["held"] == [1]
    assert office.ask("/api/cases/1", {"state": "void", "note": "an ambulance"})[1]["state"] == "void"
    assert office.ask("/api/drivers/00D1234", {}, "DELETE")[1]["held"] == [1]  # reports may come that are of it
    assert office.stop() == 0


def test_every_report_that_cannot_be_true_is_in_quarantine_and_none_is_fined(office: OfficeProcess) -> None:
    """At the office itself; from the frame on: tests/system/test_traffic_bad_input.py."""

    async def work() -> None:
        now = time.time_ns() // 1_000_000
        async with monitor("m1", office.broker) as m1, monitor("m9", office.broker) as m9:  # type: ignore[attr-defined]
            await m1.say("Speed", speed(255.0))
            await m1.say("Speed", speed(-1.0))
            await m1.say("Speed", speed(99.0), at=now + 60_000)
            await m1.say("Speed", speed(99.0), at=now - 400_000)
            await m1.say("Location", {"lat": LON, "lon": LAT})
            await m1.say("Location", {"lat": LAT + 100_000_000, "lon": LON})
            await m1.say("Speed", {"license_no": "00D1234", "rate": "fast"})
            await m1.say("Speed", {"license_no": "", "rate": 99.0})
            await m9.say("Speed", speed(99.0))
            await m1.say("Location", {"lat": LAT, "lon": LON}, seq=5)
            await m1.say("Location", {"lat": LAT, "lon": LON}, seq=5)
            await until(lambda: office.get("/api/accounts")["control"]["received"] == 11, "all of them")

    asyncio.run(work())
    assert office.get("/api/accounts")["control"] == {
        "received": 11, "over": 0, "within": 0, "witnessed": 0, "sightings": 1,
        "quarantined": {
            "impossible speed": 2, "time in the future": 1, "late": 1, "latitude and longitude swapped": 1,
            "position outside the network": 1, "malformed": 2, "unknown monitor": 1, "duplicate": 1,
        },
    }  # fmt: skip
    assert office.get("/api/cases")["cases"] == []


def test_who_has_the_key_finds_and_erases_a_driver_who_did_nothing_wrong(office: OfficeProcess, tmp_path: Path) -> None:
    key = tmp_path / "pseudonyms.key"
    key.write_text("5a" * 32)
    now = time.time_ns() // 1_000_000
    hidden = pseudonym(day_key(bytes.fromhex("5a" * 32), "centre", day_of(now)), "00D1234/can")

    async def work() -> None:
        async with monitor("m1", office.broker) as m1:  # type: ignore[attr-defined]
            await m1.say("Location", {"lat": LAT, "lon": LON}, vehicle=hidden)
            await m1.say("Location", {"lat": LAT, "lon": LON}, vehicle="p-another")
            await until(lambda: office.get("/api/accounts")["store"]["sightings"] == 2, "both")

    asyncio.run(work())

    def driver(*options: str) -> Any:
        done = CliRunner().invoke(cli, ["traffic", "driver", "00D1234", "--office", office.address, *options])
        assert done.exit_code == 0, done.output
        return json.loads(done.output)

    assert driver()["sightings"] == []  # the office alone cannot know
    assert [one["vehicle"] for one in driver("--key", str(key))["sightings"]] == [hidden]
    assert hidden in json.dumps(office.get("/api/state")) + json.dumps(office.get("/api/events"))
    assert driver("--key", str(key), "--erase") == {"cases": 0, "sightings": 1, "held": []}
    assert driver("--key", str(key))["sightings"] == []
    assert hidden not in json.dumps(office.get("/api/state")) + json.dumps(office.get("/api/events"))
    assert office.get("/api/accounts")["store"]["sightings"] == 1  # the other one is there
    assert len(office.get("/api/events?after=0")["events"]) == 2  # that something passed is no secret
    for options, message, code in (
        (["--key", str(tmp_path / "none")], "No such file", 2),
        (["--key", str(office.file)], "non-hexadecimal", 2),
        (["--vehicle", "car"], "want {plate} in it", 2),
    ):
        done = CliRunner().invoke(cli, ["traffic", "driver", "00D1234", "--office", office.address, *options])
        assert (done.exit_code, message in done.output) == (code, True), done.output
    done = CliRunner().invoke(cli, ["traffic", "driver", "x", "--office", "http://127.0.0.1:1"])
    assert done.exit_code == 1
    status, answer = office.ask("/api/drivers/00D1234", {"vehicles": [1]}, "DELETE")
    assert (status, answer["error"]) == (400, "vehicles has 1, want strings")


BANDS = "[{ over = 5, fine = 1 }, { over = 5, fine = 2 }]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[office]\n", "network is missing"),
        ('[office]\nnetwork = "none"\nbroker = "tcp://127.0.0.1:1"\n', "No such file"),
        ('[offic]\nnetwork = "x"\n', "[offic] is not known"),
        ('[office]\nnetwork = "town.geojson"\nbroker = "x"\ntoken = "no.token"\n', "which is no file"),
        ('[office]\nnetwork = "town.geojson"\nbroker = "x"\nservices = "air"\n', "want {monitor} in it"),
        ('[office]\nnetwork = "town.geojson"\nbroker = "x"\n[rules]\nlate = 1\n', "'late_ms' meant"),
        (f'[office]\nnetwork = "town.geojson"\nbroker = "x"\n[tariff]\nbands = {BANDS}\n', "want them to rise"),
    ],
)
def test_configurations_that_are_none(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "town.geojson").write_text(json.dumps(network().geojson()))
    file = tmp_path / "office.toml"
    file.write_text(text)
    done = CliRunner().invoke(cli, ["traffic", "run", str(file)])
    assert done.exit_code == 2
    assert message in done.output


def test_who_the_office_is_a_token_says(tmp_path: Path) -> None:
    """Without the right one it ends, and says why; one that is renewed is read when it connects again."""
    one, brokers = Issuing(tmp_path), Brokers(tmp_path)
    one.deploy(POLICE)
    where = f"tcp://127.0.0.1:{free_port()}"
    start = partial(brokers.start, "b1", listen=where, scopes="deployment.toml", join=("police",), more=IDENTITY)
    b1 = start(log=True)
    file = Path(one.file("traffic-control", "clerk"))
    made = OfficeProcess(tmp_path, where, 'token = "traffic-control.token"\n')
    try:
        for token, why in (
            ("nonsense", "not admitted: your token is not one of EdDSA"),
            (
                one.token("traffic-control", "clerk"),
                "may not publish in 'police': its rule for join is",
            ),
        ):
            file.write_text(token)
            command = [*COMMAND, "traffic", "run", str(made.file)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
            assert (done.returncode, why in done.stderr, "Traceback" in done.stderr) == (1, True, False), done.stderr
        one.file("traffic-control", "police")
        made.start()
        file.unlink()
        b1.kill()
        b1 = start(log=True)
        one.file("traffic-control", "police")

        def clients() -> list[str]:
            return [client["name"] for client in b1.status()["clients"]]

        asyncio.run(until(lambda: "traffic-control" in clients(), "the office is there again"))
        assert made.stop() == 0
    finally:
        if hasattr(made, "process"):
            made.stop()
        brokers.stop()


POLICE = """
[[scope]]
name = "police"
dimension = "membership"
membership = { join = "role = 'police'" }
[[component]]
name = "traffic-control"
scopes = ["police"]
publishes = "TRUE"
subscribes = "TRUE"
"""


@pytest.mark.parametrize(
    ("producer", "monitor"),
    [("m1.siena", "m1"), ("m1.siena~0a1b", "m1"), ("m1", "m1"), ("m1~0a1b~again", "m1"), (None, "")],
)
def test_the_monitor_of_an_event(producer: str | None, monitor: str) -> None:
    assert monitor_of(producer) == monitor


def test_a_path_has_each_broker_once_however_many_scopes_it_crossed_there() -> None:
    event = Event("Speed", (), {"Time": 1, "Trace": "m1/air 2"}, "m1", 1)
    paths = Paths()
    paths.add(event.identity, Route(1, "p", 1, "Speed", "m1", {}, "over", hops_of(event, 9)))
    paths.trail(event.identity, (("b1", (("a", True),), 3), ("b2", (("a", True),), 4), ("b2", (("b", True),), 5)))
    (found,) = paths.after(0, 9)
    assert [(hop.where, hop.time) for hop in found.hops][2:] == [("b1", 3), ("b2", 4), ("office", 9)]
