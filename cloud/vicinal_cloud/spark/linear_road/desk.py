"""Where everything comes together: what the directions found and what was asked becomes the rows of the answers.

Directions can be driven anywhere; accounts go across all of them, and queries go to the accounts. This is that one
place, told batch by batch. The answers do not depend on where batches end.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from .accounts import Accounts, BalanceQuery
from .answers import alert_row, balance_row, expenditure_row, notification_row
from .direction import Found
from .history import TollHistory

__all__ = ["Answers", "Desk", "Emit", "ExpenditureQuery"]

Emit: TypeAlias = Callable[[int], int]
"""the emit of an answer to a tuple of this time"""


class ExpenditureQuery(NamedTuple):
    time: int
    vid: int
    qid: int
    xway: int
    day: int


class Answers(NamedTuple):
    """Rows by type, and beside them the time of the tuple that each answers."""

    rows: tuple[list[str], list[str], list[str], list[str]]
    times: tuple[list[int], list[int], list[int], list[int]]


class Desk:
    def __init__(self, history: TollHistory | None = None, accounts: Accounts | None = None) -> None:
        self.accounts = accounts or Accounts()
        self.unanswered: Counter[str] = Counter()
        """queries without an answer, by reason"""
        self._history = history

    def answer(
        self,
        found: Iterable[tuple[int, int, Found]],
        balances: Iterable[BalanceQuery],
        expenditures: Iterable[ExpenditureQuery],
        now: int | None,
        emit: Emit = lambda time: time,
    ) -> Answers:
        """`found` with the expressway and direction it was found on; `now` is the newest time seen, None at the end."""
        answers = Answers(([], [], [], []), ([], [], [], []))
        rows, times = answers
        charges = []
        for xway, west, (notifications, alerts, some) in found:
            rows[0].extend(notification_row(vid, time, emit(time), lav, toll) for vid, time, lav, toll in notifications)
            times[0].extend(time for _, time, _, _ in notifications)
            rows[1].extend(alert_row(time, emit(time), xway, seg, west, vid) for time, seg, vid in alerts)
            times[1].extend(time for time, _, _ in alerts)
            charges += some
        for answer in self.accounts.settle(charges, balances, now):
            rows[2].append(balance_row(answer, emit(answer.time)))
            times[2].append(answer.time)
        for time, vid, qid, xway, day in expenditures:
            toll = None if self._history is None else self._history.toll(vid, day, xway)
            if toll is None:
                known = "no toll history was given" if self._history is None else "not in the toll history"
                self.unanswered[f"daily expenditure: {known}"] += 1
            else:
                rows[3].append(expenditure_row(time, emit(time), qid, toll))
                times[3].append(time)
        return answers
