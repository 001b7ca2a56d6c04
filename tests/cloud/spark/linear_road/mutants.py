"""Linear Road with one rule wrong each. A suite that does not tell them from the right one proves nothing."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

from vicinal_cloud.spark.linear_road import accidents, accounts, desk, direction, segments, tolls

# module, what is there, what stands there instead
MUTANTS: dict[str, tuple[ModuleType, str, str]] = {
    "lav over four minutes": (segments, "LAV_MINUTES = 5", "LAV_MINUTES = 4"),
    "lav over six minutes": (segments, "LAV_MINUTES = 5", "LAV_MINUTES = 6"),
    "lav rounds down": (segments, "(2 * total + n) // (2 * n)", "total // n"),
    "lav rounds half down": (segments, "(2 * total + n) // (2 * n)", "(2 * total + n - 1) // (2 * n)"),
    "cars of an older minute": (segments, "self.over[-1][0] == self.minute - 1", "True"),
    "cars are readings": (segments, "[len(vids) for vids in self.vehicles]", "list(self.readings)"),
    "minutes from 0": (segments, "return time // 60 + 1", "return time // 60"),
    "49 cars cost": (tolls, "if cars > FREE_CARS", "if cars >= FREE_CARS - 1"),
    "51 cars are free": (tolls, "FREE_CARS = 50", "FREE_CARS = 51"),
    "40 mph cost": (tolls, "lav < FREE_SPEED", "lav <= FREE_SPEED"),
    "39 mph are free": (tolls, "FREE_SPEED = 40", "FREE_SPEED = 39"),
    "toll once": (tolls, "2 * (cars - FREE_CARS) ** 2", "(cars - FREE_CARS) ** 2"),
    "toll not squared": (tolls, "(cars - FREE_CARS) ** 2", "(cars - FREE_CARS)"),
    "toll in spite of an accident": (tolls, "toll(count, lav) if ahead == NONE else 0", "toll(count, lav)"),
    "four segments": (tolls, "ALERT_SEGMENTS = 5", "ALERT_SEGMENTS = 4"),
    "six segments": (tolls, "ALERT_SEGMENTS = 5", "ALERT_SEGMENTS = 6"),
    "not here": (tolls, "if 0 <= distance", "if 0 < distance"),
    "the farthest accident": (tolls, "seg + min(ahead)", "seg + max(ahead)"),
    "upstream": (tolls, "(there - seg) * downstream", "(seg - there) * downstream"),
    "three reports are a stop": (accidents, "STOPPED_AFTER = 4", "STOPPED_AFTER = 3"),
    "five reports are a stop": (accidents, "STOPPED_AFTER = 4", "STOPPED_AFTER = 5"),
    "an accident at once": (accidents, "Accident(minute_of(time) + 1,", "Accident(minute_of(time),"),
    "cleared at once": (accidents, "minute <= until)", "minute < until)"),
    "cleared a minute late": (accidents, "minute <= until)", "minute <= until + 1)"),
    "never cleared": (accidents, "and vid in accident.vids:", "and False:"),
    "cleared by anybody": (accidents, "accident.until is None and vid in accident.vids:", "accident.until is None:"),
    "cleared again": (accidents, "accident.until is None and vid in accident.vids:", "vid in accident.vids:"),
    "a second accident": (accidents, "if seg in self.accidents:", "if False:"),
    "one is an accident": (accidents, "if other != vid:", "if True:"),
    "who went still stands there": (accidents, "if self.stopped.get(place) == vid:", "if False:"),
    "lanes are no places": (direction, "stop(vid, (lane, seg, pos)", "stop(vid, (0, seg, pos)"),
    "another lane is the same place": (direction, "pos == was_pos and lane == was_lane and", "pos == was_pos and"),
    "another position is the same place": (direction, "if pos == was_pos and lane", "if lane"),
    "anew after 60 s": (direction, "time > last[0] + ANEW_AFTER", "time >= last[0] + ANEW_AFTER"),
    "anew after 90 s": (direction, "ANEW_AFTER = 60", "ANEW_AFTER = 90"),
    "anew on any lane": (direction, "if lane == ENTRY and time >", "if time >"),
    "never anew": (direction, "if lane == ENTRY and time > last[0] + ANEW_AFTER", "if False"),
    "after the exit all counts": (direction, "elif last[1] == EXIT and lane != ENTRY:", "elif False:"),
    "long after the exit all counts": (direction, "if lane != ENTRY:\n                    continue", "pass"),
    "after the exit nothing counts": (direction, "elif last[1] == EXIT and lane != ENTRY:", "elif last[1] == EXIT:"),
    "gone too soon": (direction, "ago = (minute - 1) * 60 - ANEW_AFTER", "ago = (minute - 1) * 60"),
    "gone for all lanes": (direction, "if last[1] == EXIT and last[0] < ago]", "if last[0] < ago]"),
    "told at the exit": (direction, "if lane != EXIT:", "if True:"),
    "not charged at the exit": (direction, "                if told:\n", "                if told and lane != EXIT:\n"),
    "charged where it is told": (direction, "charge((time, vid, told))\n                told = 0\n", "pass\n"),
    "never charged": (direction, "charge((time, vid, told))", "pass"),
    "charged twice": (direction, "charge((time, vid, told))", "charge((time, vid, 2 * told))"),
    "told in every report": (direction, "crossing = seg != was_seg", "crossing = True"),
    "no alerts": (direction, "alert((time, ahead, vid))", "pass"),
    "west is east": (direction, "-1 if west else 1", "1"),
    "speeds are not summed": (direction, "speeds[seg] += speed", "speeds[seg] = speed"),
    "a stop is not undone": (direction, "                        still = 1\n", "                        pass\n"),
    "the state forgets its tariff": (
        direction, "if found.minute:\n            found._set_tariff()", "found._tariff = [(0, 0, -1)] * 100"
    ),
    "balances of the second before": (accounts, "in_order[at][0] <= time", "in_order[at][0] < time"),
    "balances at once": (accounts, "sum(query.time < now", "sum(query.time <= now"),
    "balances of all": (accounts, "balances.get(vid, 0)))", "sum(balances.values())))"),
    "charges do not add up": (accounts, "get(payer, 0) + toll", "get(payer, toll)"),
    "queries are forgotten": (accounts, "self.waiting[:count], self.waiting[count:]", "self.waiting[:count], []"),
    "expenditures of another day": (desk, "toll(vid, day, xway)", "toll(vid, day - 1, xway)"),
    "expenditures of another road": (desk, "toll(vid, day, xway)", "toll(vid, day, 0)"),
}  # fmt: skip
_PACKAGE = "vicinal_cloud.spark.linear_road"
# Whoever imports a name from another has it for good: all are made anew, in the order of their imports.
_ORDER = ("segments", "accidents", "tolls", "direction", "accounts", "history", "answers", "desk", "plain")


@contextmanager
def applied(name: str) -> Iterator[dict[str, ModuleType]]:
    """The modules with this mutant in them; the right ones are untouched."""
    module, right, wrong = MUTANTS[name]
    assert module.__file__ is not None
    source = Path(module.__file__).read_text()
    assert right in source, f"mutant {name!r} is out of date"
    before = {one: sys.modules[one] for one in list(sys.modules) if re.fullmatch(rf"{_PACKAGE}\.\w+", one)}
    try:
        for one in before:
            del sys.modules[one]
        made = {}
        for one in _ORDER:
            full = f"{_PACKAGE}.{one}"
            if full == module.__name__:
                made[one] = sys.modules[full] = ModuleType(full)
                made[one].__package__ = _PACKAGE
                exec(compile(source.replace(right, wrong), module.__file__, "exec"), made[one].__dict__)
            else:
                made[one] = import_module(full)
        yield made
    finally:
        for one in [one for one in sys.modules if re.fullmatch(rf"{_PACKAGE}\.\w+", one)]:
            del sys.modules[one]
        sys.modules.update(before)
        for one, right_one in before.items():
            setattr(sys.modules[_PACKAGE], one.rpartition(".")[2], right_one)
