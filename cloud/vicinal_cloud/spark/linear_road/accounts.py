"""What vehicles have paid today, over all expressways, and the queries for it.

A balance query of a second is answered when that second is over, after every charge of it, as of that second. So
queries wait here until a later time has been seen.
"""

from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Accounts", "Balance", "BalanceQuery", "Charge"]


class Charge(NamedTuple):
    time: int
    vid: int
    toll: int


class BalanceQuery(NamedTuple):
    time: int
    vid: int
    qid: int


class Balance(NamedTuple):
    time: int
    """of the query, and of what it was told: all charges up to and including this second"""
    qid: int
    balance: int


class Accounts:
    def __init__(self) -> None:
        self.balances: dict[int, int] = {}
        self.waiting: list[BalanceQuery] = []
        """in the order of their times"""

    def settle(
        self, charges: Iterable[tuple[int, int, int]], queries: Iterable[BalanceQuery], now: int | None
    ) -> list[Balance]:
        """Charges and queries that came since the last call, none of them from before its `now`, in any order; `now` is
        the newest time seen, None at the end. What may be asked for is answered in the order of time."""
        balances = self.balances
        self.waiting += queries
        self.waiting.sort(key=lambda query: query.time)
        count = len(self.waiting)
        if now is not None:
            count = sum(query.time < now for query in self.waiting)
        due, self.waiting = self.waiting[:count], self.waiting[count:]
        in_order = sorted(charges, key=lambda charge: charge[0])
        answers, at = [], 0
        for time, vid, qid in due:
            while at < len(in_order) and in_order[at][0] <= time:
                _, payer, toll = in_order[at]
                balances[payer] = balances.get(payer, 0) + toll
                at += 1
            answers.append(Balance(time, qid, balances.get(vid, 0)))
        for _, payer, toll in in_order[at:]:
            balances[payer] = balances.get(payer, 0) + toll
        return answers
