"""Events as the contents of CoAP messages.

    60 application/cbor    the whole event as on our wire; or a map, which are its parameters
    50 application/json    the whole event as everywhere, which has "params"; or an object, which are its parameters
     0 text/plain          the parameter `value`: a number, true, false, or else text; also where no format is given
    42 octet-stream        the parameter `value`, bytes

The subject is in the path; in a whole event it may be left out of JSON, and must be the same. Small devices encode CBOR
as they like, so a map need not be deterministic, only flat and without tags.
"""

import json
import struct
from typing import Any

from vicinal import json_form, wire
from vicinal.errors import LocalProtocolError, RemoteProtocolError
from vicinal.event import Event

__all__ = ["CBOR", "FORMATS", "JSON", "LINKS", "TEXT", "NotAcceptable", "Unsupported", "event_of", "payload_of"]

TEXT, LINKS, BYTES, JSON, CBOR = 0, 40, 42, 50, 60
FORMATS = (CBOR, JSON, TEXT, BYTES)
_FLOATS = {25: (">e", 2), 26: (">f", 4), 27: (">d", 8)}


class Unsupported(LocalProtocolError):
    """Of a format that is not read here."""


class NotAcceptable(LocalProtocolError):
    """Of a format that it cannot be given in."""


def event_of(subject: str, form: int | None, payload: bytes) -> Event:
    """Raises Unsupported, or another VicinalError that says what is wrong with it."""
    if form == CBOR:
        event = Event(subject, _map(payload)) if payload[:1] and payload[0] >> 5 == 5 else wire.decode(payload)
    elif form == JSON:
        event = _from_json(subject, payload)
    elif form == BYTES:
        event = Event(subject, [("value", payload)])
    elif form is None or form == TEXT:
        event = Event(subject, [("value", _value(_text(payload)))])
    else:
        known = ", ".join([str(one) for one in FORMATS])
        raise Unsupported(f"content format {int(form)} is not read here, {known} are")
    if event.subject != subject:
        raise LocalProtocolError(f"the event's subject is {event.subject!r}, the path says {subject!r}")
    return event


def payload_of(event: Event, accept: int | None) -> tuple[int, bytes]:
    """In the format that is asked for; CBOR if none is."""
    if accept is None or accept == CBOR:
        return CBOR, wire.encode(event)
    if accept == JSON:
        return JSON, json_form.dumps(event).encode()
    value = event.params.get("value")
    if accept == TEXT and value is not None and not isinstance(value, bytes | Event):
        return TEXT, (value if isinstance(value, str) else json.dumps(value)).encode()
    if accept == BYTES and isinstance(value, bytes):
        return BYTES, value
    raise NotAcceptable(
        f"{event.subject!r} cannot be had in content format {int(accept)}, {CBOR} and {JSON} always can"
    )


def _from_json(subject: str, payload: bytes) -> Event:
    text = _text(payload)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LocalProtocolError(f"not JSON: {error}") from error
    if not isinstance(found, dict):
        raise LocalProtocolError(f"an event is a JSON object, this is a {type(found).__name__}")
    if not isinstance(found.get("params"), dict):
        text = f'{{"params": {text}}}'
    if not isinstance(found.get("params"), dict) or "subject" not in found:
        text = f'{{"subject": {json.dumps(subject)}, {text.lstrip()[1:]}'
    return json_form.loads(text)


def _text(payload: bytes) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError as error:
        raise LocalProtocolError(f"byte {error.start} is not UTF-8") from error


def _value(text: str) -> Any:
    def constant(name: str) -> str:
        return name

    try:
        found = json.loads(text, parse_constant=constant)
    except (ValueError, RecursionError):
        return text
    return found if type(found) in (int, float, bool) else text


def _map(data: bytes) -> list[tuple[str, Any]]:
    """A flat CBOR map of parameters."""
    try:
        count, at = _head(data, 0, 5)
        found = []
        for _ in range(count):
            name, at = _item(data, at)
            value, at = _item(data, at)
            found.append((name, value))
    except (IndexError, struct.error) as error:
        raise RemoteProtocolError("the CBOR ends in the middle of an item", len(data)) from error
    if at != len(data):
        raise RemoteProtocolError(f"{len(data) - at} bytes follow the CBOR map", at)
    return found


def _item(data: bytes, at: int) -> tuple[Any, int]:
    major, info = data[at] >> 5, data[at] & 31
    if major == 7:
        if info in (20, 21):
            return info == 21, at + 1
        if info in _FLOATS:
            form, size = _FLOATS[info]
            return struct.unpack_from(form, data, at + 1)[0], at + 1 + size
        raise RemoteProtocolError("a parameter is a number, text, bytes, true or false", at)
    if major in (4, 5, 6):
        raise RemoteProtocolError("a map of parameters is flat and has no tags; send the whole event", at)
    number, end = _head(data, at, major)
    if major == 0:
        return number, end
    if major == 1:
        return -1 - number, end
    if number > len(data) - end:
        raise RemoteProtocolError(f"{number} bytes are announced, {len(data) - end} are there", at)
    raw = data[end : end + number]
    return (raw if major == 2 else _text(raw)), end + number


def _head(data: bytes, at: int, major: int) -> tuple[int, int]:
    info = data[at] & 31
    if info < 24:
        return info, at + 1
    if info > 27:
        raise RemoteProtocolError("lengths are definite", at)
    size = 1 << (info - 24)
    if at + 1 + size > len(data):
        raise IndexError
    return int.from_bytes(data[at + 1 : at + 1 + size], "big"), at + 1 + size
