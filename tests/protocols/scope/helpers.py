"""Short ways to write scopes down."""

from typing import Any

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.component import Component
from vicinal.scope.graph import Scope, ScopeGraph
from vicinal.scope.manager import ScopeManager

OPEN = Filter("TRUE")


def scope(name: str, *supers: str, output: str | None = "TRUE", input: str | None = "TRUE", **more: Any) -> Scope:
    """Open in both directions, unless it says otherwise."""
    out, into = (None if text is None else Filter(text) for text in (output, input))
    return Scope(name, more.pop("dimension", "d"), supers, out, into, **more)


def part(name: str, *scopes: str, subscribes: str | None = "TRUE", publishes: str = "TRUE", **more: Any) -> Component:
    return Component(name, scopes, Filter(publishes), None if subscribes is None else Filter(subscribes), **more)


def manager(*items: Any, **more: Any) -> ScopeManager:
    scopes = [one for one in items if isinstance(one, Scope)]
    return ScopeManager(ScopeGraph(scopes, [one for one in items if isinstance(one, Component)]), **more)


def hearers(moved: ScopeManager, producer: str, event: Event | str, now: int = 0) -> list[str]:
    made = Event(event) if isinstance(event, str) else event
    return sorted(one.component for one in moved.publish(producer, made, now))
