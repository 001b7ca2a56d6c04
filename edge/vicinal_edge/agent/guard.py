"""When a device may believe that it works: boots that end badly, and a watchdog that is fed only while it does.

    guard = BootGuard(record)              what was kept of the last boot, None the first time
    keep(guard.begin())                    before anything else is tried
    guard.safe                             too many boots ended before they were healthy: do the least
    keep(guard.healthy())                  when it has worked for a while
    keep(guard.failed("why"))              before a restart that we ask for ourselves

    watchdog = Watchdog({"loop": 5000, "journal": 60000}, now)
    watchdog.report("loop", now)           each part says that it works
    watchdog.may_feed(now)                 all of them did, lately: otherwise the hardware starts us again

An uplink that is away is no reason to start again: a device in a tunnel works.
"""

from vicinal.errors import LocalProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["HEALTHY_AFTER", "SAFE_AFTER", "BootGuard", "Watchdog"]

# Boots in a row that were not healthy, before the next is a safe one.
SAFE_AFTER = 4
# ms without a fault until a boot counts as healthy: longer than a watchdog takes to bite.
HEALTHY_AFTER = 60000
# Of a reason that is kept: a line.
_MAX_WHY = 160


class BootGuard:
    def __init__(self, record: "Any" = None) -> None:
        if not isinstance(record, dict):
            record = {}  # lost or broken: a first boot
        boots, why = record.get("boots"), record.get("why")
        self.boots: int = boots if type(boots) is int and boots >= 0 else 0
        self.why: str = why if type(why) is str else ""
        """how the last boot ended, if it said so"""
        self.safe = self.boots >= SAFE_AFTER
        self.is_healthy = False

    def begin(self) -> "dict[str, Any]":
        """The reason of before is for this boot to tell; the record says again that nobody knows how it ends."""
        self.boots += 1
        return {"boots": self.boots, "why": "" if not self.safe else self.why}

    def healthy(self) -> "dict[str, Any]":
        """Also in safe mode: the next boot is tried in full, and if that fails again there is another safe one."""
        self.is_healthy = True
        self.boots = SAFE_AFTER - 1 if self.safe else 0
        return {"boots": self.boots, "why": ""}

    def none(self) -> "dict[str, Any]":
        """As before the first boot: what comes next is another release."""
        return {"boots": 0, "why": ""}

    def failed(self, why: str) -> "dict[str, Any]":
        self.why = why[:_MAX_WHY]
        return {"boots": self.boots, "why": self.why}


class Watchdog:
    def __init__(self, limits: "dict[str, int]", now: int) -> None:
        """`limits`: ms that each part may be silent."""
        self._limits = dict(limits)
        self._last = dict.fromkeys(limits, now)

    def report(self, part: str, now: int) -> None:
        if part not in self._limits:
            raise LocalProtocolError(f"{part!r} is no part that is watched: {', '.join(sorted(self._limits))}")
        self._last[part] = now

    def silent(self, now: int) -> "str | None":
        """The part that should have been heard of longest ago."""
        found, worst = None, 0
        for part in sorted(self._limits):
            late = now - self._last[part] - self._limits[part]
            if late > worst:
                found, worst = part, late
        return found

    def may_feed(self, now: int) -> bool:
        return self.silent(now) is None
