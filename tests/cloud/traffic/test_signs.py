"""Limits at the roadside: control events out, answers in, and never a moment without a subscription."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.control import Answer, Subscription, Unsubscription, from_event
from vicinal.event import Event
from vicinal_cloud.traffic.signs import AGAIN, LOST, REMIND, Signs, filter_of
from vicinal_cloud.traffic.tariff import DEFAULT, Tariff

NAME = "traffic-control"


class Roadside:
    """Monitors' gateways: what each is subscribed to. They know requests by their filter, and answer the last."""

    def __init__(self, signs: Signs) -> None:
        self.signs = signs
        self.there: dict[str, set[str]] = {sign.service: set() for sign in signs.signs.values()}
        self.history: dict[str, list[set[str]]] = {service: [] for service in self.there}

    def take(self, events: list[Event], now: int, away: tuple[str, ...] = ()) -> None:
        last: dict[str, tuple[str, int]] = {}
        messages = [from_event(event) for event in events]
        for event, message in zip(events, messages):
            assert event.identity is not None
            last[message.filter.text] = event.identity
        for message in messages:
            service = message.to.text
            if service in away:
                continue
            assert message.source == "siena"
            if isinstance(message, Subscription):
                self.there[service].add(message.filter.text)
            else:
                assert isinstance(message, Unsubscription)
                self.there[service].discard(message.filter.text)
            self.history[service].append(set(self.there[service]))
            self.signs.answered(Answer("siena", service, last[message.filter.text]), now)


def made(*monitors: str) -> Signs:
    return Signs(NAME, "siena", {name: f"air-{name}" for name in monitors})


def settle(signs: Signs, road: Roadside, now: int) -> None:
    for _ in range(10):
        road.take(signs.requests(now), now)


def test_the_new_one_before_the_old_one_is_taken_back() -> None:
    signs = made("m1", "m2")
    road = Roadside(signs)
    for limit in (30, 50, 20):
        for name in ("m1", "m2"):
            signs.want(name, limit, 1000)
        settle(signs, road, 1000)
        for name in ("m1", "m2"):
            sign = signs.signs[name]
            assert (sign.shown, sign.done, sign.standing) == (limit, True, [limit + 4])
            assert road.there[f"air-{name}"] == {filter_of(limit + 4)}
    for states in road.history.values():
        assert all(states)
    assert signs.next_timeout() is None
    assert signs.requests(2000) == []


def test_who_does_not_answer_is_asked_again() -> None:
    signs = made("m1", "m2")
    road = Roadside(signs)
    for name in ("m1", "m2"):
        signs.want(name, 30, 0)
    road.take(signs.requests(0), 0, away=("air-m2",))
    assert (signs.signs["m1"].done, signs.signs["m2"].done) == (True, False)
    assert signs.requests(AGAIN - 1) == []
    assert signs.next_timeout() == AGAIN
    again = signs.requests(AGAIN)
    assert [from_event(event).to.text for event in again] == ["air-m2"]
    road.take(again, AGAIN)
    assert signs.signs["m2"].done


def test_a_refusal_is_shown_and_others_answers_are_none_of_ours() -> None:
    signs = made("m1")
    signs.want("m1", 30, 5)
    (event,) = signs.requests(5)
    assert event.identity is not None
    assert signs.answered(Answer("siena", "air-m1", ("other", event.identity[1])), 6) is None
    assert signs.answered(Answer("siena", "air-m9", event.identity), 6) is None
    sign = signs.answered(Answer("siena", "air-m1", event.identity, "refused: no radio"), 6)
    assert sign is not None
    assert (sign.problem, sign.shown) == ("refused: no radio", None)
    assert signs.answered(Answer("siena", "air-m1", event.identity), 7) is sign
    assert (sign.problem, sign.shown) == ("", 30)


@pytest.mark.parametrize("seed", range(30))
def test_in_the_end_only_the_limit_is_asked_for(seed: int) -> None:
    """Whatever is lost meanwhile, and whenever the limit changes or the office is started anew."""
    chance = random.Random(seed)
    signs, now = made("m1", "m2", "m3"), 0
    road = Roadside(signs)
    for _ in range(40):
        now += chance.choice([1, 300, AGAIN])
        if chance.random() < 0.4:
            signs.want(chance.choice(["m1", "m2", "m3"]), chance.choice([20, 30, 50]), now)
        if chance.random() < 0.1:
            fresh = made("m1", "m2", "m3")
            for name, sign in signs.signs.items():
                fresh.recall(name, sign.shown, sign.standing)
                if sign.wanted is not None:
                    fresh.want(name, sign.wanted, now)
            signs = road.signs = fresh
        road.take(signs.requests(now), now, tuple(one for one in road.there if chance.random() < 0.3))
    for step in range(20):
        now += AGAIN
        road.take(signs.requests(now), now)
        assert step < 19
        if all(sign.done for sign in signs.signs.values() if sign.wanted is not None):
            break
    for sign in signs.signs.values():
        if sign.wanted is not None:
            assert road.there[sign.service] == {filter_of(DEFAULT.least(sign.wanted))}


def test_a_monitor_that_has_lost_what_it_was_asked_is_asked_again() -> None:
    signs = made("m1", "m2")
    road = Roadside(signs)
    for name in ("m1", "m2"):
        signs.want(name, 30, 1000)
    settle(signs, road, 1000)
    sign = signs.signs["m1"]
    road.there["air-m1"].clear()
    assert not signs.seen("m1", road.there["air-m1"], 1000)  # looked at before it had answered
    assert not signs.seen("m2", road.there["air-m2"], 2000)
    assert signs.requests(3_600_000) == []
    assert signs.seen("m1", road.there["air-m1"], 2000)
    assert (sign.done, sign.problem) == (False, LOST)
    assert not signs.seen("m1", road.there["air-m1"], 3000)  # it is being asked
    settle(signs, road, 3000)
    assert (sign.done, sign.problem, road.there["air-m1"]) == (True, "", {filter_of(34)})
    # Also after a restart of the office, which knows nothing but that it was done.
    again = made("m1")
    again.recall("m1", 30, [34])
    again.want("m1", 30, 5000)
    assert again.seen("m1", set(), 5000)


def test_another_tariff_asks_for_another_speed() -> None:
    tariff = DEFAULT._replace(tolerance_kmh=5)
    signs = Signs(NAME, "siena", {"m1": "air-m1"}, tariff)
    road = Roadside(signs)
    road.there["air-m1"].add(filter_of(34))
    signs.recall("m1", 30, [34])
    signs.want("m1", 30, 0)
    settle(signs, road, 0)
    assert road.there["air-m1"] == {filter_of(36)}


TARIFFS = st.builds(
    lambda kmh, percent: DEFAULT._replace(tolerance_kmh=kmh, tolerance_percent=percent),
    st.integers(0, 20),
    st.integers(0, 20),
)


@given(TARIFFS, st.integers(5, 130), st.floats(0, 250))
def test_what_is_asked_for_is_all_that_can_be_an_offence(tariff: Tariff, limit: int, rate: float) -> None:
    least = tariff.least(limit)
    assert tariff.over(least, limit) == 1
    if tariff.over(rate, limit) > 0:
        assert rate >= least
    if least <= rate <= 100:
        assert tariff.over(rate, limit) > 0


def test_what_signs_show_is_told_to_vehicles_at_once_and_again() -> None:
    signs = Signs(NAME, "siena", {"m1": "air-m1", "m2": "air-m2"})
    zones = {"m1": 2, "m2": 0}
    assert signs.displays(zones, 1_000) == []  # nothing is shown yet
    signs.recall("m1", 30, [30])
    (event,) = signs.displays(zones, 1_000)
    assert (event.subject, dict(event.params)) == ("Sign", {"limit": 30, "zone": 2, "monitor": "m1"})
    assert signs.displays(zones, 1_000 + REMIND - 1) == []
    (again,) = signs.displays(zones, 1_000 + REMIND)  # for a monitor that was started anew
    assert again.identity != event.identity
    # A limit that is asked for is shown when the monitor has it, and not before.
    signs.want("m1", 20, 10_000)
    (request,) = signs.requests(10_000)
    assert signs.displays(zones, 10_000) == []
    assert request.identity is not None
    signs.answered(Answer("siena", "air-m1", request.identity), 10_010)
    (changed,) = signs.displays(zones, 10_010)
    assert changed["limit"] == 20
