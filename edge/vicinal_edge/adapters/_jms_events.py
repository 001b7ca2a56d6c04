"""Events as JMS messages over ActiveMQ's STOMP, and filters as selectors for them.

    destination    /topic/vicinal.Speed; what has a meaning for ActiveMQ (wildcards, commas) is written %2C
    body           the whole event as JSON (spec/json.md), a TextMessage: exact, and any JMS client can read it
    properties     subject, parameters, attributes ($Priority), for selectors; STOMP has strings only, and ActiveMQ
                   converts a string to the type of the literal that it is compared with
    JMSPriority    of Priority: 0..9, where 4 is 0       JMSTimestamp of Time, JMSExpiration of Expires
    VicinalFrom    who published it: the mark of our own messages
    VicinalWide    the event has a value that no property can hold: selectors let it pass

The message of another JMS client is an event as well: its properties are the parameters (what looks like a number, true
or false in JSON is one), its body the parameter `body`; the subject is the destination's name.

A selector is never narrower than its filter:

- numbers in it are written as doubles: to an integer ActiveMQ would convert "57.0" in vain
- two names are not compared with each other: "57" and "57.0" differ as strings
- what other clients' messages do not have as properties (the subject, attributes, the body) is not asked of them
- names that STOMP or ActiveMQ keep for themselves are left out
"""

import re
from typing import Any

from vicinal import json_form, limits, wire
from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.filter._ast import ATTRIBUTE, PARAM, Compare, Name, Not, Within
from vicinal.filter._text import value_text
from vicinal.filter.translate.jms import Jms

from ._json_events import word_value
from ._stomp import Frame

__all__ = ["FROM", "JmsEvents", "Malformed", "selector"]

FROM, WIDE = "VicinalFrom", "VicinalWide"
BODY = "body"
# ActiveMQ closes the connection at a header of 10 KB.
MAX_HEADER = 8000
# Headers of STOMP and of ActiveMQ's STOMP that are no properties of the message.
KEPT = {
    "ack", "browser", "client_id", "destination", "expires", "host", "id", "login", "message", "passcode", "persistent",
    "priority", "receipt", "redelivered", "selector", "server", "session", "subscription", "timestamp", "transaction",
    "transformation", "type", "version", FROM, WIDE,
}  # fmt: skip
_FOREIGN_HEADERS = KEPT | {
    "content-length", "content-type", "correlation-id", "heart-beat", "message-id", "original-destination",
    "receipt-id", "reply-to", "transformation-error",
}  # fmt: skip
# Of a destination's name, what has a meaning there, or is lost on the way: levels without a name, blanks at the ends.
_SPECIAL = re.compile(r"[,*>?%\x00-\x1f\x7f]|(?<![^.])\.|\.\Z|\A | \Z")
_ESCAPED = re.compile("%([0-7][0-9A-F])")


class Malformed(Exception):
    """What came is no event. The reason is one of few."""


class _Selector(Jms):
    def name(self, name: Name) -> str | None:
        found = super().name(name)
        if name.kind == PARAM and (name.ident in KEPT or name.ident == BODY or name.ident.startswith("AMQ")):
            return None
        return found

    def value(self, value: Any) -> str | None:
        return repr(float(value)) if type(value) is int else super().value(value)

    def relation(self, node: Compare, name: str) -> str | None:
        other = self.name(node.value)
        self.wider("numbers are strings over STOMP: two of them are not compared")
        said = self.present(name) if other is None else self.chain(" AND ", [self.present(name), self.present(other)])
        return self.or_others(said, node.name, node.value)

    def literal(self, literal: Any) -> str | None:
        inner: Any = literal.term if type(literal) is Not else literal
        said = super().literal(literal)
        if said is None or type(inner) is Within or (type(inner) is Compare and type(inner.value) is Name):
            return said
        return self.or_others(said, inner.name)

    def or_others(self, said: str, *names: Any) -> str:
        """What others send has no attributes as properties, and `subject` may be a word of theirs."""
        if all(name.kind == PARAM for name in names):
            return said
        return f"({said} OR {FROM} IS NULL)"


def selector(condition: Filter, not_from: str | None = None) -> str:
    """ "" for all. `not_from`: without what this one has published."""
    made = _Selector()
    text = made.translate(condition.node).text
    parts = [] if text == "TRUE" else [f"({text}) OR {WIDE} IS NOT NULL"]
    if not_from is not None:
        parts.append(f"{FROM} IS NULL OR {FROM} <> {value_text(not_from)}")
    found = " AND ".join(f"({part})" for part in parts) if len(parts) > 1 else "".join(parts)
    return found if len(found.encode()) < MAX_HEADER else selector(Filter("TRUE"), not_from)


class JmsEvents:
    """`prefix` is what comes before the subject: /topic/vicinal."""

    def __init__(self, prefix: str, origin: str, persistent: bool) -> None:
        self.prefix = prefix
        self.origin = origin
        self.persistent = persistent

    def destinations(self, condition: Filter) -> list[str]:
        """One for each subject that the filter names; all, where it names none."""
        lines = [line for line in condition.to_mqtt("").text.split("\n") if line]
        if any("#" in line for line in lines):
            return [self.prefix + ">"]
        return [self.destination(line) for line in lines]

    def destination(self, subject: str) -> str:
        return self.prefix + _SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", subject)

    def frame(self, event: Event) -> Frame:
        wire.encode(event)  # what is too large for the wire is refused here as elsewhere
        headers = {"destination": self.destination(event.subject), FROM: self.origin, "subject": event.subject}
        if self.persistent:
            headers["persistent"] = "true"
        attrs = event.attrs
        if "Priority" in attrs:
            headers["priority"] = str(jms_priority(attrs["Priority"]))
        if "Time" in attrs:
            headers["timestamp"] = str(attrs["Time"])
        if "Expires" in attrs:
            headers["expires"] = str(attrs["Expires"])
        named = [(Name(PARAM, name), value) for name, value in event.params.items()]
        named += [(Name(ATTRIBUTE, name), value) for name, value in attrs.items()]
        namer = _Selector()
        for name, value in named:
            shown = namer.name(name)
            if shown is not None:
                headers[shown] = property_text(value)
        for shown in [name for name, text in headers.items() if not _fits(name, text)]:
            del headers[shown]
            headers[WIDE] = "true"
        return Frame("SEND", headers, json_form.dumps(event).encode())

    def event(self, frame: Frame) -> Event:
        try:
            if FROM in frame.headers:
                return json_form.loads(frame.body)
            return self._of_others(frame)
        except LocalProtocolError as error:
            raise Malformed(
                "a body that is no event of ours" if FROM in frame.headers else "a message that is no event"
            ) from error

    def _of_others(self, frame: Frame) -> Event:
        headers = frame.headers
        destination = headers.get("destination", "")
        if not destination.startswith(self.prefix):
            raise Malformed("a destination that is no subject")
        params: dict[str, Any] = {}
        for name in sorted(headers):  # ActiveMQ gives them in no order
            if name not in _FOREIGN_HEADERS and not name.startswith(("JMS", "AMQ", "$")):
                params[name] = word_value(headers[name])
        if frame.body:
            params.setdefault(BODY, _text_or_bytes(frame))
        attrs: dict[str, Any] = {}
        priority = headers.get("priority", "4")
        if priority in "012356789" and priority:
            attrs["Priority"] = our_priority(int(priority))
        time, expires = _milliseconds(headers.get("timestamp")), _milliseconds(headers.get("expires"))
        if time:
            attrs["Time"] = time
        if expires > time:
            attrs["Expires"] = expires
        return Event(_ESCAPED.sub(lambda found: chr(int(found[1], 16)), destination[len(self.prefix) :]), params, attrs)


def jms_priority(priority: int) -> int:
    """-32767 .. 32767 as 0 .. 9; what is above 0 is above 4, what is below it below."""
    if priority > 0:
        return 4 + (priority * 5 + limits.MAX_PRIORITY - 1) // limits.MAX_PRIORITY
    return 4 - (-priority * 4 + limits.MAX_PRIORITY - 1) // limits.MAX_PRIORITY


def our_priority(priority: int) -> int:
    """`jms_priority` of it is `priority`."""
    if priority > 4:
        return (priority - 4) * limits.MAX_PRIORITY // 5
    return -((4 - priority) * limits.MAX_PRIORITY // 4)


def property_text(value: Any) -> str:
    """As Java reads it. Bytes and events are there, which is all that a selector can ask of them."""
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is float:
        return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(repr(value), repr(value))
    if type(value) is Event:
        return value.subject
    return value.hex() if type(value) is bytes else str(value)


def _fits(name: str, text: str) -> bool:
    """NUL ends a frame for some readers, whatever the length."""
    return "\0" not in text and len(text.encode()) + len(name) < MAX_HEADER - 200 - text.count("\n") - text.count(":")


def _text_or_bytes(frame: Frame) -> str | bytes:
    if frame.text:
        try:
            return frame.body.decode()
        except UnicodeDecodeError:
            pass
    return frame.body


def _milliseconds(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 19 else 0
