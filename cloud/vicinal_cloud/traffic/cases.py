"""What becomes of an offence: the fine, the appeal, the end.

    open ──▶ fined ──▶ paid
      │        │  └──▶ appealed ──▶ upheld ──▶ paid
      │        │           │           │
      └────────┴───────────┴───────────┴──▶ void, for a reason

`open`: the driver is or was just over the limit, and reports may still come. It is fined when none can be added any
more, by time alone; by hand it can only be made void. Every step says who, when and why, and none is taken back: not by
a restart, and not by reports that come later (stretches.py).
"""

from typing import NamedTuple

from vicinal.errors import LocalProtocolError

from .stretches import Evidence, Stretch
from .tariff import Tariff
from .texts import NOTE_MAX, WHO_MAX, checked

__all__ = ["AFTER", "STATES", "Case", "NotAllowed", "Step", "case_of", "fined", "moved"]

STATES = ("open", "fined", "paid", "appealed", "upheld", "void")
AFTER = {
    "open": ("void",),
    "fined": ("paid", "appealed", "void"),
    "appealed": ("upheld", "void"),
    "upheld": ("paid", "void"),
    "paid": (),
    "void": (),
}
"""what somebody may ask for; an open case is fined by time (`fined`)"""
NEEDS_NOTE = ("appealed", "upheld", "void")


class NotAllowed(LocalProtocolError):
    """The case is not in a state for this; the message says which it is in."""


class Step(NamedTuple):
    state: str
    time: int
    who: str
    note: str


class Case(NamedTuple):
    number: int
    plate: str
    first: int
    last: int
    reports: int
    monitors: tuple[str, ...]
    worst: Evidence
    fine: int
    currency: str
    points: int
    state: str
    steps: tuple[Step, ...]

    @property
    def duration(self) -> int:
        return self.last - self.first


def case_of(stretch: Stretch, tariff: Tariff, steps: tuple[Step, ...]) -> Case:
    """`steps` are those so far; the fine is that for the worst that is proved."""
    worst = stretch.worst
    band = tariff.band(worst.over)
    return Case(
        stretch.number,
        stretch.plate,
        stretch.first,
        stretch.last,
        len(stretch.evidence),
        tuple(stretch.monitors),
        worst,
        0 if band is None else band.fine,
        tariff.currency,
        0 if band is None else band.points,
        steps[-1].state,
        steps,
    )


def fined(case: Case, now: int) -> Case:
    """Of an open one, to which nothing can be added any more."""
    assert case.state == "open", case
    return case._replace(state="fined", steps=(*case.steps, Step("fined", now, "traffic control", "")))


def moved(case: Case, state: str, now: int, who: str, note: str = "") -> Case:
    if state not in STATES:
        raise NotAllowed(f"case {case.number}: {state!r} is no state, want one of {', '.join(STATES)}")
    if case.state == "open" and state == "fined":
        raise NotAllowed(f"case {case.number} is open: it is fined when no report can be added any more, not by hand")
    if state not in AFTER[case.state]:
        allowed = ", ".join(AFTER[case.state]) or "nothing"
        raise NotAllowed(f"case {case.number} is {case.state}: after that comes {allowed}, not {state}")
    if state in NEEDS_NOTE and not note.strip():
        raise NotAllowed(f"case {case.number}: {state} needs a reason")
    step = Step(state, now, checked("who", who, WHO_MAX), checked("note", note, NOTE_MAX))
    return case._replace(state=state, steps=(*case.steps, step))
