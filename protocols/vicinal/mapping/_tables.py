"""The rules of a mapping as a person writes them (spec/mapping.md), checked. Whatever is wrong is said with the file,
the table and the key. A device reads the same tables as JSON.

Keys are names here; `as`, `rename`, `add` and the whole of a `join` give names there.
"""

from .. import limits
from .._compat import Ordered, utf8_len
from .._table import Table, shown
from ..errors import LocalProtocolError
from ..event import Event
from ._convert import NUMBERS, ROUNDINGS, TYPES, Conversion, can_convert
from ._exact import parse_ratio
from ._rule import Cut, Rule, Way
from .units import affine, between, known

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["MAX_RULES", "RESERVED", "read_rules"]

# More than a service has event types that somebody would write a rule for; a filter may have to name them all.
MAX_RULES = 1024
# The federation's own events pass every service unchanged: who maps them takes the gateways apart.
RESERVED = "FES_"
_DIRECTIONS = ("both", "outward", "inward")


def read_rules(rows: "Any", where: str) -> "list[Rule]":
    if not isinstance(rows, list):
        raise LocalProtocolError(f"{where}: write [[map]], not [map]: there may be several")
    if len(rows) > MAX_RULES:
        raise LocalProtocolError(f"{where}: {len(rows)} rules, the limit is {MAX_RULES}")
    rules: list[Rule] = []
    for at, values in enumerate(rows):
        table = Table(f"{where}: [[map]] {at + 1}", values)
        rule = _Reader(table).rule()
        for other in rules:
            if rule.outward is not None and other.outward is not None and other.here == rule.here:
                raise table.error("subject", f"has a rule already, as {other.there!r}: outward one is enough")
            if rule.inward is not None and other.inward is not None and other.there == rule.there:
                raise table.error(
                    "as",
                    f"is {rule.there!r}, and so is {other.here!r}: coming back nobody could tell which it was. "
                    'Write direction = "outward" in all but one',
                )
        rules.append(rule)
    return rules


class _Reader:
    def __init__(self, table: Table) -> None:
        self.table = table
        self.moves: dict[str, list[Any]] = Ordered()  # name here -> [name there, Conversion or None]
        self.losses: list[str] = []

    def rule(self) -> Rule:
        table = self.table
        here = table.name("subject", limits.MAX_SUBJECT_BYTES)
        there = table.take("as", str, here)
        if not 0 < utf8_len(there) <= limits.MAX_SUBJECT_BYTES:
            raise table.error(
                "as", f"is {shown(there)}, want 1 to {limits.MAX_SUBJECT_BYTES} bytes: no subject is lost"
            )
        for key, subject in (("subject", here), ("as", there)):
            if subject.startswith(RESERVED):
                raise table.error(
                    key, f"is {subject!r}: what begins with {RESERVED} is the federation's, and not mapped"
                )
        direction = table.take("direction", str, "both")
        if direction not in _DIRECTIONS:
            raise table.error("direction", f"is {shown(direction)}, want {', '.join(_DIRECTIONS)}")
        self._rename()
        self._convert()
        dropped = self._dropped()
        joins, splits = self._cuts("join"), self._cuts("split")
        add, add_inward = self._constants("add", here), self._constants("add_inward", here)
        table.done()
        self._conflicts(joins, splits, add, add_inward)
        out: dict[str, Any] = Ordered()
        back: dict[str, Any] = Ordered()
        for name, (target, conversion) in self.moves.items():
            out[name] = (target, conversion)
            back[target] = (name, None if conversion is None else conversion.back())
        outward = Way(here, there, out, dropped + list(add_inward), add, joins, splits)
        inward = Way(there, here, back, dropped + list(add), add_inward, splits, joins)
        for name in dropped:
            self.losses.append(f"{name} is dropped")
        if direction == "outward":
            return Rule(here, there, outward, None, self.losses)
        return Rule(here, there, outward if direction == "both" else None, inward, self.losses)

    def _rename(self) -> None:
        for name, target in sorted(self.table.take("rename", dict, {}).items()):
            self._check_name("rename", name)
            self._check_name("rename", target)
            self.moves[name] = [target, None]

    def _convert(self) -> None:
        table = self.table
        types, factors = self._types(), self._factors()
        rounding = table.take("round", dict, {})
        for name in sorted(set(list(types) + list(factors))):
            source, target = types.get(name, ("float", "float"))
            if name in factors and (source not in NUMBERS or target not in NUMBERS):
                raise table.error(
                    "retype", f"has {name} = {[source, target]}, want int and float: it is converted, too"
                )
            way = rounding.pop(name, "nearest")
            if way not in ROUNDINGS:
                raise table.error("round", f"has {name} = {shown(way)}, want {', '.join(ROUNDINGS)}")
            if "int" in (source, target) and (name in factors or "float" in (source, target)):
                self.losses.append(f"{name} is rounded to int")
            elif name in factors:
                self.losses.append(f"{name} is rounded in its last bit")
            move = self.moves.setdefault(name, [name, None])
            move[1] = Conversion(source, target, factors.get(name, (1, 0, 1)), way)
        for name in sorted(rounding):
            raise table.error("round", f"has {name!r}, of which neither retype nor unit nor scale says anything")

    def _types(self) -> "dict[str, tuple[str, str]]":
        found: dict[str, tuple[str, str]] = {}
        for name, pair in sorted(self.table.take("retype", dict, {}).items()):
            self._known_here("retype", name)
            if not isinstance(pair, list) or len(pair) != 2 or not all([kind in TYPES for kind in pair]):
                raise self.table.error(
                    "retype", f'has {name} = {shown(pair)}, want the type here and there, as ["float", "int"]; '
                    f"types are {', '.join(TYPES)}",
                )  # fmt: skip
            if not can_convert(pair[0], pair[1]):
                raise self.table.error("retype", f"has {name} = {shown(pair)}: there is no way between the two")
            found[name] = (pair[0], pair[1])
        return found

    def _factors(self) -> "dict[str, tuple[int, int, int]]":
        table = self.table
        found: dict[str, tuple[int, int, int]] = {}
        units = known()
        for name, pair in sorted(table.take("unit", dict, {}).items()):
            self._known_here("unit", name)
            if not isinstance(pair, list) or len(pair) != 2:
                raise table.error("unit", f'has {name} = {shown(pair)}, want the unit here and there: ["km/h", "mph"]')
            for unit in pair:
                if unit not in units:
                    raise table.error("unit", f"has {name} = {shown(pair)}: want of {', '.join(sorted(units))}")
            if units[pair[0]][0] != units[pair[1]][0]:
                raise table.error(
                    "unit", f"has {name} = {shown(pair)}: a {units[pair[0]][0]} is no {units[pair[1]][0]}"
                )
            found[name] = between(pair[0], pair[1])
        scale, offset = table.take("scale", dict, {}), table.take("offset", dict, {})
        for name in sorted(set(list(scale) + list(offset))):
            key = "scale" if name in scale else "offset"
            self._known_here(key, name)
            if name in found:
                raise table.error(key, f"has {name!r}, of which unit says it already")
            factor, more = parse_ratio(scale.get(name, 1)), parse_ratio(offset.get(name, 0))
            if factor is None or factor[0] == 0:
                raise table.error("scale", f'has {name} = {shown(scale[name])}, want a number but 0, or as "5/18"')
            if more is None:
                raise table.error("offset", f'has {name} = {shown(offset[name])}, want a number, or as "5/18"')
            found[name] = affine(factor, more)
        return found

    def _dropped(self) -> "list[str]":
        found: list[str] = []
        for name in self.table.take("drop", list, []):
            self._check_name("drop", name)
            if name in self.moves:
                raise self.table.error("drop", f"has {name!r}, of which another key says what becomes of it")
            found.append(name)
        return found

    def _cuts(self, key: str) -> "list[Cut]":
        """join = { place = { of = ["lat", "lon"], by = ",", types = ["int", "int"] } }: several here, one there. In
        `split` it is the other way round."""
        found: list[Cut] = []
        for whole, values in sorted(self.table.take(key, dict, {}).items()):
            self._check_name(key, whole)
            inner = Table(f"{self.table.where}, {key} {whole!r}", values)
            names = inner.take("of", list, required=True)
            by = inner.take("by", str, ",")
            types = inner.take("types", list, ["str"] * len(names))
            inner.done()
            for name in names:
                self._check_name(key, name)
            if len(names) < 2 or len(set(names)) < len(names):
                raise inner.error("of", f"is {shown(names)}, want at least two names, each once")
            if not by:
                raise inner.error("by", "is empty: nobody could tell where one ends")
            if len(types) != len(names) or not all([kind in ("str", "int", "float", "bool") for kind in types]):
                raise inner.error("types", f"is {shown(types)}, want {len(names)} of str, int, float, bool")
            found.append(Cut(whole, tuple(names), by, tuple(types)))
        return found

    def _constants(self, key: str, subject: str) -> "dict[str, Any]":
        found: dict[str, Any] = Ordered()
        for name, value in sorted(self.table.take(key, dict, {}).items()):
            self._check_name(key, name)
            if type(value) is float and value - value != 0:
                raise self.table.error(key, f"has {name} = {value}, want a number that filters can name")
            try:
                Event(subject, *([(), {name[1:]: value}] if name.startswith("$") else [{name: value}]))
            except LocalProtocolError as error:
                raise self.table.error(key, f"has {name} = {shown(value)}: {error}")
            found[name] = value
        return found

    def _conflicts(
        self, joins: "list[Cut]", splits: "list[Cut]", add: "dict[str, Any]", add_inward: "dict[str, Any]"
    ) -> None:
        """One name, one origin, on each side."""
        here: list[tuple[str, str]] = [
            (name, "rename" if move[1] is None else "retype") for name, move in self.moves.items()
        ]
        there: list[tuple[str, str]] = [(move[0], "rename") for move in self.moves.values()]
        for cut in joins:
            here += [(name, "join") for name in cut.names]
            there.append((cut.whole, "join"))
        for cut in splits:
            here.append((cut.whole, "split"))
            there += [(name, "split") for name in cut.names]
        here += [(name, "add_inward") for name in add_inward]
        there += [(name, "add") for name in add]
        for side, names in (("here", here), ("there", there)):
            seen: dict[str, str] = {}
            for name, key in names:
                if name in seen:
                    raise self.table.error(
                        key, f"gives {name!r} {side} a second meaning: {seen[name]} has given it one"
                    )
                seen[name] = key

    def _known_here(self, key: str, name: str) -> None:
        self._check_name(key, name)
        for mine, move in self.moves.items():
            if move[0] == name and name not in self.moves:
                raise self.table.error(key, f"has {name!r}, the name there of {mine!r}: write {mine!r}")

    def _check_name(self, key: str, name: "Any") -> None:
        bare = name[1:] if type(name) is str and name.startswith("$") else name
        if type(bare) is not str or not 0 < utf8_len(bare) <= limits.MAX_NAME_BYTES:
            raise self.table.error(key, f"has {shown(name)}, want names of 1 to {limits.MAX_NAME_BYTES} bytes")
