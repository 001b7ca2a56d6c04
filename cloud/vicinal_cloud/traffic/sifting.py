"""What the database refuses, told from what it takes: so that one row that cannot be kept does not hold up the rest.

It should not come to this: reports.py and texts.py let nothing pass that a database refuses. If it does nevertheless,
each change is tried alone; of what is refused a row in quarantine says whose it was and why, without its values. A case
that is refused is as it was before, and so are the cases that would have become part of it.
"""

from collections.abc import Callable

from .control import Changes, Quarantined, no_changes
from .reports import REFUSED
from .stretches import Evidence
from .texts import NAME_MAX, SAID_MAX, cleaned

__all__ = ["sifted"]

_MOST = (1 << 63) - 1


def sifted(changes: Changes, refused: Callable[[Changes], str]) -> Changes:
    """Those that can be saved. `refused` tries some of them, and says why not; "" if it would be done."""
    found, told = no_changes(), []
    bad: dict[int, str] = {}
    for case in changes.cases:
        if why := refused(no_changes()._replace(cases=[case])):
            bad[case.number] = why
        else:
            found.cases.append(case)
    for number, evidence in changes.evidence:
        one = no_changes()._replace(evidence=[(number, evidence)])
        if why := bad.get(number) or refused(one):
            told.append(_of_evidence(evidence, why))
        else:
            found.evidence.append((number, evidence))
    into = dict(changes.merged)
    found.merged.extend((old, new) for old, new in changes.merged if _followed(new, into) not in bad)
    found.rewritten.extend(number for number in changes.rewritten if number not in bad)
    found.shown.extend(changes.shown)
    found.verdicts.extend(changes.verdicts)
    for sighting in changes.sightings:
        if why := refused(no_changes()._replace(sightings=[sighting])):
            told.append(_told("Location", sighting.vehicle, 0, sighting.monitor, sighting.time, sighting.time, why))
        else:
            found.sightings.append(sighting)
    for rule in changes.rules:
        if why := refused(no_changes()._replace(rules=[rule])):
            told.append(_told("limit", "", 0, "", rule.since, rule.since, why))
        else:
            found.rules.append(rule)
    for row in changes.quarantined:
        if why := refused(no_changes()._replace(quarantined=[row])):
            told.append(_told(row.subject, row.vehicle, row.seq, row.monitor, row.time, row.received, why))
        else:
            found.quarantined.append(row)
    found.quarantined.extend(told)
    return found


def _followed(number: int, into: dict[int, int]) -> int:
    while number in into:
        number = into[number]
    return number


def _of_evidence(one: Evidence, why: str) -> Quarantined:
    return _told("Speed", one.vehicle, one.seq, one.monitor, one.time, one.received, why)


def _told(subject: str, vehicle: str, seq: int, monitor: str, time: int | None, received: int, why: str) -> Quarantined:
    return Quarantined(
        REFUSED, cleaned(why, SAID_MAX), cleaned(subject, SAID_MAX // 2), cleaned(vehicle, NAME_MAX), _within(seq),
        cleaned(monitor, NAME_MAX), None if time is None else _within(time), _within(received), {},
    )  # fmt: skip


def _within(value: int) -> int:
    return max(-_MOST, min(_MOST, value))
