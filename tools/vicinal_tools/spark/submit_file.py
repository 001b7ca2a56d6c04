"""vicinal spark submit-file: what spark-submit is given."""

import click

__all__ = ["command"]


@click.command("submit-file")
def command() -> None:
    """Say the file that spark-submit wants in place of the `vicinal` command.

    \b
        spark-submit --master spark://head:7077 "$(vicinal spark submit-file)" spark traffic --path b1.log --out tables
    """
    from .. import submit

    click.echo(submit.__file__)
