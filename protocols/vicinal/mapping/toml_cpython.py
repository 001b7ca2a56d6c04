"""A mapping as people write it. The file is read by the caller; a device gets the same tables as JSON.

automatic = true                    # what no [[map]] speaks of passes by itself; false: it is refused

[[map]]
subject = "Speed"                   # here
as = "vehicle.speed"                # there; without it the same
direction = "both"                  # or outward, inward
rename = { rate = "v", "$Priority" = "urgency" }
unit = { rate = ["mph", "km/h"] }
retype = { rate = ["float", "int"] }
round = { rate = "nearest" }        # or down, up
scale = { price = "1.0832" }        # there = here * scale + offset
offset = { price = 0 }
drop = ["driver", "$Session"]       # passes neither way
add = { kind = "car" }              # there, in every event; left out coming back
add_inward = { origin = "obd" }     # here, in every event; left out going there
join = { place = { of = ["lat", "lon"], by = ",", types = ["int", "int"] } }
split = { name = { of = ["first", "last"], by = " " } }
"""

import tomllib

from ..errors import LocalProtocolError
from .mapping import Mapping

__all__ = ["loads"]


def loads(text: str, file: str = "mapping") -> Mapping:
    """`file` is the name that messages begin with."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LocalProtocolError(f"{file}: not TOML: {error}") from error
    automatic = tables.pop("automatic", True)
    if type(automatic) is not bool:
        raise LocalProtocolError(f"{file}: automatic is {automatic!r}, want true or false")
    rows = tables.pop("map", [])
    for key in tables:
        raise LocalProtocolError(f"{file}: {key} is not known: want automatic and [[map]]")
    return Mapping.from_tables(rows, file, automatic)
