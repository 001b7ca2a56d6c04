"""The use case of seed 001, 5.8, as real processes, accounted for exactly against what the vehicles did.

One run for all questions: eight cars, three monitors of which two overlap, a limit that is lowered and raised again.
"""

import json
import math
import shutil
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from vicinal.pseudonyms_cpython import day_key, day_of, pseudonym
from vicinal_cloud.traffic.tariff import DEFAULT
from vicinal_tools.demo.city import City, get, post
from vicinal_tools.demo.files import GAP_MS, Plan, write
from vicinal_tools.demo.judge import OUTER, Said, read_truth
from vicinal_tools.demo.show import Show, Summary
from vicinal_tools.traffic.tracks import shipped

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("traffic")]

SEED = 189
"""with which there are speeders in reach of one, of two and of no monitor, and cars that no monitor hears"""


class Run(NamedTuple):
    plan: Plan
    summary: Summary
    truth: list[Said]
    heard: list[dict[str, Any]]
    cases: list[dict[str, Any]]
    pages: dict[str, Any]
    codes: dict[str, int]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    folder = Path(tempfile.mkdtemp(prefix="vicinal-"))  # short: there are sockets in it
    plan = write(folder, shipped(), vehicles=8, speeders=0.5, seed=SEED, port=0, database=None)
    city = City(plan)
    show = Show(city)
    try:
        show.start()
        show.run(8)
        city.set_limit("old-town", 20)
        show.run(5)
        city.set_limit("old-town", 35)
        show.run(6)
        summary = show.finish()
        speed = next(one for one in reversed(show.heard) if one["subject"] == "Speed")
        address = city.address
        pages = {
            name: get(f"{address}/api/{path}")
            for name, path in (
                ("state", "state"),
                ("span", "span"),
                ("limits", "limits"),
                ("path", f"events/{speed['vehicle']}/{speed['seq']}"),
                ("then", f"at?time={speed['hops'][0]['time']}"),
            )
        }
        pages["speed"] = speed
        cases = get(f"{address}/api/cases")["cases"]
        pages["void"] = post(f"{address}/api/cases/{cases[0]['number']}", {"state": "void", "note": "a test"})
        truth = read_truth(folder / "truth.jsonl")
        codes = city.stop()
        yield Run(plan, summary, truth, show.heard, cases, pages, codes)
    finally:
        city.stop()
        shutil.rmtree(folder, ignore_errors=True)


def test_nothing_is_lost_on_any_hop(run: Run) -> None:
    assert run.summary.accounts.losses == dict.fromkeys(("bus", "car", "air", "roadside", "overlay", "office"), 0)
    hops = run.summary.accounts.hops
    assert hops["bus"]["frames"] == hops["air"]["accepted"] == len(run.truth) > 300
    assert hops["air"]["said"] == len(run.truth)
    assert hops["office"]["received"] == len(run.heard) > 0


def test_what_must_cross_crosses_and_nothing_else(run: Run) -> None:
    judged = run.summary.judgement
    assert judged.missing == []
    assert judged.extra == []
    assert judged.must > 30
    assert run.summary.holds


def test_only_what_is_over_the_limit_leaves_the_roadside(run: Run) -> None:
    """The lowest that was ever in force was 20."""
    rates = [one["params"]["rate"] for one in run.heard if one["subject"] == "Speed" and one["monitor"] != "m3"]
    assert rates
    assert min(rates) > 20
    slow = [one for one in run.truth if one.subject == "Speed" and one.params["rate"] <= 20]
    assert slow  # there were some to keep back


def test_a_vehicle_out_of_range_is_never_heard(run: Run) -> None:
    town, heard = run.plan.network, {(one["monitor"], one["vehicle"]) for one in run.heard}
    far = 0
    for car in {one.producer for one in run.truth}:
        for name, monitor in town.monitors.items():
            own = [one for one in run.truth if one.producer == car]
            if min(town.distance(monitor.place, one.place) for one in own) > OUTER:
                far += 1
                hidden = pseudonym(day_key(run.plan.key, monitor.area, day_of(own[0].time)), car)
                assert (name, hidden) not in heard
    assert far > 0


def test_offences_are_those_of_the_ground_truth(run: Run) -> None:
    """Computed here from what the cars said and the office heard, in another way than the office does."""
    said = {}
    for one in run.truth:
        for monitor in run.plan.network.monitors.values():
            hidden = pseudonym(day_key(run.plan.key, monitor.area, day_of(one.time)), one.producer)
            said[monitor.name, hidden, one.seq] = one
    town, changes = run.plan.network, run.pages["limits"]["rules"]

    def limit_at(one: Said) -> int:
        places = [area.name for area in town.areas_near((one.params["lat"], one.params["lon"]), 15)]
        return max(
            [rule["value"] for rule in changes if rule["area"] == place and rule["since"] <= one.time][-1]
            for place in places
        )

    where = {(one.producer, one.time): one for one in run.truth if one.subject == "Location"}
    times: dict[str, dict[int, tuple[int, set[str]]]] = {}
    for event in run.heard:
        if event["subject"] != "Speed":
            continue
        one = said[event["monitor"], event["vehicle"], event["seq"]]
        near = min((abs(time - one.time), time) for producer, time in where if producer == one.producer)
        assert near[0] < 500
        over = math.floor(one.params["rate"]) - 3 - limit_at(where[one.producer, near[1]])
        if over > 0:
            found = times.setdefault(one.params["license_no"], {}).setdefault(one.time, (over, set()))
            found[1].add(event["monitor"])
    expected = []
    for plate, own in times.items():
        stretch: list[int] = []
        for time in [*sorted(own), 1 << 62]:
            if stretch and time - stretch[-1] > GAP_MS:
                worst = max(own[at][0] for at in stretch)
                band = DEFAULT.band(worst)
                assert band is not None
                monitors = sorted(set().union(*[own[at][1] for at in stretch]))
                expected.append((plate, worst, len(stretch), " ".join(monitors), f"{band.fine / 100:.2f}"))
                stretch = []
            stretch.append(time)
    got = [(one["license_no"], one["over_kmh"], one["reports"], one["monitors"], one["fine"]) for one in run.cases]
    assert sorted(got) == sorted(expected)
    assert got


def test_two_monitors_in_range_give_one_offence(run: Run) -> None:
    both = [one for one in run.cases if one["monitors"] == "m1 m2"]
    assert both
    for one in both:
        again = [other for other in run.cases if other["license_no"] == one["license_no"]]
        ends = sorted((other["first"], other["last"]) for other in again)
        assert all(a[1] < b[0] for a, b in pairwise(ends))


def test_plates_are_with_offences_only(run: Run) -> None:
    plates = {one.params["license_no"] for one in run.truth if one.subject == "Speed"}
    offenders = {one["license_no"] for one in run.cases}
    text = json.dumps([one for one in run.heard if one["verdict"] != "over"]) + json.dumps(
        run.pages["then"]["vehicles"]
    )
    assert plates - offenders
    assert not [plate for plate in plates if plate in text]
    assert "car-0" not in json.dumps(run.heard)


def test_the_pages(run: Run) -> None:
    state, speed = run.pages["state"], run.pages["speed"]
    assert {one["name"]: (one["shown"], one["done"]) for one in state["monitors"]} == {
        "m1": (35, True),
        "m2": (35, True),
        "m3": (70, True),
    }
    (path, *_) = run.pages["path"]["paths"]
    kinds = [hop["kind"] for hop in path["hops"]]
    assert kinds == ["vehicle", "monitor", "broker", "broker", "office"]
    assert path["hops"][3]["where"] == "b-office"
    times = [hop["time"] for hop in path["hops"]]
    assert times == sorted(times)
    # The slider: where it was then.
    assert run.pages["span"]["first"] <= speed["hops"][0]["time"] <= run.pages["span"]["last"] + 3000
    assert speed["vehicle"] in [one["vehicle"] for one in run.pages["then"]["vehicles"]]
    assert run.pages["void"]["state"] == "void"


def test_all_end_as_they_should(run: Run) -> None:
    assert set(run.codes.values()) == {0}
