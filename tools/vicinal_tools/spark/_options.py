"""What the sub-commands of `vicinal spark` share: where Spark runs, and how they end when it cannot."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..complain import BadInput
from ..overlay import Failed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["session_options", "start"]

F = TypeVar("F", bound=Callable[..., Any])


def session_options(function: F) -> F:
    function = click.option("--master", metavar="URL", help="A cluster; without it this machine, all cores.")(function)
    function = click.option(
        "--jars", metavar="FILES", help="Libraries of Java for Spark, with commas between, * for any: Kafka's, Delta's."
    )(function)
    return click.option(
        "--memory", metavar="SIZE", default="2g", show_default=True, help="Of the driver; here that is all there is."
    )(function)


def start(
    name: str,
    master: str | None,
    memory: str | None,
    settings: Mapping[str, str] | None = None,
    jars: str | None = None,
) -> "SparkSession":
    """`settings` may name packages of Maven Central, which Spark fetches; `jars` are taken instead of these."""
    from vicinal_cloud.spark.session import SparkUnavailable, session

    wanted = dict(settings or {})
    packages = wanted.get("spark.jars.packages")
    if jars:
        wanted.pop("spark.jars.packages", None)
        wanted["spark.jars"] = ",".join(_found(jars))
    try:
        return session(f"vicinal spark {name}", master, wanted, memory)
    except SparkUnavailable as error:
        advice = ""
        if packages and not jars:
            advice = (
                f"\nIt was to fetch {packages} from Maven Central. Where that cannot be reached, or has it not, get "
                "the libraries otherwise (mvn dependency:copy-dependencies) and name them: --jars 'FOLDER/*.jar'"
            )
        raise Failed(f"{error}{advice}") from error


def _found(jars: str) -> list[str]:
    found: list[str] = []
    for pattern in filter(None, (part.strip() for part in jars.split(","))):
        where = Path(pattern).resolve()
        here = sorted(where.parent.glob(where.name))
        if not here:
            raise BadInput(f"--jars {pattern}: there is no such file")
        found += map(str, here)
    return found
