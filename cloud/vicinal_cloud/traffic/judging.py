"""What a Speed report is worth: where the vehicle was, which limit held there and then, and how much it was over.

    a Location near in time  ──▶ the highest limit where it can have been: the accuracy of its place, and as far as it
                                 drives in the time between the two
    none                     ──▶ the highest limit in reach of the monitor that heard it

A limit that was lowered counts from when a sign shows it (posted.py). All of it follows from what was said, not from
the order in which it came: who has a Location too late is judged again (control.py). What is not known is taken for
the driver.
"""

from collections.abc import Iterable

from .limits import Limit, Limits
from .network import Network
from .posted import Posted
from .reports import Report
from .stretches import Evidence
from .tariff import Tariff
from .texts import SOURCE_MAX, cleaned
from .whereabouts import Sighting, Whereabouts

__all__ = ["Judge"]


class Judge:
    def __init__(
        self, network: Network, limits: Limits, posted: Posted, whereabouts: Whereabouts, tariff: Tariff,
        accuracy_m: int, reach_m: int,
    ) -> None:  # fmt: skip
        self._network = network
        self._limits = limits
        self._posted = posted
        self._whereabouts = whereabouts
        self._tariff = tariff
        self._accuracy = accuracy_m
        self._reach = reach_m

    def evidence(self, report: Report) -> Evidence:
        """With `over` of 0 or less if it kept to the limit."""
        assert report.time is not None
        seen = self._whereabouts.near(report.vehicle, report.time)
        areas = self._areas_of(seen, report)
        one = seen[0] if areas else None
        limit = self._highest(areas or self._areas_in_reach(report.monitor), report.monitor, report.time)
        return Evidence(
            report.speed, self._tariff.tolerance(report.speed), limit.value, cleaned(limit.source, SOURCE_MAX),
            limit.area, self._tariff.over(report.speed, limit.value),
            self._network.monitors[report.monitor].place if one is None else one.place,
            "monitor" if one is None else "vehicle", None if one is None else one.heading,
            None if one is None else one.braking, report.time, report.received, report.monitor, report.vehicle,
            report.seq,
        )  # fmt: skip

    def _areas_of(self, seen: Iterable[Sighting], report: Report) -> set[str]:
        """Where it can have been; none of them where its place is in no area."""
        assert report.time is not None
        found = set()
        for one in seen:
            driven = report.speed / 3.6 * abs(one.time - report.time) / 1000
            found |= {area.name for area in self._network.areas_near(one.place, self._accuracy + driven)}
        return found

    def _areas_in_reach(self, monitor: str) -> set[str]:
        post = self._network.monitors[monitor]
        near = self._network.areas_near(post.place, self._accuracy + self._reach)
        return {post.area, *[area.name for area in near]}

    def _highest(self, areas: set[str], monitor: str, time: int) -> Limit:
        found = [self._limit(area, monitor, time) for area in sorted(areas)]
        best = max(found, key=lambda limit: limit.value)
        if len(found) > 1:
            return best._replace(source=f"{best.source}; the highest of {', '.join(sorted(areas))}")
        return best

    def _limit(self, area: str, monitor: str, time: int) -> Limit:
        """A lower one counts from when the sign shows it, a higher one at once (posted.py)."""
        limit, shown = self._limits.in_force(area, time), self._posted.highest(area, monitor, time)
        assert limit is not None, "the network gives every area a limit"
        if shown is None or shown[0] <= limit.value:
            return limit
        value, sign = shown
        return Limit(value, area, f"shown at {sign}, not yet {limit.value} ({limit.source})")
