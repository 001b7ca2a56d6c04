"""vicinal spark ingest: a log that grows, into tables that follow it."""

import json
import signal
import threading
from pathlib import Path

import click

from vicinal.errors import VicinalError

from ..overlay import Failed
from ._options import session_options, start
from ._tables import Source, is_delta, limits_of, places_of, progress, settings_of, source_of, source_options

__all__ = ["command", "reason_of"]

# A week: what is longer is a mistake, and infinity no number of seconds.
_TIME = click.FloatRange(0, 604_800)
# Spark waits 10 s for a Python process of its own to start, which cannot be set. On a crowded machine that is short,
# and as a query goes on where it was, it is started again.
_SLOW, _TRIES = "Python worker failed to connect back", 10


@click.command("ingest")
@source_options
@click.option("--once", is_flag=True, help="What is there now, and no more.")
@click.option("--every", metavar="SECONDS", type=_TIME, default=0.0, help="Of a batch; without it, as fast as it can.")
@click.option("--most", metavar="N", type=click.IntRange(1), help="Events of one batch at most.")
@click.option(
    "--refresh",
    metavar="SECONDS",
    type=_TIME,
    default=60.0,
    show_default=True,
    help="Of what follows from positions.",
)
@click.option(
    "--positions-only", is_flag=True, help="Positions, late and quarantine, and nothing that follows from them."
)
@click.option("--skip-lost", is_flag=True, help="Go on where retention was faster; what was lost is counted.")
@click.option("--json", "as_json", is_flag=True, help="Progress as one JSON object a line, for programs.")
@session_options
def command(
    source: Source,
    once: bool,
    every: float,
    most: int | None,
    refresh: float,
    positions_only: bool,
    skip_lost: bool,
    as_json: bool,
    master: str | None,
    memory: str,
    jars: str | None,
) -> None:
    """Follow a log: positions, late reports and quarantine with each batch, all other tables now and then.

    Ends with Ctrl-C or SIGTERM; called again with the same --out it goes on where it was. Killed at any moment it loses
    nothing and counts nothing twice.
    """
    options = source_of(source)
    places, settings = places_of(source)
    delta = is_delta(source)
    if most:
        options["maxOffsetsPerTrigger"] = str(most)
    if skip_lost:
        options["failOnDataLoss"] = "false"
    stopping = threading.Event()
    _on_signals(stopping)
    click.echo("starting Spark", err=True)
    spark = start("ingest", master, memory, settings_of(options), jars)
    from vicinal_cloud.spark.source import register
    from vicinal_cloud.spark.traffic.run import DERIVED, Tables, stream

    _on_signals(stopping)  # Spark has put its own in their place
    register(spark)

    def said(counts: dict[str, object]) -> None:
        click.echo(json.dumps(counts) if as_json else progress(counts))

    trigger: dict[str, object] = {"availableNow": True} if once else {"processingTime": f"{every} seconds"}
    try:
        tables = Tables(
            spark,
            Path(source.out),
            places,
            settings,
            query="ingest",
            refresh_s=refresh,
            derived=() if positions_only else DERIVED,
            said=said,
            delta=delta,
            limits=limits_of(places, source.rules),
        )
        try:
            tries = _TRIES
            while tries and not stopping.is_set():
                query = stream(spark, options, tables, trigger)
                try:
                    while not stopping.is_set() and not query.awaitTermination(1):
                        tables.tick()
                    query.stop()
                    break
                except Exception as error:
                    query.stop()
                    if stopping.is_set():
                        break  # of what was under way nothing is committed
                    tries -= 1
                    if _SLOW not in str(error) or not tries:
                        raise
                    click.echo("Spark's worker took longer than 10 s to start on this machine: again", err=True)
            if not positions_only:
                click.echo("ending: what follows from the last positions is made", err=True)
                tables.refresh()
        finally:
            tables.close()
    except VicinalError as error:
        raise Failed(str(error)) from error
    except Exception as error:
        raise Failed(reason_of(error)) from error
    finally:
        spark.stop()


def _on_signals(stopping: threading.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())


def reason_of(error: BaseException) -> str:
    """What a person can use of what Spark says: our own words, where they are in it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith(("vicinal", "vicinal_cloud"))]
    return ours[-1].partition(": ")[2] if ours else lines[0] if lines else repr(error)
