"""Conditions evaluated by Spark SQL itself, one DataFrame of events, all conditions in one job."""

from functools import cache
from typing import Any

from spark_session import new_session

from vicinal.event import Event


@cache
def session() -> Any:
    return new_session({"spark.sql.subexpressionElimination.enabled": "false"})


def matching(conditions: list[str], events: list[Event], schema: dict[str, str]) -> list[list[bool]]:
    """For each condition, which events it accepts. `schema` has the columns beside the subject."""
    spark = session()
    from pyspark.sql import functions as sql

    types = {"subject": "string", **schema}
    fields = ", ".join("`" + name.replace("`", "``") + "` " + kind for name, kind in types.items())
    frame = spark.createDataFrame([tuple(row(event).get(name) for name in types) for event in events], fields)
    columns = [sql.coalesce(sql.expr(text), sql.lit(False)).alias(f"c{i}") for i, text in enumerate(conditions)]
    rows = frame.select(columns).collect()
    return [[bool(row[i]) for row in rows] for i in range(len(conditions))]


def row(event: Event) -> dict[str, Any]:
    found: dict[str, Any] = dict(event.params)
    found["subject"] = event.subject
    found.update({"$" + name: value for name, value in event.attrs.items()})
    return found
