"""What the signs of monitors showed, and since when: nobody is fined by a limit that no sign showed.

A limit that is lowered holds for fines when the sign shows it: until then the one that stands there counts. One that is
raised holds at once. A sign that has shown nothing yet stands for the limit of the network, which is what drivers know.
"""

from bisect import bisect_right
from typing import NamedTuple

from .network import Network

__all__ = ["Posted", "Shown"]


class Shown(NamedTuple):
    monitor: str
    value: int
    """km/h"""
    since: int
    """ms"""


class Posted:
    def __init__(self, network: Network) -> None:
        self._shown = {
            name: [Shown(name, network.areas[one.area].limit, 0)] for name, one in network.monitors.items()
        }  # fmt: skip
        self._signs: dict[str, list[str]] = {area: [] for area in network.areas}
        for name, one in network.monitors.items():
            self._signs[one.area].append(name)

    def add(self, one: Shown) -> bool:
        """Whether that is new: a sign that shows the same as before has not changed."""
        own = self._shown.get(one.monitor)
        if own is None or own[-1].value == one.value or one.since < own[-1].since:
            return False
        own.append(one)
        return True

    def at(self, monitor: str, time: int) -> int:
        own = self._shown[monitor]
        return own[max(0, bisect_right([one.since for one in own], time) - 1)].value

    def highest(self, area: str, monitor: str, time: int) -> tuple[int, str] | None:
        """What a driver in the area saw that was heard by this monitor, and at whose sign: its own if it watches the
        area, else whichever there is. None: the area has no sign."""
        own = self._signs[area]
        signs = [monitor] if monitor in own else own
        return max([(self.at(one, time), one) for one in signs], default=None)

    def history(self) -> list[Shown]:
        return [one for several in self._shown.values() for one in several if one.since]
