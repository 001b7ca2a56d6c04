"""Conditions evaluated by Spark SQL itself, one DataFrame of events, all conditions in one job."""

import os
import shutil
import sys
from functools import cache
from typing import Any

import pytest

from vicinal.event import Event


@cache
def session() -> Any:
    """One for the test run: it takes ten seconds to start."""
    if shutil.which("java") is None:
        pytest.skip("SPARK TESTS SKIPPED: no java on the path (apt-get install openjdk-17-jre-headless)")
    pyspark = pytest.importorskip("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = pyspark.SparkSession.builder.master("local[1]").appName("vicinal-tests")
    options = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.caseSensitive": "true",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.catalogImplementation": "in-memory",
        # A minute's life: the better compiler and the parallel collector would not earn what they cost.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        # Hundreds of conditions on two hundred rows: compiling them would take longer than evaluating.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.subexpressionElimination.enabled": "false",
    }
    for name, value in options.items():
        builder = builder.config(name, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("ERROR")
    return found


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
