"""vicinal scope: check, draw, explain; and what administrators say to brokers."""

import json
from pathlib import Path

import click

from ..complain import BadInput
from ..overlay import identity_options
from ..scopes import administering

__all__ = ["command"]


@click.group("scope")
def command() -> None:
    """Look at the scopes of a deployment: who may hear what, and why.

    The file is TOML: [[scope]], [[edge]] and [[component]]; see protocols/spec/scope.md, and an example in
    tools/examples/stock_exchange.
    """


@command.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
@click.pass_context
def check(ctx: click.Context, file: str, as_json: bool) -> None:
    """Say whether FILE is in order, and everything that is wrong in it.

    in order: exit code 0, with what may be a mistake as notes. not in order: exit code 1.
    """
    from vicinal.scope.file_cpython import notes, read

    try:
        data = Path(file).read_bytes()
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from error
    graph, problems = read(Path(file), data)
    found = [] if graph is None else notes(graph)
    if as_json:
        counts = None
        if graph is not None:
            counts = {"scopes": len(graph.scopes), "components": len(graph.components), "dimensions": graph.dimensions}
        click.echo(json.dumps({"ok": graph is not None, "problems": problems, "notes": found, "counts": counts}))
    elif graph is None:
        for problem in problems:
            click.echo(problem)
    else:
        dimensions = ", ".join(graph.dimensions) or "none"
        click.echo(f"{len(graph.scopes)} scopes and {len(graph.components)} components; dimensions: {dimensions}")
        for note in found:
            click.echo(f"note: {note}")
    ctx.exit(1 if problems else 0)


@command.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--svg", type=click.Path(dir_okay=False), metavar="OUT", help="Write a picture; - is stdout.")
def draw(file: str, svg: str | None) -> None:
    """Show the scopes of FILE: dimensions, interfaces, policies and members."""
    from ..scopes.drawing import as_svg, as_text
    from ..scopes.reading import load

    graph = load(file)
    if svg is None:
        click.echo(as_text(graph))
    elif svg == "-":
        click.echo(as_svg(graph), nl=False)
    else:
        Path(svg).write_text(as_svg(graph), encoding="utf-8")
        click.echo(f"wrote {svg}")


@command.command()
@click.argument("file", type=click.Path(dir_okay=False), metavar="FILE|BROKER")
@click.option("--from", "producer", required=True, metavar="P", help="The component that publishes.")
@click.option("--to", "consumer", required=True, metavar="C", help="The component that may hear it.")
@click.option("--event", "text", metavar="JSON", help="What is published; without it, the ways there are.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
@identity_options
@click.pass_context
def explain(
    ctx: click.Context,
    file: str,
    producer: str,
    consumer: str,
    text: str | None,
    as_json: bool,
    name: str | None,
    ca: str | None,
    certificate: str | None,
    key: str | None,
) -> None:
    """Say whether C hears P, and why: ways, interfaces, mappings, policies.

    Of a FILE its components; or of a BROKER, an address as tcp://host:7447, its clients as they are now: what they
    advertise and subscribe to, who they are, and what administrators said. That is for administrators.

    yes: exit code 0. no: exit code 1. What policies hold back is waited for, on a clock of its own; a choice among
    several is that of the first event.
    """
    from difflib import get_close_matches

    from vicinal import json_form
    from vicinal.errors import LocalProtocolError

    from ..scopes.explaining import explain as explained
    from ..scopes.reading import load

    if producer == consumer:
        raise BadInput(f"--from and --to are both {producer!r}: nobody hears itself")
    if "://" in file:
        from ..scopes.live import explain_live

        explain_live(ctx, (file, name, ca, certificate, key), producer, consumer, text, as_json)
        return
    graph = load(file)
    for option, name in (("--from", producer), ("--to", consumer)):
        if name not in graph.components:
            close = get_close_matches(name, graph.components, 1)
            hint = f": is {close[0]!r} meant?" if close else ""
            raise BadInput(f"{option} {name!r} is no [[component]] of {file}{hint}")
    try:
        event = None if text is None else json_form.loads(text)
    except LocalProtocolError as error:
        raise BadInput(f"--event: {error}") from error
    found = explained(graph, producer, consumer, event)
    if as_json:
        click.echo(json.dumps(found.as_json(), ensure_ascii=False))
    else:
        for line in found.lines():
            click.echo(line)
    ctx.exit(0 if found.visible else 1)


for one in administering.COMMANDS:
    command.add_command(one)
