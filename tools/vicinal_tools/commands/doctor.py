"""vicinal doctor: what is installed, what is missing, what to do."""

import json
import platform
import sys
from importlib.metadata import PackageNotFoundError
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from vicinal import __version__

from .. import installed, machine

__all__ = ["command"]

_MARKS = {True: ("✓", "green"), False: ("-", "yellow")}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Say what is installed, what is missing and what to do.

    Exit code 0 when the base is in order: extras and machine parts are needed only for what they are for.
    """
    try:
        report = _report()
    except PackageNotFoundError:
        raise click.ClickException(f"vicinal is not installed in {sys.executable}: pip install it first") from None
    if as_json:
        click.echo(json.dumps(report, ensure_ascii=False))
    else:
        _show(report, Console())
    ctx.exit(0 if report["ok"] else 1)


def _report() -> dict[str, Any]:
    groups = installed.extras()
    base = groups.pop(installed.BASE)
    tree = installed.checkout()
    return {
        "ok": all(package.ok for package in base),
        "vicinal": __version__,
        "python": {"version": platform.python_version(), "executable": sys.executable},
        "checkout": None if tree is None else str(tree),
        "base": _group(base, installed.install_command(installed.BASE)),
        "extras": {name: _group(packages, installed.install_command(name)) for name, packages in groups.items()},
        "machine": [finding._asdict() for finding in machine.findings(tree)],
    }


def _group(packages: list[installed.Package], command: str) -> dict[str, Any]:
    ok = all(package.ok for package in packages)
    return {
        "ok": ok,
        "packages": [package._asdict() for package in packages],
        "install": None if ok else command,
    }


def _show(report: dict[str, Any], console: Console) -> None:
    def line(*parts: str | tuple[str, str]) -> None:
        # Commands are to be copied: never wrapped.
        console.print(Text.assemble(*parts), soft_wrap=True)

    def group(title: str, found: dict[str, Any]) -> None:
        line(_MARKS[found["ok"]], f" {title}")
        for package in found["packages"]:
            state = package["installed"] or "missing"
            if package["installed"] and not package["ok"]:
                state += f", want {package['wanted']}"
            line("    ", _MARKS[package["ok"]], f" {package['name']} {state}")
        if found["install"]:
            line("    ", ("→ " + found["install"], "bold"))

    line(f"vicinal {report['vicinal']}, Python {report['python']['version']} ({report['python']['executable']})")
    group("base", report["base"])
    for name, found in report["extras"].items():
        group(f"extra {name}", found)
    for finding in report["machine"]:
        line(_MARKS[finding["ok"]], f" {finding['name']}: {finding['detail']}")
        if finding["advice"]:
            line("    ", ("→ " + finding["advice"], "bold"))
