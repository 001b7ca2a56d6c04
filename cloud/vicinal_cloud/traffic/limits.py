"""Speed limits of areas, with times of day, and their history: what was in force when something happened.

A rule holds from `since` on until `until`, if it has one. With hours it holds at those times of day only, and then
before every rule without; among equals the one that was set last holds:

    Rule("old-town", 30, since=0)                                        always
    Rule("old-town", 20, since=0, hours=Hours.parse("Mo-Fr 07:30-16:30"))      school hours

Nothing is ever overwritten: an offence of yesterday is judged by the limit of yesterday.
"""

from bisect import bisect_right
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

from vicinal.errors import LimitError, LocalProtocolError

__all__ = ["Hours", "Limit", "Limits", "Rule"]

DAYS = ("Mo", "Tu", "We", "Th", "Fr", "Sa", "Su")
LEAST, MOST = 5, 130
"""km/h"""
DAY_MS = 86_400_000
FIRST, LAST = -62_000_000_000_000, 253_000_000_000_000
"""ms, in the years 5 and 9987: what calendars have, with some room to look ahead"""


class Hours(NamedTuple):
    days: tuple[int, ...]
    """0 is Monday; the day on which they begin"""
    start: int
    """minutes of the day"""
    end: int
    """not after start: they go on past midnight"""

    @classmethod
    def parse(cls, text: str) -> "Hours":
        """As on signs: "Mo-Fr 07:30-16:30", "Sa,Su 22:00-06:00", "20:00-06:00"."""
        words = text.split()
        try:
            days = tuple(range(7)) if len(words) == 1 else _days(words[0])
            start, end = words[-1].split("-")
            made = cls(days, _minutes(start), _minutes(end))
        except (ValueError, IndexError) as error:
            raise LocalProtocolError(f"hours {text!r}: want for example 'Mo-Fr 07:30-16:30'") from error
        if len(words) > 2 or made.start == 24 * 60:
            raise LocalProtocolError(f"hours {text!r}: want for example 'Mo-Fr 07:30-16:30'")
        return made

    def __str__(self) -> str:
        days = "" if len(self.days) == 7 else ",".join(DAYS[day] for day in self.days) + " "
        return f"{days}{self.start // 60:02}:{self.start % 60:02}-{self.end // 60:02}:{self.end % 60:02}"

    def include(self, day: int, minute: int) -> bool:
        if self.start < self.end:
            return day in self.days and self.start <= minute < self.end
        return (day in self.days and minute >= self.start) or ((day - 1) % 7 in self.days and minute < self.end)


def _days(text: str) -> tuple[int, ...]:
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin, end = DAYS.index(first), DAYS.index(last or first)
        if end < begin:
            raise ValueError(part)
        found += range(begin, end + 1)
    return tuple(sorted(set(found)))


def _minutes(text: str) -> int:
    hours, minutes = text.split(":")
    found = int(hours) * 60 + int(minutes)
    if not (len(minutes) == 2 and 0 <= int(minutes) < 60 and 0 <= found <= 24 * 60):
        raise ValueError(text)
    return found


class Rule(NamedTuple):
    area: str
    value: int
    """km/h"""
    since: int
    """ms"""
    hours: Hours | None = None
    source: str = ""
    """who set it, for the evidence"""
    until: int | None = None

    def holds(self, at: int) -> bool:
        return self.since <= at and (self.until is None or at < self.until)


class Limit(NamedTuple):
    value: int
    area: str
    source: str


class Limits:
    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._rules: dict[str, list[Rule]] = {}

    def add(self, rule: Rule) -> None:
        if not LEAST <= rule.value <= MOST:
            raise LimitError(f"speed limit of {rule.area!r}", f"{rule.value} km/h", f"{LEAST} .. {MOST}")
        if rule.until is not None and rule.until <= rule.since:
            raise LocalProtocolError(f"limit of {rule.area!r} ends at {rule.until}, before it begins at {rule.since}")
        rules = self._rules.setdefault(rule.area, [])
        # Behind those of the same time: what was set last holds.
        rules.insert(bisect_right([one.since for one in rules], rule.since), rule)

    def rules(self) -> list[Rule]:
        return [rule for rules in self._rules.values() for rule in rules]

    def in_force(self, area: str, at: int) -> Limit | None:
        """At a time, past or to come."""
        local = self._local(at)
        minute = local.hour * 60 + local.minute
        found: Rule | None = None
        for rule in self._rules.get(area, ()):
            if rule.holds(at) and (rule.hours is None or rule.hours.include(local.weekday(), minute)):
                if found is None or found.hours is None or rule.hours is not None:
                    found = rule
        if found is None:
            return None
        source = found.source or "set"
        return Limit(found.value, area, source if found.hours is None else f"{source}, {found.hours}")

    def next_change(self, area: str, now: int) -> int | None:
        """When another limit holds in the next eight days, if nobody sets one before."""
        before = self.in_force(area, now)
        for moment in sorted(self._moments(area, now)):
            after = self.in_force(area, moment)
            if (after and after.value) != (before and before.value):
                return moment
        return None

    def _moments(self, area: str, now: int) -> set[int]:
        found: set[int] = set()
        for rule in self._rules.get(area, ()):
            found |= {moment for moment in (rule.since, rule.until) if moment is not None}
            if rule.hours is not None:
                midnight = self._local(now).replace(hour=0, minute=0, second=0, microsecond=0)
                for day in range(9):
                    for minute in (rule.hours.start, rule.hours.end):
                        at = midnight + timedelta(days=day, minutes=minute)
                        found.add(int(at.timestamp() * 1000))
        return {moment for moment in found if now < moment <= now + 8 * DAY_MS}

    def _local(self, at: int) -> datetime:
        """Of a time that no calendar has the nearest that one has."""
        return datetime.fromtimestamp(min(max(at, FIRST), LAST) / 1000, self._zone)
