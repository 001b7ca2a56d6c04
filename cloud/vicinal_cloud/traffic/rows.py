"""What is kept, as rows of the tables, and back."""

from typing import Any

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from . import tables
from .cases import Case, Step
from .control import Changes, Quarantined
from .limits import Hours, Rule
from .stretches import Evidence
from .texts import SOURCE_MAX, cleaned
from .whereabouts import Sighting

__all__ = [
    "case_of_row",
    "evidence_of",
    "forget_case",
    "put",
    "quarantined_of_row",
    "rule_of_row",
    "sighting_of_row",
    "step_of_row",
    "steps_of",
    "write",
    "write_case",
    "write_sign",
]

# Writing


def write(connection: Connection, changes: Changes) -> None:
    for number in (*[old for old, _ in changes.merged], *changes.rewritten):
        forget_case(connection, number)
    for case in changes.cases:
        write_case(connection, case)
    if changes.evidence:
        found = [{"number": number, **_measured(one)} for number, one in changes.evidence]
        connection.execute(sql.insert(tables.evidence), found)
    if changes.quarantined:
        connection.execute(sql.insert(tables.quarantine), [_quarantined(one) for one in changes.quarantined])
    if changes.rules:
        connection.execute(sql.insert(tables.rules), [_rule(one) for one in changes.rules])
    if changes.shown:
        connection.execute(sql.insert(tables.shown), [one._asdict() for one in changes.shown])
    _write_sightings(connection, changes.sightings)
    if changes.cases:
        _raise(connection, "next case", max(case.number for case in changes.cases) + 1)


def write_case(connection: Connection, case: Case) -> None:
    forget_case(connection, case.number, evidence=False)
    values = {
        name: getattr(case, name)
        for name in ("number", "plate", "first", "last", "reports", "fine", "currency", "points", "state")
    }
    made = {**values, "monitors": list(case.monitors), **_measured(case.worst)}
    connection.execute(sql.insert(tables.cases), [made])
    steps = [
        {"number": case.number, "place": place, "state": one.state, "at": one.time, "who": one.who, "note": one.note}
        for place, one in enumerate(case.steps)
    ]
    connection.execute(sql.insert(tables.steps), steps)


def forget_case(connection: Connection, number: int, evidence: bool = True) -> None:
    for table in (tables.cases, tables.steps, *((tables.evidence,) if evidence else ())):
        connection.execute(sql.delete(table).where(table.c.number == number))


def _write_sightings(connection: Connection, found: list[Sighting]) -> None:
    last = {(one.vehicle, one.time): one for one in found}
    column = tables.sightings.c
    for vehicle, time in last:
        connection.execute(sql.delete(tables.sightings).where(column.vehicle == vehicle, column.time == time))
    if last:
        made = [
            {"vehicle": one.vehicle, "time": one.time, "lat": one.place[0], "lon": one.place[1],
             "heading": one.heading, "braking": one.braking, "monitor": one.monitor}
            for one in last.values()
        ]  # fmt: skip
        connection.execute(sql.insert(tables.sightings), made)


def write_sign(connection: Connection, monitor: str, shown: int | None, standing: list[int]) -> None:
    connection.execute(sql.delete(tables.signs).where(tables.signs.c.monitor == monitor))
    made = {"monitor": monitor, "shown": shown, "standing": list(standing)}
    connection.execute(sql.insert(tables.signs), [made])


def put(connection: Connection, key: str, value: int) -> None:
    connection.execute(sql.delete(tables.meta).where(tables.meta.c.key == key))
    connection.execute(sql.insert(tables.meta), [{"key": key, "value": value}])


def _raise(connection: Connection, key: str, value: int) -> None:
    """Never lower."""
    query = sql.select(tables.meta.c.value).where(tables.meta.c.key == key)
    before = connection.execute(query).scalar_one_or_none()
    if before is None or before < value:
        put(connection, key, value)


def _measured(one: Evidence) -> dict[str, Any]:
    made = one._asdict()
    made["lat"], made["lon"] = made.pop("place")
    made["limit_kmh"] = made.pop("limit")
    made["limit_source"] = cleaned(one.limit_source, SOURCE_MAX)
    return made


def _quarantined(one: Quarantined) -> dict[str, Any]:
    made = one._asdict()
    made["params"] = made.pop("values")
    return made


def _rule(one: Rule) -> dict[str, Any]:
    return {**one._asdict(), "hours": None if one.hours is None else str(one.hours)}


# Reading


def evidence_of(connection: Connection, number: int) -> list[Evidence]:
    query = sql.select(tables.evidence).where(tables.evidence.c.number == number).order_by(tables.evidence.c.id)
    return [_evidence(row) for row in connection.execute(query).mappings()]


def _evidence(row: Any) -> Evidence:
    values = {name: row[name] for name in Evidence._fields if name not in ("place", "limit")}
    return Evidence(place=(row["lat"], row["lon"]), limit=row["limit_kmh"], **values)


def steps_of(connection: Connection, number: int) -> tuple[Step, ...]:
    query = sql.select(tables.steps).where(tables.steps.c.number == number).order_by(tables.steps.c.place)
    return tuple(step_of_row(row) for row in connection.execute(query).mappings())


def step_of_row(row: Any) -> Step:
    return Step(row["state"], row["at"], row["who"], row["note"])


def case_of_row(row: Any, steps: tuple[Step, ...]) -> Case:
    return Case(
        row["number"], row["plate"], row["first"], row["last"], row["reports"], tuple(row["monitors"]), _evidence(row),
        row["fine"], row["currency"], row["points"], row["state"], steps,
    )  # fmt: skip


def sighting_of_row(row: Any) -> Sighting:
    return Sighting(
        row["vehicle"], row["time"], (row["lat"], row["lon"]), row["heading"], row["braking"], row["monitor"]
    )


def quarantined_of_row(row: Any) -> Quarantined:
    return Quarantined(
        row["reason"], row["detail"], row["subject"], row["vehicle"], row["seq"], row["monitor"], row["time"],
        row["received"], row["params"],
    )  # fmt: skip


def rule_of_row(row: Any) -> Rule:
    hours = None if row["hours"] is None else Hours.parse(row["hours"])
    return Rule(row["area"], row["value"], row["since"], hours, row["source"], row["until"])
