"""The sentences of protocols/spec/event.md."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from spec_helpers import spec
from strategies import arbitrary_events

from vicinal import wire
from vicinal.errors import LimitError, LocalProtocolError
from vicinal.event import Event
from vicinal.proximity import Proximity

NAN, INF = float("nan"), float("inf")


@spec("EVENT-1", "EVENT-3", "EVENT-4")
def test_event_parts() -> None:
    event = Event("Speed", [("plate", "D1"), ("rate", 57.5)], {"Priority": 3}, "car-7", 12)
    assert (event.subject, event["rate"], event[1], event[0], event.name_at(1)) == ("Speed", 57.5, 57.5, "D1", "rate")
    assert (event.attrs["Priority"], event.identity, Event("a").identity) == (3, ("car-7", 12), None)
    assert list(event.params) == ["plate", "rate"]


@spec("EVENT-2", "EVENT-5", "EVENT-13")
@pytest.mark.parametrize(
    ("make", "most"),
    [
        (lambda name: Event(name), 255),
        (lambda name: Event("a", {name: 1}), 255),
        (lambda name: Event("a", (), {name: 1}), 255),
        (lambda name: Event("a", (), (), name, 1), 64),
    ],
    ids=["subject", "parameter", "attribute", "producer"],
)
def test_event_names(make: Callable[[Any], Event], most: int) -> None:
    for good in ("x" * most, "é" * (most // 2), "\0", " "):
        assert wire.decode(wire.encode(make(good))) == make(good)
    for bad in ("x" * (most + 1), "é" * (most // 2 + 1)):
        with pytest.raises(LimitError, match=f"the limit is {most} bytes"):
            make(bad)
    for bad in ("", b"x", 5):
        with pytest.raises(LocalProtocolError, match="want a non-empty str"):
            make(bad)


@spec("EVENT-6")
def test_event_names_are_unique() -> None:
    for what in ("params", "attrs"):
        with pytest.raises(LocalProtocolError, match="'x' is given twice"):
            Event("a", **{what: [("x", 1), ("x", 2)]})
    assert Event("a", {"x": 1}, {"x": 2}).attrs == {"x": 2}


@spec("EVENT-7")
def test_event_names_are_case_sensitive() -> None:
    event = Event("a", {"x": 1, "X": 2})
    assert (event["x"], event["X"], "Y" in event) == (1, 2, False)
    assert Event("a") != Event("A")
    assert Event("a", (), {"priority": "any"}).attrs == {"priority": "any"}


@spec("EVENT-8")
def test_event_counts() -> None:
    for what, most in (("params", 256), ("attrs", 64)):
        good = Event("a", **{what: [(f"n{i}", i) for i in range(most)]})  # type: ignore[arg-type]
        assert wire.decode(wire.encode(good)) == good
        with pytest.raises(LimitError, match=f"{most + 1}, the limit is {most}"):
            Event("a", **{what: [(f"n{i}", i) for i in range(most + 1)]})  # type: ignore[arg-type]


@spec("EVENT-9")
@pytest.mark.parametrize("value", [None, [1], (1,), {"a": 1}, 1j, bytearray(b"a"), object()])
def test_event_values(value: object) -> None:
    for good in ("", -(1 << 63), (1 << 63) - 1, 0.5, INF, True, b"", Event("b")):
        assert wire.decode(wire.encode(Event("a", {"x": good})))["x"] == good
    with pytest.raises(LocalProtocolError, match=r"'x' is a .*, want str, int, float, bool, bytes or Event"):
        Event("a", {"x": value})
    for bad in (1 << 63, -(1 << 63) - 1):
        with pytest.raises(LimitError, match=r"2\^63"):
            Event("a", {"x": bad})


@spec("EVENT-10")
@given(st.characters(categories=["Cs"]), st.text(max_size=3))
def test_event_strings_have_a_utf8_form(surrogate: str, text: str) -> None:
    for parts in (
        (text + surrogate,),
        ("a", {"x": surrogate + text}),
        ("a", {surrogate: 1}),
        ("a", (), (), surrogate, 1),
    ):
        with pytest.raises(LocalProtocolError, match="no UTF-8 form"):
            Event(*parts)  # type: ignore[arg-type]


@spec("EVENT-11")
def test_event_nesting() -> None:
    event = Event("1")
    for depth in range(2, 7):
        event = Event(str(depth), {"e": event})
    assert wire.decode(wire.encode(event)) == event
    with pytest.raises(LimitError, match="7, the limit is 6"):
        Event("7", {"e": event})
    with pytest.raises(LimitError, match="7, the limit is 6"):
        Event("7", (), {"e": event})


@spec("EVENT-12", "EVENT-14")
def test_event_identity() -> None:
    for parts in (("p", None), (None, 1)):
        with pytest.raises(LocalProtocolError, match="both producer and seq"):
            Event("a", (), (), *parts)
    for seq in (0, (1 << 63) - 1):
        assert Event("a", (), (), "p", seq).identity == ("p", seq)
    for bad in (-1, 1 << 63):
        with pytest.raises(LimitError, match=r"0 .. 2\^63-1"):
            Event("a", (), (), "p", bad)
    for bad in (1.0, True, "1"):
        with pytest.raises(LocalProtocolError, match="want an int"):
            Event("a", (), (), "p", bad)  # type: ignore[arg-type]


@spec("EVENT-15")
def test_event_is_stamped_once() -> None:
    stamped = Event("a").stamp("p", 1)
    assert stamped.identity == ("p", 1)
    with pytest.raises(LocalProtocolError, match="already stamped 'p', 1"):
        stamped.stamp("q", 2)


@spec("EVENT-16", "EVENT-17", "EVENT-18", "EVENT-19", "EVENT-20", "EVENT-21")
@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("Priority", [-32767, 0, 32767], [-32768, 32768, 1.0, True, "1"]),
        ("Time", [0, (1 << 63) - 1], [-1, 1.0, "now"]),
        ("Deadline", [0, (1 << 63) - 1], [-1, 1.0, "now"]),
        ("Expires", [0, (1 << 63) - 1], [-1, 1.0, "now"]),
        ("Source", ["", "ES1"], [1, b"ES1"]),
        ("Session", ["", "s-1"], [1, b"s-1", True]),
        ("Proximity", [Proximity.circle(0, 0, 1), "0, 0, 0, 0, 1"], [1, "here", b"", Event("a")]),
    ],
)
def test_event_known_attributes(name: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        event = Event("a", (), {name: value})
        assert wire.decode(wire.encode(event)) == event
    for value in bad:
        with pytest.raises(LocalProtocolError):
            Event("a", (), {name: value})
    for expires in (4, 5):
        with pytest.raises(LocalProtocolError, match=f"'Expires' {expires} is not after 'Time' 5"):
            Event("a", (), {"Time": 5, "Expires": expires})
    assert Event("a", (), {"Time": 5, "Expires": 6, "Deadline": 1}).attrs["Expires"] == 6


@spec("EVENT-22")
@given(arbitrary_events)
def test_event_unknown_attributes_are_carried(event: Event) -> None:
    unknown = [(f"${name}", value) for name, value in event.params.items()]
    carried = Event("a", (), unknown)
    assert wire.decode(wire.encode(carried)) == carried


@spec("EVENT-23", "EVENT-24", "WIRE-10")
@given(arbitrary_events, arbitrary_events)
@example(Event("a", {"x": 1}), Event("a", {"x": 1.0}))
@example(Event("a", {"x": 1}), Event("a", {"x": True}))
@example(Event("a", {"x": 0.0}), Event("a", {"x": -0.0}))
@example(Event("a", {"x": NAN}), Event("a", {"x": -NAN}))
@example(Event("a", [("x", 1), ("y", 2)]), Event("a", [("y", 2), ("x", 1)]))
@example(Event("a", (), [("x", 1), ("y", 2)]), Event("a", (), [("y", 2), ("x", 1)]))
@example(Event("a", {"x": Event("b", {"y": 1})}), Event("a", {"x": Event("b", {"y": 1.0})}))
@example(Event("a"), Event("a", (), (), "p", 1))
def test_event_equality_is_that_of_bytes(one: Event, other: Event) -> None:
    assert (one == other) is (wire.encode(one) == wire.encode(other))
    assert one == one.replace()
    assert one != other or hash(one) == hash(other)
