"""python -m vicinal_tools.bench [--json]"""

import json
import platform
import sys

from rich.console import Console
from rich.table import Table

from . import (
    Row,
    agent,
    can_decode,
    connections,
    cosmic,
    device,
    event_log,
    flashed,
    gateway,
    geometry,
    language,
    linear_road,
    many_filters,
    peers,
    scopes,
    spark,
    spark_latency,
    steam,
    steam_device,
    store_forward,
    traffic,
    update,
)


def main() -> int:
    as_json = "--json" in sys.argv[1:]
    console = Console(stderr=as_json)
    rows: list[Row] = []
    for title, part in (
        ("one event", language),
        ("geometry", geometry),
        ("on a device", device),
        ("STEAM on a device", steam_device),
        ("agent on a device, a million events, for some ten minutes", agent),
        ("agent as it is flashed", flashed),
        ("updating a device over the air", update),
        ("event log", event_log),
        ("store and forward", store_forward),
        ("Index", many_filters),
        ("scopes", scopes),
        ("Spark, for minutes", spark),
        ("Spark, end to end", spark_latency),
        ("CAN log", can_decode),
        ("STEAM in a town, for minutes", steam),
        ("traffic control, for two minutes", traffic),
        ("COSMIC, a million slots, for minutes", cosmic),
        ("TLS connections, half a minute", connections),
        ("gateway, half a minute", gateway),
        ("Linear Road, five minutes", linear_road),
        ("broker beside mosquitto and nats-server, for minutes", peers),
    ):
        with console.status(f"measuring: {title}"):
            rows.extend(part.rows())
    if as_json:
        print(json.dumps([row._asdict() for row in rows], indent=1))
    else:
        console.print(_table(rows))
    return 1 if any(row.met is False for row in rows) else 0


def _table(rows: list[Row]) -> Table:
    machine = f"CPython {platform.python_version()}, {platform.machine()}"
    table = Table(
        title=f"Vicinal on {machine}; CPU times, best of five rounds; brokers: median of three", title_justify="left"
    )
    for column in ("what", "figure", "against", "ratio", "goal", ""):
        table.add_column(column)
    for row in rows:
        mark = {None: "", True: "[green]met[/]", False: "[bold red]MISSED[/]"}[row.met]
        table.add_row(row.what, row.figure, row.against, row.ratio, row.goal, mark)
    return table


if __name__ == "__main__":
    sys.exit(main())
