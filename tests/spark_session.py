"""One Spark for the test run. Tests that use it are in the xdist group "spark": one worker starts it, once.

Sessions of one Spark have their own settings and registered sources; the JVM and its cores are shared.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jars import Missing, complete, jars

POMS = Path(__file__).parent / "cloud" / "spark"

# Thousands of rows and minutes of life: better compilers, plans that are made anew while they run, and code that is
# written and compiled for every query would not earn what they cost. What a query means is the same.
QUICK = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@cache
def base_session() -> Any:
    """The first, and the one that programs get: what is registered as a data source counts there."""
    pytest.importorskip("pyspark")
    from vicinal_cloud.spark.session import SparkUnavailable, session

    try:
        return session(
            "vicinal-tests",
            "local[2]",
            {**QUICK, **_connector()},
            memory="2g",
        )
    except SparkUnavailable as error:
        pytest.skip(f"SPARK TESTS SKIPPED: {error}")


@cache
def kafka_connector() -> str:
    """Its libraries, with commas between. Raises Missing."""
    from pyspark import __version__ as version

    wanted = "spark-sql-kafka-*.jar"
    other = ("connector-4.2", POMS / "connector-4.2.pom.xml", wanted)
    try:
        if complete(other[0]):  # it was looked for, and not there
            return ",".join(map(str, jars(*other)))
        found = jars(f"connector-{version}", POMS / "connector.pom.xml", wanted, f"-Dspark.version={version}")
    except Missing:
        found = jars(*other)
    return ",".join(map(str, found))


def _connector() -> dict[str, str]:
    """Libraries are given to a Spark that starts; tests that need these ask `kafka_connector` why they are missing."""
    try:
        return {"spark.jars": kafka_connector()}
    except Missing:
        return {}


def new_session(settings: Mapping[str, str] | None = None) -> Any:
    """With the settings of vicinal_cloud.spark.session, and those given."""
    from vicinal_cloud.spark.session import SETTINGS

    found = base_session().newSession()
    for name, value in {**SETTINGS, **QUICK, **(settings or {})}.items():
        if found.conf.isModifiable(name):
            found.conf.set(name, value)
    return found
