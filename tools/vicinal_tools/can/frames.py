"""What is to be sent, from the command line: a frame as candump and cansend write it, or an event through a mapping."""

import re
from typing import TYPE_CHECKING, Any

from vicinal.cosmic.mapping import Mapping, Message
from vicinal.errors import LocalProtocolError
from vicinal.event import Event

from ..complain import BadInput
from .mappings import message_named
from .replay import message_of

if TYPE_CHECKING:
    import can

__all__ = ["event_of", "frame_of", "message_from_event"]

_FRAME = re.compile(r"([0-9A-Fa-f]+)#(#[0-9A-Fa-f])?(R[0-9A-Fa-f]?|[0-9A-Fa-f.]*)")
_DIGITS = {3: 0x7FF, 8: 0x1FFFFFFF}


def frame_of(text: str) -> "can.Message":
    """123#DEADBEEF, 00003039#30.30, 123#R4, 123##1AABB."""
    found = _FRAME.fullmatch(text)
    if found is None:
        raise BadInput(f"{text!r}: want ID#DATA in hexadecimal, as 123#DEADBEEF, or NAME=VALUE with --subject")
    number, flags, data = found[1], found[2] or "", found[3].replace(".", "").upper()
    if len(number) not in _DIGITS:
        raise BadInput(
            f"{text!r}: an identifier has 3 hexadecimal digits, or 8 if it is extended; {number} has {len(number)}. "
            f"Did you mean {_guess(number)}#{found[3]}?"
        )
    if int(number, 16) > _DIGITS[len(number)]:
        raise BadInput(f"{text!r}: identifier {number} is past {_DIGITS[len(number)]:X}")
    if not data.startswith("R"):
        if len(data) % 2:
            raise BadInput(f"{text!r}: {len(data)} digits of data, want two for each byte")
        most = 64 if flags else 8
        if len(data) > 2 * most:
            raise BadInput(f"{text!r}: {len(data) // 2} bytes of data, the limit is {most}")
    return message_of(("0.0", "", number, flags, data))


def _guess(number: str) -> str:
    value = int(number, 16)
    return f"{value:03X}" if value <= 0x7FF and len(number) < 3 else f"{value:08X}"


def message_from_event(mapping: Mapping, event: Event) -> "can.Message":
    import can

    try:
        frame = mapping.encode(event)
    except LocalProtocolError as error:
        raise BadInput(str(error)) from error
    return can.Message(arbitration_id=frame.id, data=frame.data, is_extended_id=frame.extended)


def event_of(mapping: Mapping, subject: str, params: tuple[str, ...]) -> Event:
    """NAME=VALUE, each as its field wants it: a plate of digits is text, and bytes are hexadecimal."""
    message = message_named(mapping, subject)
    kinds = {field.name: field for field in message.fields}
    found: dict[str, Any] = {}
    for text in params:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise BadInput(f"{text!r}: want NAME=VALUE")
        if name not in kinds:
            raise BadInput(f"{subject} has no {name!r}, it has {', '.join(kinds)}")
        if name in found:
            raise BadInput(f"{name!r} is given twice")
        found[name] = _value(message, name, kinds[name].kind, value)
    return Event(subject, found)


def _value(message: Message, name: str, kind: str, text: str) -> Any:
    if kind == "string":
        return text
    if kind == "bytes":
        try:
            return bytes.fromhex(text)
        except ValueError as error:
            raise BadInput(f"{name}={text}: want bytes in hexadecimal") from error
    if kind == "bool":
        known = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}
        if text.lower() not in known:
            raise BadInput(f"{name}={text}: want true or false")
        return known[text.lower()]
    for number in (lambda: int(text, 0), lambda: float(text)):
        try:
            return number()
        except ValueError:
            pass
    return text  # a name of its value table, or refused by the mapping with what it wants
