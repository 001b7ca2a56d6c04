"""The town as it was: what the time slider shows (the viewer of seed 001, 6.4, steps through its log like this).

Where vehicles were and what limits were in force the store knows, for as long as sightings are kept; events and rates
are those of the last minutes (`paths.KEPT`, `watch.KEPT`), and cases the last ones.
"""

from typing import Any

from . import views
from .cases import Case
from .office import Office
from .paths import Path
from .whereabouts import Sighting

__all__ = ["FRESH_MS", "state_at"]

FRESH_MS = 3_000
"""a vehicle that was not heard for longer is not shown"""
EVENTS = 50
CASES = 100


def state_at(office: Office, time: int) -> dict[str, Any]:
    """`previous` and `next` are the times of the events beside it, to step by."""
    latest: dict[str, Sighting] = {}
    for one in office.store.sightings(time - FRESH_MS, time + 1):
        latest[one.vehicle] = one
    number = office.paths.until(time)
    events = office.paths.after(max(0, number - EVENTS), EVENTS) if number > 0 else []
    events = [one for one in events if one.number <= number]
    earlier = [one for one in events if _received(one) < time]
    later = office.paths.after(number, 1)
    begun = office.store.last_cases(CASES, time)
    cases = [case for case in (_then(one, time) for one in begun) if case is not None]
    sample = office.watch.at(time)
    return {
        "now": time,
        "vehicles": [views.sighting(one) for one in latest.values()],
        "monitors": [
            {**one, "shown": office.control.posted.at(one["name"], time), "done": True, "problem": ""}
            for one in views.monitors(office, time)
        ],
        "areas": views.areas(office, time),
        "open": [views.case(one) for one in cases if time <= one.last + FRESH_MS],
        "cases": [views.case(one) for one in cases],
        "events": [views.event(one) for one in events],
        "previous": _received(earlier[-1]) if earlier else None,
        "next": _received(later[0]) if later else None,
        "overlay": views.overlay([] if sample is None else [sample]),
    }


def _received(path: Path) -> int:
    return path.hops[-1].time


def _then(case: Case, time: int) -> Case | None:
    """As far as it had come; what has happened since is not told."""
    steps = tuple([step for step in case.steps if step.time <= time])
    if not steps:
        return None
    return case._replace(state=steps[-1].state, steps=steps)
