"""What holds for every mapping, filter and event (spec/mapping.md): nothing that matches is lost on the way."""

import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from protocols.mapping.mapping_cases import SCALES, UNITS, mapping
from strategies import (
    COLUMNS,
    INTEGERS,
    REALS,
    Grammar,
    Seeded,
    any_numbers,
    cases,
    make_event,
    numbers,
    seeds,
    value_text,
)

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.mapping import _exact as exact
from vicinal.mapping._convert import Conversion
from vicinal.mapping._exact import BITS, parse_ratio
from vicinal.mapping.mapping import INWARD, OUTWARD, Mapping, Unmappable
from vicinal.mapping.units import affine, between, known


def law(seed: int, counted: "Counter[str]") -> None:
    source = Seeded(seed)
    found, rows = mapping(source)
    columns = {**COLUMNS, "v": source.one("sid"), "w": "s"}
    for _ in range(6):
        condition = Filter(Grammar(source, columns, depth=2).condition())
        for direction, along in ((OUTWARD, found.inward), (INWARD, found.outward)):
            mapped = found.map_filter(condition, direction)
            assert bool(mapped.refusal) == (mapped.text == "FALSE")
            counted["exact" if mapped.exact else "wider"] += 1
            for _ in range(6):
                event = make_event(source, columns)
                try:
                    after = along(event)
                except Unmappable:
                    continue
                wanted, got = condition.matches(after), mapped.filter.matches(event)
                counted["asked"] += 1
                counted["matched"] += wanted
                assert got or not wanted, f"lost: {condition} as {mapped!r} by {rows} of {event} which is {after}"
                if mapped.exact:
                    assert wanted or not got, f"gained: {condition} as {mapped!r} by {rows} of {event}, {after}"


@pytest.mark.spec("EMAP-19", "EMAP-20", "EMAP-21", "EMAP-22")
@cases(300)
@given(seeds)
def test_a_mapped_filter_is_never_narrower_and_exact_where_it_says_so(seed: int) -> None:
    law(seed, Counter())


def test_the_law_is_asked_of_something() -> None:
    counted: Counter[str] = Counter()
    for seed in range(60):
        law(seed, counted)
    assert counted["asked"] > 1000
    assert counted["matched"] > 150
    assert counted["exact"] > 300
    assert counted["wider"] > 15


affines = st.one_of(
    st.sampled_from([between(*pair) for pair in UNITS]),
    st.builds(
        lambda scale, offset: affine(parse_ratio(scale) or (1, 1), parse_ratio(offset) or (0, 1)),
        st.sampled_from(SCALES),
        st.sampled_from([0, 1, "-273.15", "1/3"]),
    ),
)
conversions = st.builds(
    Conversion,
    st.sampled_from(("int", "float")),
    st.sampled_from(("int", "float")),
    affines,
    st.sampled_from(("nearest", "down", "up")),
)


def applied(conversion: Conversion, value: Any) -> Any:
    try:
        return conversion.apply(value)
    except Unmappable:
        return None


def neighbours(value: Any) -> list[Any]:
    if isinstance(value, int):
        return [number for number in (value - 1, value, value + 1) if -(1 << 63) <= number < 1 << 63]
    return [math.nextafter(value, -math.inf), value, math.nextafter(value, math.inf)]


@pytest.mark.spec("EMAP-21", "EMAP-22")
@cases(500)
@given(
    conversions,
    st.sampled_from(("=", "<>", "<", "<=", ">", ">=")),
    numbers | st.sampled_from(INTEGERS + REALS),
    st.data(),
)
def test_a_bound_is_where_it_says(conversion: Conversion, op: str, literal: Any, data: Any) -> None:
    """Asked of the values next to the bound, where a rounding the wrong way would show."""
    way = _way(conversion)
    condition = Filter(f"subject = 'e' AND rate {op} {literal!r}")
    mapped = way.map_filter(condition, OUTWARD)
    probes: list[Any] = [data.draw(any_numbers)]
    back = applied(conversion.back(), literal)
    for start in [back] if back is not None else []:
        probes += neighbours(start) + (neighbours(round(start)) if math.isfinite(start) and abs(start) < 1e18 else [])
    for word in mapped.text.replace("(", " ").replace(")", " ").split():
        number = parse_ratio(word)
        if number is not None:
            probes += neighbours(int(word) if number[1] == 1 and word.lstrip("-").isdigit() else float(word))
    for value in probes:
        event = Event("e", {"rate": value})
        try:
            wanted = condition.matches(way.inward(event))
        except Unmappable:
            continue
        got = mapped.filter.matches(event)
        assert got or not wanted, (mapped, event, way.inward(event))
        if mapped.exact:
            assert wanted or not got, (mapped, event, way.inward(event))


def _way(conversion: Conversion) -> Mapping:
    """Inward it does what the conversion does."""
    from vicinal.mapping._rule import Rule, Way

    inward = Way("e", "e", {"rate": ("rate", conversion)}, [], {}, [], [])
    return Mapping([Rule("e", "e", inward, inward, [])])


@pytest.mark.spec("EMAP-9", "EMAP-10")
@cases(300)
@given(conversions, numbers)
@example(Conversion("float", "int", (1, 0, 2)), 5)
@example(Conversion("float", "int", (1, 0, 2)), 3)
def test_a_number_is_rounded_once(conversion: Conversion, value: Any) -> None:
    """Against fractions, which are exact."""
    got = applied(conversion, value)
    if conversion.source == "int" and isinstance(value, float):
        assert got is None
        return
    true = (Fraction(value) * conversion.n + conversion.m) / conversion.d
    if conversion.target == "int":
        rounded = {"nearest": round, "down": math.floor, "up": math.ceil}[conversion.rounding](true)
        assert got == (rounded if -(1 << 63) <= rounded < 1 << 63 else None)
        return
    try:
        assert got == true.numerator / true.denominator
    except OverflowError:
        assert got is None


@pytest.mark.spec("EMAP-9")
@cases(300)
@given(conversions, numbers, numbers)
def test_order_is_kept_or_turned_round(conversion: Conversion, a: Any, b: Any) -> None:
    low, high = applied(conversion, min(a, b)), applied(conversion, max(a, b))
    if low is not None and high is not None:
        assert (high <= low) if conversion.falls else (low <= high)


@pytest.mark.spec("EMAP-13")
@cases(300)
@given(st.sampled_from(UNITS + [pair[::-1] for pair in UNITS]), st.floats(-1e12, 1e12))
def test_a_unit_there_and_back_is_the_same_to_the_last_bits(pair: list[str], value: float) -> None:
    found = Mapping.from_tables([{"subject": "e", "unit": {"x": pair}}])
    there = found.outward(Event("e", {"x": value}))["x"]
    again = found.inward(Event("e", {"x": there}))["x"]
    n, _, d = between(*pair)
    # One rounding there, seen from here, and one here.
    assert isinstance(there, float)
    assert isinstance(again, float)
    assert abs(again - value) <= math.ulp(value) + math.ulp(there) * d / abs(n)


@cases(300)
@given(st.integers(-(1 << 1100), 1 << 1100), st.integers(1, 1 << 1100), st.integers(-1200, 1200))
@example(1, 1 << 1075, 0)
@example((1 << 53) * 2 + 1, 2, 0)
@example((1 << 54) - 1, 1, 970)
@example(3, 1 << 1075, 0)
def test_floats_by_hand_are_the_machines(n: int, d: int, shift: int) -> None:
    """What a device computes with integers."""
    n, d = (n << shift, d) if shift >= 0 else (n, d << -shift)
    try:
        wanted = n / d
    except OverflowError:
        wanted = None
    assert exact.nearest_by_hand(n, d) == wanted
    down = exact.floor_parts(n, d)
    if down is None:
        assert Fraction(n, d) < -Fraction(math.nextafter(math.inf, 0))
    else:
        value = exact.value_of(down)
        assert Fraction(value) <= Fraction(n, d)
        assert value == math.nextafter(math.inf, 0) or Fraction(math.nextafter(value, math.inf)) > Fraction(n, d)


@cases(300)
@given(st.floats(allow_nan=False, allow_infinity=False))
@example(0.0)
@example(5e-324)
@example(-5e-324)
@example(2.0**-1022)
@example(-(2.0**-1022))
@example(1.0)
@example(-1.0)
def test_parts_of_a_float(value: float) -> None:
    found = exact.parts(value)
    assert exact.value_of(found) == value
    assert Fraction(*exact.ratio_of(found)) == Fraction(value)
    assert abs(found[0]) < 1 << BITS
    if value != -math.nextafter(math.inf, 0):
        assert exact.value_of(exact.before(found)) == math.nextafter(value, -math.inf)


@pytest.mark.spec("EMAP-11")
def test_units_are_what_they_are() -> None:
    """From other sources than the table: definitions that tie two of its lines."""
    for here, there, value, wanted in [
        ("mph", "km/h", 1, Fraction(1609344, 1000000)),
        ("degF", "degC", 212, Fraction(100)),
        ("degF", "degC", -40, Fraction(-40)),
        ("degC", "K", 0, Fraction(27315, 100)),
        ("kn", "km/h", 1, Fraction(1852, 1000)),
        ("mi", "ft", 1, Fraction(5280)),
        ("mi", "yd", 1, Fraction(1760)),
        ("lb", "oz", 1, Fraction(16)),
        ("bar", "psi", 1, Fraction(100000 * 254 * 254, 10**8) / (Fraction(45359237, 10**8) * Fraction(980665, 10**5))),
        ("deg", "1e-7deg", 1, Fraction(10**7)),
        ("d", "ms", 1, Fraction(86_400_000)),
        ("gal_us", "l", 1, 231 * Fraction(254, 1000) ** 3 / Fraction(1)),
        ("kWh", "J", 1, Fraction(3_600_000)),
        ("lbf.ft", "Nm", 1, Fraction(45359237, 10**8) * Fraction(980665, 10**5) * Fraction(3048, 10**4)),
        ("PS", "W", 1, 75 * Fraction(980665, 10**5)),
        ("rpm", "Hz", 60, Fraction(1)),
    ]:
        n, m, d = between(here, there)
        assert (Fraction(value) * n + m) / d == wanted, (here, there)
    n, m, d = between("rad", "deg")
    assert n / d == math.degrees(1)
    for name, (quantity, factor, _) in known().items():
        assert factor[0] > 0, name
        assert quantity


TEXTS = ["5", "05", "5.0", "0", "0.0", "-0.0", "-0", "1e5", "100000.0", "true", "false", "True", "a", "", "é"]
PLAIN: dict[str, list[Any]] = {
    "str": TEXTS,
    "int": [0, 1, 2, 5, -5],
    "float": [0.0, -0.0, 5.0, 5, 100000.0, -2.5, math.inf, math.nan, 0],
    "bool": [True, False],
    "bytes": [text.encode() for text in TEXTS] + [b"\xff"],
}
PAIRS = [("int", "str"), ("float", "str"), ("bool", "int"), ("bool", "str"), ("str", "bytes"), ("str", "str")]


@pytest.mark.spec("EMAP-20", "EMAP-22", "EMAP-12")
@pytest.mark.parametrize("pair", PAIRS + [pair[::-1] for pair in PAIRS], ids="-".join)
def test_conditions_on_texts_of_values(pair: tuple[str, str]) -> None:
    """All values against all conditions: the values are few, and lie where two texts are one number."""
    found = Mapping.from_tables([{"subject": "e", "retype": {"x": list(pair)}}])
    literals = [value for kind in PLAIN.values() for value in kind if value == value and value != math.inf]
    conditions = [f"x {op} {value_text(value)}" for op in ("=", "<>", "<", ">=") for value in literals]
    conditions += [
        f"x {word} ({value_text(a)}, {value_text(b)})" for word in ("IN", "NOT IN") for a, b in pairwise(literals)
    ]
    conditions += ["x LIKE '5%'", "x NOT LIKE '%.0'", "x LIKE 'true'", "x IS NULL", "x IS NOT NULL", "NOT x", "x = y"]
    events = [Event("e", {"x": value, "y": "a"}) for value in PLAIN[pair[0]]]
    for text in conditions:
        condition = Filter(f"subject = 'e' AND {text}")
        mapped = found.map_filter(condition, INWARD)
        for event in events:
            try:
                wanted = condition.matches(found.outward(event))
            except Unmappable:
                continue
            got = mapped.filter.matches(event)
            assert got or not wanted, (text, mapped, event)
            if mapped.exact:
                assert wanted or not got, (text, mapped, event)
