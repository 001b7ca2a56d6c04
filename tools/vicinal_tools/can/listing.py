"""A mapping as a table: each message with its fields, where they lie and what they mean."""

from rich import box
from rich.table import Table
from rich.text import Text

from vicinal.cosmic.mapping import Field, Mapping

__all__ = ["listing"]


def listing(mapping: Mapping) -> Table:
    table = Table("subject", "id", "parameter", "bits", "type", "value", "unit", box=box.SIMPLE_HEAD, pad_edge=False)
    for message in mapping.messages:
        number = f"{message.id:08X}" if message.extended else f"{message.id:03X}"
        table.add_row(Text(message.subject, style="bold"), number, "", f"{message.length} bytes", "", "", "")
        for field in message.fields:
            name = Text(field.name)
            if field.when is not None:
                name.append(f" when {field.when[0]} {' or '.join(map(str, field.when[1]))}", style="dim")
            table.add_row("", "", name, _bits(field), field.kind, _value(field), Text(field.unit))
    return table


def _bits(field: Field) -> str:
    """Start and length, as in a DBC file."""
    if field.kind in ("string", "bytes"):
        return f"bytes {field.start // 8}..{(field.start + field.length) // 8 - 1}"
    return f"{field.start}|{field.length} {'big' if field.big else 'little'}"


def _value(field: Field) -> Text:
    if field.names:
        return Text(" ".join(f"{number}={field.names[number]}" for number in sorted(field.names)))
    if field.scale == 1 and field.offset == 0:
        return Text("")
    return Text(f"raw * {field.scale} + {field.offset}" if field.offset else f"raw * {field.scale}")
