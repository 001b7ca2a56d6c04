"""vicinal scope approve, deny, revoke, apply, join, leave, members: what an administrator says to a broker.

It is said to one broker and reaches all of its overlay. Who may is in the broker's configuration, [identity].
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ..complain import BadInput
from ..durations import Duration
from ..overlay import Reach, identity_options, run

__all__ = ["COMMANDS"]

F = TypeVar("F", bound=Callable[..., Any])
_ACTIONS = ("join", "publish", "subscribe")


def _administers(command: F) -> F:
    command = identity_options(command)
    return click.argument("broker")(command)


def _reach(broker: str, whom: dict[str, Any]) -> Reach:
    return Reach(broker, whom["name"], whom["ca"], whom["certificate"], whom["key"])


def _say(made: Reach, *what: Any) -> str:
    """What the broker tells; its refusal becomes a message."""

    async def say() -> str:
        async with await made.connect(reconnect=False) as client:
            return await client.administer(*what)

    return run(say())


@click.command()
@_administers
@click.argument("who", metavar="NAME")
@click.argument("scope")
@click.option("--action", "actions", multiple=True, type=click.Choice(_ACTIONS), help="To do what; else everything.")
@click.option("--for", "lasting", type=Duration(), metavar="TIME", help="As 90s, 30m, 8h or 7d; else until denied.")
def approve(broker: str, who: str, scope: str, actions: tuple[str, ...], lasting: int | None, **whom: Any) -> None:
    """Let NAME into SCOPE, whatever the scope's rule says.

    It ends a denial, but not a revocation: what was revoked is to be issued anew.
    """
    until = None if lasting is None else _now() + lasting
    _say(_reach(broker, whom), "approve", who, scope, actions or _ACTIONS, until)
    click.echo(f"{who} may {', '.join(actions) or 'join, publish and subscribe'} in {scope}{_until(until)}")


@click.command()
@_administers
@click.argument("who", metavar="NAME")
@click.argument("scope")
def deny(broker: str, who: str, scope: str, **whom: Any) -> None:
    """Keep NAME out of SCOPE, whatever its rule says and whatever was approved."""
    _say(_reach(broker, whom), "deny", who, scope)
    click.echo(f"{who} is denied {scope}")


@click.command()
@_administers
@click.argument("who", metavar="NAME")
@click.option("--issued-before", "before", type=Duration(), metavar="TIME", help="So long ago, as 8h; else until now.")
def revoke(broker: str, who: str, before: int | None, **whom: Any) -> None:
    """End every certificate and token that was issued to NAME until now, in all scopes, and cut its connections.

    It is for good: NAME comes back with what is issued later.
    """
    _say(_reach(broker, whom), "revoke", who, _now() - (before or 0))
    click.echo(f"what was issued to {who} until {'now' if not before else 'then'} counts no longer")


@click.command("apply")
@_administers
@click.argument("file", type=click.Path(dir_okay=False))
def apply_file(broker: str, file: str, **whom: Any) -> None:
    """Put the deployment in FILE into force, at all brokers.

    It is refused, with everything that is wrong in it, unless it is in order. See vicinal scope check.
    """
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{file}: {getattr(error, 'strerror', None) or error}") from error
    _say(_reach(broker, whom), "deploy", text)
    click.echo(f"{file} is in force")


@click.command("join")
@_administers
@click.argument("at", metavar="NAME")
@click.argument("scope")
def join_scope(broker: str, at: str, scope: str, **whom: Any) -> None:
    """Have the broker called NAME join SCOPE: its events may be there from now on."""
    _say(_reach(broker, whom), "join", at, scope)
    click.echo(f"broker {at} joins {scope}")


@click.command("leave")
@_administers
@click.argument("at", metavar="NAME")
@click.argument("scope")
def leave_scope(broker: str, at: str, scope: str, **whom: Any) -> None:
    """Have the broker called NAME leave SCOPE; clients that named it there are cut."""
    _say(_reach(broker, whom), "leave", at, scope)
    click.echo(f"broker {at} leaves {scope}")


@click.command()
@_administers
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
def members(broker: str, as_json: bool, **whom: Any) -> None:
    """Show who is at a broker, who they have proven to be, in which scopes, and what administrators said."""
    text = _say(_reach(broker, whom), "tell", "members")
    if as_json:
        click.echo(text)
        return
    found = json.loads(text)
    click.echo(f"broker {found['broker']}, scopes from {found['source'] or 'nowhere'}")
    for problem in found["problems"]:
        click.echo(f"not in force: {problem}")
    for one in found["clients"]:
        _, attributes, issued, _ = one["identity"]
        known = ", ".join(f"{key}={value}" for key, value in sorted(attributes.items()))
        proven = "" if issued is not None else " (not proven)"
        click.echo(f"{one['name']}{proven}{'' if one['connected'] else ' (away)'}{': ' if known else ''}{known}")
        for what, verb in (("advertisements", "publishes"), ("subscriptions", "subscribes to")):
            for each in one[what]:
                scopes = ", ".join(f"{dimension}={scope}" for dimension, scope in sorted(each["scopes"].items()))
                durable = f", durable {each['durable']}" if "durable" in each else ""
                click.echo(f"  {verb} {each['filter']}{f' in {scopes}' if scopes else ''}{durable}")
    approved, denied, revoked = found["memberships"]
    for who, scope, actions, until in approved:
        click.echo(f"approved: {who} in {scope}, to {', '.join(actions)}{_until(until)}")
    for who, scope in denied:
        click.echo(f"denied: {who} in {scope}")
    for who, before in revoked:
        click.echo(f"revoked: {who}, what was issued before {_shown(before)}")


def _now() -> int:
    return time.time_ns() // 1_000_000


def _until(until: int | None) -> str:
    return "" if until is None else f", until {_shown(until)}"


def _shown(when: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(when / 1000))


COMMANDS = (approve, deny, revoke, apply_file, join_scope, leave_scope, members)
