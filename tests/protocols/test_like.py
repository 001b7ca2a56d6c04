"""LIKE gives what a regular expression gives, and its work grows with the text, not with the pattern's tricks."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from protocols.evaluators import reference
from strategies import cases

from vicinal.errors import FilterSyntaxError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.filter import _like as like

few = st.text("ab\n\U0001f600", max_size=10)
patterns = st.text("ab\n\U0001f600%_", max_size=8)


@cases(1000)
@given(patterns, few)
def test_like_is_the_regular_expression(pattern: str, text: str) -> None:
    assert like.matcher(pattern)(text) is reference.like(pattern, None, text)


@cases(1000)
@given(st.text("ab%_!", max_size=8), st.sampled_from("!%_a"), st.text("ab%_!", max_size=8))
def test_escaped_like_is_the_regular_expression(pattern: str, escape: str, text: str) -> None:
    try:
        f = Filter(f"x LIKE '{pattern}' ESCAPE '{escape}'")
    except FilterSyntaxError:
        assume(False)
    assert f.matches(Event("e", {"x": text})) is reference.like(pattern, escape, text)


@pytest.mark.parametrize("first", ["", "a", "%", "_", "a%", "%a", "_a", "a_"])
def test_all_short_patterns_on_all_short_texts(first: str) -> None:
    tails = [one + two for one in ("", "a", "b", "%", "_") for two in ("", "a", "b", "%", "_")]
    words = [""]
    for _ in range(5):
        words += [word + char for word in words if len(word) == len(words[-1]) for char in "ab"]
    for tail in tails:
        matches = like.matcher(first + tail)
        for text in words:
            assert matches(text) is reference.like(first + tail, None, text), (first + tail, text)


class Counted(str):
    """A text that counts what is looked at."""

    work = 0

    def __iter__(self) -> Any:
        for char in super().__iter__():
            Counted.work += 1
            yield char

    def __getitem__(self, key: Any) -> "Counted":
        found = super().__getitem__(key)
        Counted.work += len(found)
        return Counted(found)

    def find(self, *args: Any) -> int:
        found = super().find(*args)
        Counted.work += len(self) if found < 0 else found + len(args[0])
        return found


def work(pattern: str, text: str) -> int:
    Counted.work = 0
    like.matcher(pattern)(Counted(text))
    return Counted.work


@pytest.mark.parametrize(
    "pattern", ["%a_%a_%b", "%" + "a_" * 20 + "b%", "%_a" * 8 + "%b%", "a%" * 10 + "b", "%a%a%a%_b_%c%"]
)
def test_steps_grow_with_the_text(pattern: str) -> None:
    """Ten times the text, about ten times the steps: a matcher that steps back would take a hundred times or more."""
    small, large = work(pattern, "a" * 1000), work(pattern, "a" * 10000)
    assert large <= 11 * max(small, 1000)


def test_steps_do_not_grow_with_the_product_of_text_and_percent_signs() -> None:
    """A pattern of n segments that are all found at once: one pass over the text, not n."""
    text = "ab" * 2000
    assert work("%" + "a_%" * 500, text) <= 4 * work("%" + "a_%" * 5, text)


def test_the_largest_text_with_the_largest_pattern_ends() -> None:
    text = "a" * 65536
    pattern = ("%a_" * 667)[:2000]
    assert Filter(f"x LIKE '{pattern}'").matches(Event("e", {"x": text}))
    assert not Filter(f"x LIKE '{pattern}b%'").matches(Event("e", {"x": text}))
    assert not Filter(f"x LIKE '%{'_' * 1000}b{'_' * 900}%'").matches(Event("e", {"x": text}))
