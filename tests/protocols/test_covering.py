"""Covering and overlapping: never wrong, and right both ways where the design promises it.

Brute force decides what is true: a constraint is the set of values of a domain that it accepts, as bits of an
integer, so that `a` covers `b` when no bit of b is outside a. The domains hold a counter-example whenever there is one
at all: numbers between and beyond all constants, more of them than a filter excludes; strings with letters between and
beyond those of the constants, long enough for a prefix, a piece and a suffix with a stranger between them.
"""

from collections.abc import Callable, Iterable
from functools import cache
from itertools import product
from typing import Any

import pytest
from geographiclib.geodesic import Geodesic
from geographiclib.geodesicline import GeodesicLine
from hypothesis import given
from hypothesis import strategies as st
from protocols.evaluators.reference import like
from strategies import Seeded, batch, conjunctions, events, meetings, seeds

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.filter._witness import counter_example
from vicinal.proximity import distance

MISSING = None
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@cache
def parsed(text: str) -> Filter:
    return Filter(text)


def check(a: str, b: str, truly: bool) -> None:
    """`covers` must say what is true, and `counter_example` must show why not."""
    f, g = parsed(a), parsed(b)
    assert f.covers(g) is truly, f"{a}  covers  {b}"
    if not truly:
        shows_why_not(f, g)


def shows_why_not(f: Filter, g: Filter) -> None:
    event = counter_example(f, g)
    assert event is not None, f"no event that {g} matches and {f} does not"
    assert g.matches(event)
    assert not f.matches(event)


def words(letters: str, most: int) -> list[str]:
    return ["".join(chars) for size in range(most + 1) for chars in product(letters, repeat=size)]


class Domain:
    """Values, and the constraints on `x` as the bits of the values that they accept."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values
        self.bits: dict[str, int] = {}

    def add(self, text: str, accepts: Callable[[Any], bool]) -> None:
        self.bits[text] = sum(1 << i for i, value in enumerate(self.values) if accepts(value))

    def of(self, texts: Iterable[str]) -> int:
        found = (1 << len(self.values)) - 1
        for text in texts:
            found &= self.bits[text]
        return found

    def covers(self, a: Iterable[str], b: Iterable[str]) -> bool:
        return not self.of(b) & ~self.of(a)


def string_domain(domain: Domain, constants: list[str], negated: bool = True) -> Domain:
    """All operators on strings; what is no string is accepted by none of them."""
    for word in constants:
        for op, holds in OPERATORS.items():
            domain.add(f"x {op} '{word}'", lambda v, w=word, h=holds: isinstance(v, str) and h(v, w))  # type: ignore[misc]
        shapes: dict[str, Callable[[str, str], bool]] = {
            f"{word}%": str.startswith,
            f"%{word}": str.endswith,
            f"%{word}%": str.__contains__,
        }
        for pattern, test in shapes.items():
            domain.add(f"x LIKE '{pattern}'", lambda v, w=word, t=test: isinstance(v, str) and t(v, w))  # type: ignore[misc]
            if negated:
                domain.add(f"x NOT LIKE '{pattern}'", lambda v, w=word, t=test: isinstance(v, str) and not t(v, w))  # type: ignore[misc]
    return domain


class TestSiena:
    """facts 3.2: the one line of the table that is wrong in SIENA's own code, and those that are too timid."""

    def test_an_upper_bound_does_not_cover_a_prefix_of_itself(self) -> None:
        assert not Filter("x <= 'abc'").covers(Filter("x LIKE 'ab%'"))
        assert Filter("x LIKE 'ab%'").matches(Event("e", {"x": "abz"}))
        assert not Filter("x <= 'abc'").matches(Event("e", {"x": "abz"}))

    def test_an_upper_bound_covers_a_prefix_below_it(self) -> None:
        assert Filter("x <= 'b'").covers(Filter("x LIKE 'ab%'"))
        assert Filter("x < 'ac'").covers(Filter("x LIKE 'ab%'"))
        assert not Filter("x <= 'ab'").covers(Filter("x LIKE 'ab%'"))

    def test_a_lower_bound_covers_the_prefix_that_equals_it(self) -> None:
        assert Filter("x >= 'ab'").covers(Filter("x LIKE 'ab%'"))
        assert not Filter("x > 'ab'").covers(Filter("x LIKE 'ab%'"))

    def test_at_most_covers_less_than_the_same(self) -> None:
        assert Filter("x <= 5").covers(Filter("x < 5"))
        assert not Filter("x < 5").covers(Filter("x <= 5"))


@pytest.mark.parametrize("first", ["", "b", "d", "f"])
def test_all_pairs_of_string_operators(first: str) -> None:
    """Constants over two letters up to length 3, with a third letter up to length 2 and in some of 3. The domain's
    other letters lie before, between and after them."""
    domain = _three_letters()
    mine = [text for text in domain.bits if text.split("'")[1].strip("%")[:1] == first]
    for a in mine:
        bits = domain.bits[a]
        for b, other in domain.bits.items():
            assert parsed(a).covers(parsed(b)) is (not other & ~bits), f"{a}  covers  {b}"


@cache
def _three_letters() -> Domain:
    constants = dict.fromkeys([*words("bd", 3), *words("bdf", 2), "bdf", "dbf", "fdb", "fbf", "dff"])
    return string_domain(Domain(words("abcdefg", 4)), list(constants), negated=False)


@cache
def _two_letters() -> Domain:
    return string_domain(
        Domain([*words("abcde", 6), "\U0010ffff", 1, True, b"", MISSING]), ["", "b", "d", "bd", "db", "bb"]
    )


@cache
def _short() -> Domain:
    return string_domain(Domain([*words("abcde", 6), 1, MISSING]), ["", "b", "d"])


@given(seeds)
def test_conjunctions_of_two_string_constraints(seed: int) -> None:
    _random_conjunctions(_two_letters(), seed, 2)


@given(seeds)
def test_conjunctions_of_three_string_constraints(seed: int) -> None:
    _random_conjunctions(_short(), seed, 3)


def _random_conjunctions(domain: Domain, seed: int, most: int, times: int = 10) -> None:
    one = Seeded(seed).one
    texts = list(domain.bits)
    for _ in range(times):
        b = [one(texts) for _ in range(one(range(1, most + 1)))]
        a = [one(texts) for _ in range(one((1, 1, 2)))]
        check(" AND ".join(a), " AND ".join(b), domain.covers(a, b))
        overlap = domain.of(a) & domain.of(b) != 0
        if len(a) == 1:
            assert parsed(a[0]).overlaps(parsed(" AND ".join(b))) is overlap, (a, b)
        else:
            assert parsed(" AND ".join(a)).overlaps(parsed(" AND ".join(b))) or not overlap, (a, b)


def test_all_pairs_of_short_patterns() -> None:
    """Patterns of up to three signs over two letters, % and _; a stranger among the letters of the texts."""
    patterns = words("ab%_", 3)
    domain = Domain(words("abc", 7))
    for pattern in patterns:
        domain.add(f"x LIKE '{pattern}'", lambda v, p=pattern: like(p, None, v))  # type: ignore[misc]
    for a, bits in domain.bits.items():
        for b, other in domain.bits.items():
            assert parsed(a).covers(parsed(b)) is (not other & ~bits), f"{a}  covers  {b}"


@cache
def _mixed() -> Domain:
    """Every kind of value, every kind of constraint."""
    numbers = [n / 4 for n in range(-6, 15)] + [0, 1, 2, float("inf"), float("-inf")]
    others = ["a", "b", "", "c", True, False, b"", b"a", b"b", MISSING, float("nan"), Event("n")]
    domain = Domain(numbers + others)

    def number(value: Any) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value

    for constant in (0, 1, 1.0, 1.5, 2):
        for op, holds in OPERATORS.items():
            domain.add(f"x {op} {constant}", lambda v, c=constant, h=holds: number(v) and h(v, c))  # type: ignore[misc]
            domain.add(f"NOT x {op} {constant}", lambda v, c=constant, h=holds: number(v) and not h(v, c))  # type: ignore[misc]
    for flag in (True, False):
        domain.add(f"x = {flag}", lambda v, f=flag: v is f)  # type: ignore[misc]
        domain.add(f"x <> {flag}", lambda v, f=flag: isinstance(v, bool) and v is not f)  # type: ignore[misc]
        domain.add(f"x < {flag}", lambda v: False)
    for blob in (b"", b"a"):
        domain.add(f"x = X'{blob.hex()}'", lambda v, b=blob: isinstance(v, bytes) and v == b)  # type: ignore[misc]
        domain.add(f"x <> X'{blob.hex()}'", lambda v, b=blob: isinstance(v, bytes) and v != b)  # type: ignore[misc]
        domain.add(f"x >= X'{blob.hex()}'", lambda v: False)
    domain.add("x = 'a'", lambda v: v == "a")
    domain.add("x <> 'a'", lambda v: isinstance(v, str) and v != "a")
    domain.add("x LIKE '%'", lambda v: isinstance(v, str))
    domain.add("x NOT LIKE '%'", lambda v: False)
    domain.add("x IS NULL", lambda v: v is MISSING)
    domain.add("x IS NOT NULL", lambda v: v is not MISSING)
    domain.add("x IN (1, 2)", lambda v: number(v) and v in (1, 2))
    domain.add("x NOT IN (1, 2)", lambda v: number(v) and v not in (1, 2))
    domain.add("x IN (1, 'a', TRUE)", lambda v: v is True or v == "a" or (number(v) and v == 1))
    domain.add("x NOT IN (1, 'a')", lambda v: False)
    domain.add("x IN ('a', 'b')", lambda v: isinstance(v, str) and v in "ab" and v != "")
    domain.add("x NOT IN ('a', 'b')", lambda v: isinstance(v, str) and v not in ("a", "b"))
    domain.add("x BETWEEN 0 AND 1", lambda v: number(v) and 0 <= v <= 1)
    return domain


def test_the_domain_says_what_the_matcher_says() -> None:
    """A brute force that asked another question would prove nothing."""
    for domain in (_mixed(), _short()):
        for text, bits in domain.bits.items():
            for i, value in enumerate(domain.values[:200]):
                event = Event("e", {} if value is MISSING else {"x": value})
                assert parsed(text).matches(event) is bool(bits >> i & 1), (text, value)


def test_all_pairs_of_operators_of_all_kinds() -> None:
    domain = _mixed()
    for a, bits in domain.bits.items():
        for b, other in domain.bits.items():
            check(a, b, not other & ~bits)
            assert parsed(a).overlaps(parsed(b)) is (bits & other != 0), f"{a}  overlaps  {b}"


@given(seeds)
def test_conjunctions_of_constraints_of_all_kinds(seed: int) -> None:
    _random_conjunctions(_mixed(), seed, 4)


@given(seeds)
def test_conjunctions_over_three_names(seed: int) -> None:
    """`a` covers `b` when b has no event at all, or when each name's values under b lie in those under a."""
    one = Seeded(seed).one
    domain = _mixed()
    texts = list(domain.bits)
    names = {"x": "x", "y": "`y y`", "z": "$q"}
    for _ in range(10):
        a = [(one("xyz"), one(texts)) for _ in range(one((1, 1, 2)))]
        b = [(one("xyz"), one(texts)) for _ in range(one((1, 2, 3, 4)))]
        of_a = {name: domain.of(text for own, text in a if own == name) for name in names}
        of_b = {name: domain.of(text for own, text in b if own == name) for name in names}
        truly = not all(of_b.values()) or all(not of_b[name] & ~of_a[name] for name in names)
        shown = [" AND ".join(text.replace("x ", names[own] + " ", 1) for own, text in side) for side in (a, b)]
        check(shown[0], shown[1], truly)


def sound(a: str, b: str, some: list[Event], search: bool = False) -> None:
    """`search` looks for a counter-example even where there should be none, which tries thousands of events."""
    f, g = Filter(a), Filter(b)
    covers, back, overlaps = f.covers(g), g.covers(f), f.overlaps(g)
    for event in some:
        mine, other = f.matches(event), g.matches(event)
        assert mine or not (covers and other), f"{a}  covers  {b}, but not {event}"
        assert other or not (back and mine), f"{b}  covers  {a}, but not {event}"
        assert overlaps or not (mine and other), f"{a}  does not overlap  {b}, but for {event}"
    found = counter_example(f, g) if search or not covers else None
    if found is not None:
        assert not covers, f"{a}  covers  {b}, but not {found}"
        assert g.matches(found)
        assert not f.matches(found)


@given(meetings(count=2))
def test_covering_is_sound(drawn: tuple[str, str, list[Event]]) -> None:
    sound(*drawn, search=True)


@given(seeds)
def test_covering_is_sound_thousands_of_times(seed: int) -> None:
    for a, b, some in batch(seed, count=2, size=3):
        sound(a, b, some)
        # Two filters drawn apart seldom cover each other; these do, by construction.
        covering(a, f"({a}) AND ({b})", some)
        covering(f"({a}) OR ({b})", b, some)


def covering(a: str, b: str, some: list[Event]) -> None:
    f, g = Filter(a), Filter(b)
    if f.covers(g):
        for event in some:
            assert f.matches(event) or not g.matches(event), f"{a}  covers  {b}, but not {event}"


SMALL = {"s": "s", "i": "i", "d": "d", "$q": "s"}


@given(conjunctions(SMALL), conjunctions(SMALL, 2), st.lists(events(SMALL), max_size=3))
def test_covering_of_conjunctions_is_sound(b: str, a: str, some: list[Event]) -> None:
    sound(a, b, some, search=True)
    sound(a, f"{a} AND {b}", some, search=True)


@given(seeds)
def test_every_filter_covers_and_overlaps_itself(seed: int) -> None:
    for text, some in batch(seed, size=5):
        f = Filter(text)
        for event in some:
            if f.matches(event):
                assert f.overlaps(f)
        assert Filter("TRUE").covers(f)
        assert f.covers(Filter("FALSE"))


def test_every_event_has_a_subject_and_it_is_not_empty() -> None:
    every = Filter("TRUE")
    for text in ("subject IS NOT NULL", "subject <> ''", "subject > ''", "subject LIKE '_%'", "NOT subject = ''"):
        assert Filter(text).covers(every), text
    for text in ("subject IS NULL", "subject = ''", "subject = 5", "subject < ''", "subject <> TRUE"):
        assert Filter("FALSE").covers(Filter(text)), text
        assert not Filter(text).overlaps(every), text


NUMBERS_FAR_OUT = [
    ("x < 5", "x > 1e19"),
    ("x < 5", "x > 9223372036854775807"),
    ("x > 5", "x < -1e300"),
    ("x < 1e17", "x > 1e17"),
    ("x = 1", "x > 1.7976931348623157e308"),
]


@pytest.mark.parametrize(("a", "b"), NUMBERS_FAR_OUT)
def test_counter_examples_among_large_numbers(a: str, b: str) -> None:
    check(a, b, False)


def test_a_counter_example_among_many_names() -> None:
    present = " AND ".join(f"n{i} IS NOT NULL" for i in range(9))
    check("n8 >= 0", present + " AND n8 < 5", False)


@pytest.mark.parametrize("op", ["<", "<=", ">", ">=", "=", "<>"])
@pytest.mark.parametrize("wanted", ["<", "<=", ">", ">=", "=", "<>"])
def test_relations_of_two_names(op: str, wanted: str) -> None:
    """Every pair of relations of the same two names, over values of every kind, both ways round."""
    values = [0, 1, 2.5, "a", "b", True, False, b"", b"a", MISSING, float("nan")]
    some = [
        Event("e", [(name, value) for name, value in (("x", v), ("y", w)) if value is not MISSING])
        for v, w in product(values, values)
    ]
    for a in (f"x {wanted} y", f"y {wanted} x"):
        f, g = Filter(a), Filter(f"x {op} y")
        truly = all(f.matches(event) for event in some if g.matches(event))
        assert not f.covers(g) or truly, f"{f}  covers  {g}"
        if not truly:
            shows_why_not(f, g)


CENTRES = [
    (0, 0),
    (533438000, -62546000),
    (533450000, -62546000),
    (850000000, 0),
    (0, 1799999000),
    (-450000000, 900000000),
]


@given(seeds)
def test_circles(seed: int) -> None:
    """Of circles at and around the same places, with events at their edges."""
    source = Seeded(seed)
    one, between = source.one, source.random.uniform
    for _ in range(4):
        lat, lon = one(CENTRES)
        reach = one((100, 5000, 90000, 800000, 3000000))
        circles = []
        for _ in range(2):
            shift = reach * 90 * one((0, 0.01, 0.3, 1, 2))
            where = (
                max(-900000000, min(900000000, int(lat + between(-1, 1) * shift))),
                lon + int(between(-1, 1) * shift),
            )
            circles.append((*_on_earth(*where), max(1, int(reach * between(0.01, 1)))))
        texts = [f"{one(('', '', 'NOT '))}within({a}, {b}, {r})".replace("(0, 0,", "(0.0, 0.0,") for a, b, r in circles]
        texts += [f"lat {one(('<', '<=', '>', '>='))} {circles[0][0] + int(between(-1, 1) * reach * 100)}"]
        some = []
        for a, b, r in circles:
            for far in (0.0, 0.9, 0.99999, 1.0, 1.00001, 1.1):
                place = _on_earth(a + int(between(-1, 1) * far * r * 90), b + int(between(-1, 1) * far * r * 90))
                some += [
                    Event("e", {"lat": place[0], "lon": place[1]}),
                    Event("e", {"lat": a + int(far * r * 90.4), "lon": b}),
                ]
        some = [event for event in some if abs(event.params["lat"]) <= 900000000]  # type: ignore[arg-type]
        sound(texts[0], texts[1], some)
        sound(texts[2], texts[1], some)
        sound(f"{texts[2]} OR {texts[0]}", f"{texts[1]} AND {texts[0]}", some)


@pytest.mark.parametrize("metres", [2000, 80000, 700000, 5000000])
def test_circles_that_nearly_touch(metres: int) -> None:
    """One inside another or beside it with no metre to spare, and events where they touch: our distance is no geodesic,
    so that what holds for radii need not hold for every event."""
    for lat, lon in ((10000000, 0), (533438000, -62546000), (800000000, 1000000000)):
        for azimuth in range(0, 360, 20):
            line = Geodesic.WGS84.Line(lat / 1e7, lon / 1e7, azimuth)
            other = _at(line, metres * 0.4)
            gap = distance(lat, lon, *other)
            edge = [
                Event("e", _place(_at(line, metres * far))) for far in (1 - 1e-3, 1 - 1e-5, 1 - 1e-6, 1.0, 1 + 1e-6)
            ]
            sound(f"within({lat}, {lon}, {metres})", _circle(other, metres - gap), edge)
            other = _at(line, metres * 1.5)
            gap = distance(lat, lon, *other)
            sound(f"NOT within({lat}, {lon}, {metres})", _circle(other, gap - metres - 1), edge)


def _at(line: GeodesicLine, metres: float) -> tuple[int, int]:
    found = line.Position(metres)
    return round(found["lat2"] * 1e7), round(found["lon2"] * 1e7)


def _place(place: tuple[int, int]) -> dict[str, int]:
    return {"lat": place[0], "lon": place[1]}


def _circle(place: tuple[int, int], metres: float) -> str:
    return f"within({place[0]}, {place[1]}, {int(metres)})"


def _on_earth(lat: int, lon: int) -> tuple[int, int]:
    lon = (lon + 1800000000) % 3600000000 - 1800000000
    lat = max(-900000000, min(900000000, lat))
    # Whole degrees near 0, 0 are asked about; nobody means them.
    return (lat if abs(lat) > 90 or abs(lon) > 180 else 1000), lon


@pytest.mark.parametrize("place", [{"lat": 3600000000, "lon": 0}, {"lat": 0, "lon": 3600000000}])
def test_a_place_off_the_earth_is_in_no_circle(place: dict[str, int]) -> None:
    inside = Filter("within(0.0, 0.0, 1000)")
    assert Filter("lat <= 900000000 AND lon <= 1800000000").covers(inside)
    assert not inside.matches(Event("e", place))
