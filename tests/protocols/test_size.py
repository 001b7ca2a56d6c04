"""What an event takes at most is never less than what it takes, and refuses what the wire refuses."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import events

from vicinal import limits
from vicinal.errors import LimitError
from vicinal.event import Event
from vicinal.proximity import Proximity
from vicinal.size_cpython import at_most, check_size
from vicinal.wire import encode

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
VALUES = st.one_of(
    TEXT, st.binary(max_size=300), st.integers(limits.INT_MIN, limits.INT_MAX), st.floats(), st.booleans()
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=15)


@given(events())
def test_of_usual_events(event: Event) -> None:
    assert len(encode(event)) <= at_most(event)


@given(NAMES, st.dictionaries(NAMES, VALUES, max_size=60), st.dictionaries(NAMES, VALUES, max_size=20), NAMES)
def test_of_any_event(subject: str, params: dict[str, Any], attrs: dict[str, Any], producer: str) -> None:
    attrs = {f"x{name}"[:15]: value for name, value in attrs.items()}
    attrs |= {"Expires": 2**63 - 1, "Proximity": Proximity(1, False, 531000000, -62000000, 9999, 8888)}
    inner = Event(subject, params, attrs, producer, 2**63 - 1)
    for event in (inner, Event(subject, {"inner": inner})):
        with contextlib.suppress(LimitError):
            size = len(encode(event))
            assert size <= at_most(event)


@pytest.mark.parametrize(
    "event",
    [
        Event("E", {"data": bytes(70_000)}),
        Event("E", {"data": "é" * 40_000}),
        Event("E", {"data": bytes(65_000)}),
        Event("E", {"data": "x" * 4096}),
        Event("E"),
        Event("E", {"a": Event("F", {f"n{n}": Event("G", {"n": n}) for n in range(100)})}),
    ],
)
def test_refuses_what_the_wire_refuses(event: Event) -> None:
    found = []
    for check in (encode, check_size):
        try:
            check(event)
            found.append("")
        except LimitError as error:
            found.append(str(error))
    assert found[0] == found[1]


def test_too_many_items() -> None:
    """In a few thousand bytes, each of them an item."""
    most = limits.MAX_PARAMS
    inner = [Event("F", {f"{n}": True for n in range(most)}) for _ in range(limits.MAX_ITEMS // most)]
    event = Event("E", {f"n{n}": one for n, one in enumerate(inner)})
    with pytest.raises(LimitError):
        encode(event)
    with pytest.raises(LimitError):
        check_size(event)
