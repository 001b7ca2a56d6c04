"""The hidden context of a consumer's reaction, kept across await points (seed 004, 3.6).

    with reacting_to(event):            what delivers an event to a consumer does this around it
        await consumer(event)

    client.publish(in_context(event))   what takes a publication from a consumer does this

The consumer knows of neither. Each task has its own context, and a task that is started while reacting is part of the
reaction.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..event import Event
from .session import reaction

__all__ = ["in_context", "react_to", "reacting_to"]

_cause: "ContextVar[Event | None]" = ContextVar("vicinal_session", default=None)


@contextmanager
def reacting_to(event: Event) -> Iterator[None]:
    """While it lasts, what is published is a reaction to this event: also to one without a tag, within another's."""
    token = _cause.set(event)
    try:
        yield
    finally:
        _cause.reset(token)


def react_to(event: Event | None) -> None:
    """From now on, in this task, until it is said again: for who hands out events one by one, and does not see where a
    reaction ends but by the next being asked for."""
    _cause.set(event)


def in_context(event: Event) -> Event:
    """With the tag of what is reacted to. A Session attribute that the consumer gave it itself stays."""
    cause = _cause.get()
    if cause is None or "Session" in event.attrs:
        return event
    return reaction(cause, event)
