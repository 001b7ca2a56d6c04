"""vicinal spark: fleet data as tables, live and historical. Each sub-command is a module of vicinal_tools.spark."""

from importlib import import_module
from pkgutil import iter_modules
from typing import cast

import click

from .. import spark

__all__ = ["command"]


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        names = [module.name for module in iter_modules(spark.__path__)]
        return sorted(name.replace("_", "-") for name in names if not name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        return cast(click.Command, import_module(f"{spark.__name__}.{cmd_name.replace('-', '_')}").command)


@click.command("spark", cls=_Commands)
def command() -> None:
    """Fleet data as tables on Spark, live and historical.

    Runs in an embedded session on this machine; with --master, or under spark-submit, on a cluster.
    """
