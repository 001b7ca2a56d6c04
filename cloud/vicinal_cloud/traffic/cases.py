"""What becomes of an offence: the fine, the appeal, the end.

    open ──▶ fined ──▶ paid
      │        │  └──▶ appealed ──▶ upheld ──▶ paid
      │        │           │           │
      └────────┴───────────┴───────────┴──▶ void, for a reason

`open`: the driver is or was just over the limit, and reports may still come. Every step says who, when and why, and
none is taken back.
"""

from typing import NamedTuple

from vicinal.errors import LocalProtocolError

from .stretches import Evidence, Stretch
from .tariff import Tariff

__all__ = ["AFTER", "STATES", "Case", "NotAllowed", "Step", "case_of", "moved"]

STATES = ("open", "fined", "paid", "appealed", "upheld", "void")
AFTER = {
    "open": ("fined", "void"),
    "fined": ("paid", "appealed", "void"),
    "appealed": ("upheld", "void"),
    "upheld": ("paid", "void"),
    "paid": (),
    "void": (),
}
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


def moved(case: Case, state: str, now: int, who: str, note: str = "") -> Case:
    if state not in STATES:
        raise NotAllowed(f"case {case.number}: {state!r} is no state, want one of {', '.join(STATES)}")
    if state not in AFTER[case.state]:
        allowed = ", ".join(AFTER[case.state]) or "nothing"
        raise NotAllowed(f"case {case.number} is {case.state}: after that comes {allowed}, not {state}")
    if state in NEEDS_NOTE and not note.strip():
        raise NotAllowed(f"case {case.number}: {state} needs a reason")
    return case._replace(state=state, steps=(*case.steps, Step(state, now, who, note)))
