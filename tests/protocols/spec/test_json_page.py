"""The sentences of protocols/spec/json.md."""

import json

import pytest
from hypothesis import given
from spec_helpers import areas, spec
from strategies import arbitrary_events, events

from vicinal import json_form
from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.proximity import Proximity

NAN, INF = float("nan"), float("inf")


@spec("JSON-1", "JSON-2", "JSON-3", "JSON-10")
def test_json_form() -> None:
    event = Event("Speed", [("z", 57.5), ("a", 1), ("b", True), ("c", 2.0)], {"Priority": 3}, "car-7", 12)
    text = (
        '{"subject": "Speed", "params": {"z": 57.5, "a": 1, "b": true, "c": 2.0}, "attrs": {"Priority": 3}, '
        '"producer": "car-7", "seq": 12}'
    )
    assert json_form.dumps(event) == text
    assert json_form.loads(text) == event
    assert json_form.dumps(Event("a")) == '{"subject": "a", "params": {}}'
    assert json_form.loads('{"subject": "a"}') == Event("a")
    for bad in ("{}", "[]", '{"subject": "a", "more": 1}', '{"subject": "a", "params": []}'):
        with pytest.raises(LocalProtocolError):
            json_form.loads(bad)


@spec("JSON-4", "JSON-5", "JSON-6", "JSON-7", "JSON-11")
@given(arbitrary_events | events(), areas)
def test_json_round_trip(event: Event, area: Proximity) -> None:
    event = event.replace(attrs=[*event.attrs.items(), ("Proximity", area)])
    text = json_form.dumps(event)
    assert json_form.loads(text) == event
    assert json.loads(text, parse_constant=pytest.fail)["attrs"]["Proximity"] == str(area)


@spec("JSON-4", "JSON-6", "JSON-8")
@pytest.mark.parametrize(
    "value",
    ["null", "[1]", "{}", '{"a": 1}', '{"$bytes": "AA"}', '{"$bytes": "AB=="}', '{"$bytes": "AA==\\n"}',
     '{"$bytes": "-_8="}', '{"$bytes": "AA==", "a": 1}', '{"$event": 1}',
     '{"$float": "1.5"}', '{"$float": 1.5}', "NaN", "Infinity", "-Infinity"],
)  # fmt: skip
def test_json_refused_values(value: str) -> None:
    with pytest.raises(LocalProtocolError):
        json_form.loads(f'{{"subject": "a", "params": {{"x": {value}}}}}')


@spec("JSON-9")
@pytest.mark.parametrize("text", ['{"subject": "a", "subject": "a"}', '{"subject": "a", "params": {"x": 1, "x": 1}}'])
def test_json_keys_are_unique(text: str) -> None:
    with pytest.raises(LocalProtocolError, match="is given twice"):
        json_form.loads(text)


@spec("JSON-12")
def test_json_is_held_to_the_event_model() -> None:
    for text, match in (
        ('{"subject": ""}', "''"),
        ('{"subject": "a", "params": {"x": 9223372036854775808}}', "9223372036854775808"),
        ('{"subject": "a", "attrs": {"Priority": 40000}}', "40000"),
        ('{"subject": "a", "producer": "p"}', "'p'"),
        ('{"subject": "a", "params": {"x": {"$event": {"subject": 7}}}}', "7"),
    ):
        with pytest.raises(LocalProtocolError, match=match):
            json_form.loads(text)
