"""vicinal sim: simulations of the product's own state machines."""

import json
import time

import click
from rich.console import Console
from rich.table import Table

from ..sim import chaos
from ..sim.evaluation import VARIANTS, Measured, Workload, measure
from ..sim.topologies import TOPOLOGIES

__all__ = ["command"]


@click.group("sim")
def command() -> None:
    """Simulate overlays, their costs and their faults, and traffic."""


@command.command("overlay")
@click.option("--brokers", default=100, show_default=True, type=click.IntRange(2, 100_000))
@click.option("--topology", default="grid", show_default=True, type=click.Choice(TOPOLOGIES))
@click.option("--dimensions", default=1, show_default=True, type=click.IntRange(0, 4), help="Of scopes.")
@click.option("--region", default=10, show_default=True, type=click.IntRange(1), help="Brokers of an innermost scope.")
@click.option("--subscriptions", default=100, show_default=True, type=click.IntRange(1))
@click.option("--producers", default=20, show_default=True, type=click.IntRange(1))
@click.option("--notifications", default=200, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=1, show_default=True)
@click.option("--variant", "variants", multiple=True, type=click.Choice(list(VARIANTS)), help="What to compare; all.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
def overlay(variants: tuple[str, ...], as_json: bool, **options: int) -> None:
    """Messages and table sizes of an overlay, with scopes, covering and advertisements switched off one by one."""
    work = Workload(**options)  # type: ignore[arg-type]
    found: dict[str, tuple[Measured, float]] = {}
    console = Console(stderr=True)
    for variant in variants or VARIANTS:
        with console.status(f"{work.brokers} brokers: {variant}"):
            start = time.process_time()
            found[variant] = (measure(work, variant), time.process_time() - start)
    if as_json:
        rows = {name: {**row._asdict(), "cpu_seconds": round(spent, 2)} for name, (row, spent) in found.items()}
        click.echo(json.dumps({"workload": work._asdict(), "variants": rows}))
        return
    console = Console()
    console.print(_table(work, found), crop=False, soft_wrap=not console.is_terminal)


def _table(work: Workload, found: dict[str, tuple[Measured, float]]) -> Table:
    title = f"{work.brokers} brokers, {work.topology}, {work.dimensions} dimension(s) of scopes, seed {work.seed}"
    table = Table(title=title, title_justify="left")
    for name in ("with", "to install", "to notify", "acks", "heard by", "held by", "table", "CPU s"):
        table.add_column(name, justify="left" if name == "with" else "right", no_wrap=True)
    for name, (row, spent) in found.items():
        figures = [f"{value:.1f}" for value in row[:5]]
        table.add_row(name, *figures, f"{row.table_mean:.1f}, {row.table_max}", f"{spent:.1f}")
    table.caption = (
        "messages between brokers to install a subscription, and to notify; clients that heard a notification, brokers "
        "that held it;\nsubscriptions a broker knows, mean and most. Without scopes everybody hears: more is delivered."
    )
    table.caption_justify = "left"
    return table


@command.command("chaos")
@click.option("--seeds", default=100, show_default=True, type=click.IntRange(1))
@click.option("--first", default=0, show_default=True, help="The seed to start with; a failing one replays.")
@click.pass_context
def check(ctx: click.Context, seeds: int, first: int) -> None:
    """Random overlays under random faults: does every property hold? Exit code 1 with the seed if one does not."""
    delivered = 0
    with Console(stderr=True).status("") as status:
        for seed in range(first, first + seeds):
            status.update(f"seed {seed}")
            try:
                delivered += chaos.run(seed).delivered
            except AssertionError as error:
                click.echo(str(error), err=True)
                ctx.exit(1)
    click.echo(f"{seeds} runs, {delivered} deliveries, no property violated")


@command.command("traffic")
@click.option("--vehicles", default=12, show_default=True, type=click.IntRange(1, 100_000))
@click.option("--seconds", default=60, show_default=True, type=click.IntRange(1))
@click.option("--speeders", default=0.25, show_default=True, type=click.FloatRange(0, 1), help="Part of the drivers.")
@click.option("--seed", default=1, show_default=True)
@click.option("--network", type=click.Path(dir_okay=False), help="GeoJSON; without it the town that comes with it.")
def traffic(vehicles: int, seconds: int, speeders: float, seed: int, network: str | None) -> None:
    """Vehicles that drive through a town: a CSV line for each of them and each second, on stdout."""
    import sys
    from pathlib import Path

    from vicinal_cloud.traffic.network import load

    from ..traffic.tracks import shipped, write
    from ..traffic.world import World

    town = shipped() if network is None else load(Path(network))
    try:
        world = World(town, seed, vehicles, speeders)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    write(world, seconds, sys.stdout)
