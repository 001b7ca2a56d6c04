"""The short way to bytes gives the bytes of the long one, or none."""

import math
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import events

from vicinal import _encode_cpython, limits
from vicinal._cbor_cpython import dumps
from vicinal._encode_cpython import encode_simple
from vicinal.event import Event
from vicinal.proximity import Proximity
from vicinal.wire import _to_item, decode, encode

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
NUMBERS = st.one_of(
    st.integers(limits.INT_MIN, limits.INT_MAX),
    st.integers(-300, 300),
    st.sampled_from([n + d for n in (24, 256, 65536, 1 << 32) for d in (-1, 0)]),
)
REALS = st.one_of(
    st.floats(),
    st.floats(width=32),
    st.floats(width=16),
    st.sampled_from([65504.0, 65520.0, 2.0**-24, 2.0**-25, 3.4028235e38, 3.5e38, 1e-45, 5e-324, -0.0]),
)
VALUES = st.one_of(TEXT, st.binary(max_size=300), NUMBERS, REALS, st.booleans())
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
KNOWN = st.fixed_dictionaries(
    {},
    optional={
        "Priority": st.integers(-limits.MAX_PRIORITY, limits.MAX_PRIORITY),
        "Time": st.integers(0, 10**13),
        "Deadline": st.integers(0, 10**13),
        "Source": TEXT,
        "Session": TEXT,
    },
)


def long_way(event: Event) -> bytes:
    return dumps(_to_item(event))


@settings(max_examples=400)
@given(
    NAMES,
    st.dictionaries(NAMES, VALUES, max_size=12),
    KNOWN,
    st.dictionaries(NAMES.map(lambda name: f"x{name}"), VALUES, max_size=6),
    st.none() | st.tuples(st.text("aé€", min_size=1, max_size=20), st.integers(0, limits.INT_MAX)),
)
def test_of_any_event(subject: str, params: Any, known: Any, attrs: Any, identity: Any) -> None:
    event = Event(subject, params, {**attrs, **known}, *(identity or (None, None)))
    data = encode_simple(event)
    if data is None:
        assert len(params) > 11 or len(event.attrs) > 11 or len(long_way(event)) > limits.MAX_ITEMS
        return
    assert data == long_way(event) == encode(event)
    assert decode(data) == event


@given(events())
def test_of_usual_events(event: Event) -> None:
    assert encode_simple(event) in (None, long_way(event))


@settings(max_examples=1000)
@example(math.nan)
@example(math.inf)
@example(-math.inf)
@given(REALS)
def test_of_every_number(value: float) -> None:
    assert _encode_cpython._real(value) == dumps(value)


def test_what_is_not_simple_is_left_to_others() -> None:
    area = Proximity(1, False, 531000000, -62000000, 9999, 8888)
    for event in (
        Event("E", {"inner": Event("F")}),
        Event("E", {}, {"Proximity": area}),
        Event("E", {"data": bytes(limits.MAX_ITEMS)}),
        Event("E", {f"n{n}": n for n in range(12)}),
    ):
        assert encode_simple(event) is None
        assert decode(encode(event)) == event


def test_strangers_do_not_fill_the_memory() -> None:
    for n in range(3 * _encode_cpython._MAX_KEPT):
        event = Event(f"S{n}", {f"n{n}": n}, {f"a{n}": n, f"b{n}": n}, f"p{n}", n)
        assert encode_simple(event) == long_way(event)
    assert len(_encode_cpython._heads) <= _encode_cpython._MAX_KEPT
    assert len(_encode_cpython._orders) <= _encode_cpython._MAX_KEPT
