"""The use case of seed 001, 5.8, as real processes, accounted for exactly against what the vehicles did (town.py)."""

import json
from itertools import pairwise

import pytest
from system.town import Town

from vicinal.pseudonyms_cpython import day_key, day_of, pseudonym
from vicinal_tools.demo.files import GAP_MS
from vicinal_tools.demo.judge import OUTER
from vicinal_tools.demo.offences import expected, found

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("traffic")]

DRIVEN = 100.0
"""metres that a car may drive on while its last words are said again: where, the ground truth does not know"""


def test_nothing_is_lost_on_any_hop(town: Town) -> None:
    assert town.summary.accounts.losses == dict.fromkeys(
        ("agent", "bus", "car", "air", "roadside", "overlay", "office"), 0
    )
    hops = town.summary.accounts.hops
    assert hops["bus"]["read"] == hops["bus"]["frames"] == hops["air"]["accepted"] == len(town.truth) > 300
    assert hops["air"]["said"] == len(town.truth)
    assert hops["office"]["received"] == len(town.office) > 0


def test_what_must_cross_crosses_and_nothing_else(town: Town) -> None:
    judged = town.summary.judgement
    assert judged.missing == []
    assert judged.extra == []
    assert judged.must > 30
    assert town.summary.holds


def test_who_is_well_within_reach_is_heard_but_for_what_the_air_loses(town: Town) -> None:
    """By where the cars were, and not by what the radios recorded. Of three rounds and more all may collide."""
    judged = town.summary.judgement
    assert len(judged.unheard) * 100 <= max(judged.near, 100)
    assert judged.near or judged.slow


def test_only_what_is_over_the_limit_leaves_the_roadside(town: Town) -> None:
    """The lowest that was ever in force was 20."""
    rates = [one["params"]["rate"] for one in town.office if one["subject"] == "Speed" and one["monitor"] != "m3"]
    assert rates
    assert min(rates) > 20
    slow = [one for one in town.truth if one.subject == "Speed" and one.params["rate"] <= 20]
    assert slow  # there were some to keep back


def test_drivers_see_the_signs_of_monitors_in_reach_as_they_are(town: Town) -> None:
    roads, rules = town.plan.network, town.pages["limits"]["rules"]
    posts = {area: [one.place for one in roads.monitors.values() if one.area == area] for area in roads.areas}
    assert {(one["sign"], one["limit"]) for one in town.signs} >= {("old-town", 30), ("old-town", 20)}
    first = {one.producer: one.time for one in reversed(town.truth)}
    for one in town.signs:
        # What it shows was set, before it was seen.
        own = [rule for rule in rules if (rule["area"], rule["value"]) == (one["sign"], one["limit"])]
        assert [rule for rule in own if rule["since"] <= one["time"]]
        # It is the sign of a monitor that the car came near.
        drive = [said for said in town.truth if said.producer == f"{one['car']}/can"]
        places = [tuple(one["place"]), *[said.place for said in drive if said.time <= one["time"]]]
        assert min(roads.distance(post, place) for post in posts[one["sign"]] for place in places) < OUTER
        assert f"{one['car']}/can" in first
    # Of one car and area, what is seen changes: the same is no news.
    for a in town.signs:
        after = [b for b in town.signs if (b["car"], b["sign"]) == (a["car"], a["sign"]) and b["time"] > a["time"]]
        assert not after or after[0]["limit"] != a["limit"]


def test_a_vehicle_out_of_range_is_never_heard(town: Town) -> None:
    roads, heard = town.plan.network, {(one["monitor"], one["vehicle"]) for one in town.office}
    far = 0
    for car in {one.producer for one in town.truth}:
        for name, monitor in roads.monitors.items():
            own = [one for one in town.truth if one.producer == car]
            if min(roads.distance(monitor.place, one.place) for one in own) > OUTER + DRIVEN:
                far += 1
                hidden = pseudonym(day_key(town.plan.key, monitor.area, day_of(own[0].time)), car)
                assert (name, hidden) not in heard
    assert far > 3


def test_offences_are_those_of_the_ground_truth(town: Town) -> None:
    """By where the cars were and what the office heard, in another way than the office does. What it cannot know is for
    the driver: nobody is judged worse than by where it was, and some better."""
    plan = town.plan
    wanted = expected(plan.network, plan.key, town.truth, town.office, town.pages["limits"], GAP_MS)
    assert found(town.cases) == wanted.offences
    assert town.cases
    assert wanted.unjust == []
    assert wanted.over > wanted.lenient


def test_two_monitors_in_range_give_one_offence(town: Town) -> None:
    both = [one for one in town.cases if one["monitors"] == "m1 m2"]
    assert both
    for one in both:
        again = [other for other in town.cases if other["license_no"] == one["license_no"]]
        ends = sorted((other["first"], other["last"]) for other in again)
        assert all(a[1] < b[0] for a, b in pairwise(ends))


def test_plates_are_with_offences_only(town: Town) -> None:
    plates = {one.params["license_no"] for one in town.truth if one.subject == "Speed"}
    offenders = {one["license_no"] for one in town.cases}
    text = json.dumps([one for one in town.office if one["verdict"] != "over"]) + json.dumps(
        town.pages["then"]["vehicles"]
    )
    assert plates - offenders
    assert not [plate for plate in plates if plate in text]
    assert "/can" not in json.dumps([one for one in town.office if one["verdict"] != "over"])


def test_the_pages(town: Town) -> None:
    state, speed = town.pages["state"], town.pages["speed"]
    assert {one["name"]: (one["shown"], one["done"]) for one in state["monitors"]} == {
        "m1": (35, True),
        "m2": (35, True),
        "m3": (70, True),
    }
    (path, *_) = town.pages["path"]["paths"]
    kinds = [hop["kind"] for hop in path["hops"]]
    assert kinds == ["vehicle", "monitor", "broker", "broker", "office"]
    assert path["hops"][3]["where"] == "b-office"
    times = [hop["time"] for hop in path["hops"]]
    assert times == sorted(times)
    # The slider: where it was then.
    assert town.pages["span"]["first"] <= speed["hops"][0]["time"] <= town.pages["span"]["last"] + 3000
    assert speed["vehicle"] in [one["vehicle"] for one in town.pages["then"]["vehicles"]]
    assert town.pages["void"]["state"] == "void"
