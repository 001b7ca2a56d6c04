"""A DBC file as a mapping: cantools reads it, and each signal becomes a parameter with its unit (spec/can_mapping.md).

    BO_ 514 EngVehicleSpThrottle2: 8 PCM                                    message    -> subject
     SG_ Veh_V_ActlEng : 55|16@0+ (0.01,0) [0|655.35] "kph" GWM             signal     -> parameter, a float in kph
    VAL_ 514 GearLvrPos_D_Actl 0 "Park" 1 "Reverse" ;                       value table: numbers, or names if asked

A signal is an int where its factor and offset are whole, else a float, as cantools has it. Signals of a multiplexed
message are there when their multiplexer says so, to any depth.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vicinal.cosmic.mapping import Field, Mapping, Message
from vicinal.errors import LocalProtocolError

from ._dbc_cut import cut

if TYPE_CHECKING:
    from cantools.database.can.message import Message as DbcMessage
    from cantools.database.can.signal import Signal

__all__ = ["load", "loads"]


def load(path: str | Path, by_name: bool = False, strict: bool = True, only: Iterable[str] = ()) -> Mapping:
    """`by_name` gives values of a value table as its names; without `strict` overlapping signals are let through. Where
    only some messages are of use, `only` has their names: the rest of a large file need not be understood."""
    try:
        # Vector's tools write Windows text; a byte that it lacks is a letter of a comment.
        text = Path(path).read_text(encoding="cp1252", errors="replace")
    except OSError as error:
        raise LocalProtocolError(f"{path}: {error.strerror}") from error
    return loads(text, str(path), by_name, strict, only)


def loads(
    text: str, file: str = "dbc", by_name: bool = False, strict: bool = True, only: Iterable[str] = ()
) -> Mapping:
    import cantools
    from cantools.database.can.database import Database
    from cantools.database.errors import Error, UnsupportedDatabaseFormatError

    try:
        database = cantools.database.load_string(cut(text, frozenset(only)), database_format="dbc", strict=strict)
    except (UnsupportedDatabaseFormatError, Error) as error:
        raise LocalProtocolError(f"{file}: not a DBC file that cantools reads: {_reason(error)}") from error
    assert isinstance(database, Database)
    found: dict[int, Message] = {}
    for message in database.messages:
        made = _message(message, by_name)
        if made.key in found:
            raise LocalProtocolError(
                f"{file}: identifier {made.id} ({made.id:#x}) is of {found[made.key].subject} and of {made.subject}"
            )
        found[made.key] = made
    return Mapping(list(found.values()))


def _reason(error: Exception) -> str:
    inner = getattr(error, "e_dbc", None)
    return str(inner if inner is not None else error).strip().rstrip(".")


def _message(message: "DbcMessage", by_name: bool) -> Message:
    fields: list[Field] = []
    placed: set[str] = set()
    waiting = list(message.signals)
    while waiting:
        # Each after its multiplexer, else in the order of the file.
        ready = [signal for signal in waiting if signal.multiplexer_signal in (None, *placed)]
        if not ready:
            raise LocalProtocolError(f"message {message.name}: the multiplexer of {waiting[0].name} is no signal of it")
        first = ready[0]
        waiting.remove(first)
        placed.add(first.name)
        fields.append(_field(first))
    return Message(message.frame_id, message.name, fields, message.length, message.is_extended_frame, by_name)


def _field(signal: "Signal") -> Field:
    scale, offset = _number(signal.scale), _number(signal.offset)
    if signal.is_float:
        kind = "float"
    elif isinstance(scale, int) and isinstance(offset, int):
        kind = "int" if signal.is_signed else "uint"
    else:
        kind = "double"
    when = None
    if signal.multiplexer_signal is not None:
        when = (signal.multiplexer_signal, sorted(signal.multiplexer_ids or []))
    names = {} if signal.is_float else {int(number): str(name) for number, name in (signal.choices or {}).items()}
    return Field(
        signal.name,
        kind,
        signal.start,
        signal.length,
        signal.byte_order == "big_endian",
        signal.is_signed and kind == "double",
        scale,
        offset,
        signal.unit or "",
        *_limits(signal),
        names,
        when,
    )


def _number(value: Any) -> int | float:
    """As cantools does it: a factor of 2.0 makes integers."""
    return int(value) if float(value).is_integer() else float(value)


def _limits(signal: "Signal") -> tuple[int | float | None, int | float | None]:
    """[0|0] is how editors write that there is none."""
    if signal.minimum == signal.maximum == 0:
        return None, None
    return signal.minimum, signal.maximum
