"""Mappings by chance: rules over the names that the filters and events of `strategies` have."""

from typing import Any

from strategies import COLUMNS, SUBJECTS, Source

from vicinal.errors import LocalProtocolError
from vicinal.mapping.mapping import Mapping

NAMES = ["s", "t", "i", "j", "d", "o", "x", "Vehicle.Speed", "odd name", "lat", "lon", "$q", "$Priority"]
FRESH = ["v", "w", "$z", "subject"]
KINDS = {name.strip("`").replace("``", "`"): kind for name, kind in COLUMNS.items()}
TYPES = {
    "s": [["str", "str"], ["str", "int"], ["str", "float"], ["str", "bytes"], ["str", "bool"]],
    "i": [["int", "int"], ["int", "float"], ["int", "str"], ["int", "bool"], ["float", "int"]],
    "d": [["float", "float"], ["float", "int"], ["float", "str"], ["int", "float"]],
    "b": [["bool", "int"], ["bool", "str"], ["bool", "bool"]],
    "x": [["bytes", "str"], ["bytes", "bytes"]],
}
SCALES = [2, -1, "1/3", "-5/18", 1000, 0.001, 3.6, "1e9", "1e-7", 1, "0.44704", "1e200"]
OFFSETS = [0, 1, -1, 0.5, "273.15", "1/3", 1 << 53, "-1e-300"]
UNITS = [
    ["mph", "km/h"],
    ["degC", "degF"],
    ["K", "degC"],
    ["psi", "bar"],
    ["1e-7deg", "deg"],
    ["s", "ms"],
    ["in", "mm"],
]
VALUES: list[Any] = ["a", "", 1, 30, 2.5, -0.0, True, False]


def tables(source: Source) -> list[dict[str, Any]]:
    one, chance = source.one, source.chance
    rows = []
    for _ in range(one((1, 1, 1, 2, 3))):
        row: dict[str, Any] = {"subject": one(SUBJECTS)}
        if chance(2):
            row["as"] = one([*SUBJECTS, "vehicle.speed"])
        if chance(5):
            row["direction"] = one(("outward", "inward"))
        if chance(2):
            row["rename"] = {one(NAMES): one(NAMES + FRESH) for _ in range(one((1, 2)))}
        if chance(2):
            row["retype"] = {name: one(TYPES[KINDS.get(name, "i")]) for name in [one(NAMES)]}
        if chance(2):
            names = [name for name in row.get("retype", {}) if KINDS.get(name, "s") in "id"] or [one(("i", "d", "j"))]
            key, values = one((("scale", SCALES), ("offset", OFFSETS), ("unit", UNITS)))
            row[key] = {names[0]: one(values)}
            if chance(2) and key != "unit":
                row["scale"] = {names[0]: one(SCALES)}
            if chance(2):
                row["round"] = {names[0]: one(("nearest", "down", "up"))}
        if chance(4):
            row["drop"] = [one(NAMES)]
        if chance(4):
            row["add"] = {one(NAMES + FRESH): one(VALUES)}
        if chance(6):
            row["add_inward"] = {one(NAMES + FRESH): one(VALUES)}
        if chance(6):
            row[one(("join", "split"))] = {
                one(("v", "s")): {
                    "of": one((["lat", "lon"], ["s", "t"], ["i", "d"])),
                    "types": one((["int", "int"], ["str", "str"])),
                }
            }
        rows.append(row)
    return rows


def mapping(source: Source) -> tuple[Mapping, list[dict[str, Any]]]:
    """The first of them that is none of the conflicts."""
    while True:
        rows = tables(source)
        try:
            return Mapping.from_tables(rows, automatic=not source.chance(8)), rows
        except LocalProtocolError:
            continue
