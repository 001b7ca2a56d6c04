"""A message's fields as one Python function: a frame decoded in the time of a few shifts, not of a few calls a field.

    def decode(data):
        big = from_bytes(data, "big")
        return {"rate": (big >> 0 & 255) * 0.5 + 10.0, "gear": big >> 8 & 15}

The source holds numbers, and names as `repr` writes them; everything else is a constant of the function's own
namespace. It says the same as `Field.decode`, which a device uses, and a law holds the two together.
"""

import struct
from collections.abc import Callable
from typing import Any

from ._mapping_fields import Field
from .mapping import Message

__all__ = ["Source", "compile_message"]

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


def compile_message(message: Message) -> Callable[[bytes], dict[str, Any]]:
    source = Source(message)
    lines = ["def decode(data):", *source.frame()]
    if message.switches:
        lines.append(" found = {}")
        for field in message.fields:
            indent = " "
            if field.when is not None:
                lines.append(f" if {source.switch(field.when[0])} in {tuple(field.when[1])!r}:")
                indent = "  "
            if field.name in message.switches:
                lines.append(f"{indent}{source.switch(field.name)} = {source.raw(field)}")
            lines.append(f"{indent}found[{field.name!r}] = {source.value(field)}")
        # A switch that is not in this frame is None, and no condition holds of it.
        lines[1:1] = [f" {source.switch(name)} = None" for name in sorted(message.switches)]
        lines.append(" return found")
    else:
        items = [f"{field.name!r}: {source.value(field)}" for field in message.fields]
        lines.append(f" return {{{', '.join(items)}}}")
    found: Callable[[bytes], dict[str, Any]] = source.function("decode", lines)
    return found


class Source:
    """Expressions over `data`, `little` and `big`, and the constants they need."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self.constants: dict[str, Any] = {"from_bytes": int.from_bytes}
        self._switches = {name: f"switch{at}" for at, name in enumerate(sorted(message.switches))}

    def frame(self) -> list[str]:
        """What to say first: the frame as a number, in the byte orders that are used."""
        numbers = [field for field in self.message.fields if field.kind not in ("string", "bytes")]
        orders = sorted({"big" if field.big else "little" for field in numbers})
        return [f' {order} = from_bytes(data, "{order}")' for order in orders]

    def switch(self, name: str) -> str:
        return self._switches[name]

    def raw(self, field: Field) -> str:
        bits = f"({'big' if field.big else 'little'} >> {field.shift} & {field.mask})"
        sign = field.mask // 2 + 1
        return f"(({bits} ^ {sign}) - {sign})" if field.signed else bits

    def value(self, field: Field) -> str:
        if field.kind in ("string", "bytes"):
            return f"{self._constant(field._cut)}(data)"
        if field.kind == "bool":
            return f"{self.raw(field)} == 1"
        value = raw = self.raw(field)
        if field.kind == "float":
            form = _FLOAT if field.length == 32 else _DOUBLE
            bits = f"({raw} & {field.mask})"
            value = f"{self._constant(form.unpack)}({bits}.to_bytes({field.length // 8}, 'little'))[0]"
        if field.scale != 1 or field.offset != 0:
            value = f"{value} * {field.scale!r} + {field.offset!r}"
        if field.kind == "double" and type(field.scale) is int and type(field.offset) is int:
            value = f"float({value})"
        if self.message.by_name and field.names:
            table = self._constant(field.names)
            return f"({table}[{raw}] if {raw} in {table} else {value})"
        return value

    def _constant(self, value: Any) -> str:
        name = f"constant{len(self.constants)}"
        self.constants[name] = value
        return name

    def function(self, name: str, lines: list[str]) -> Any:
        exec("\n".join(lines), self.constants)
        return self.constants[name]
