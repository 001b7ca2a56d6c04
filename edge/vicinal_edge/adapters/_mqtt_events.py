"""Events as MQTT 5 messages, ours and those of others.

    topic             prefix and subject: vicinal/Speed; or as a [[service.topic]] of the configuration says
    payload           the parameters as a JSON object; or with payload = "cbor" the whole event as on our wire
    content type      application/json, or application/vicinal+cbor for a whole event
    user properties   producer, seq: the identity; every other one is an attribute. Known attributes stand as people
                      write them (Priority 7, Source es1), others as JSON, so that their types survive
    message expiry    of Expires, for brokers and for clients that do not know the attribute

What somebody else sends is an event as well: a JSON object is its parameters, a number, true, false or a text the
parameter `value`, bytes that are no text likewise; user properties are attributes.

An event of which the properties cannot hold something (mosquitto refuses control characters) goes as a whole event,
whatever `payload` says. A subject that is no topic is refused.
"""

import json
import re
from typing import Any

from vicinal import attributes, limits, wire
from vicinal.errors import LocalProtocolError, RemoteProtocolError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.json_form import to_json
from vicinal.tables_cpython import Table

from ..adapter import Refused
from ._json_events import attribute_of, attribute_text, params_of, parse, plain_text, plain_value

__all__ = ["Malformed", "Message", "MqttEvents", "TopicMap", "clean", "matches", "topic_filter_refusal"]

JSON, CBOR, BYTES = "application/json", "application/vicinal+cbor", "application/octet-stream"
# Control characters and what Unicode keeps for no character: MQTT 5.0, 1.5.4 advises against them, mosquitto closes
# the connection.
_NO_CHARACTERS = "".join(chr(plane << 16 | end) for plane in range(17) for end in (0xFFFE, 0xFFFF))
_UNCLEAN = re.compile(f"[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef{_NO_CHARACTERS}]")
_INTEGER = re.compile(r"-?[0-9]{1,19}\Z", re.ASCII)
_TEXTS = ("Source", "Session", "Proximity")
# mosquitto's own limit.
MAX_LEVELS = 200
MAX_EXPIRY = 0xFFFFFFFF


class Malformed(Exception):
    """What came is no event. The reason is one of few."""


class Message:
    """Of MQTT, as far as it matters here."""

    __slots__ = ("content_type", "expiry", "payload", "topic", "user")

    def __init__(
        self,
        topic: str,
        payload: bytes,
        user: list[tuple[str, str]] | None = None,
        content_type: str | None = None,
        expiry: int | None = None,
    ) -> None:
        self.topic = topic
        self.payload = payload
        self.user = user or []
        self.content_type = content_type
        self.expiry = expiry
        """seconds"""

    def properties(self) -> dict[str, Any]:
        found = {"UserProperty": self.user, "ContentType": self.content_type, "MessageExpiryInterval": self.expiry}
        return {name: value for name, value in found.items() if value}


def clean(text: str) -> bool:
    return _UNCLEAN.search(text) is None


def topic_refusal(topic: str) -> str:
    """Why nothing can be published there."""
    for char in "+#":
        if char in topic:
            return f"{char!r} is a wildcard of MQTT"
    return topic_filter_refusal(topic)


def topic_filter_refusal(topic: str) -> str:
    found = _UNCLEAN.search(topic)
    if found is not None:
        return f"U+{ord(found[0]):04X} must not stand in a topic of MQTT"
    if topic.startswith("$"):
        return "topics that begin with $ belong to the MQTT broker"
    if topic.count("/") >= MAX_LEVELS:
        return f"it has {topic.count('/') + 1} levels, the limit is {MAX_LEVELS}"
    return "" if len(topic.encode()) <= 65535 else "it is longer than 65535 bytes"


def matches(topic_filter: str, topic: str) -> bool:
    """MQTT 5.0, 4.7"""
    if topic.startswith("$") and topic_filter[:1] in ("+", "#"):
        return False
    levels = topic.split("/")
    wanted = topic_filter.split("/")
    for at, level in enumerate(wanted):
        if level == "#":
            return True
        if at == len(levels) or level not in ("+", levels[at]):
            return False
    return len(levels) == len(wanted)


class TopicMap:
    """[[service.topic]]: events of `subject` are at `topic`, of which the levels in braces are parameters.

    topic = "sensors/{room}/temp"
    subject = "Temperature"
    value = "degrees"              the payload is this parameter alone; without it, a JSON object
    """

    def __init__(self, table: Table) -> None:
        self.topic: str = table.take("topic", str, required=True)
        self.subject: str = table.take("subject", str, required=True)
        self.value: str | None = table.take("value", str)
        table.done()
        self.names: list[str | None] = []
        for level in self.topic.split("/"):
            inner = level[1:-1] if len(level) > 2 and level[0] == "{" and level[-1] == "}" else None
            if "{" in (level if inner is None else inner) or "}" in (level if inner is None else inner):
                table.fail("topic", f"is {self.topic!r}: a parameter in braces is a whole level, {level!r} is not")
            self.names.append(inner)
        refusal = "it is empty" if not self.topic else topic_refusal(self.topic)
        if refusal:
            table.fail("topic", f"is {self.topic!r}: {refusal}")
        named = [name for name in (*self.names, self.value) if name is not None]
        if len(set(named)) < len(named):
            table.fail("topic", f"is {self.topic!r}: a parameter is named twice")
        try:
            Event(self.subject, [(name, "") for name in named])
            self.condition = Filter("subject = '" + self.subject.replace("'", "''") + "'")
        except LocalProtocolError as error:
            table.fail("topic", f"is {self.topic!r}: {error}")
        levels = self.topic.split("/")
        self.filter = "/".join("+" if name is not None else level for name, level in zip(self.names, levels))

    def parts(self, topic: str) -> dict[str, Any] | None:
        if not matches(self.filter, topic):
            return None
        return {name: level for name, level in zip(self.names, topic.split("/")) if name is not None}

    def place(self, event: Event) -> tuple[str, dict[str, Any]]:
        """The topic of an event, and the parameters that are not in it."""
        rest = dict(event.params)
        levels = self.topic.split("/")
        for at, name in enumerate(self.names):
            if name is not None:
                value = rest.pop(name, None)
                if type(value) is not str or "/" in value or topic_refusal(f"/{value}"):
                    raise Refused(
                        f"parameter {name!r} of {event.subject!r} is {value!r}, want a level of {self.topic!r}"
                    )
                levels[at] = value
        if self.value is not None and (list(rest) != [self.value] or type(rest[self.value]) is Event):
            there = ", ".join(rest) or "none"
            raise Refused(f"{self.topic!r} holds the parameter {self.value!r} alone, there is {there}")
        topic = "/".join(levels)
        refusal = topic_refusal(topic)
        if refusal:
            raise Refused(f"topic {topic!r}: {refusal}")
        return topic, rest


class MqttEvents:
    """`prefix` ends with a slash, or is empty."""

    def __init__(self, prefix: str, maps: list[TopicMap], whole: bool) -> None:
        self.prefix = prefix
        self.maps = maps
        self.whole = whole
        self._of_subject: dict[str, list[TopicMap]] = {}
        for one in maps:
            self._of_subject.setdefault(one.subject, []).append(one)

    # From filters

    def filters(self, condition: Filter) -> list[str]:
        """Topic filters, never narrower. Of those that no broker takes there are no events either."""
        found = [line for line in condition.to_mqtt(self.prefix).text.split("\n") if line]
        found += [one.filter for one in self.maps if condition.overlaps(one.condition)]
        return [line for line in dict.fromkeys(found) if not topic_filter_refusal(line)]

    # From events

    def message(self, event: Event, now: int) -> Message:
        encoded = wire.encode(event)  # what is too large for the wire is refused here as elsewhere
        topic, payload, content_type = self._place(event, encoded)
        expires = event.attrs.get("Expires")
        expiry = None if expires is None else min(MAX_EXPIRY, max(1, (expires - now + 999) // 1000))
        if content_type == CBOR:
            return Message(topic, payload, None, CBOR, expiry)
        user = _properties(event)
        if user is None:
            return Message(topic, encoded, None, CBOR, expiry)
        return Message(topic, payload, user, content_type, expiry)

    def _place(self, event: Event, encoded: bytes) -> tuple[str, bytes, str | None]:
        refused: Refused | None = None
        for one in self._of_subject.get(event.subject, ()):
            try:
                topic, rest = one.place(event)
            except Refused as error:
                refused = refused or error
                continue
            if one.value is None:
                return topic, _json(Event(event.subject, rest)), JSON
            value = rest[one.value]
            return (topic, value, BYTES) if type(value) is bytes else (topic, plain_text(value).encode(), None)
        if refused is not None:
            raise refused
        topic = self.prefix + event.subject
        refusal = topic_refusal(topic)
        if refusal:
            raise Refused(f"subject {event.subject!r}: {refusal}")
        return (topic, encoded, CBOR) if self.whole else (topic, _json(event), JSON)

    # From messages

    def event(self, message: Message, now: int) -> Event:
        subject, parts, value = self._subject(message.topic)
        if message.content_type == CBOR:
            try:
                event = wire.decode(message.payload)
            except RemoteProtocolError as error:
                raise Malformed("a payload that is no event of ours") from error
            if event.subject != subject:
                raise Malformed("an event under a topic that is not its own")
            return event
        try:
            params = {**parts, **_params(message, subject, value), **parts}
        except LocalProtocolError as error:
            raise Malformed("a payload that is no event") from error
        attrs, producer, seq = _attributes(message.user)
        if message.expiry is not None and "Expires" not in attrs:
            attrs["Expires"] = now + message.expiry * 1000
        try:
            return Event(subject, params, attrs, producer, seq)
        except LocalProtocolError as error:
            raise Malformed("properties that are no attributes") from error

    def _subject(self, topic: str) -> tuple[str, dict[str, Any], str]:
        for one in self.maps:
            parts = one.parts(topic)
            if parts is not None:
                return one.subject, parts, one.value or "value"
        subject = topic[len(self.prefix) :]
        if not topic.startswith(self.prefix) or not 0 < len(subject.encode()) <= limits.MAX_SUBJECT_BYTES:
            raise Malformed("a topic that is no subject")
        return subject, {}, "value"


def _json(event: Event) -> bytes:
    return json.dumps(to_json(event)["params"], ensure_ascii=False).encode()


def _params(message: Message, subject: str, name: str) -> dict[str, Any]:
    payload = message.payload
    if message.content_type == BYTES:
        return {name: payload}
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        if message.content_type == JSON:
            raise LocalProtocolError("not UTF-8") from None
        return {name: payload}
    if message.content_type == JSON or text.lstrip()[:1] in ("{", "["):
        found = parse(text)
        if isinstance(found, dict):
            return params_of(found, subject)
        return params_of({name: found}, subject)
    return {name: plain_value(text)}


def _properties(event: Event) -> list[tuple[str, str]] | None:
    """None if something in it cannot be said."""
    found: list[tuple[str, str]] = []
    if event.identity is not None:
        found += [("producer", event.identity[0]), ("seq", str(event.identity[1]))]
    for name, value in event.attrs.items():
        if name in ("producer", "seq"):
            return None
        found.append((name, str(value) if name in attributes.KEYS else attribute_text(name, value)))
    return found if all(clean(name) and clean(text) for name, text in found) else None


def _attributes(user: list[tuple[str, str]]) -> tuple[dict[str, Any], str | None, int | None]:
    """Of a property that is there twice the first counts."""
    texts: dict[str, str] = {}
    for name, text in user:
        texts.setdefault(name, text)
    producer, seq = None, None
    if "producer" in texts and texts["producer"] and texts.get("seq", "").isdecimal():
        producer, seq = texts.pop("producer"), int(texts.pop("seq"))
    attrs: dict[str, Any] = {}
    for name, text in texts.items():
        if name not in attributes.KEYS:
            attrs[name] = attribute_of(name, text)
        elif name in _TEXTS:
            attrs[name] = text
        elif _INTEGER.match(text):
            attrs[name] = int(text)
        else:
            raise Malformed("properties that are no attributes")
    return attrs, producer, seq
