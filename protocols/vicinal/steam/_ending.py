"""What ends: announcements, subscriptions, and events of areas that are nowhere (spec/steam.md, STEAM-18, STEAM-33).

Loaded when something does: a node that says and wants the same things for as long as it runs needs none of it.
"""

from .._compat import const
from ..errors import LocalProtocolError
from .groups import subject_hash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._announcing import Announcement, Announcer
    from ._listening import Listener

# Beacons that say that it is over.
_FAREWELLS = const(3)


def unannounce(announcer: "Announcer", subject: str, now: int) -> None:
    found = announcer._live(subject)
    withdraw(announcer, "unannounced", found)
    found.last = None
    found.repeat = 0
    if found.shown is None:
        del announcer.announced[subject]
    else:
        found.farewells = _FAREWELLS
        found.due = now


def withdraw(announcer: "Announcer", reason: str, owner: "Announcement | None" = None) -> None:
    """The events of one announcement, or of all that are nowhere."""
    for event in list(announcer.rotation.fresh):
        if event.owner is owner or (owner is None and not announcer._is_somewhere(event.owner)):
            announcer._finish(event, reason)


def unsubscribe(listener: "Listener", subject: str, handler: "Any", now: int) -> None:
    key = subject_hash(subject)
    found = listener.subscriptions.get(key)
    rest = [] if found is None else [pair for pair in found.handlers if pair[1] is not handler]
    if found is None or found.subject != subject or len(rest) == len(found.handlers):
        raise LocalProtocolError(f"subject {subject!r} has no such subscription")
    found.handlers = rest
    if not rest:
        del listener.subscriptions[key]
        groups = listener.groups
        for heard in [heard for heard, one in groups.heard.items() if one.subject == subject]:
            groups._forget(heard, now)
