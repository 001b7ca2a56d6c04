"""A mapping as people write it. The file is read by the caller; a device gets the same tables as JSON.

    [[message]]
    id = 12345                       # 0 .. 0x1FFFFFFF; past 0x7FF it is extended, or say extended = true
    subject = "Speed"
    fields = [
        { name = "license_no", bytes = "0..6", type = "string" },
        { name = "rate", bytes = 7, type = "double", unit = "km/h" },
    ]

    [[message]]
    id = 0x201
    subject = "Engine"
    length = 8                       # else as many bytes as the fields need
    endian = "big"                   # of every field that does not say its own
    holes = true                     # bits that belong to no field are zero when sent, and not looked at when read
    fields = [
        { name = "rpm", bytes = "0..1", type = "double", scale = 0.25, unit = "1/min", max = 8000 },
        { name = "gear", start = 20, length = 4, type = "uint", names = { 0 = "P", 1 = "R", 2 = "N", 3 = "D" } },
        { name = "brake", start = 24, type = "bool" },
        { name = "page", bytes = 4, type = "uint" },
        { name = "oil", bytes = 5, type = "double", offset = -40, unit = "degC", when = { page = 1 } },
        { name = "coolant", bytes = 5, type = "double", offset = -40, unit = "degC", when = { page = [2, 3] } },
    ]

The keys are explained in spec/can_mapping.md.
"""

import tomllib

from ..errors import LocalProtocolError
from .mapping import Mapping

__all__ = ["loads"]


def loads(text: str, file: str = "mapping", by_name: bool = False) -> Mapping:
    """`file` is the name that messages begin with; `by_name` gives values of `names` as names."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LocalProtocolError(f"{file}: not TOML: {error}") from error
    return Mapping.from_tables(tables, file, by_name)
