"""Linear Road in one process, without Spark: what the rules alone can do, and the measure of what else there is.

road = LinearRoad(history)
for table in read(path, LeftOut()):
    answers = road.feed(table)
answers = road.finish()
"""

from typing import TYPE_CHECKING

from .accounts import BalanceQuery
from .desk import Answers, Desk, ExpenditureQuery
from .direction import Direction, Found
from .history import TollHistory

if TYPE_CHECKING:
    from .reading import Table

__all__ = ["TRAVEL_TIME", "LinearRoad"]

TRAVEL_TIME = "travel time: type 4 needs a history of segments, and is answered by nobody"


class LinearRoad:
    def __init__(self, history: TollHistory | None = None) -> None:
        self.desk = Desk(history)
        self._directions: dict[tuple[int, int], Direction] = {}

    def feed(self, rows: "Table") -> Answers:
        """Rows in the order of time, as `read` gives them: no earlier than those of the last call."""
        kinds = rows[:, 0]
        balances = [BalanceQuery(*row) for row in rows[kinds == 2][:, [1, 2, 9]].tolist()]
        expenditures = [ExpenditureQuery(*row) for row in rows[kinds == 3][:, [1, 2, 9, 4, 14]].tolist()]
        travel_times = int((kinds == 4).sum())
        if travel_times:
            self.desk.unanswered[TRAVEL_TIME] += travel_times
        return self.desk.answer(self._drive(rows[kinds == 0]), balances, expenditures, int(rows[-1, 1]))

    def finish(self) -> Answers:
        """No more rows come: what waits for the end of its second is answered."""
        return self.desk.answer([], [], [], None)

    def _drive(self, reports: "Table") -> list[tuple[int, int, Found]]:
        found = []
        keys = reports[:, 4] * 2 + reports[:, 6]
        for key in sorted(set(keys.tolist())):
            xway, west = divmod(key, 2)
            direction = self._directions.setdefault((xway, west), Direction(west))
            chosen = reports[keys == key][:, [1, 2, 3, 5, 7, 8]]
            found.append((xway, west, direction.drive(map(tuple, chosen.tolist()))))
        return found
