"""vicinal scope explain, of a broker as it is: its deployment in force, its clients, and what was said of them."""

import json
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from vicinal import json_form
from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.component import Component
from vicinal.scope.file_cpython import read_tables
from vicinal.scope.graph import ScopeGraph
from vicinal.scope.membership import Identity, Memberships
from vicinal.siena.rights import person

from ..complain import BadInput
from ..overlay import Reach, run
from .explaining import Explanation, Setting, explain

__all__ = ["explain_live"]


def explain_live(
    ctx: click.Context, reach: tuple[Any, ...], producer: str, consumer: str, text: str | None, as_json: bool
) -> None:
    try:
        event = None if text is None else json_form.loads(text)
    except LocalProtocolError as error:
        raise BadInput(f"--event: {error}") from error
    made = Reach(*reach)

    async def ask() -> str:
        async with await made.connect(reconnect=False) as client:
            return await client.administer("tell", "members")

    found = json.loads(run(ask()))
    graph, problems = read_tables(Path(found["broker"]), found["deployment"])
    if graph is None:
        raise BadInput("\n       ".join(problems))
    best: tuple[tuple[bool, ...], Explanation, list[str]] | None = None
    for says, said in _as_components(graph, found, producer, "advertisements", "--from", event):
        for hears, wants in _as_components(graph, found, consumer, "subscriptions", "--to", event):
            others = [one for one in graph.components.values() if one.name not in (producer, consumer)]
            live = ScopeGraph(graph.scopes.values(), [*others, says, hears])
            memberships = Memberships(live)
            memberships.restore(found["memberships"])
            one = explain(live, producer, consumer, event, Setting(memberships, found["now"]))
            # Of several that do not hear it, of those that have to do with it: the others say nothing of why.
            rank = (one.visible, event is None or says.may_say(event), event is None or hears.takes(event))
            if best is None or rank > best[0]:
                best = (rank, one, [said, wants])
    assert best is not None
    _, verdict, notes = best
    if as_json:
        click.echo(json.dumps(verdict.as_json() | {"broker": found["broker"], "as": notes}, ensure_ascii=False))
    else:
        for line in [*verdict.lines(), "", f"at broker {found['broker']}, where", *[f"  {note}" for note in notes]]:
            click.echo(line)
    ctx.exit(0 if verdict.visible else 1)


def _as_components(
    graph: ScopeGraph, found: dict[str, Any], name: str, what: str, option: str, event: Event | None
) -> list[tuple[Component, str]]:
    """A client, once for each of what it advertises or subscribes to: each may be in other scopes; and all of a person
    who has several. One that is not here as it is declared; so is what a component may publish, and has not yet."""
    verb = "publishes" if what == "advertisements" else "subscribes to"
    clients: dict[str, list[dict[str, Any]]] = {}
    for one in found["clients"]:
        clients.setdefault(one["name"], []).append(one)
        if person(one["name"]) != one["name"]:
            clients.setdefault(person(one["name"]), []).append(one)
    if name not in clients:
        if name in graph.components:
            return [(graph.components[name], f"{name} is declared, and not connected here")]
        close = get_close_matches(name, [*clients, *graph.components], 1)
        hint = f": is {close[0]!r} meant?" if close else ""
        others = [one for one in found["brokers"] if one != found["broker"]]
        elsewhere = f" It may be at {', '.join(others)}." if others and not hint else ""
        raise BadInput(
            f"{option} {name!r} is no client and no component at broker {found['broker']!r}{hint}{elsewhere}"
        )
    made = []
    for client in clients[name]:
        identity = Identity(*client["identity"])
        for one in client[what]:
            condition = Filter(one["filter"])
            says, hears = (condition, None) if what == "advertisements" else (None, condition)
            component = Component(name, one["scopes"].values(), says, hears, one["rest"], identity)
            scopes = ", ".join(f"{key}={value}" for key, value in sorted(one["scopes"].items()))
            where = f" in {scopes}" if scopes else ", in no scope"
            made.append((component, f"{client['name']} {verb} {condition}{where}"))
    declared = graph.components.get(name)
    if event is not None and declared is not None and what == "advertisements" and declared.may_say(event):
        if not any(component.may_say(event) for component, _ in made):
            identity = Identity(*clients[name][0]["identity"])
            made.append(
                (
                    Component(name, declared.scopes, declared.publishes, None, declared.rest, identity),
                    f"{name} is declared to publish {declared.publishes}, and has not begun with this one",
                )
            )
    return made or [(Component(name, (), None, None, True, identity), f"{name} {verb} nothing")]
