"""Which reports have come already, by the identity of the event and the monitor that heard it.

Two monitors that hear one event are two witnesses; one monitor that says it twice is a duplicate. What is older than
the time after which reports are late anyway need not be remembered.
"""

from .reports import Report

__all__ = ["Seen"]


class Seen:
    def __init__(self, late: int) -> None:
        self._late = late
        self._known: dict[tuple[str, str], dict[int, int]] = {}
        """of a monitor and a vehicle: seq, and when it came"""

    def is_new(self, report: Report, now: int) -> bool:
        known = self._known.setdefault((report.monitor, report.vehicle), {})
        if report.seq in known:
            return False
        known[report.seq] = now
        return True

    def forget(self, now: int) -> None:
        """A vehicle's clock may be ahead: twice as long is long enough."""
        for key, known in list(self._known.items()):
            old = [seq for seq, came in known.items() if now - came > 2 * self._late]
            for seq in old:
                del known[seq]
            if not known:
                del self._known[key]

    def __len__(self) -> int:
        return sum(len(known) for known in self._known.values())
