"""vicinal spark traffic: all of a log into tables, at once."""

import json
from pathlib import Path

import click

from vicinal.errors import VicinalError

from ..complain import BadInput
from ..overlay import Failed
from ._options import session_options, start
from ._tables import Source, is_delta, places_of, settings_of, source_of, source_options
from .ingest import reason_of

__all__ = ["command"]


@click.command("traffic")
@source_options
@click.option("--json", "as_json", is_flag=True, help="The counts as one JSON object, for programs.")
@session_options
def command(
    source: Source,
    as_json: bool,
    master: str | None,
    memory: str,
    jars: str | None,
) -> None:
    """Make the traffic tables of all that is in a log, in a new folder.

    positions, late, quarantine, segment_speeds, congestion, stopped, accidents, trips, offences: Parquet by day and
    area, for Spark, DuckDB and pandas. To follow a log that grows: vicinal spark ingest.
    """
    options = source_of(source)
    places, settings = places_of(source)
    delta = is_delta(source)
    from vicinal_cloud.spark.traffic.store import STATE

    if (Path(source.out) / STATE).exists():
        raise BadInput(
            f"--out {source.out} has tables already: give another, or follow a log with vicinal spark ingest"
        )
    click.echo("starting Spark", err=True)
    spark = start("traffic", master, memory, settings_of(options), jars)
    from vicinal_cloud.spark.source import register
    from vicinal_cloud.spark.traffic.run import batch

    register(spark)
    try:
        click.echo("reading", err=True)
        counts = batch(spark, options, Path(source.out), places, settings, delta)
    except VicinalError as error:
        raise Failed(str(error)) from error
    except Exception as error:
        raise Failed(reason_of(error)) from error
    finally:
        spark.stop()
    if as_json:
        click.echo(json.dumps(counts))
        return
    for name, count in counts.items():
        if count or name == "read":
            click.echo(f"{count:>12,}  {name}")
