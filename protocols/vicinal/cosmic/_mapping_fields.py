"""One field of a frame: where it lies, what it means, and the way of a value into its bits and out again.

Bits are numbered as in a DBC file: bit n is bit n % 8 of byte n // 8, and bit 0 of a byte is its least.

    byte      0                 1                  2
    bit       7 6 5 4 3 2 1 0   15 14 ... 9 8      23 ... 16

A little-endian field starts at its least bit and goes up; a big-endian one starts at its most significant bit and goes
down, from bit 0 of a byte to bit 7 of the next. Read as one number in its byte order, the frame has each field in one
piece: `frame >> shift & mask`.
"""

import struct

from .. import limits
from .._compat import decode_utf8, utf8_len
from ..errors import LimitError, LocalProtocolError, RemoteProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["MAX_LENGTH", "Field"]

# Bytes of a CAN FD frame; a classic one has 8.
MAX_LENGTH = 64
# A number of an event is a double or a 64-bit integer: there is no use for more bits.
MAX_NUMBER_BITS = 64
# From here on a 32-bit float would be infinite: its largest value, and half a step.
_FLOAT32_END = 3.4028235677973366e38


class Field:
    """`kind` is string, bytes, bool, int, uint, double (an integer in the frame, a float in the event) or float (IEEE
    754 in both). What is checked here holds for every field; `_mapping_tables` says where in a file it was wrong."""

    __slots__ = (
        "big", "kind", "length", "mask", "maximum", "minimum", "name", "names", "offset", "scale", "shift", "signed",
        "start", "unit", "when",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        kind: str,
        start: int,
        length: int,
        big: bool = False,
        signed: bool = False,
        scale: "int | float" = 1,
        offset: "int | float" = 0,
        unit: str = "",
        minimum: "int | float | None" = None,
        maximum: "int | float | None" = None,
        names: "dict[int, str] | None" = None,
        when: "tuple[str, list[int]] | None" = None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.start = start
        self.length = length
        self.big = big
        self.signed = signed or kind == "int"
        self.scale = scale
        self.offset = offset
        self.unit = unit
        self.minimum = minimum
        self.maximum = maximum
        self.names = names or {}
        self.when = when
        self.mask = (1 << length) - 1
        self.shift = 0

    def place(self, size: int) -> None:
        """In a frame of so many bytes. A big-endian number is counted from its end."""
        self.shift = self.start
        if self.big:
            self.shift = 8 * size - (self.start // 8 * 8 + 7 - self.start % 8) - self.length

    def bits(self) -> "list[int]":
        """The numbers of its bits."""
        if not self.big:
            return list(range(self.start, self.start + self.length))
        found = []
        bit = self.start
        for _ in range(self.length):
            found.append(bit)
            bit += -1 if bit % 8 else 15
        return found

    def raw(self, data: bytes) -> int:
        """The bits as an integer, of data of the message's length."""
        return self.with_sign(int.from_bytes(data, "big" if self.big else "little") >> self.shift & self.mask)

    def with_sign(self, bits: int) -> int:
        return bits - self.mask - 1 if self.signed and bits > self.mask >> 1 else bits

    def decode(self, data: bytes, by_name: bool = False) -> "Any":
        if self.kind in ("string", "bytes"):
            return self._cut(data)
        raw = self.raw(data)
        if self.kind == "bool":
            return raw == 1
        if by_name and raw in self.names:
            return self.names[raw]
        value: Any = raw
        if self.kind == "float":
            form = "<f" if self.length == 32 else "<d"
            value = struct.unpack(form, (raw & self.mask).to_bytes(self.length // 8, "little"))[0]
        if self.scale != 1 or self.offset != 0:
            value = value * self.scale + self.offset
        return float(value) if self.kind == "double" else value

    def _cut(self, data: bytes) -> "str | bytes":
        first = self.start // 8
        piece = bytes(data[first : first + self.length // 8])
        if self.kind == "bytes":
            return piece
        text = decode_utf8(piece.rstrip(b"\x00"))
        if text is None:
            raise RemoteProtocolError(f"{self.name} is {piece!r}, which is not UTF-8", first)
        return text

    def encode(self, value: "Any") -> int:
        """The bits, to be put at `shift`. `value` is refused where the field cannot give it back."""
        if self.kind in ("string", "bytes"):
            return int.from_bytes(self._padded(value), "little")
        if self.kind == "bool":
            if type(value) is not bool:
                raise self._not(value, "true or false")
            return int(value)
        if type(value) is str:
            return self._number_of(value) & self.mask
        if type(value) is not int and type(value) is not float:
            raise self._not(value, "a number")
        if self.kind == "float":
            return self._ieee(value)
        if value - value != 0:
            raise self._not(value, "a finite number")
        self._check_range(value)
        raw = self._steps(value)
        low, high = self.raw_range()
        if not low <= raw <= high:
            ends = sorted([low * self.scale + self.offset, high * self.scale + self.offset])
            raise LimitError(self.name, value, f"{ends[0]} .. {ends[1]} {self.unit}".strip())
        return raw & self.mask

    def raw_range(self) -> "tuple[int, int]":
        half = self.mask >> 1
        return (-half - 1, half) if self.signed else (0, self.mask)

    def _padded(self, value: "Any") -> bytes:
        room = self.length // 8
        if self.kind == "bytes":
            if type(value) is not bytes:
                raise self._not(value, "bytes")
            if len(value) != room:
                raise LimitError(f"length of {self.name}", len(value), f"exactly {room} bytes")
            return value
        if type(value) is not str:
            raise self._not(value, "a string")
        if value.endswith("\x00"):
            raise self._not(value, "a string without NUL at its end: that is how shorter ones are filled up")
        size = utf8_len(value)
        if size > room:
            raise LimitError(f"length of {self.name} {value!r}", size, f"{room} bytes")
        return value.encode() + bytes(room - size)

    def _number_of(self, name: str) -> int:
        for number, known in self.names.items():
            if known == name:
                return number
        if not self.names:
            raise self._not(name, "a number")
        known = ", ".join([self.names[number] for number in sorted(self.names)])
        raise self._not(name, f"a number or one of {known if len(known) < 200 else known[:200] + '...'}")

    def _ieee(self, value: "int | float") -> int:
        self._check_range(value)
        if self.scale != 1 or self.offset != 0:
            value = (value - self.offset) / self.scale
        if self.length == 32 and value - value == 0 and abs(value) >= _FLOAT32_END:
            raise LimitError(self.name, value, "the largest 32-bit float, 3.4e38")
        packed = struct.pack("<f" if self.length == 32 else "<d", value)
        return int.from_bytes(packed, "little")

    def _check_range(self, value: "int | float") -> None:
        if self.minimum is not None and value < self.minimum:
            raise LimitError(self.name, value, f"{self.minimum} {self.unit} or more".replace("  ", " "))
        if self.maximum is not None and value > self.maximum:
            raise LimitError(self.name, value, f"{self.maximum} {self.unit} or less".replace("  ", " "))

    def _steps(self, value: "int | float") -> int:
        """The nearest step of a double; an integer must lie on one."""
        if self.kind == "double":
            return round((value - self.offset) / self.scale)
        whole = int(value)
        if whole != value:
            raise self._not(value, "a whole number")
        if (whole - self.offset) % self.scale:
            raise self._not(value, f"{self.offset} and a multiple of {self.scale}")
        return (whole - self.offset) // self.scale  # type: ignore[return-value]

    def _not(self, value: object, want: str) -> LocalProtocolError:
        return LocalProtocolError(f"{self.name} is {value!r}, want {want}")

    def table(self) -> "dict[str, Any]":
        """As in a file, with what is not the default: what `read_tables` makes the same field of."""
        found: dict[str, Any] = {"name": self.name, "type": self.kind}
        if self.kind in ("string", "bytes"):
            found["bytes"] = f"{self.start // 8}..{(self.start + self.length) // 8 - 1}"
        else:
            found["start"], found["length"] = self.start, self.length
            found["endian"] = "big" if self.big else "little"
        if self.kind == "double" and self.signed:
            found["signed"] = True
        for key, value, default in (
            ("scale", self.scale, 1), ("offset", self.offset, 0), ("unit", self.unit, ""),
            ("min", self.minimum, None), ("max", self.maximum, None),
        ):  # fmt: skip
            if value != default:
                found[key] = value
        if self.names:
            found["names"] = {str(number): name for number, name in self.names.items()}
        if self.when is not None:
            found["when"] = {self.when[0]: list(self.when[1])}
        return found


def exclude_each_other(a: Field, b: Field, fields: "dict[str, Field]") -> bool:
    """Whether no frame has both: they hang on the same field, directly or further up, with other values of it."""
    mine = _conditions(a, fields)
    for name, values in _conditions(b, fields):
        for other, others in mine:
            if name == other and not [value for value in values if value in others]:
                return True
    return False


def _conditions(field: Field, fields: "dict[str, Field]") -> "list[tuple[str, list[int]]]":
    found: list[tuple[str, list[int]]] = []
    at: Field | None = field
    while at is not None and at.when is not None and len(found) <= limits.MAX_PARAMS:
        found.append(at.when)
        at = fields.get(at.when[0])
    return found
