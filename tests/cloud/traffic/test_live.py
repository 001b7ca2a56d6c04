"""What pages are told: all, then what is new; how it was; how the overlay is. And the page, with its lock file."""

import asyncio
import json
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cloud.broker.brokers import PATIENCE, Brokers, until
from cloud.traffic.test_office import OfficeProcess, monitor, speed
from cloud.traffic.world import LAT, LON, NOW, location, network
from cloud.traffic.world import speed as speed_event
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from vicinal.event import Event
from vicinal_cloud.broker.client import Delivery
from vicinal_cloud.traffic import page
from vicinal_cloud.traffic.api import make_app
from vicinal_cloud.traffic.config import load
from vicinal_cloud.traffic.history import CASES, state_at
from vicinal_cloud.traffic.history import EVENTS as SHOWN
from vicinal_cloud.traffic.live import ALIVE, EVENTS, MOST, Audience, Telling
from vicinal_cloud.traffic.office import Office
from vicinal_cloud.traffic.paths import Hop, Paths
from vicinal_cloud.traffic.paths import Path as Way
from vicinal_cloud.traffic.recent import KEPT, Recent
from vicinal_cloud.traffic.store import Store
from vicinal_cloud.traffic.watch import Counted, read_status, sample_of

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "cloud" / "page"


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    """One that is connected to nothing: what comes is put into its hands."""
    (tmp_path / "town.geojson").write_text(json.dumps(network().geojson()))
    file = tmp_path / "office.toml"
    file.write_text('[office]\nnetwork = "town.geojson"\nbroker = "tcp://127.0.0.1:1"\n[rules]\nlate_ms = 60_000\n')
    store = Store()
    made = Office(load(file), store)
    yield made
    store.close()


def hear(office: Office, event: Event, after: int = 5) -> None:
    """As from the overlay: the event, and by which brokers it came."""
    at = event.attrs["Time"] + after
    office.receive(Delivery(event, None, (), at))
    office.paths.trail(event.identity, (("b1", (("centre", True),), at - 1),))
    office._save()


def test_after_a_restart_it_is_known_where_vehicles_were(tmp_path: Path, office: Office) -> None:
    """45 in the town, heard by a monitor of the centre; the office is started anew between the two reports."""
    url = f"sqlite:///{tmp_path}/traffic.sqlite"
    found = []
    for event in (location(LAT + 60_000, LON, NOW), speed_event(45.0, NOW + 500)):
        store = Store(url)
        again = Office(office.config, store)
        found.append(again.receive(Delivery(event, None, (), NOW + 600)))
        again._save()
        store.close()
    assert found == ["sightings", "within"]


def test_a_report_that_turns_out_to_be_none_has_no_plate_on_the_page(office: Office) -> None:
    hear(office, speed_event(57.0, NOW))
    page = Telling(office)
    assert [one["number"] for one in page.news(NOW)["cases"]] == [1]
    hear(office, location(LAT + 60_000, LON, NOW))
    office.control.set_limit("town", 70, NOW - 5000, "operator")
    hear(office, location(LAT + 60_000, LON, NOW, seq=7, heading=1.0))
    assert page.news(NOW + 300)["gone"] == [1]
    (path, *_) = office.paths.latest(9, "Speed")
    assert (path.verdict, path.params) == ("within", {"rate": 57.0})


# News


def test_all_is_told_first_and_then_what_is_new(office: Office) -> None:
    hear(office, location(LAT, LON, NOW))
    hear(office, speed_event(57.0, NOW + 10))
    page = Telling(office)
    first = page.news(NOW + 100)
    assert [one["vehicle"] for one in first["vehicles"]] == ["car-1/can"]
    assert {one["name"]: one["limit"] for one in first["areas"]} == {"town": 50, "centre": 30}
    assert [one["name"] for one in first["monitors"]] == ["m1", "m2", "m3"]
    assert [(one["number"], one["state"], one["next"]) for one in first["cases"]] == [(1, "open", ("void",))]
    assert [one["subject"] for one in first["events"]] == ["Location", "Speed"]
    assert "hops" not in first["events"][0]
    assert first["span"] == [NOW, NOW + 100]
    assert page.news(NOW + 200) == {}
    assert page.news(NOW + 100 + ALIVE) == {"now": NOW + 100 + ALIVE}  # still there
    office.control.set_limit("centre", 20, NOW + 1200, "operator")
    news = page.news(NOW + 1300)
    assert set(news) == {"now", "areas", "monitors"}
    assert {one["name"]: one["limit"] for one in news["monitors"]} == {"m1": 20, "m2": 20, "m3": 50}
    hear(office, location(LAT + 500, LON, NOW + 1400))
    assert set(page.news(NOW + 1500)) == {"now", "vehicles", "events", "skipped"}


def test_who_is_slow_misses_steps_and_is_told_how_many(office: Office) -> None:
    page = Telling(office)
    page.news(NOW)
    for place in range(EVENTS + 7):
        hear(office, location(LAT + place, LON, NOW + place))
    news = page.news(NOW + 100)
    assert (len(news["events"]), news["skipped"]) == (EVENTS, 7)
    assert news["events"][-1]["number"] == EVENTS + 7
    assert len(news["vehicles"]) == 1  # where it is now, not where it was


def test_a_case_that_is_erased_is_gone_from_the_page(office: Office) -> None:
    hear(office, speed_event(57.0, NOW))
    page = Telling(office)
    page.news(NOW + 10)
    office.control.move(1, "void", NOW + 20, "operator", "an ambulance")
    office._save()
    assert [one["state"] for one in page.news(NOW + 30)["cases"]] == ["void"]
    office.control.handle_timeout(NOW + 10**6)  # until then it is held: reports may come that are of it
    office.erase("00D1234")
    assert page.news(NOW + 40)["gone"] == [1]


@given(st.lists(st.tuples(st.integers(1, 6), st.booleans(), st.booleans()), max_size=40))
def test_who_is_told_the_changes_knows_what_there_is(steps: list[tuple[int, bool, bool]]) -> None:
    """Whenever it asks: put or remove, and perhaps ask then."""
    case: Any = type("C", (), {"plate": "x"})
    recent, version, known, true = Recent(), 0, dict[int, Any](), dict[int, Any]()
    for number, put, ask in [*steps, (1, True, True)]:
        one: Any = case()
        one.number = number
        if put:
            recent.put(one)
            true[number] = one
        else:
            recent.remove(number)
            true.pop(number, None)
        if ask:
            cases, gone, version = recent.since(version)
            known |= {one.number: one for one in cases}
            for number in gone:
                known.pop(number, None)
            assert known == true
            assert recent.since(version) == ([], [], version)


def test_the_last_cases_are_bounded() -> None:
    recent = Recent()
    for number in range(KEPT + 5):
        recent.remove(number)
    assert len(recent.since(0)[1]) == KEPT


# How it was


def steps(office: Office, time: int, which: str) -> list[tuple[int, int]]:
    """When, and with which event as the last."""
    found: list[tuple[int, int]] = []
    while (beside := state_at(office, *(found[-1] if found else (time,)))[which]) is not None:
        assert (beside["time"], beside["event"]) not in found
        found.append((beside["time"], beside["event"]))
        assert state_at(office, *found[-1])["events"][-1]["number"] == beside["event"]
    return found


def test_the_slider_steps_from_event_to_event_and_back(office: Office) -> None:
    times = [NOW, NOW + 1000, NOW + 2000, NOW + 3000]
    for time in times:
        hear(office, location(LAT + time - NOW, LON, time))
    hear(office, speed_event(57.0, NOW + 3500))
    forth = steps(office, NOW, "next")
    assert forth == list(zip([*[one + 5 for one in times], NOW + 3505], range(1, 6)))
    assert steps(office, forth[-1][0], "previous") == forth[-2::-1]
    then = state_at(office, NOW + 1005)
    assert [one["number"] for one in then["events"]] == [1, 2]
    assert [one["lat"] for one in then["vehicles"]] == [(LAT + 1000) / 1e7]
    assert state_at(office, NOW - 10_000)["vehicles"] == []


def test_events_of_one_millisecond_are_stepped_through_one_by_one(office: Office) -> None:
    """An office that was busy hears many at once: more than the last that a moment is shown with."""
    count = SHOWN + 10
    for number in range(count):
        hear(office, location(LAT + number, LON, NOW))
    hear(office, location(LAT, LON, NOW + 1000))
    forth = steps(office, NOW, "next")
    assert forth == [*[(NOW + 5, number) for number in range(1, count + 1)], (NOW + 1005, count + 1)]
    assert steps(office, NOW + 1005, "previous") == forth[-2::-1]
    assert [one["number"] for one in state_at(office, NOW + 5, 3)["events"]] == [1, 2, 3]
    # Who goes there by the slider sees all of them; so does who names one that was at another time, or never.
    whole = state_at(office, NOW + 5)
    assert whole["events"][-1]["number"] == count
    assert state_at(office, NOW + 5, count + 1) == state_at(office, NOW + 5, count + 2) == whole


@pytest.mark.parametrize("speed", [False, True])
def test_the_slider_begins_before_the_first_event(office: Office, speed: bool) -> None:
    """Though it says nothing of where a vehicle is, or came in the millisecond in which it was said."""
    event = speed_event(57.0, NOW) if speed else location(LAT, LON, NOW)
    hear(office, event, after=0)
    hear(office, location(LAT, LON, NOW + 1000))
    first, _ = Telling(office).news(NOW + 2000)["span"]
    assert state_at(office, first)["events"] == []
    assert steps(office, first, "next") == [(NOW, 1), (NOW + 1005, 2)]


def test_the_past_knows_nothing_of_what_came_later(office: Office) -> None:
    hear(office, speed_event(57.0, NOW))
    office.control.set_limit("centre", 20, NOW + 1000, "operator")
    office.control.sign_shows("m1", 20, NOW + 1500)
    office.control.move(1, "void", NOW + 2000, "operator", "an ambulance")
    office._save()
    before, then, after = (state_at(office, NOW + more) for more in (-1, 100, 2000))
    assert before["cases"] == []
    assert [(one["state"], len(one["steps"])) for one in then["cases"]] == [("open", 1)]
    assert [one["state"] for one in after["cases"]] == ["void"]
    assert [{one["name"]: one["shown"] for one in each["monitors"]}["m1"] for each in (then, after)] == [30, 20]


def test_the_past_shows_the_last_cases_that_had_begun_then(office: Office) -> None:
    for number in range(CASES + 3):
        hear(office, speed_event(57.0, NOW + number * 10, plate=f"{number:02}D{number:04}"))
    numbers = [one["number"] for one in state_at(office, NOW + CASES * 10 + 5)["cases"]]
    assert numbers == list(range(2, CASES + 2))


@given(st.lists(st.integers(0, 20), max_size=30), st.integers(-1, 21))
def test_the_last_event_by_a_time(gaps: list[int], time: int) -> None:
    paths, now, times = Paths(), 0, []
    for number, gap in enumerate(gaps, 1):
        now += gap % 3
        times.append(now)
        hops = (Hop("car", "vehicle", now), Hop("office", "office", now))
        paths.add(("m1", number), Way(number, "car", number, "Speed", "m1", {}, "over", hops))
    assert paths.until(time) == sum(1 for one in times if one <= time)


# The overlay


def status(published: int, delivered: int) -> dict[str, Any]:
    return {
        "publishes": {"accepted": published},
        "deliveries": {"delivered": delivered, "waiting": 0},
        "clients": [{"name": "m1"}, {"name": "somebody"}],
        "neighbours": [{"name": "b2", "up": True}, {"name": "b3", "up": False}],
    }


def gateway(heard: int, kept_back: int, left: int) -> dict[str, Any]:
    steam = {"type": "steam", "in": {"received": heard - kept_back}, "adapter": {"event dropped: filter": kept_back}}
    other = {"type": "siena", "in": {"received": 99}, "adapter": {}}
    notes = [{"filter": "rate > 30", "state": "applied"}, {"filter": "rate > 50", "state": "waiting"}]
    return {"services": [steam, other], "delivered": left, "stored": 0, "notes": notes}


def test_rates_of_nodes_and_links() -> None:
    known = {"b1": "", "m1": "", "m2": ""}
    one = Counted(0, 10, {("m1", "b1"): 10}, {"b1": read_status(status(10, 0)), "m1": read_status(gateway(50, 30, 20))})
    two = Counted(
        2000, 16, {("m1", "b1"): 16, ("b1", "office"): 4},
        {"b1": read_status(status(16, 4)), "m1": read_status(gateway(70, 42, 26))},
    )  # fmt: skip
    found = sample_of(one, two, known)
    assert found.rates == {"heard": 10.0, "left": 3.0, "office": 3.0}
    assert {(one["from"], one["to"]): one["rate"] for one in found.links} == {
        ("m1", "b1"): 3.0, ("b1", "office"): 2.0, ("b1", "b2"): 0.0,
    }  # fmt: skip
    nodes = {one["name"]: one for one in found.nodes}
    assert nodes["b1"]["rates"] == {"published": 3.0, "delivered": 2.0}
    assert nodes["m1"]["rates"] == {"heard": 10.0, "kept_back": 6.0, "left": 3.0}
    assert nodes["m1"]["filters"] == ["rate > 30"]
    assert nodes["m2"] == {"name": "m2", "kind": "", "up": False}


def test_a_node_that_was_started_anew_counts_anew() -> None:
    one = Counted(0, 0, {}, {"m1": read_status(gateway(50, 30, 20))})
    two = Counted(1000, 0, {}, {"m1": read_status(gateway(4, 1, 3))})
    (node,) = sample_of(one, two, {"m1": ""}).nodes
    assert node["rates"] == {"heard": 4.0, "kept_back": 1.0, "left": 3.0}


# Over the network


class Stream:
    """What a page hears."""

    def __init__(self, address: str) -> None:
        self._answer = urllib.request.urlopen(f"{address}/api/live", timeout=PATIENCE)
        assert self._answer.headers["Content-Type"].startswith("text/event-stream")

    def next(self) -> "dict[str, Any] | None":
        """None: it has ended."""
        while line := self._answer.readline():
            if line.startswith(b"data: "):
                found: dict[str, Any] = json.loads(line[6:])
                return found
        return None

    def until(self, key: str) -> dict[str, Any]:
        while (news := self.next()) is not None:
            if key in news:
                return news
        raise AssertionError(f"no {key}")


def test_a_page_hears_of_it_and_the_office_ends_though_pages_look_on(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path)
    made = OfficeProcess(tmp_path, brokers.start("b1", log=True).address)
    made.start()

    async def work() -> None:
        async with monitor("m1", brokers.running[0].address) as m1:
            first = stream.next()
            assert first is not None
            assert set(first) >= {"now", "span", "monitors", "areas", "vehicles"}
            await m1.say("Speed", speed(57.0), seq=77)
            assert (await asyncio.to_thread(stream.until, "cases"))["cases"][0]["license_no"] == "00D1234"
            assert made.ask("/api/limits", {"area": "centre", "value": 20})[0] == 201
            await until(lambda: m1.filters == {"subject = 'Speed' AND rate > 20"}, "the new limit")
            (path,) = made.get("/api/events/p-car/77")["paths"]
            assert path["filter"] == "subject = 'Speed' AND rate > 30"
            assert made.get("/api/overlay")["samples"] is not None

    try:
        stream = Stream(made.address)
        asyncio.run(work())
        assert made.stop() == 0
        while stream.next() is not None:
            pass
    finally:
        made.stop()
        brokers.stop()


def test_there_is_an_end_to_how_many_pages_look_on(office: Office) -> None:
    audience = Audience(office)
    audience.pages = MOST
    answer = TestClient(make_app(office, audience)).get("/api/live")
    assert (answer.status_code, answer.json()) == (503, {"error": f"{MOST} pages look on already"})


# The page


def test_without_its_page_the_office_says_how_to_build_it(office: Office, tmp_path: Path) -> None:
    client = TestClient(make_app(office, static=tmp_path / "none"))
    answer = client.get("/")
    assert "make page" in answer.text
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert client.get("/api/network").json()["type"] == "FeatureCollection"


def test_the_page_is_served_as_it_was_built_and_nothing_beside_it(office: Office, tmp_path: Path) -> None:
    static = tmp_path / "static"
    (static / "lib").mkdir(parents=True)
    (static / "index.html").write_text("<title>it</title>")
    (static / "lib" / "map.mjs").write_text("export {};")
    (tmp_path / "secret.txt").write_text("secret")
    client = TestClient(make_app(office, static=static))
    answer = client.get("/")
    assert answer.text == "<title>it</title>"
    assert answer.headers["Content-Security-Policy"] == page.POLICY
    assert client.get("/lib/map.mjs").headers["Content-Type"].startswith("text/javascript")
    assert client.get("/none.js").status_code == 404
    for path in ("/../secret.txt", "/%2e%2e/secret.txt", "/lib/..%2f..%2fsecret.txt"):
        assert client.get(path).status_code == 404
    assert client.get("/api/network").status_code == 200


def test_the_lock_file_names_no_host() -> None:
    """Where packages come from is npm's own matter; what they are, their checksums say."""
    lock = json.loads((SOURCES / "package-lock.json").read_text())
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert {"node_modules/maplibre-gl", "node_modules/uplot"} <= set(packages)
    for name, one in packages.items():
        assert "resolved" not in one, name
        assert one["integrity"].startswith("sha512-"), name
    wanted = json.loads((SOURCES / "package.json").read_text())["dependencies"]
    assert {name: packages[f"node_modules/{name}"]["version"] for name in wanted} == wanted  # exactly these


def test_the_page_names_nobody_else() -> None:
    for file in (SOURCES / "src").iterdir():
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text, file
        assert "https://" not in text, file


@pytest.mark.skipif(not (page.STATIC / "index.html").is_file(), reason="THE PAGE IS NOT BUILT: make page")
def test_the_wheel_has_the_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    static = {name.removeprefix("vicinal_cloud/traffic/static/") for name in names if "/traffic/static/" in name}
    sources = {file.name for file in (SOURCES / "src").iterdir()}
    assert sources <= static
    assert {"lib/maplibre-gl.mjs", "lib/maplibre-gl-worker.mjs", "lib/uplot.mjs"} <= static
    assert not [name for name in names if "node_modules" in name]
