"""Decoders made to measure, for events that come again and again.

A fleet sends millions of events of a few shapes: the same subject, the same names in the same places, each value with a
head of the same length. All that differs between two of them lies at fixed places:

    85 65 "Speed" 68 ........ 1b ........ 84 64 "rate" fb ........ 63 "lat" 1a .... 80
    ══════════════   producer ══   seq    ══════════════    float  ════════    int  ══     ══ the same in all of a shape

So a shape is one struct format, and a function written for it that compares what must be equal, checks what can still
be wrong (a longer head or float than needed, text that is not UTF-8) and fills in an Event. What fits no shape, or
fails a check, is for the strict reader: a shape never refuses, and never says yes where the reader would not.

The function's text is made of numbers only. What a stranger chose (names, the subject) it meets as values.
"""

from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from . import limits
from ._cbor_float import float_bytes
from .errors import LocalProtocolError
from .event import Event, attributes_module
from .filter._ast import ATTRIBUTE, PARAM

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Field", "Shapes", "check_of", "constants_of", "layout", "value_of"]

# A function takes some 200 us to make. One miss in so many is learned from: what is frequent is learned soon, and who
# never sends the same shape twice costs little more than without.
_LEARN_EVERY = 16
# Of one length, tried one after the other; and in all. Past that all are forgotten, and the frequent learned anew.
_MAX_OF_LENGTH = 8
_MAX_SHAPES = 512

# By the size of what follows the head: what unpacks it, and the least that needs so many bytes.
_INTEGERS = {1: ("B", 24), 2: ("H", 1 << 8), 4: ("I", 1 << 16), 8: ("Q", 1 << 32)}
_FLOATS = {2: "e", 4: "f", 8: "d"}


class Field(NamedTuple):
    """Something that varies. `place` is (kind, name) as a filter has it, None for producer and seq. `kind` is "+" or
    "-" for integers, "small+" and "small-" for those that are their head, "float", "bool", "text" or "bytes"."""

    place: tuple[int, str] | None
    kind: str
    start: int
    size: int


class Shapes:
    """What `wire.decode` has seen often."""

    def __init__(self) -> None:
        self._by_length: dict[int, list[Callable[[bytes], Event | None]]] = {}
        self._misses = 0
        self._count = 0

    def decode(self, data: bytes) -> Event | None:
        """The event, or None: then the strict reader decides."""
        for shape in self._by_length.get(len(data), ()):
            try:
                event = shape(data)
            except (ValueError, LocalProtocolError):  # not UTF-8; an attribute that cannot be
                return None
            if event is not None:
                return event
        return None

    def missed(self, data: bytes, event: Event) -> None:
        """The strict reader has read it."""
        self._misses += 1
        if self._misses % _LEARN_EVERY:
            return
        shape = _shape_of(data, event)
        if shape is None:
            return
        if self._count >= _MAX_SHAPES:
            self._by_length.clear()
            self._count = 0
        known = self._by_length.setdefault(len(data), [])
        known.insert(0, shape)
        self._count += 1
        if len(known) > _MAX_OF_LENGTH:
            known.pop()
            self._count -= 1


def _shape_of(data: bytes, event: Event) -> "Callable[[bytes], Event | None] | None":
    """For an event that was read from the data; None for one that has an event or an area in it."""
    fields = layout(data, event)
    if fields is None:
        return None
    pieces, format = constants_of(data, fields)
    places = "".join([f"c{n}, v{n}, " for n in range(len(fields))]) + f"c{len(fields)},"
    lines = [
        f"{places} = unpack(data)",
        f"if {' or '.join([f'c{n} != k{n}' for n in range(len(pieces))])}: return None",
    ]
    lines += [f"if {check}: return None" for check in [check_of(n, field) for n, field in enumerate(fields)] if check]
    values = [value_of(n, field) for n, field in enumerate(fields)]
    who = ("None", "None") if event.producer is None else (values.pop(0), values.pop(0))
    named = [f"n{n}: {value}" for n, value in enumerate(values)]
    lines += [
        "event = new(Event)",
        "event.subject = subject",
        f"event.producer = {who[0]}",
        f"event.seq = {who[1]}",
        "event._nesting = 1",
        "event._wire = data",
        f"event.params = {{{', '.join(named[: len(event.params)])}}}",
        f"event.attrs = {{{', '.join(named[len(event.params) :])}}}",
    ]
    if event.attrs:
        lines.append("check_attributes(event.attrs)")
    lines.append("return event")
    names: dict[str, Any] = {
        **{f"k{n}": piece for n, piece in enumerate(pieces)},
        **{f"n{n}": name for n, name in enumerate([*event.params, *event.attrs])},
        "unpack": Struct(format).unpack,
        "new": Event.__new__,
        "Event": Event,
        "subject": event.subject,
        "float_bytes": float_bytes,
        "check_attributes": attributes_module().check,
    }
    exec("def shape(data):\n" + "".join([f"    {line}\n" for line in lines]), names)
    found: Callable[[bytes], Event | None] = names["shape"]
    return found


def constants_of(data: bytes, fields: list[Field]) -> tuple[list[bytes], str]:
    """What stands before, between and after the fields, and the format that unpacks them in turn."""
    pieces: list[bytes] = []
    format = ">"
    at = 0
    for field in fields:
        pieces.append(data[at : field.start])
        format += f"{field.start - at}s{_code(field)}"
        at = field.start + field.size
    pieces.append(data[at:])
    return pieces, f"{format}{len(data) - at}s"


def _code(field: Field) -> str:
    if field.kind in ("text", "bytes"):
        return f"{field.size}s"
    return _FLOATS[field.size] if field.kind == "float" else _INTEGERS[field.size][0]


def check_of(number: int, field: Field) -> str:
    """When it is not what the strict reader would take, or for it alone to say."""
    name = f"v{number}"
    if field.kind in ("+", "-"):
        return f"not {_INTEGERS[field.size][1]} <= {name} <= {limits.INT_MAX}"
    if field.kind in ("small+", "small-"):
        least = 0x20 if field.kind == "small-" else 0
        return f"not {least} <= {name} < {least + 24}"
    if field.kind == "bool":
        return f"{name} != 0xF4 and {name} != 0xF5"
    if field.kind == "float":
        # The last byte of a float that fits into half the bytes is 0. Only one NaN is right: the reader knows it.
        last = field.start + field.size - 1
        shorter = f" or not data[{last}] and len(float_bytes({name})) != {field.size + 1}" if field.size > 2 else ""
        return f"{name} != {name}{shorter}"
    return ""


def value_of(number: int, field: Field) -> str:
    name = f"v{number}"
    return {"-": f"-1 - {name}", "small-": f"31 - {name}", "bool": f"{name} == 0xF5", "text": f"{name}.decode()"}.get(
        field.kind, name
    )


def layout(data: bytes, event: Event) -> list[Field] | None:
    """What varies in events like one that was read from the data, in order: producer and seq if it has them, values of
    parameters, values of attributes."""
    values = [*event.params.values(), *event.attrs.values()]
    if any([type(value) not in (str, int, float, bool, bytes) for value in values]):
        return None
    walk = _Walk(data)
    walk.head()
    walk.name()  # subject
    for part in (event.producer, event.seq):
        if part is None:
            walk.at += 1
        else:
            walk.value(None)
    for kind, named in ((PARAM, event.params), (ATTRIBUTE, event.attrs)):
        walk.head()
        for name in named:
            walk.name()
            walk.value((kind, name))
    return walk.fields


class _Walk:
    """Over the bytes of an event that is known to be right."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.fields: list[Field] = []

    def head(self) -> tuple[int, int]:
        """Its type, and its argument where that is a length or an integer."""
        first = self.data[self.at]
        self.at += 1
        major, info = first >> 5, first & 31
        size = 1 << info - 24 if info > 23 else 0
        argument = int.from_bytes(self.data[self.at : self.at + size], "big") if size else info
        self.at += size
        return major, argument

    def name(self) -> None:
        """Or the number of a known attribute."""
        major, argument = self.head()
        if major == 3:
            self.at += argument

    def value(self, place: tuple[int, str] | None) -> None:
        first = self.data[self.at]
        major, info = first >> 5, first & 31
        start, size = self.at + 1, 1 << info - 24 if info > 23 else 0
        if major < 2:
            kind = "+-"[major]
            if not size:
                kind, start, size = "small" + kind, self.at, 1
        elif major == 7:
            kind = "float"
            if not size:
                kind, start, size = "bool", self.at, 1
        else:
            kind = "text" if major == 3 else "bytes"
            _, size = self.head()
            start = self.at
        self.fields.append(Field(place, kind, start, size))
        self.at = start + size
