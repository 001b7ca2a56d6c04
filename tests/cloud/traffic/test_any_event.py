"""The pages under whatever an event can be: each of them answers, in JSON, and never because of one with a failure."""

import asyncio
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, unquote

import pytest
from cloud.traffic.world import LAT, LON, NOW, location, network, speed
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette

from vicinal.event import Event
from vicinal_cloud.broker.client import Delivery
from vicinal_cloud.traffic import Settings
from vicinal_cloud.traffic.api import make_app
from vicinal_cloud.traffic.config import Config
from vicinal_cloud.traffic.limits import Hours, Limits, Rule
from vicinal_cloud.traffic.live import Telling
from vicinal_cloud.traffic.office import Office
from vicinal_cloud.traffic.plain import dumps, plain
from vicinal_cloud.traffic.store import Retention, Store

INTEGERS = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.sampled_from([0, -1, 1 << 53, (1 << 53) + 1, 1 << 62, -(1 << 63), NOW, NOW - 10, 253402300800000]),
)
FLOATS = st.floats(allow_nan=True, allow_infinity=True)
VALUES = st.one_of(INTEGERS, FLOATS, st.booleans(), st.text(max_size=20), st.binary(max_size=20))
PARAMS = {
    "license_no": st.one_of(st.just("00D1234"), VALUES),
    "rate": st.one_of(st.just(57.0), VALUES),
    "lat": st.one_of(st.just(LAT), VALUES),
    "lon": st.one_of(st.just(LON), VALUES),
    "heading": VALUES,
    "braking": st.one_of(st.booleans(), VALUES),
    "raw": VALUES,
}
ATTRS = {
    "OriginProducer": st.one_of(st.just("p-car"), VALUES),
    "OriginSeq": VALUES,
    "Time": st.one_of(st.just(NOW), st.integers(0, (1 << 63) - 1)),
    "Trace": st.one_of(st.just(f"m1/air {NOW}"), st.just("m1/air " + "9" * 5000), VALUES),
    "More": VALUES,
}


@st.composite
def said(draw: Any) -> Event:
    """Of each subject what belongs to it, mostly, with any value."""
    subject = draw(st.sampled_from(["Speed", "Location"]))
    params = draw(st.fixed_dictionaries({}, optional=PARAMS))
    usual = {"license_no": "00D1234", "rate": 57.0} if subject == "Speed" else {"lat": LAT, "lon": LON}
    attrs = draw(st.fixed_dictionaries({}, optional=ATTRS))
    known = (
        {"OriginProducer": "p-car", "OriginSeq": draw(st.integers(1, 5)), "Time": NOW - 10}
        if draw(st.booleans())
        else {}
    )
    producer = draw(st.sampled_from(["m1.siena", "m9", "m1"]))
    return Event(subject, {**usual, **params}, {**known, **attrs}, producer, draw(st.integers(1, 1 << 62)))


class Clock:
    def now(self) -> int:
        return NOW


@contextmanager
def office() -> Iterator[Office]:
    """One that is connected to nothing: what comes is put into its hands."""
    store = Store()
    config = Config(
        "tc", network(), "tcp://127.0.0.1:1", None, "siena", "air-{monitor}", 216, "sqlite://", {}, None, Settings(),
        Retention(), {},
    )  # fmt: skip
    made = Office(config, store)
    made._client = Clock()  # type: ignore[assignment]
    try:
        yield made
    finally:
        store.close()


def none_allowed(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def read(text: str) -> Any:
    return json.loads(text, parse_constant=none_allowed)


async def get(app: Starlette, path: str) -> tuple[int, str]:
    """One request without a server around it, as there are many."""
    found: list[Any] = []
    before, _, query = path.partition("?")
    scope = {"type": "http", "method": "GET", "path": unquote(before), "query_string": query.encode(), "headers": []}

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        found.append(message)

    await app(scope, receive, send)
    return found[0]["status"], b"".join(one.get("body", b"") for one in found).decode()


def look_at_all(made: Office) -> None:
    paths = ["network", "state", "span", "limits", "cases", "cases.geojson", "events", "events?subject=Speed"]
    paths += ["events?after=0", "overlay", "quarantine", "accounts", "drivers/00D1234", f"at?time={NOW}", "at?time=0"]
    paths += [f"at?time={1 << 53}", f"at?time={'9' * 5000}", "cases/1", f"cases/{'9' * 30}"]
    for one in made.paths.latest(10):
        paths.append(f"events/{quote(one.vehicle, safe='')}/{plain(one.seq)}")

    async def look() -> None:
        app = make_app(made)
        for path in paths:
            status, text = await get(app, f"/api/{path}")
            assert status < 500, path
            read(text)
        assert (await get(app, "/api/cases.csv"))[0] == 200

    asyncio.run(look())
    read(dumps(Telling(made).news(NOW)))


@settings(max_examples=40, deadline=None)
@given(st.lists(said(), min_size=1, max_size=4))
def test_no_event_takes_a_page_down(events: list[Event]) -> None:
    with office() as made:
        for offset, event in enumerate(events):
            made.receive(Delivery(event, offset, (), NOW))
        made._save()
        look_at_all(made)


@pytest.mark.parametrize(
    "event",
    [
        location(LAT, LON, NOW, raw=b"\x01\x02"),
        location(LAT, LON, NOW, heading=math.nan),
        speed(math.nan, NOW),
        speed(40.0, 1 << 62),
        speed(40.0, (1 << 63) - 1),
    ],
)
def test_those_that_did(event: Event) -> None:
    with office() as made:
        made.receive(Delivery(event, 0, (), NOW))
        made._save()
        look_at_all(made)


def test_an_event_is_found_by_the_number_that_its_page_has() -> None:
    """Beyond what a browser knows of integers, too."""
    with office() as made:
        made.receive(Delivery(speed(57.0, NOW, vehicle="p", seq=(1 << 62) + 1), 0, (), NOW))
        app = make_app(made)
        (one,) = json.loads(asyncio.run(get(app, "/api/events"))[1])["events"]
        assert one["seq"] == str((1 << 62) + 1)
        assert len(json.loads(asyncio.run(get(app, f"/api/events/p/{one['seq']}"))[1])["paths"]) == 1


@given(st.recursive(st.one_of(st.none(), VALUES), lambda one: st.lists(one) | st.dictionaries(st.text(), one)))
def test_any_value_is_json(value: Any) -> None:
    assert read(dumps(value)) == plain(value)
    assert plain(plain(value)) == plain(value)


def test_what_json_can_say_is_said_as_it_is() -> None:
    value = {"a": [1, -1.5, True, None, "é"], "b": 1 << 53}
    assert plain(value) == value
    assert plain([b"\x01\xff", math.nan, -math.inf, 1 << 62]) == ["0x01ff", "NaN", "-Infinity", str(1 << 62)]


@given(INTEGERS)
def test_a_limit_holds_at_any_time(at: int) -> None:
    limits = Limits(network().timezone)
    limits.add(Rule("a", 50, -(1 << 63)))
    limits.add(Rule("a", 30, -(1 << 63), Hours.parse("07:30-16:30")))
    found = limits.in_force("a", at)
    assert found is not None
    limits.next_change("a", at)
