"""The caret stands under the place, whatever the text is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from vicinal_tools.complain import parse_filter, point_at


@pytest.mark.parametrize(
    ("text", "noted"),
    [
        ("subject = Speed", True),
        ("rate > 3 AND NOT Speed <> subject", True),
        ("subject = 'Speed'", False),
        ("rate = limit AND subject LIKE 'S%'", False),
    ],
)
def test_forgotten_quotes_are_noted(text: str, noted: bool, capsys: pytest.CaptureFixture[str]) -> None:
    parse_filter(text)
    assert ("Is subject = 'Speed' meant?" in capsys.readouterr().err) is noted


def test_a_short_text_is_shown_whole() -> None:
    assert point_at("rate >", 7) == "  rate >\n        ^"
    assert point_at("x ! 1", 3) == "  x ! 1\n    ^"


def test_wide_characters_take_two_cells() -> None:
    assert point_at("名 ! 1", 3) == "  名 ! 1\n     ^"


def test_line_ends_do_not_move_the_caret() -> None:
    assert point_at("a\n\tb ! 1", 6) == "  a  b ! 1\n       ^"


@given(st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S", "Zs"]), max_size=300), st.integers(0, 400))
def test_the_caret_is_under_the_column(text: str, column: int) -> None:
    shown, caret = point_at(text, column).split("\n")
    at = min(max(column, 1) - 1, len(text))
    assert cell_len(shown) <= 80
    under = shown[caret.index("^") :]
    assert under[:17] == text[at : at + 17] or under.removesuffix("...") == text[at : at + len(under) - 3]
