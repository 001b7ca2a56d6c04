"""vicinal kafka: mirror, status."""

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from vicinal.errors import VicinalError

from ..complain import BadInput
from ..overlay import Failed, Reach, reach_options, run

__all__ = ["command"]

F = TypeVar("F", bound=Callable[..., Any])


def _kafka_options(function: F) -> F:
    for option in reversed(
        [
            click.option("--kafka", metavar="HOST:PORT", required=True, help="Kafka; several servers with commas."),
            click.option("--topic", metavar="TOPIC", required=True),
            click.option(
                "--kafka-config",
                metavar="FILE",
                type=click.Path(exists=True, dir_okay=False),
                help="More for Kafka's client (librdkafka), a line each: security.protocol=SASL_SSL",
            ),
        ]
    ):
        function = option(function)
    return function


@click.group("kafka")
def command() -> None:
    """Event logs on Kafka, for those who outgrow one machine."""


@command.command("mirror")
@_kafka_options
@click.option(
    "--path", metavar="DIR", help="The directory of an event log, or of a broker's [log], instead of a broker."
)
@click.option("--log", metavar="NAME", help="What the log is called in Kafka; without it its address or path.")
@click.option("--once", is_flag=True, help="What is there now, and no more.")
@click.option(
    "--partitions", metavar="N", type=click.IntRange(1), default=8, show_default=True, help="Of a topic that is new."
)
@click.option("--replicas", metavar="N", type=click.IntRange(1), help="The same; without it as Kafka is configured.")
@click.option(
    "--scoped", is_flag=True, help="With --path: also what was published in scopes. Who reads the topic reads it."
)
@click.option("--skip-lost", is_flag=True, help="Go on where retention was faster; what was lost is counted.")
@click.option("--json", "as_json", is_flag=True, help="Progress as one JSON object a line, for programs.")
@reach_options
def mirror(
    kafka: str,
    topic: str,
    kafka_config: str | None,
    path: str | None,
    log: str | None,
    once: bool,
    partitions: int,
    replicas: int | None,
    scoped: bool,
    skip_lost: bool,
    as_json: bool,
    broker: str,
    name: str | None,
    ca: str | None,
    certificate: str | None,
    key: str | None,
) -> None:
    """Put every event of a broker's log into a topic, once, and go on with what comes.

    Each producer's events are in one partition, in their order. Ends with Ctrl-C or SIGTERM; called again it goes on
    where it was, and killed at any moment it loses nothing and repeats nothing. Several brokers have a mirror each,
    into one topic.
    """
    import asyncio

    _need_client()
    from vicinal_cloud.kafka.errors import Fenced, LogGone, NotTheLog
    from vicinal_cloud.kafka.mirror import Mirror
    from vicinal_cloud.kafka.sources import BrokerSource, DirectorySource, Source

    if path and not Path(path).is_dir():
        raise BadInput(f"--path {path}: there is no such directory")
    if scoped and not path:
        raise BadInput("--scoped goes with --path: a broker shows what is in scopes to its administrators only")
    config = _config(kafka_config)
    begun = time.monotonic()

    def said(what: dict[str, Any]) -> None:
        if as_json:
            click.echo(json.dumps(what))
        elif "trouble" in what:
            click.echo(f"{what['trouble']}: again in a moment", err=True)
        else:
            counts = ", ".join(f"{what[one]:,} {one}" for one in ("mirrored", "hidden", "lost") if what[one])
            click.echo(f"{what['log']} up to offset {what['next']:,}: {counts} ({time.monotonic() - begun:.1f} s)")

    async def work() -> None:
        reach = Reach(broker, name, ca, certificate, key)
        source: Source = (
            DirectorySource(Path(path).resolve(), log or "", scoped)
            if path
            else BrokerSource(log or broker, lambda: reach.connect())
        )
        found = Mirror(
            source,
            kafka,
            topic,
            lambda: time.time_ns() // 1_000_000,
            config,
            partitions,
            replicas or -1,
            skip_lost,
            said,
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, found.stop)
        try:
            await found.run(once)
        finally:
            await source.close()

    try:
        run(work())
    except NotTheLog as error:
        raise BadInput(str(error)) from error
    except (Fenced, LogGone, VicinalError) as error:
        raise Failed(str(error)) from error


@command.command("status")
@_kafka_options
@click.option("--json", "as_json", is_flag=True, help="As one JSON object, for programs.")
def status(kafka: str, topic: str, kafka_config: str | None, as_json: bool) -> None:
    """How far each log is mirrored into a topic, and what is in it."""
    _need_client()
    from vicinal_cloud.kafka.reader import KafkaReader, read_cursors

    config = _config(kafka_config)
    try:
        reader = KafkaReader(kafka, topic, config)
        ends = reader.ends()
        reader.close()
        cursors = read_cursors(kafka, topic, config)
    except VicinalError as error:
        raise Failed(str(error)) from error
    if as_json:
        logs = {log: cursor._asdict() for log, cursor in cursors.items()}
        click.echo(
            json.dumps({"topic": topic, "partitions": {str(at): list(one) for at, one in ends.items()}, "logs": logs})
        )
        return
    for log, cursor in sorted(cursors.items()):
        click.echo(
            f"{log}: up to offset {cursor.next:,}: {cursor.mirrored:,} mirrored, {cursor.hidden:,} hidden, "
            f"{cursor.lost:,} lost"
        )
    for at, (first, following) in ends.items():
        click.echo(f"{topic}/{at}: offsets {first:,} to {following:,}")


def _need_client() -> None:
    from importlib.util import find_spec

    if find_spec("confluent_kafka") is None:
        raise Failed("confluent-kafka is not installed: pip install 'vicinal[kafka]'")


def _config(file: str | None) -> dict[str, str]:
    """Lines of name=value; # begins a comment."""
    found = {}
    for number, line in enumerate(Path(file).read_text(encoding="utf-8").splitlines() if file else [], 1):
        text = line.strip()
        if text and not text.startswith("#"):
            key, equals, value = text.partition("=")
            if not equals:
                raise BadInput(f"{file}, line {number}: {text!r}, want name=value")
            found[key.strip()] = value.strip()
    return found
