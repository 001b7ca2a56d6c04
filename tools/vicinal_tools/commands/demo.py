"""vicinal demo: a small town with its vehicles, monitors, brokers and traffic control, as real processes."""

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vicinal.errors import LocalProtocolError

from ..complain import BadInput
from ..overlay import Failed

if TYPE_CHECKING:
    from ..demo.city import City
    from ..demo.show import Show, Summary

__all__ = ["command"]

SPARK_S = 180.0
"""seconds for the last tables"""


@click.command("demo", short_help="A small town: vehicles, monitors, brokers and traffic control.")
@click.option("--for", "seconds", type=click.FloatRange(min=1), help="End by itself after so many seconds.")
@click.option("--no-browser", is_flag=True, help="Do not open the page; its address is printed in any case.")
@click.option("--json", "as_json", is_flag=True, help="The summary as one JSON object, for programs.")
@click.option("--vehicles", default=20, show_default=True, type=click.IntRange(1, 200))
@click.option("--speeders", default=0.3, show_default=True, type=click.FloatRange(0, 1), help="Part of the drivers.")
@click.option("--seed", default=1, show_default=True, help="The same seed is the same traffic.")
@click.option("--network", type=click.Path(dir_okay=False), help="A town of your own, GeoJSON; else Aldermere.")
@click.option("--sumo", type=click.Path(dir_okay=False), help="Vehicles of Eclipse SUMO: a .net.xml, or a .sumocfg.")
@click.option(
    "--replay",
    multiple=True,
    type=click.Path(dir_okay=False),
    help="Vehicles as recorded: GPX, CSV, NMEA; or logs of CAN buses, with --dbc and --signal. Give it again for more.",
)
@click.option("--dbc", type=click.Path(dir_okay=False), help="What the frames of a log mean.")
@click.option("--signal", help="MESSAGE.SIGNAL of the DBC file: how fast the car was.")
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65535), help="Of the page; 0 for any.")
@click.option("--database", help="postgresql+psycopg://...; without it SQLite.")
@click.option(
    "--spark", is_flag=True, help="Analyse it with Spark meanwhile: tables of positions and offences, a page."
)
@click.option("--keep", type=click.Path(file_okay=False), help="Keep configurations, logs and database in this folder.")
@click.pass_context
def command(
    ctx: click.Context,
    seconds: float | None,
    no_browser: bool,
    as_json: bool,
    vehicles: int,
    speeders: float,
    seed: int,
    network: str | None,
    sumo: str | None,
    replay: tuple[str, ...],
    dbc: str | None,
    signal: str | None,
    port: int,
    database: str | None,
    spark: bool,
    keep: str | None,
) -> None:
    """Run the use case of traffic monitoring: vehicles on CAN buses and BLE, monitors at the roadside, three brokers
    and the traffic control office, each a real process.

    Ctrl-C brings it to rest and ends it. Exit code 0 only if every event that had to cross a hop did, and none beside.
    """
    try:
        from ..demo.city import City, DemoError
        from ..demo.files import write
        from ..demo.show import Show
        from ..traffic.sources import choose
    except ImportError as error:
        raise Failed(f"{error}: pip install 'vicinal[gateway,traffic]'") from error

    if spark and find_spec("pyspark") is None:
        raise Failed("--spark needs Spark: pip install 'vicinal[spark]'")

    def tell(text: str) -> None:
        if not as_json:
            click.echo(text, err=True)

    try:
        source = choose(vehicles, network, sumo, replay, dbc, signal)
    except LocalProtocolError as error:
        raise BadInput(str(error)) from error
    with _folder(keep) as folder:
        try:
            plan = write(folder, source.network, source.vehicles, speeders, seed, port, database, source.table)
            city = City(plan)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        show, begun = Show(city), time.monotonic()
        try:
            show.start(lambda what: tell(f"{time.monotonic() - begun:5.1f} s  starting: {what}"))
            what = f"{source.vehicles} vehicle{'s' * (source.vehicles != 1)}"
            tell(f"{time.monotonic() - begun:5.1f} s  {what} in {source.network.name}: {city.address}")
            tell(_who_may_see_plates(city))
            # Not in a folder that is removed: they are what one wants to look at afterwards.
            tables = (
                (folder if keep else Path(tempfile.mkdtemp(prefix="vicinal-tables-"))) / "tables" if spark else None
            )
            if tables is not None:
                city.analyse(tables)
            if not no_browser and not as_json and _has_screen():
                click.launch(city.address)
            _run(show, seconds, as_json)
            tell("coming to rest (Ctrl-C again: at once)")
            found = show.finish()
            if tables is not None:
                tell("Spark makes the last of its tables")
                tell(_analysed(city, tables))
        except DemoError as error:
            raise Failed(str(error)) from error
        finally:
            codes = city.stop()
        hard = {name: code for name, code in codes.items() if code}
        if hard:
            raise Failed(f"did not end as they should: {hard}")
    if as_json:
        click.echo(json.dumps(found.plain()))
    else:
        _print(found)
    ctx.exit(0 if found.holds else 1)


def _has_screen() -> bool:
    """Else what would open a browser complains that there is none."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _who_may_see_plates(city: "City") -> str:
    """How to ask. The brokers are there while it runs, the file of scopes afterwards too, with --keep."""
    from ..demo.files import ADMINISTRATOR, BROKERS, OFFICE

    plan = city.plan
    event = '{"subject": "Speed", "params": {"license_no": "00D1234", "rate": 57.0}}'
    return (
        f"Who may see plates? Not the planner, but {OFFICE}. While it runs:\n"
        f"  vicinal scope explain tcp://127.0.0.1:{plan.brokers[BROKERS[0]]} --token-file "
        f"{shlex.quote(str(plan.folder / f'{ADMINISTRATOR}.token'))} --from {next(iter(plan.network.monitors))} "
        f"--to planner --event '{event}'"
    )


def _analysed(city: "City", tables: Path) -> str:
    """Where they are, and a page of them."""
    from ..demo.city import COMMAND

    part = city.parts["spark"]
    if code := city.end("spark", SPARK_S):
        return f"Spark did not end as it should, with exit code {code}{part.last_words()}"
    page = tables.with_name("report.html")
    done = subprocess.run(
        [*COMMAND, "spark", "report", str(tables), "--html", str(page)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        return f"Tables: {tables}; there is no page of them: {done.stderr.strip()}"
    return f"Tables: {tables}\nPage of them: {page}"


@contextlib.contextmanager
def _folder(keep: str | None) -> Iterator[Path]:
    if keep is not None:
        path = Path(keep).absolute()
        if path.exists() and any(path.iterdir()):
            raise click.UsageError(f"--keep {keep}: the folder is not empty")
        path.mkdir(parents=True, exist_ok=True)
        yield path
        return
    made = tempfile.mkdtemp(prefix="vicinal-")
    try:
        yield Path(made)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _run(show: "Show", seconds: float | None, as_json: bool) -> None:
    """Until its time is over, or Ctrl-C: then it comes to rest as well."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    if as_json or not console.is_terminal:
        with contextlib.suppress(KeyboardInterrupt):
            show.run(seconds if seconds is not None else float("inf"))
        return
    with Live(console=console, transient=True) as live, contextlib.suppress(KeyboardInterrupt):
        show.run(seconds if seconds is not None else float("inf"), lambda state: live.update(_board(state)))


def _board(state: dict[str, Any]) -> Any:
    from rich.console import Group
    from rich.table import Table

    monitors = Table(title="monitors", title_justify="left")
    for name in ("monitor", "area", "shows", "Speed", "Location"):
        monitors.add_column(name)
    for one in state["monitors"]:
        counts = [str(one["heard"].get(subject, 0)) for subject in ("Speed", "Location")]
        monitors.add_row(one["name"], one["area"], f"{one['shown']} km/h", *counts)
    cases = Table(title="over the limit now", title_justify="left")
    for name in ("case", "plate", "km/h", "limit", "where", "reports", "monitors", "fine"):
        cases.add_column(name)
    for one in state["open"][-12:]:
        cases.add_row(
            str(one["number"]), one["license_no"], f"{one['speed_kmh']:.0f}", str(one["limit_kmh"]), one["area"],
            str(one["reports"]), one["monitors"], f"{one['fine']} {one['currency']}",
        )  # fmt: skip
    return Group(monitors, cases)


def _print(found: "Summary") -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    hops, judged = found.accounts.hops, found.judgement
    road = hops["roadside"]
    table = Table(title=f"{found.vehicles} vehicles, {found.seconds:.0f} s", title_justify="left")
    for name in ("hop", "came", "went on", "refused", "lost"):
        table.add_column(name, justify="left" if name == "hop" else "right")
    rows = (
        ("agent of each car, to its bus", hops["bus"]["read"], hops["bus"]["frames"], hops["bus"]["refused"], "agent"),
        ("CAN bus of each car", hops["bus"]["frames"], hops["bus"]["heard"], 0, "bus"),
        (
            "gateway of each car, to the air",
            hops["air"]["accepted"],
            hops["air"]["said"],
            hops["air"]["dropped"],
            "air",
        ),
        ("monitors, to the overlay", road["accepted"], road["delivered"], road["dropped"], "roadside"),
        ("brokers, to traffic control", road["delivered"], hops["office"]["received"], 0, "overlay"),
    )
    for name, came, went, refused, key in rows:
        table.add_row(name, f"{came:,}", f"{went:,}", f"{refused:,}", str(found.accounts.losses[key]))
    console.print(table)
    console.print(
        f"Of what was said, {judged.must:,} had to leave the roadside and {judged.may:,} might; {judged.crossed:,} "
        f"did. Missing: {len(judged.missing)}, too many: {len(judged.extra)}."
    )
    if judged.slow:
        console.print(
            f"{judged.slow:,} of {judged.said:,} were said later than they should, and are not judged strictly: this "
            "computer is too busy, or there are too many --vehicles."
        )
    for monitor, what in [*judged.missing[:5], *judged.extra[:5]]:
        console.print(f"  {monitor}: {what}")
    office = hops["office"]
    states = ", ".join(f"{count} {state}" for state, count in sorted(found.cases.items())) or "none"
    console.print(
        f"Speed reports over the limit: {office['over']:,}, within the tolerance or another area's limit: "
        f"{office['within']:,}, heard by a second monitor: {office['witnessed']:,}, in quarantine: "
        f"{office['quarantined']:,}."
    )
    console.print(f"Offences: {states}. Fines: {found.fines / 100:.2f} EUR.")
    for name, one in found.latency_ms.items():
        console.print(f"Latency, {name}: p50 {one['p50']} ms, p99 {one['p99']} ms, most {one['max']} ms.")
    console.print(f"CPU: {sum(found.cpu_s.values()):.1f} s; memory: {sum(found.memory_mb.values())} MB.")
    console.print("The accounts hold." if found.holds else "[bold]The accounts do not hold.[/bold]")
