"""vicinal spark report: tables as a page."""

from pathlib import Path

import click

from vicinal.errors import VicinalError

from ..complain import BadInput

__all__ = ["command"]


@click.command("report")
@click.argument("tables", type=click.Path(exists=True, file_okay=False))
@click.option("--html", metavar="FILE", default="report.html", show_default=True, help="The page.")
def command(tables: str, html: str) -> None:
    """Write a page about TABLES (of `vicinal spark traffic` or `ingest`).

    Speeds of segments by hour, the worst, offences by area, quality of the data. One file with nothing else to load;
    Spark is not needed for it.
    """
    from vicinal_cloud.spark.traffic.report import page

    try:
        Path(html).write_text(page(Path(tables)), encoding="utf-8")
    except VicinalError as error:
        raise BadInput(str(error)) from error
    click.echo(html)
