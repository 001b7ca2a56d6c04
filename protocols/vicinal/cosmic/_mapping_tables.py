"""The tables of a mapping, checked: whatever is wrong is said with the file, the table and the key, the value and what
is wanted. The form is in `mapping_toml_cpython`; a device reads the same tables as JSON."""

from .. import limits
from .._compat import Ordered
from .._table import Table, shown
from ..errors import LocalProtocolError
from ._mapping_fields import MAX_LENGTH, MAX_NUMBER_BITS, Field, exclude_each_other
from .frame import EXTENDED_MAX, STANDARD_MAX
from .mapping import Message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["read_tables"]

_KINDS = ("string", "bytes", "bool", "int", "uint", "double", "float")
# Fields that a frame of MAX_LENGTH bytes can have, if an event could.
_MAX_FIELDS = limits.MAX_PARAMS


def read_tables(tables: "Any", file: str, by_name: bool = False) -> "list[Message]":
    if not isinstance(tables, dict):
        raise LocalProtocolError(f"{file}: want tables, got {shown(tables)}")
    for key in tables:
        if key != "message":
            raise LocalProtocolError(f"{file}: [{key}] is not known: want [[message]]")
    messages = tables.get("message")
    if not isinstance(messages, list) or not messages:
        raise LocalProtocolError(f"{file}: want at least one [[message]], with two brackets: there may be several")
    found: dict[int, Message] = Ordered()
    for at, values in enumerate(messages):
        table = Table(f"{file}: [[message]] {at + 1}", values)
        message = _message(table, by_name)
        if message.key in found:
            other = found[message.key].subject
            raise table.error("id", f"is {message.id} ({message.id:#x}), which is that of {other!r} already")
        found[message.key] = message
    return list(found.values())


def _message(table: Table, by_name: bool) -> Message:
    subject = table.name("subject", limits.MAX_SUBJECT_BYTES)
    number = table.integer("id", 0, EXTENDED_MAX, required=True)
    extended = table.take("extended", bool, number > STANDARD_MAX)
    if not extended and number > STANDARD_MAX:
        raise table.error("extended", f"is false, but id {number:#x} is past {STANDARD_MAX:#x}, the last standard one")
    length = table.integer("length", 0, MAX_LENGTH)
    endian = table.endian()
    holes = table.take("holes", bool, False)
    rows = table.take("fields", list, required=True)
    table.done()
    if len(rows) > _MAX_FIELDS:
        raise table.error("fields", f"are {len(rows)}, an event has at most {_MAX_FIELDS} parameters")
    fields: dict[str, Field] = Ordered()
    for at, values in enumerate(rows):
        inner = Table(f"{table.where}, field {at + 1}", values)
        field = _field(inner, endian, fields)
        fields[field.name] = field
    message = Message(number, subject, list(fields.values()), length, extended, by_name)
    _check_bits(table, message, fields, holes)
    return message


def _field(table: Table, endian: "str | None", others: "dict[str, Field]") -> Field:
    name = table.name("name", limits.MAX_NAME_BYTES)
    if name in others:
        raise table.error("name", "is that of another field already")
    kind = table.take("type", str, required=True)
    if kind not in _KINDS:
        raise table.error("type", f"is {shown(kind)}, want {', '.join(_KINDS)}")
    order = table.endian(endian)
    start, length = _position(table, kind, order)
    scale, offset, signed = 1, 0, False
    unit, low, high, names = "", None, None, None
    if kind in ("int", "uint", "double", "float"):
        scale, offset = table.number("scale", 1), table.number("offset", 0)
        if scale == 0:
            raise table.error("scale", "is 0, want another number: every value would be the same")
        if kind in ("int", "uint"):
            for key, value in (("scale", scale), ("offset", offset)):
                if type(value) is not int:
                    raise table.error(key, f'is {value}, want an integer, or type "double"')
        low, high = table.number("min", None), table.number("max", None)
        if low is not None and high is not None and low > high:
            raise table.error("min", f"is {low}, want at most max, which is {high}")
        unit = table.take("unit", str, "")
    if kind == "double":
        signed = table.take("signed", bool, False)
    if kind in ("int", "uint", "double"):
        names = _names(table)
    when = _when(table, others)
    table.done()
    big = order == "big" and kind not in ("string", "bytes")
    field = Field(name, kind, start, length, big, signed, scale, offset, unit, low, high, names, when)
    for number in field.names:
        if not field.raw_range()[0] <= number <= field.raw_range()[1]:
            raise table.error("names", f"has {number}, which {length} bits cannot hold")
    return field


def _position(table: Table, kind: str, order: "str | None") -> "tuple[int, int]":
    """Start and length in bits, as a DBC file has them."""
    if "bytes" in table.values:
        first, last = _byte_range(table)
        if "start" in table.values or "length" in table.values:
            raise table.error("bytes", "is given, and start or length too: want one of both")
        start, length = 8 * first, 8 * (last - first + 1)
        if order == "big":
            start += 7
    elif "start" not in table.values:
        raise table.error("bytes", 'is missing: want bytes = "0..6", or start and length in bits')
    else:
        if kind in ("string", "bytes"):
            raise table.error("start", f'is in bits, but a {kind} has whole bytes: want bytes = "0..6"')
        start = table.integer("start", 0, 8 * MAX_LENGTH - 1, required=True)
        length = table.integer("length", 1, MAX_NUMBER_BITS, 1)
    if kind in ("string", "bytes"):
        return start // 8 * 8, length
    if kind == "bool" and length != 1:
        raise table.error("type", f"is bool, which is one bit, and the field has {length}: want start = BIT")
    if kind == "float" and length not in (32, 64):
        raise table.error("type", f"is float, which has 32 or 64 bits, and the field has {length}; want double?")
    if length > MAX_NUMBER_BITS:
        raise table.error("bytes", f"are {length // 8}, a number has at most {MAX_NUMBER_BITS // 8}")
    if order is None and start % 8 + length > 8:
        raise table.error("endian", 'is missing: the field is in several bytes, want "big" or "little"')
    return start, length


def _byte_range(table: Table) -> "tuple[int, int]":
    """7, or "0..6" with both ends."""
    table.known.append("bytes")
    value = table.values.pop("bytes")
    ends = value.split("..") if type(value) is str else [value]
    try:
        numbers = [int(end) for end in ends if type(end) in (int, str)]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2) or len(numbers) != len(ends):
        raise table.error("bytes", f'is {shown(value)}, want a number, as 7, or both ends, as "0..6"')
    first, last = numbers[0], numbers[-1]
    if not 0 <= first <= last < MAX_LENGTH:
        raise table.error("bytes", f"is {shown(value)}, want 0 <= first <= last <= {MAX_LENGTH - 1}")
    return first, last


def _names(table: Table) -> "dict[int, str]":
    found: dict[int, str] = Ordered()
    for text, name in sorted(table.take("names", dict, {}).items()):
        try:
            number = int(text)
        except ValueError:
            raise table.error("names", f'has {shown(text)}, want numbers: names = {{ 0 = "off", 1 = "on" }}')
        if type(name) is not str or not name:
            raise table.error("names", f"has {text} = {shown(name)}, want a string")
        if name in found.values():
            raise table.error("names", f"has {shown(name)} twice, and could not be read back")
        found[number] = name
    return found


def _when(table: Table, others: "dict[str, Field]") -> "tuple[str, list[int]] | None":
    value = table.take("when", dict)
    if value is None:
        return None
    if len(value) != 1:
        raise table.error("when", f"is {shown(value)}, want one field: when = {{ page = 1 }}")
    name, numbers = list(value.items())[0]
    if name not in others:
        raise table.error("when", f"asks for {name!r}, which is no field before this one")
    if others[name].kind not in ("int", "uint", "double"):
        raise table.error("when", f"asks for {name!r}, a {others[name].kind}: want an int or uint")
    if not isinstance(numbers, list):
        numbers = [numbers]
    for number in numbers:
        low, high = others[name].raw_range()
        if type(number) is not int or not low <= number <= high:
            raise table.error("when", f"asks for {name} = {shown(number)}, want {low} .. {high} as in the frame")
    if not numbers:
        raise table.error("when", f"asks for {name} = [], which is never")
    return name, numbers


def _check_bits(table: Table, message: Message, fields: "dict[str, Field]", holes: bool) -> None:
    """Every bit belongs to one field: to none only where holes are allowed, to two only if they never meet."""
    owners: dict[int, list[Field]] = {}
    for field in fields.values():
        bits = field.bits()
        if max(bits) >= 8 * message.length:
            raise table.error(
                "length", f"is {message.length} bytes, but {field.name!r} goes to byte {max(bits) // 8} (from 0)"
            )
        for bit in bits:
            for other in owners.setdefault(bit, []):
                if not exclude_each_other(field, other, fields):
                    raise table.error("fields", f"{other.name!r} and {field.name!r} overlap at {_bit(bit)}")
            owners[bit].append(field)
    empty = [bit for bit in range(8 * message.length) if bit not in owners]
    if empty and not holes:
        raise table.error(
            "fields",
            f"leave {len(empty)} of {8 * message.length} bits to nobody, the first at {_bit(empty[0])}: "
            "name them, or say holes = true",
        )


def _bit(bit: int) -> str:
    return f"bit {bit} (byte {bit // 8}, bit {bit % 8})"
