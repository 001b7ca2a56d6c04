"""vicinal spark linear-road-input: inputs for the benchmark, from a seed."""

from pathlib import Path

import click
from rich.console import Console

__all__ = ["command"]


@click.command("linear-road-input")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--expressways", "-L", default=1, show_default=True, type=click.IntRange(1, 10_000), help="L of the benchmark."
)
@click.option("--seconds", default=10_800, show_default=True, type=click.IntRange(1, 86_400), help="How long it lasts.")
@click.option(
    "--start",
    default=0,
    show_default=True,
    type=click.IntRange(0, 86_400),
    help="The second to begin with: traffic grows from 13 reports a second at 0 to 2,000 at 10800.",
)
@click.option("--seed", default=1, show_default=True)
@click.option(
    "--tollhistory",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also this: 69 rows a vehicle and expressway.",
)
def command(file: Path, expressways: int, seconds: int, start: int, seed: int, tollhistory: Path | None) -> None:
    """Make an input of Linear Road: FILE, gzipped if its name ends in .gz.

    Two runs with the same options make the same file. Three hours of one expressway are 11 million rows, 600 MB.
    """
    from vicinal_cloud.spark.linear_road.generate import Generator, write_history, write_input

    generator = Generator(expressways, seed, start)
    rows = 0
    with Console(stderr=True).status("") as status:
        for second, count in enumerate(write_input(file, generator, seconds), 1):
            rows += count
            if second % 10 == 0:
                status.update(f"{second:,} of {seconds:,} seconds, {rows:,} rows")
        if tollhistory is not None:
            status.update("the toll history")
            known = write_history(tollhistory, generator.vehicles, expressways, seed)
    click.echo(f"{file}: {rows:,} rows, {generator.vehicles:,} vehicles")
    if tollhistory is not None:
        click.echo(f"{tollhistory}: {known:,} rows")
