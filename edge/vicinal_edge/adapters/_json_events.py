"""What others write, as parameters of an event: JSON of any form, and texts that stand for values.

    {"power": 5, "mode": null, "phase": {"l1": 230.1}, "list": [7, 8]}     power 5, phase.l1 230.1, list.0 7, list.1 8

An event is flat: names of nested objects and places in arrays are joined with dots, as `Vehicle.Speed` is in filters,
and null is no parameter. Our own forms of bytes, nested events and odd floats are read as such (spec/json.md).
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from vicinal import limits
from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.json_form import from_json, to_json

__all__ = ["attribute_of", "attribute_text", "params_of", "parse", "plain_text", "plain_value", "word_value"]

_OURS = ("$bytes", "$event", "$float")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?\Z", re.ASCII)


def parse(text: str) -> Any:
    """JSON as the standard has it: no NaN, no name twice. Raises LocalProtocolError."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise LocalProtocolError(f"not JSON: {error}") from error


def params_of(found: dict[str, Any], subject: str) -> dict[str, Any]:
    """The parameters that a JSON object stands for."""
    try:
        flat = dict(_flat(found, ""))
    except RecursionError as error:
        raise LocalProtocolError("JSON nested too deep") from error
    return from_json({"subject": subject, "params": flat}).params


def word_value(text: str) -> Any:
    """A number as JSON writes it, `true` and `false` are what they look like. All else is text: 007, NaN, 1e999, what
    passes 64 bits."""
    if text in ("true", "false"):
        return text == "true"
    found = _NUMBER.match(text)
    if found is None:
        return text
    if found[1] is None and found[2] is None:
        if len(text) > 20:
            return text
        whole = int(text)
        return whole if limits.INT_MIN <= whole <= limits.INT_MAX else text
    number = float(text)
    return number if number - number == 0 else text


def plain_value(text: str) -> Any:
    """As `word_value`, and a text in quotes is what the quotes hold."""
    if text.startswith('"'):
        try:
            return parse(text)
        except LocalProtocolError:
            return text
    return word_value(text)


def plain_text(value: str | int | float | bool) -> str:
    """What `plain_value` reads back as this very value."""
    if type(value) is str:
        return value if value[:1] != '"' and word_value(value) is value else json.dumps(value)
    return json.dumps(value)


def attribute_text(name: str, value: Any) -> str:
    """JSON in ASCII: what is no letter there stands as an escape."""
    return json.dumps(to_json(Event("-", (), {name: value}))["attrs"][name])


def attribute_of(name: str, text: str) -> Any:
    """What `attribute_text` wrote; of somebody else's text which is no value of ours, the text."""
    try:
        return from_json({"subject": "-", "attrs": {name: parse(text)}}).attrs[name]
    except LocalProtocolError:
        return text


def _flat(found: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    items = found.items() if isinstance(found, dict) else enumerate(found)
    for name, value in items:
        if value is None:
            continue
        ours = isinstance(value, dict) and len(value) == 1 and next(iter(value)) in _OURS
        if isinstance(value, (dict, list)) and not ours:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is given twice")
    return found


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")
