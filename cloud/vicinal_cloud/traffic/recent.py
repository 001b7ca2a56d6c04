"""The last cases as they are now, and which of them have changed since somebody looked: what a live page is told.

cases, gone, version = recent.since(version)
"""

from collections.abc import Container, Iterable

from .cases import Case

__all__ = ["KEPT", "Recent"]

KEPT = 500
"""cases; the page shows fewer, the store has all"""


class Recent:
    def __init__(self, cases: Iterable[Case] = ()) -> None:
        self._known: dict[int, tuple[int, Case | None]] = {}
        """by number, the last changed last; None: it is no more"""
        self.version = 0
        for case in cases:
            self.put(case)

    def put(self, case: Case) -> None:
        self._note(case.number, case)

    def remove(self, number: int) -> None:
        """It has become part of another, or was erased."""
        self._note(number, None)

    def _note(self, number: int, case: Case | None) -> None:
        self._known.pop(number, None)
        self.version += 1
        self._known[number] = (self.version, case)
        if len(self._known) > KEPT:
            del self._known[next(iter(self._known))]

    def forget(self, plate: str, held: Container[int] = ()) -> None:
        """A driver whose data are erased, but for the cases that must be kept."""
        for number, (_, case) in list(self._known.items()):
            if case is not None and case.plate == plate and number not in held:
                self.remove(number)

    def since(self, version: int) -> tuple[list[Case], list[int], int]:
        """Those that have changed after it, in the order of their last changes; the numbers of those that are gone;
        and what to ask with next."""
        cases, gone = [], []
        for number, (changed, case) in reversed(self._known.items()):
            if changed <= version:
                break
            if case is None:
                gone.append(number)
            else:
                cases.append(case)
        return cases[::-1], gone[::-1], self.version
