"""Events as JSON, the same form everywhere (spec/json.md):

    {"subject": "Speed", "params": {"rate": 57.2}, "attrs": {"Priority": 3}, "producer": "car-7", "seq": 12}

Bytes are {"$bytes": "<base64>"}, nested events {"$event": {...}}, an area its string form; what JSON has no number for
is {"$float": "nan"}, "inf" or "-inf". A number with a point or an exponent is a float, without one an int.
"""

import binascii
import json

from ._compat import MICROPYTHON, Ordered
from .errors import LocalProtocolError
from .event import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["dumps", "from_json", "loads", "to_json"]

_KEYS = ("subject", "params", "attrs", "producer", "seq")
_FLOATS = ("nan", "inf", "-inf")


def dumps(event: Event) -> str:
    """One line. Not in ASCII: MicroPython does not read the escapes of characters past U+FFFF."""
    found = to_json(event)
    return json.dumps(found) if MICROPYTHON else json.dumps(found, ensure_ascii=False)


def loads(text: "str | bytes") -> Event:
    try:
        if MICROPYTHON:
            found = json.loads(text)
        else:
            found = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except (ValueError, RuntimeError) as error:  # RuntimeError: nested too deep
        raise LocalProtocolError(f"not JSON: {_reason(error)}")
    return from_json(found)


def to_json(event: Event) -> "dict[str, Any]":
    found: dict[str, Any] = Ordered()
    found["subject"] = event.subject
    found["params"] = _values(event.params)
    if event.attrs:
        found["attrs"] = _values(event.attrs)
    if event.producer is not None:
        found["producer"] = event.producer
        found["seq"] = event.seq
    return found


def from_json(found: "Any") -> Event:
    if not isinstance(found, dict):
        raise LocalProtocolError(f"an event is a JSON object, got {_shown(found)}")
    for key in found:
        if key not in _KEYS:
            raise LocalProtocolError(f"{key!r} is not a key of an event, want {', '.join(_KEYS)}")
    if "subject" not in found:
        raise LocalProtocolError("an event has a subject")
    items = []
    for key in ("params", "attrs"):
        values = found.get(key, {})
        if not isinstance(values, dict):
            raise LocalProtocolError(f"{key!r} is an object, got {_shown(values)}")
        # A dict has lost its order on MicroPython: then by name, as Event does.
        pairs = sorted(values.items()) if MICROPYTHON else values.items()
        items.append([(name, _value(name, value)) for name, value in pairs])
    return Event(found["subject"], items[0], items[1], found.get("producer"), found.get("seq"))


def _values(values: "dict[str, Any]") -> "dict[str, Any]":
    found: dict[str, Any] = Ordered()
    for name, value in values.items():
        kind = type(value)
        if kind is bytes:
            value = {"$bytes": binascii.b2a_base64(value).decode().strip()}
        elif kind is Event:
            value = {"$event": to_json(value)}
        elif kind is float and value - value != 0:
            value = {"$float": "nan" if value != value else ("inf" if value > 0 else "-inf")}
        elif name == "Proximity" and kind is not str:
            value = str(value)
        found[name] = value
    return found


def _value(name: str, value: "Any") -> "Any":
    if not isinstance(value, dict):
        if value is None or isinstance(value, list):
            raise LocalProtocolError(f"{name!r} is {'null' if value is None else 'an array'}, which no event holds")
        if isinstance(value, float) and value - value != 0:
            raise LocalProtocolError(f'{name!r} is past the largest float; for infinity write {{"$float": "inf"}}')
        return value
    if len(value) == 1:
        key, inner = list(value.items())[0]
        if key == "$event":
            try:
                return from_json(inner)
            except LocalProtocolError as error:
                raise LocalProtocolError(f"in {name!r}: {error}")
        if key == "$float" and inner in _FLOATS:
            return float(inner)
        if key == "$bytes" and isinstance(inner, str):
            data = _base64(inner)
            if data is not None:
                return data
    raise LocalProtocolError(f"{name!r} is {_shown(value)}, want $bytes with base64, $event or $float")


def _base64(text: str) -> "bytes | None":
    """Decoded, if it is exactly what we would write: base64 readers let much through."""
    try:
        data = binascii.a2b_base64(text)
    except ValueError:
        return None
    return data if binascii.b2a_base64(data).decode().strip() == text else None


def _reason(error: "Any") -> str:
    """In the words of the JSON reader, with the column only: a line's number is known better by who has the file."""
    if not hasattr(error, "msg"):
        return str(error)
    if "BOM" in error.msg:
        return "it starts with a byte order mark; save it as UTF-8 without one"
    return f"{error.msg} (column {error.colno})"


def _shown(value: "Any") -> str:
    text = repr(value)
    return text if len(text) < 60 else text[:57] + "..."


def _object(pairs: "list[tuple[str, Any]]") -> "dict[str, Any]":
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key!r} is given twice")
        found[key] = value
    return found


def _constant(text: str) -> "Any":
    raise ValueError(f'{text} is not JSON, write {{"$float": "nan"}}')
