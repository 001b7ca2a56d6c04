"""How events are told on the other side of an edge, declared as data (seed 001, 5.4.1; seed 004, 3.3; spec/mapping.md).

                 outward
    here  ───────────────────▶  there            here: the federation, or the scope above
    Speed, rate 57.2 mph  ◀──▶  vehicle.speed, v 92 km/h
                 inward

    [[map]]
    subject = "Speed"
    as = "vehicle.speed"
    rename = { rate = "v" }
    unit = { rate = ["mph", "km/h"] }
    retype = { rate = ["float", "int"] }

What no rule speaks of passes by itself, unchanged. Filters are mapped too, never narrower:

    f.matches(mapping.inward(event))   implies   mapping.map_filter(f, OUTWARD).filter.matches(event)
    f.matches(mapping.outward(event))  implies   mapping.map_filter(f, INWARD).filter.matches(event)
"""

from ..event import Event
from ..filter import Filter
from ._convert import Unmappable
from ._filters import Mapped, assemble
from ._rule import Rule, Way
from ._tables import RESERVED, read_rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["INWARD", "OUTWARD", "Mapped", "Mapping", "Unmappable"]

OUTWARD = "outward"
INWARD = "inward"


class Mapping:
    """`automatic`: what no rule speaks of passes; else it is refused."""

    def __init__(self, rules: "list[Rule]" = (), automatic: bool = True) -> None:  # type: ignore[assignment]
        self.rules = list(rules)
        self.automatic = automatic
        self._ways: dict[str, dict[str, Way]] = {OUTWARD: {}, INWARD: {}}
        self._closed: dict[str, dict[str, str]] = {OUTWARD: {}, INWARD: {}}
        for rule in self.rules:
            if rule.outward is not None:
                self._ways[OUTWARD][rule.here] = rule.outward
            if rule.inward is not None:
                self._ways[INWARD][rule.there] = rule.inward
        for rule in self.rules:
            self._close(OUTWARD, rule.here, rule.there, rule)
            self._close(INWARD, rule.there, rule.here, rule)

    @staticmethod
    def from_tables(rows: "Any", where: str = "mapping", automatic: bool = True) -> "Mapping":
        """From the [[map]] tables of a TOML or JSON file; `where` begins every message of what is wrong with them."""
        return Mapping(read_rules(rows, where), automatic)

    def __bool__(self) -> bool:
        """Whether it changes anything."""
        return bool(self.rules) or not self.automatic

    def outward(self, event: Event) -> Event:
        """As it is there. Raises Unmappable."""
        return self._map(OUTWARD, event)

    def inward(self, event: Event) -> Event:
        """As it is here. Raises Unmappable."""
        return self._map(INWARD, event)

    def map_filter(self, condition: Filter, direction: str) -> Mapped:
        """OUTWARD: of a filter here the one there, with which all is found whose form here meets it. INWARD: the other
        way round."""
        # What a subscriber here wants comes inward.
        coming = INWARD if direction == OUTWARD else OUTWARD
        closed = self._closed[coming]
        blocked = {}
        for rule in self.rules:
            subject, way = (rule.here, rule.inward) if coming == INWARD else (rule.there, rule.outward)
            if way is None:
                blocked[subject] = f"{rule.here!r} is mapped {direction} only"
        ways = self._ways[coming]
        subjects = sorted(set(list(ways) + list(closed)))
        return assemble(condition, [ways[name] for name in sorted(ways)], subjects, self.automatic, blocked)

    def losses(self) -> "list[str]":
        """What an event has no longer when it has gone there and come back, for people."""
        found = []
        for rule in self.rules:
            if rule.inward is None or rule.outward is None:
                found.append(f"{rule.here!r} is mapped {OUTWARD if rule.inward is None else INWARD} only")
            found += [f"{rule.here!r}: {loss}" for loss in rule.losses]
        return found

    def _map(self, direction: str, event: Event) -> Event:
        subject = event.subject
        way = self._ways[direction].get(subject)
        if way is not None:
            return way.apply(event)
        if subject in self._closed[direction]:
            raise Unmappable(self._closed[direction][subject])
        if not self.automatic and not subject.startswith(RESERVED):
            raise Unmappable(f"no rule speaks of {subject!r}, and without one nothing passes here")
        return event

    def _close(self, direction: str, own: str, other: str, rule: Rule) -> None:
        """What has a name that a rule gives another meaning does not pass by itself."""
        ways, closed = self._ways[direction], self._closed[direction]
        if own not in ways:
            back = INWARD if direction == OUTWARD else OUTWARD
            closed[own] = f"{own!r} is mapped {back} only, as {other!r}"
        if other not in ways and other not in closed:
            closed[other] = f"{other!r} cannot pass: it would be taken for what {own!r} becomes"
