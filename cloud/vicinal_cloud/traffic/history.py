"""The town as it was: what the time slider shows (the viewer of seed 001, 6.4, steps through its log like this).

Where vehicles were and what limits were in force the store knows, for as long as sightings are kept; events and rates
are those of the last minutes (`paths.KEPT`, `watch.KEPT`), and cases the last ones.
"""

from typing import Any

from . import views
from .cases import Case
from .office import Office
from .whereabouts import Sighting

__all__ = ["FRESH_MS", "began", "state_at"]

FRESH_MS = 3_000
"""a vehicle that was not heard for longer is not shown"""
EVENTS = 50
CASES = 100


def began(office: Office) -> int | None:
    """From when on there is something to show: before the first event had come, which may be no sighting."""
    times = [office.store.span()[0], *[path.hops[-1].time - 1 for path in office.paths.after(0, 1)]]
    return min([time for time in times if time is not None], default=None)


def state_at(office: Office, time: int, event: int | None = None) -> dict[str, Any]:
    """`previous` and `next` are time and number of the events beside it, to step by: `event` is the last of those that
    came in the millisecond `time` which had come, where not all had."""
    latest: dict[str, Sighting] = {}
    for one in office.store.sightings(time - FRESH_MS, time + 1):
        latest[one.vehicle] = one
    number = office.paths.until(time)
    if event is not None and (last := _at(office, event)) is not None and last["time"] == time:
        number = event
    events = office.paths.after(max(0, number - EVENTS), EVENTS) if number > 0 else []
    events = [one for one in events if one.number <= number]
    this = _at(office, number)
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
        "previous": _at(office, number - 1) if this is not None and this["time"] == time else this,
        "next": _at(office, number + 1),
        "overlay": views.overlay([] if sample is None else [sample]),
    }


def _at(office: Office, number: int) -> dict[str, int] | None:
    """When the office had this one, if it still knows."""
    path = office.paths.get(number)
    return None if path is None else {"time": path.hops[-1].time, "event": number}


def _then(case: Case, time: int) -> Case | None:
    """As far as it had come; what has happened since is not told."""
    steps = tuple([step for step in case.steps if step.time <= time])
    if not steps:
        return None
    return case._replace(state=steps[-1].state, steps=steps)
