"""Laws of the filter language (DESIGN 3): what it means, that its text round-trips, that it fails only as it says."""

import sys
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from protocols.evaluators import reference
from strategies import batch, cases, filters, meetings, seeds, texts, value_text, values

from vicinal import limits
from vicinal.errors import FilterSyntaxError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.filter import _ast as ast
from vicinal.filter._match import compare_values
from vicinal.filter._normal import dnf, nnf
from vicinal.filter._parser import parse
from vicinal.filter._text import text_of


def same_as_reference(text: str, some: list[Event]) -> None:
    f = Filter(text)
    for event in some:
        with suppress(reference.TooClose):
            wanted = reference.evaluate(f.node, event)
            assert f.test(event) is wanted, (text, event)
            assert f.matches(event) is (wanted is True)


@given(meetings())
def test_three_valued_logic_is_the_reference(drawn: tuple[str, list[Event]]) -> None:
    same_as_reference(*drawn)


@given(seeds)
def test_three_valued_logic_is_the_reference_thousands_of_times(seed: int) -> None:
    for text, some in batch(seed, size=10):
        same_as_reference(text, some)


@cases(1000)
@given(st.sampled_from(("=", "<>", "<", "<=", ">", ">=")), values, values)
def test_any_two_values_compare_as_in_the_reference(op: str, left: Any, right: Any) -> None:
    assert compare_values(op, left, right) is reference.compare(op, left, right)
    event = Event("e", {"x": left, "y": right})
    assert Filter(f"x {op} y").test(event) is reference.compare(op, left, right)


@cases(700)
@given(st.sampled_from(("=", "<>", "<", "<=", ">", ">=")), values, values)
def test_a_name_compares_with_a_literal_as_with_a_name(op: str, left: Any, right: Any) -> None:
    assume(not isinstance(right, Event) and right == right and right not in (float("inf"), float("-inf")))
    event = Event("e", {"x": left})
    assert Filter(f"x {op} {value_text(right)}").test(event) is reference.compare(op, left, right)
    if op == "=":
        assert Filter(f"x IN ({value_text(right)}, {value_text(right)})").test(event) is reference.compare(
            op, left, right
        )


OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
SOME = (None, 0, 1, 1.5, 2, 3, "", "a", "b", True, False, b"a")


def truth(text: str, **params: Any) -> bool | None:
    return Filter(text).test(Event("e", {name: value for name, value in params.items() if value is not None}))


def both(left: bool | None, right: bool | None) -> bool | None:
    return False if left is False or right is False else None if left is None or right is None else True


def inverse(value: bool | None) -> bool | None:
    return None if value is None else not value


@pytest.mark.parametrize("value", [1, 2.5, "a", True, b"a"])
@pytest.mark.parametrize("found", SOME)
def test_what_the_text_says(value: Any, found: Any) -> None:
    """The reference starts from the tree; here it is asked whether the tree is the text's."""
    shown = value_text(value)
    for op in OPERATORS:
        assert truth(f"x {op} {shown}", x=found) is reference.compare(op, found, value)
        assert truth(f"{shown} {op} x", x=found) is reference.compare(op, value, found)
        assert truth(f"x {op} y", x=found, y=value) is reference.compare(op, found, value)
        assert truth(f"{shown} {op} {shown}") is reference.compare(op, value, value)
        assert truth(f"NOT x {op} {shown}", x=found) is inverse(reference.compare(op, found, value))
    between = both(reference.compare(">=", found, 1), reference.compare("<=", found, value))
    assert truth(f"x BETWEEN 1 AND {shown}", x=found) is between
    assert truth(f"x NOT BETWEEN 1 AND {shown}", x=found) is inverse(between)
    unequal = both(reference.compare("<>", found, 1), reference.compare("<>", found, value))
    assert truth(f"x NOT IN (1, {shown})", x=found) is unequal
    assert truth(f"x IN (1, {shown})", x=found) is inverse(unequal)
    assert truth("x IS NULL", x=found) is (found is None)
    assert truth("x IS NOT NULL", x=found) is (found is not None)
    assert truth("x", x=found) is reference.compare("=", found, True)
    begins = found.startswith("a") if isinstance(found, str) else None
    assert truth("x LIKE 'a%'", x=found) is begins
    assert truth("x NOT LIKE 'a%'", x=found) is inverse(begins)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a OR b AND c", "a OR (b AND c)"),
        ("a AND b OR c", "(a AND b) OR c"),
        ("NOT a AND b", "(NOT a) AND b"),
        ("NOT a OR b", "(NOT a) OR b"),
        ("NOT a = b", "NOT (a = b)"),
        ("a BETWEEN 1 AND 2 AND b", "(a BETWEEN 1 AND 2) AND b"),
        ("a not between 1 and 2 or b", "NOT (a BETWEEN 1 AND 2) OR b"),
        ("not not a", "a = TRUE"),
    ],
)
def test_what_binds_more_tightly(text: str, same: str) -> None:
    assert text.startswith("not not") or parse(text) == parse(same)
    for a in (True, False, None, 1):
        for b in (True, False, None):
            for c in (True, False, None):
                assert truth(text, a=a, b=b, c=c) is truth(same, a=a, b=b, c=c)


def round_trips(text: str) -> None:
    node = parse(text)
    again = text_of(node)
    assert parse(again) == node, (text, again)
    assert text_of(parse(again)) == again
    assert hash(parse(again)) == hash(node)


@given(filters())
def test_text_round_trip(text: str) -> None:
    round_trips(text)


@given(seeds)
def test_text_round_trip_thousands_of_times(seed: int) -> None:
    for text, _ in batch(seed, size=10):
        round_trips(text)


@cases(500)
@given(texts.filter(bool), texts, st.booleans())
def test_any_name_and_string_round_trip(name: str, value: str, attribute: bool) -> None:
    node = ast.Compare("=", ast.Name(ast.ATTRIBUTE if attribute else ast.PARAM, name), value)
    assert parse(text_of(node)) == node
    assert parse(text_of(ast.IsNull(node.name))) == ast.IsNull(node.name)


def simplifies(text: str, some: list[Event]) -> None:
    f = Filter(text)
    simple = f.simplify()
    again = Filter(str(simple))
    assert again == simple, (text, str(simple))
    for event in some:
        assert again.matches(event) is f.matches(event), (text, str(simple), event)
        assert simple.matches(event) is f.matches(event), (text, str(simple), event)


@given(meetings())
def test_simplified_text_means_the_same(drawn: tuple[str, list[Event]]) -> None:
    simplifies(*drawn)


@given(seeds)
def test_simplified_text_means_the_same_thousands_of_times(seed: int) -> None:
    for text, some in batch(seed, size=10):
        simplifies(text, some)


@given(seeds)
def test_normal_forms_are_true_of_the_same_events(seed: int) -> None:
    for text, some in batch(seed, size=10):
        node = parse(text)
        inner = nnf(node)
        terms, exact = dnf(node)
        for event in some:
            with suppress(reference.TooClose):
                wanted = reference.evaluate(node, event) is True
                assert (reference.evaluate(inner, event) is True) is wanted, (text, event)
                found = any(all(reference.evaluate(literal, event) is True for literal in term) for term in terms)
                assert found is wanted or (not exact and found), (text, event)


@pytest.mark.parametrize(
    "name", ["and", "NULL", "True", "subject", "Within", "a.b", "a..b", ".a", "1a", "a b", "`", "$", "é"]
)
def test_names_that_are_words_of_the_language_round_trip(name: str) -> None:
    for kind in (ast.PARAM, ast.ATTRIBUTE):
        node = ast.Compare("=", ast.Name(kind, name), 1)
        assert parse(text_of(node)) == node


def fails_inside(text: str) -> FilterSyntaxError | None:
    """Any other exception is the test's failure."""
    try:
        Filter(text)
        return None
    except FilterSyntaxError as refused:
        error = refused
    assert 1 <= error.column <= len(text) + 1
    assert error.text == text
    assert f"(column {error.column})" in str(error)
    return error


WORDS = [
    "x", "subject", "$q", "$", "`", "`a b`", "'a'", "'", "X'00'", "X'0'", "1", "-", "+", "1.5", "1e5", "1e999",
    "9" * 30, ".", "AND", "or", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "(", ")", ",", "=",
    "<>", "<", ">=", "==", "!=", "within", "within(", "0, 0, 5)", "%", "\ud800", "'\ud800'", "\0", "\U0001f600",
    "'!'", "''",
]  # fmt: skip


@cases(1000)
@given(st.text(max_size=40) | st.text(st.characters(), max_size=12))
def test_arbitrary_text_raises_only_filter_syntax_errors(text: str) -> None:
    fails_inside(text)


@cases(1000)
@given(st.lists(st.sampled_from(WORDS), max_size=12), st.sampled_from((" ", "")))
def test_words_in_any_order_raise_only_filter_syntax_errors(words: list[str], space: str) -> None:
    fails_inside(space.join(words))


@given(filters(depth=2), st.data())
def test_a_damaged_filter_raises_only_filter_syntax_errors(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    gone = data.draw(st.integers(0, 3))
    fails_inside(text[:at] + data.draw(st.sampled_from(WORDS)) + text[at + gone :])


@given(filters(depth=2))
def test_every_beginning_of_a_filter_is_read_or_refused(text: str) -> None:
    for end in range(len(text)):
        fails_inside(text[:end])


def test_the_text_limit() -> None:
    fits = "x = '" + "a" * (limits.MAX_FILTER_CHARS - 6) + "'"
    assert len(fits) == limits.MAX_FILTER_CHARS == 4096
    assert fails_inside(fits) is None
    error = fails_inside(fits + " ")
    assert error is not None
    assert "4097" in str(error)
    assert "4096" in str(error)


@pytest.mark.parametrize("before", ["(", "NOT ", "not("])
def test_the_depth_limit(before: str) -> None:
    deep = before.count("(") + before.upper().count("NOT")

    def nested(times: int) -> str:
        return before * times + "x = 1" + ")" * (times * before.count("("))

    most = limits.MAX_FILTER_DEPTH // deep
    assert limits.MAX_FILTER_DEPTH == 32
    assert fails_inside(nested(most)) is None
    error = fails_inside(nested(most + 1))
    assert error is not None
    assert "33" in str(error)
    assert "32" in str(error)


def test_the_node_limit() -> None:
    assert limits.MAX_FILTER_NODES == 256
    assert fails_inside(" AND ".join(["x = 1"] * 255)) is None
    error = fails_inside(" AND ".join(["x = 1"] * 257))
    assert error is not None
    assert "256" in str(error)
    assert fails_inside("x IN (" + ", ".join(["1"] * 256) + ")") is None
    assert fails_inside("x IN (" + ", ".join(["1"] * 257) + ")") is not None


def product(factors: int) -> str:
    return " AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(factors))


def test_the_dnf_limit_widens_and_says_so() -> None:
    assert limits.MAX_DNF_TERMS == 64
    terms, exact = dnf(parse(product(6)))
    assert (len(terms), exact) == (64, True)
    terms, exact = dnf(parse(product(7)))
    assert (len(terms), exact) == (64, False)
    terms, exact = dnf(parse(" OR ".join(f"x > {i}" for i in range(65))))
    assert (terms, exact) == ([[]], False)


def test_what_the_dnf_limit_widens_stays_right() -> None:
    f = Filter(product(7))
    yes = Event("e", {f"a{i}": 1 for i in range(7)})
    no = Event("e", {f"a{i}": 1 for i in range(6)})
    assert f.matches(yes)
    assert not f.matches(no)
    assert f.simplify().matches(yes)
    assert not f.simplify().matches(no)
    assert Filter("TRUE").covers(f)
    assert not Filter("FALSE").covers(f)
    assert f.overlaps(Filter("c = 1"))
    for translation in (f.to_siena(), f.to_mqtt(), f.to_can({"e": [1]})):
        assert not translation.exact
        assert translation.reasons


class TooMuch(Exception):
    pass


class Calls:
    """Counts calls of Python functions, a clock that every machine agrees on, and stops at `most`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = 0

    def __enter__(self) -> "Calls":
        self.before = sys.getprofile()
        sys.setprofile(self.note)
        return self

    def note(self, frame: Any, what: str, arg: Any) -> None:
        if what == "call":
            self.count += 1
            if self.count > self.most:
                raise TooMuch(f"more than {self.most} calls")

    def __exit__(self, *error: Any) -> None:
        sys.setprofile(self.before)


LARGEST = {
    "and": " AND ".join(f"x <> {i}" for i in range(255)),
    "or": " OR ".join(f"x = {i}" for i in range(255)),
    "product": " AND ".join(f"(x > {i} OR y < {i})" for i in range(85)),
    "in": "x IN (" + ", ".join(str(i) for i in range(256)) + ")",
    "not": "NOT (" * 16 + "x = 1" + ")" * 16,
    "nested": "(x > 1 OR y < 2 AND " * 31 + "z = 3" + ")" * 31,
    "like": " AND ".join(f"x LIKE '%{'a_' * 8}%b{i}%'" for i in range(80)),
    "one like": "x LIKE '" + "%a_" * 1300 + "'",
    "string": "x < '" + "a" * 4000 + "'",
    "strings": " AND ".join(f"x > '{'a' * i}'" for i in range(80)),
}


@pytest.mark.parametrize("name", sorted(LARGEST))
def test_the_largest_filters_stay_cheap(name: str) -> None:
    """Parsing, matching and writing cost a few calls for each character, whatever the shape."""
    text = LARGEST[name]
    assert len(text) <= limits.MAX_FILTER_CHARS
    event = Event("e", {"x": "a" * 1000, "y": 5})
    with Calls(20 * len(text) + 1000):
        f = Filter(text)
        f.matches(event)
        text_of(f.node)


HOSTILE = {
    "and": " AND ".join(f"x <> {i}" for i in range(100)),
    "or": " OR ".join(f"x = {i}" for i in range(60)),
    "product": " AND ".join(f"(x > {i} OR y < {i})" for i in range(40)),
    "strings": " AND ".join(f"x > '{'a' * i}'" for i in range(40)),
    "like": " AND ".join(f"x LIKE '%{'a_' * 4}%b{i}%'" for i in range(30)),
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_hostile_filters_are_compared_in_bounded_work(name: str) -> None:
    f = Filter(HOSTILE[name])
    for other in (f, Filter("x > 1"), Filter("x LIKE '%a%'")):
        for work in (lambda g: f.covers(g), lambda g: g.covers(f), lambda g: f.overlaps(g)):
            with Calls(3_000_000):
                work(other)


@pytest.mark.parametrize("name", sorted(LARGEST))
def test_the_largest_filters_round_trip(name: str) -> None:
    f = Filter(LARGEST[name])
    again = Filter(text_of(f.node))
    assert again == f


def test_a_simplified_filter_can_be_read_again() -> None:
    """Within the limits before, within the limits after: NOT BETWEEN is counted as it is written."""
    f = Filter(" AND ".join(f"x NOT BETWEEN {2 * i} AND {2 * i + 1}" for i in range(51)))
    assert Filter(str(f.simplify())) == f.simplify()


@pytest.mark.parametrize(
    "text",
    [
        " AND ".join(f"x NOT BETWEEN {2 * i} AND {2 * i + 1}" for i in range(51)),
        "NOT " * 30 + "x NOT BETWEEN 1 AND 2",
    ],
)
def test_a_filter_at_a_limit_round_trips(text: str) -> None:
    assert parse(text_of(parse(text))) == parse(text)


def test_what_cannot_be_written_within_the_limit_is_not_simplified() -> None:
    f = Filter("x='" + "a" * (limits.MAX_FILTER_CHARS - 4) + "'")
    assert f.simplify() == f
    assert f.simplify().text == f.text
