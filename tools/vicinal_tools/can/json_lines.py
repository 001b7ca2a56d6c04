"""A decoded frame as a line of JSON, without the way through dicts: each message has a function that fills in its text.

    {"time": 1487341883.960499, "subject": "Speed", "params": {"license_no": "00D1234", "rate": 57.0}}

Values are as in spec/json.md. The time is the text of the log: no float may round it.
"""

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from vicinal import json_form
from vicinal.cosmic._mapping_compile_cpython import Source
from vicinal.cosmic.mapping import Field, Message
from vicinal.event import Event

__all__ = ["Writer", "line_of", "writer"]

Writer: TypeAlias = Callable[[str, bytes], str]
"""time, data -> a line with its end"""

# Past it a scaled 64-bit number may be infinite, which JSON has no number for.
_LARGE = 1e280


def writer(message: Message) -> Writer:
    if message.switches:
        return lambda time, data: line_of(time, message.subject, message.params(data))
    source = Source(message)
    source.constants.update(text_of=text_of, too_short=message.too_short)
    parts, values = [], []
    for field in message.fields:
        form, value = _item(source, field)
        parts.append(f"{_quoted(field.name)}: ".replace("%", "%%") + form)
        values.append(value)
    start = f'{{"time": %s, "subject": {_quoted(message.subject).replace("%", "%%")}, "params": {{'
    template = start + ", ".join(parts) + "}}\n"
    lines = [
        "def write(time, data):",
        f" if len(data) != {message.length}:",
        f"  if len(data) < {message.length}: raise too_short(data)",
        f"  data = data[:{message.length}]",
        *source.frame(),
        f" return {template!r} % ({', '.join(['time', *values])},)",
    ]
    found: Writer = source.function("write", lines)
    return found


def _item(source: Source, field: Field) -> tuple[str, str]:
    value = source.value(field)
    named = source.message.by_name and field.names
    if field.kind in ("int", "uint") and not named:
        return "%d", value
    if field.kind == "double" and not named and abs(field.scale) < _LARGE and abs(field.offset) < _LARGE:
        return "%r", value
    if field.kind == "bool":
        return "%s", f"('true' if {value} else 'false')"
    return "%s", f"text_of({value})"


def text_of(value: Any) -> str:
    kind = type(value)
    if kind is str:
        return _quoted(value)
    if kind is int or (kind is float and value - value == 0):
        return repr(value)
    return json.dumps(json_form.to_json(Event("x", {"value": value}))["params"]["value"])


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def line_of(time: str, subject: str, params: dict[str, Any]) -> str:
    """The same line, of parameters that are there already."""
    items = [f"{_quoted(name)}: {text_of(value)}" for name, value in params.items()]
    return f'{{"time": {time}, "subject": {_quoted(subject)}, "params": {{{", ".join(items)}}}}}\n'
