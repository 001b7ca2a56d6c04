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
from typing import TYPE_CHECKING, Any

from . import limits
from ._cbor import float_bytes
from .errors import LocalProtocolError
from .event import Event, attributes_module

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Shapes"]

# A function takes some 200 us to make. One miss in so many is learned from: what is frequent is learned soon, and who
# never sends the same shape twice costs little more than without.
_LEARN_EVERY = 16
# Of one length, tried one after the other; and in all. Past that all are forgotten, and the frequent learned anew.
_MAX_OF_LENGTH = 8
_MAX_SHAPES = 512

_ARGUMENTS = {24: ("B", 24), 25: ("H", 1 << 8), 26: ("I", 1 << 16), 27: ("Q", 1 << 32)}
_FLOATS = {25: ("e", 2), 26: ("f", 4), 27: ("d", 8)}


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
    values = [*event.params.values(), *event.attrs.values()]
    if any([type(value) not in (str, int, float, bool, bytes) for value in values]):
        return None
    return _Pieces(data).function(event)


class _Pieces:
    """Walks over the bytes of one event: what is constant, then what varies, in turn."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.start = 0  # of the constant piece that is open
        self.format = ">"
        self.constants: dict[str, Any] = {}
        self.checks: list[str] = []
        self.count = 0
        self.names = 0

    def function(self, event: Event) -> "Callable[[bytes], Event | None]":
        """Its shape as a function."""
        self._head()
        self._skip()  # subject
        producer = self._value() if event.producer is not None else self._null()
        seq = self._value() if event.seq is not None else self._null()
        params = self._named(event.params)
        attrs = self._named(event.attrs)
        self._constant()
        places = ", ".join([f"c{n}, v{n}" for n in range(self.count)] + [f"c{self.count}"])
        equal = " or ".join([f"c{n} != k{n}" for n in range(self.count + 1)])
        lines = [f"{places}, = unpack(data)", f"if {equal}: return None"]
        lines += [f"if {check}: return None" for check in self.checks]
        lines += [
            "event = new(Event)",
            "event.subject = subject",
            f"event.producer = {producer}",
            f"event.seq = {seq}",
            "event._nesting = 1",
            "event._wire = data",
            f"event.params = {params}",
            f"event.attrs = {attrs}",
            "check_attributes(event.attrs)" if event.attrs else "",
            "return event",
        ]
        source = "def shape(data):\n" + "".join([f"    {line}\n" for line in lines if line])
        names: dict[str, Any] = {
            **self.constants,
            **{f"n{n}": name for n, name in enumerate([*event.params, *event.attrs])},
            "unpack": Struct(self.format).unpack,
            "new": Event.__new__,
            "Event": Event,
            "subject": event.subject,
            "float_bytes": float_bytes,
            "check_attributes": attributes_module().check,
        }
        exec(source, names)
        found: Callable[[bytes], Event | None] = names["shape"]
        return found

    def _named(self, values: "dict[str, Any]") -> str:
        """The text of a dict."""
        self._head()
        found = []
        for _ in values:
            self._skip()
            found.append(f"n{self.names}: {self._value()}")
            self.names += 1
        return "{" + ", ".join(found) + "}"

    def _head(self) -> tuple[int, int]:
        """Steps over a head; its type, and its argument where that is a length or an integer."""
        first = self.data[self.at]
        self.at += 1
        major, info = first >> 5, first & 31
        size = 1 << info - 24 if info > 23 else 0
        argument = int.from_bytes(self.data[self.at : self.at + size], "big") if size else info
        self.at += size
        return major, argument

    def _skip(self) -> None:
        """A name, or the number of a known attribute: it stays as it is."""
        major, argument = self._head()
        if major == 3:
            self.at += argument

    def _null(self) -> str:
        self.at += 1
        return "None"

    def _constant(self) -> None:
        """The piece before what varies ends here; it may be empty."""
        self.format += f"{self.at - self.start}s"
        self.constants[f"k{self.count}"] = self.data[self.start : self.at]

    def _vary(self, code: str, size: int) -> str:
        self._constant()
        self.format += code
        self.at += size
        self.start = self.at
        self.count += 1
        return f"v{self.count - 1}"

    def _value(self) -> str:
        """The text that gives the value of what was unpacked."""
        first = self.data[self.at]
        major, info = first >> 5, first & 31
        if major == 7:
            return self._simple(info)
        if major < 2:
            return self._integer(major, info)
        _, size = self._head()
        name = self._vary(f"{size}s", size)
        return f"{name}.decode()" if major == 3 else name

    def _integer(self, major: int, info: int) -> str:
        if info < 24:
            name = self._vary("B", 1)
            self.checks.append(f"not {major << 5} <= {name} < {(major << 5) + 24}")
            return name if major == 0 else f"31 - {name}"
        code, least = _ARGUMENTS[info]
        self.at += 1
        name = self._vary(code, 1 << info - 24)
        self.checks.append(f"not {least} <= {name} <= {limits.INT_MAX}")
        return name if major == 0 else f"-1 - {name}"

    def _simple(self, info: int) -> str:
        if info < 24:
            name = self._vary("B", 1)
            self.checks.append(f"{name} != 244 and {name} != 245")
            return f"{name} == 245"
        code, size = _FLOATS[info]
        self.at += 1
        last = self.at + size - 1
        name = self._vary(code, size)
        # The last byte of a float that fits into half the bytes is 0. Only one NaN is right: the reader knows it.
        shorter = f" or not data[{last}] and len(float_bytes({name})) != {size + 1}" if size > 2 else ""
        self.checks.append(f"{name} != {name}{shorter}")
        return name
