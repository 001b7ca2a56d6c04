"""The figures of seed 004. Figure 7, with the whole stock exchange, is tests/tools/test_stock_exchange.py."""

import pytest
from protocols.scope.helpers import hearers, manager, part, scope

from vicinal.event import Event
from vicinal.scope.session import reaction

spec = pytest.mark.spec


@spec("SCOPE-2", "SCOPE-9")
def test_figure_2():
    """v(Y, U) holds, v(X, U) does not; and v is symmetric."""
    moved = manager(scope("S"), scope("T"), part("X", "S"), part("Y", "S", "T"), part("U", "T"))
    assert hearers(moved, "Y", "n") == ["U", "X"]
    assert hearers(moved, "X", "n") == ["Y"]
    assert hearers(moved, "U", "n") == ["Y"]


@spec("SCOPE-2")
def test_figure_3():
    """The floor of M1 quotes SAP: of those who want SAP C3 hears it and C4, in M2 only, does not; C1 wants another."""
    wants = {"C1": "IBM", "C2": "DCX", "C3": "SAP", "C4": "SAP"}
    places = {"C1": ["Private1"], "C2": ["Prof1"], "C3": ["Prof1", "Private2"], "C4": ["Private2"]}
    moved = manager(
        scope("M1"), scope("M2"), scope("Private1", "M1"), scope("Prof1", "M1"), scope("Private2", "M2"),
        scope("TF1", "M1"), scope("TF2", "M2"),
        *[scope(name, *supers) for name, supers in places.items()],
        *[part(f"pc{name[1]}", name, subscribes=f"share = '{share}'") for name, share in wants.items()],
        part("ME1", "TF1", subscribes=None), part("ME2", "TF2", subscribes=None),
    )  # fmt: skip
    quote = Event("Quote", {"share": "SAP", "price": 171.5})
    assert hearers(moved, "ME1", quote) == ["pc3"]
    # Who is in both markets hears both.
    assert hearers(moved, "ME2", quote) == ["pc3", "pc4"]


@spec("SCOPE-26", "SCOPE-27", "SCOPE-28")
def test_figure_6():
    """Y signs for S and T, which are sessions, and answers each in its own; U is no session, and hears all."""
    moved = manager(
        scope("S", session=True), scope("T", session=True), scope("U"),
        part("Y", "S", "T", "U", subscribes="subject = 'plain'"),
        part("s", "S"), part("t", "T"), part("u", "U", subscribes="subject = 'signed'"),
    )  # fmt: skip
    for customer, tag in (("s", "S"), ("t", "T")):
        (asked,) = moved.publish(customer, Event("plain"), 0)
        assert (asked.component, asked.event.attrs["Session"]) == ("Y", tag)
        answered = moved.publish("Y", reaction(asked.event, Event("signed")), 0)
        assert sorted(one.component for one in answered) == sorted([customer, "u"])
    # What it says of itself is for all.
    assert hearers(moved, "Y", "signed") == ["s", "t", "u"]
