"""Where events of a subject are valid, as the configuration of a "steam" service says it:

    [[service.announce]]
    subject = "Speed"
    radius_m = 200                    # a circle about the gateway, or
    area = "1, 1, 0, 0, 200, 50"      # any area (seed 001, 5.2.3): here a rectangle that moves with the gateway
    relative = true                   # of radius_m: false stays where the gateway was when it announced
    every_ms = 1000                   # between beacons
    validity_ms = 10000               # for so long an event is said again, at most
    keep = true                       # the last event is said again for those who come later
    names = ["license_no", "rate"]    # the parameters, where all who take part know them: then events are short

Without one a subject has a circle that moves with the gateway and reaches farther than the radio.
"""

from vicinal.proximity import Proximity
from vicinal.steam.beacon import MAX_EVERY, UNIT
from vicinal.tables_cpython import Table

__all__ = ["AnnounceSettings", "Announced", "read_announcements"]

RADIUS_M = 500
"""farther than an advertisement is heard: the radio is the limit"""
MAX_SIZE_M = 65_535
"""what a beacon can say (STEAM-15)"""
VALIDITY_MS = 10_000
"""for what a gateway has in the air at once to be said completely, also in 31 bytes at a time"""
DAY_MS = 86_400_000


class AnnounceSettings:
    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.radius_m = RADIUS_M
        self.relative = True
        self.area: Proximity | None = None
        self.every_ms = 1_000
        self.validity_ms = VALIDITY_MS
        self.keep = True
        self.names: tuple[str, ...] | None = None

    def area_at(self, position: tuple[int, int] | None) -> Proximity:
        """A circle that shall stay is about the gateway's place, and moves as long as nobody knows it."""
        if self.area is not None:
            return self.area
        if self.relative or position is None:
            return Proximity.circle(0, 0, self.radius_m, relative=True)
        return Proximity.circle(position[0], position[1], self.radius_m)


class Announced:
    """What the air is told now: `base` is the announcement's own area, `area` that of the last event."""

    def __init__(self, settings: AnnounceSettings, base: Proximity) -> None:
        self.settings = settings
        self.base = base
        self.area = base

    def area_for(self, own: Proximity | None, position: tuple[int, int] | None) -> Proximity:
        """Of an event with its own area. Receivers keep to an absolute one by themselves (STEAM-39), so the announced
        area need only not be in its way; a relative one they know from the announcement alone."""
        if own is None or own == self.base:
            return self.base
        if own.relative:
            return own
        if max(own.dimx, own.dimy) > MAX_SIZE_M:
            return self.base
        here = self.base if not self.base.relative else self.base.at(*position) if position is not None else None
        return self.base if here is not None and here.covers(own) else own


def read_announcements(settings: Table) -> dict[str, AnnounceSettings]:
    found: dict[str, AnnounceSettings] = {}
    for table in settings.tables("announce"):
        one = AnnounceSettings(table.take("subject", str, required=True))
        if one.subject in found:
            table.fail("subject", f"is {one.subject!r}, which has its table already")
        one.radius_m = table.number("radius_m", RADIUS_M, 1, MAX_SIZE_M)
        one.relative = table.take("relative", bool, True)
        one.area = table.parsed("area", Proximity.parse)
        if one.area is not None and max(one.area.dimx, one.area.dimy) > MAX_SIZE_M:
            table.fail("area", f"is {str(one.area)!r}, want at most {MAX_SIZE_M} metres")
        one.every_ms = table.number("every_ms", one.every_ms, UNIT, MAX_EVERY)
        if one.every_ms % UNIT:
            table.fail("every_ms", f"is {one.every_ms}, want a multiple of {UNIT}")
        one.validity_ms = table.number("validity_ms", one.validity_ms, 1, DAY_MS)
        one.keep = table.take("keep", bool, True)
        one.names = table.names("names") or None
        table.done()
        found[one.subject] = one
    return found
