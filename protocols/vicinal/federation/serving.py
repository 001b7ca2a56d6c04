"""The gateway's side that serves: what is asked of its direct services, by itself and by others, is asked of the
adapters, and who asked is told what came of it (seed 001, 5.9.3).

    apply(message, service, asker, now)     a request for a direct service
    actions()                               (number, verb, service, what) for the adapters
    applied(number, reason, now)            what an adapter has made of it
"""

from ..control import Announcement, Subscription, Unannouncement, Unsubscription
from .notes import APPLIED, MAX_NOTES, TUNNEL, Direct
from .standing import KEEP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Serving"]

# Who is told when a note is applied: they ask again and again, and the last of it is enough.
MAX_WAITING = 16


class Serving:
    def __init__(self, name: str, first_seq: int) -> None:
        self.name = name
        self.seq = first_seq
        """the last number used, of our control events and of events that have none: never to be used again"""
        self.services: dict[str, Direct] = {}
        self.counters: dict[str, int] = {}
        self._actions: list[tuple[int, str, str, Any]] = []
        self._asked: dict[int, tuple[str, Any, str]] = {}  # action -> service, note, key

    def apply(self, message: "Any", service: str, asker: "Any", now: int) -> None:
        """At a direct service. `asker` is (Standing, service) of our own request, (identity, source) of another's."""
        one = self.services[service]
        if isinstance(message, Subscription):
            self._subscribe(one, message, asker, now)
        elif isinstance(message, Unsubscription):
            known = one.drop(message.source, message.filter)
            self._tell(asker, service, "" if known else "refused: there is no such subscription", now)
        elif isinstance(message, Announcement):
            refusal = one.capabilities.refusal(message.event)
            if refusal or (message.event.subject not in one.announced and len(one.announced) >= MAX_NOTES):
                refusal = refusal or f"{MAX_NOTES} types are announced at {service!r}"
                self._tell(asker, service, f"refused: {refusal}", now)
            else:
                self._wait(one, one.announce(message.source, message.event), asker, now)
        elif isinstance(message, Unannouncement):
            known = one.unannounce(message.source, message.event.subject)
            self._tell(asker, service, "" if known else "refused: there is no such announcement", now)
        self._collect(one)

    def _subscribe(self, one: Direct, message: Subscription, asker: "Any", now: int) -> None:
        if message.filter.text not in one.notes and len(one.notes) >= MAX_NOTES:
            self._tell(asker, one.name, f"refused: {MAX_NOTES} filters are subscribed at {one.name!r}", now)
            return
        kind = _tunnel_kind(message.filter)
        if kind is not None and (kind != one.kind or not one.capabilities.tunnels):
            self._tell(asker, one.name, f"refused: {one.name!r} is {one.kind}, and no tunnel of {kind!r}", now)
            return
        until = now + KEEP if isinstance(asker[0], tuple) else None  # our own are not forgotten
        self._wait(one, one.note(message.source, message.filter, until), asker, now)

    def _wait(self, one: Direct, note: "Any", asker: "Any", now: int) -> None:
        if note.state == APPLIED:
            self._tell(asker, one.name, "", now)
            return
        note.waiting = note.waiting[1 - MAX_WAITING :] + [(asker, one.name)]
        if not one.up:  # and again when it is
            self._tell(asker, one.name, f"unavailable: {one.name!r} is not connected; noted for when it is", now)

    def applied(self, number: int, reason: str, now: int) -> None:
        """What an action came to."""
        found = self._asked.pop(number, None)
        if found is None or found[1] is None:
            return
        service, key = found[0], found[2]
        note: Any = found[1]
        one = self.services.get(service)
        if one is None:
            return
        if reason:
            if key in one.notes and one.notes[key] is note:
                one.forget(key)
            elif key in one.announced and one.announced[key] is note and "" not in note.sources:
                del one.announced[key]
            note.state = ""
            self._tell_waiting(note, reason if ": " in reason[:14] else f"refused: {reason}", now)
        else:
            note.state = APPLIED
            self._tell_waiting(note, "", now)

    def _tell_waiting(self, note: "Any", reason: str, now: int) -> None:
        waiting, note.waiting = note.waiting, []
        for asker, service in waiting:
            self._tell(asker, service, reason, now)

    def _tell(self, asker: "Any", service: str, reason: str, now: int) -> None:
        """Who asked: our own request, or another gateway's."""
        raise NotImplementedError

    def _nothing_more(self, service: str, now: int) -> None:
        """It is not connected any more: what was asked of its adapter will not be answered."""
        for number in [number for number, asked in self._asked.items() if asked[0] == service]:
            note = self._asked.pop(number)[1]
            for asker, _ in () if note is None else note.waiting:
                self._tell(asker, service, f"unavailable: {service!r} is not connected", now)
        self._actions = [action for action in self._actions if action[2] != service]

    def _collect(self, one: Direct) -> None:
        for verb, note, key in one.asked():
            what = note.what
            if verb in ("subscribe", "unsubscribe") and _tunnel_kind(what) is not None:
                verb = "tunnel" if verb == "subscribe" else "untunnel"
            self._act(verb, one.name, what, note, key)

    def _act(self, verb: str, service: str, what: "Any", note: "Any", key: str) -> None:
        self.seq += 1
        self._asked[self.seq] = (service, note, key)
        self._actions.append((self.seq, verb, service, what))

    def actions(self) -> "list[tuple[int, str, str, Any]]":
        found, self._actions = self._actions, []
        return found

    def _count(self, what: str) -> None:
        self.counters[what] = self.counters.get(what, 0) + 1


def _tunnel_kind(condition: "Any") -> "str | None":
    """Of a filter that asks for a tunnel."""
    text = condition.text
    start = f"subject = '{TUNNEL}' AND Kind = '"
    return text[len(start) : -1] if text.startswith(start) and text.endswith("'") else None
