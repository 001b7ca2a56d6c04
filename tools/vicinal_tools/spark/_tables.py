"""What `ingest` and `traffic` share: where events come from, the road network, and what is said meanwhile."""

import socket
from collections.abc import Callable, Mapping
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from vicinal.errors import LocalProtocolError, VicinalError

from ..complain import BadInput, parse_filter
from ..overlay import Failed

if TYPE_CHECKING:
    from vicinal_cloud.spark.traffic.places import Places
    from vicinal_cloud.spark.traffic.rules import Known
    from vicinal_cloud.traffic import Settings

__all__ = ["Source", "is_delta", "limits_of", "places_of", "progress", "settings_of", "source_of", "source_options"]


def source_options(function: "Callable[..., None]") -> "Callable[..., None]":
    """The function's first argument is a Source, of these."""

    @wraps(function)
    def gathered(**given: Any) -> None:
        source = Source(**{name: given.pop(name) for name in Source._fields})
        function(source, **given)

    made: Callable[..., None] = gathered
    for option in reversed(
        [
            click.option(
                "--path",
                "paths",
                metavar="DIR",
                multiple=True,
                help="The directory of an event log, or of a broker's [log]; again for each.",
            ),
            click.option("--brokers", metavar="ADDRESSES", help="Brokers whose logs are read, with commas between."),
            click.option(
                "--kafka", metavar="HOST:PORT", help="Kafka, into which logs are mirrored (vicinal kafka mirror)."
            ),
            click.option("--topic", metavar="TOPIC", help="Of Kafka."),
            click.option(
                "--kafka-option",
                "kafka_options",
                metavar="NAME=VALUE",
                multiple=True,
                help="More for Kafka's client (Java's), as security.protocol=SASL_SSL; again for each.",
            ),
            click.option("--filter", "condition", metavar="TEXT", help="Only events for which it is true."),
            click.option("--token-file", metavar="FILE", help="Who we are, for brokers that ask."),
            click.option(
                "--network", metavar="FILE", help="Roads and areas (GeoJSON); without it, the town of the demo."
            ),
            click.option(
                "--rules",
                metavar="FILE|URL",
                help="Limits that were set: what the office's /api/limits answers, in a file, or http://OFFICE itself.",
            ),
            click.option(
                "--office",
                metavar="FILE",
                help="The office's configuration: offences by its [rules] and [tariff], on its network.",
            ),
            click.option("--out", metavar="DIR", required=True, help="The tables, and where the query has come to."),
            click.option(
                "--format",
                "table_format",
                type=click.Choice(["parquet", "delta"]),
                default="parquet",
                show_default=True,
                help="Delta is the same Parquet, with a log beside it that readers of Delta know.",
            ),
        ]
    ):
        made = option(made)
    return made


class Source(NamedTuple):
    """What source_options gives a command, by their names."""

    paths: tuple[str, ...]
    brokers: str | None
    kafka: str | None
    topic: str | None
    kafka_options: tuple[str, ...]
    condition: str | None
    token_file: str | None
    network: str | None
    rules: str | None
    office: str | None
    out: str
    table_format: str


def source_of(source: Source) -> dict[str, str]:
    """As options of Spark's reader."""
    paths, brokers, kafka, topic, kafka_options, condition, token_file, *_ = source
    if len([1 for one in (paths, brokers, kafka) if one]) != 1:
        raise BadInput("want --path DIR, --brokers ADDRESSES or --kafka HOST:PORT, one of them")
    if bool(kafka) != bool(topic):
        raise BadInput("--kafka HOST:PORT and --topic TOPIC go together")
    for one in kafka_options:
        if not kafka or "=" not in one:
            raise BadInput(f"--kafka-option {one}: want NAME=VALUE, with --kafka")
    for path in paths:
        if not Path(path).is_dir():
            raise BadInput(f"--path {path}: there is no such directory")
        if "," in str(Path(path).resolve()):
            raise BadInput(f"--path {path}: a comma is what Spark's option has between two logs: give it another name")
        if find_spec("pyarrow") is not None:  # without it, that is said when Spark is started
            _check_log(path)
    for broker in filter(None, (brokers or "").split(",")):
        _say_if_away(broker.strip())
    if token_file and not Path(token_file).is_file():
        raise BadInput(f"--token-file {token_file}: there is no such file")
    if condition:
        parse_filter(condition, "--filter: ")
    # Whole: Spark's processes may have another current folder.
    found = {
        "path": ",".join(str(Path(path).resolve()) for path in paths),
        "brokers": brokers,
        "kafka": kafka,
        "topic": topic,
        "filter": condition,
        "tokenFile": token_file,
    }
    passed = {f"kafka.{name}": value for name, _, value in (one.partition("=") for one in kafka_options)}
    return {name: value for name, value in found.items() if value} | passed


def _check_log(path: str) -> None:
    from vicinal_cloud.spark.logs import log_at

    try:
        log_at(path)
    except (VicinalError, OSError) as error:
        raise BadInput(f"--path {error}") from error


def _say_if_away(broker: str) -> None:
    """It is waited for; who asks should know that."""
    from vicinal_cloud.broker.address import parse

    try:
        if "://" not in broker:
            raise LocalProtocolError("want an address, as tcp://HOST:PORT; a log's directory is --path")
        address = parse(broker)
    except LocalProtocolError as error:
        raise BadInput(f"--brokers {broker}: {error}") from error
    try:
        socket.create_connection((address.host, address.port), 1).close()
    except OSError as error:
        reason = error.strerror or str(error)
        click.echo(f"{broker} is away ({reason}): it is waited for, a minute whenever it is asked", err=True)


def is_delta(source: Source) -> bool:
    """Whether the tables are to be Delta's; where they cannot be, that is said before anything is started."""
    if source.table_format == "delta":
        from vicinal_cloud.spark.traffic.delta import check_installed

        try:
            check_installed()
        except VicinalError as error:
            raise Failed(str(error)) from error
    return source.table_format == "delta"


def settings_of(options: Mapping[str, str]) -> dict[str, str]:
    """What Spark needs to read from there."""
    if "kafka" not in options:
        return {}
    if find_spec("pyspark") is None:
        return {}  # said when it is started
    from vicinal_cloud.spark.kafka import connector

    return connector()


def places_of(source: Source) -> "tuple[Places, Settings]":
    """Roads, areas and limits; and by which rules an offence is one."""
    from vicinal_cloud.spark.traffic.places import Places, read_places
    from vicinal_cloud.spark.traffic.rules import read_limits
    from vicinal_cloud.traffic import Settings
    from vicinal_cloud.traffic.config import load

    from ..traffic import tracks

    file = source.network or Path(tracks.__file__).with_name("aldermere.geojson")
    try:
        office = load(Path(source.office)) if source.office else None
        if office is None or source.network:
            places = read_places(Path(file), source.rules)
        else:
            places = Places(office.network, *read_limits(office.network, source.rules))
        return places, office.settings if office else Settings()
    except VicinalError as error:
        raise BadInput(str(error)) from error


def limits_of(places: "Places", rules: str | None) -> "Callable[[], Known] | None":
    """Those that hold when it is asked. While they cannot be read those of before hold, which is said once."""
    if rules is None:
        return None
    from vicinal_cloud.spark.traffic.rules import Known, read_limits

    known, problem = Known(places.limits, places.shown), ""

    def limits() -> "Known":
        nonlocal known, problem
        try:
            known, now = read_limits(places.network, rules), ""
        except VicinalError as error:
            now = str(error)
            if now != problem:
                click.echo(f"the limits of before hold on: {now}", err=True)
        problem = now
        return known

    return limits


def progress(counts: dict[str, Any]) -> str:
    """One line: batch 7: 12,000 read in 0.8 s: 11,950 positions, 50 duplicate"""
    # Of quarantine the reasons are said, which are all of it.
    known = ("batch", "seconds", "read", "quarantine")
    parts = [f"{count:,} {name}" for name, count in counts.items() if count and name not in known]
    head = f"batch {counts['batch']}: {counts.get('read', 0):,} read in {counts['seconds']:.1f} s"
    return f"{head}: {', '.join(parts)}" if parts else head
