"""Linear Road on Spark: one stateful operator, keyed by the direction of an expressway.

    rows ── by direction ──▶ Direction, its state in Spark's store ──▶ found ──┐
         └─ queries, the clock, the end: as they are ──────────────────────────┴──▶ foreachBatch: the Desk and its files

What a direction found and what was asked is one table of few columns; only accounts and queries, which go across
expressways, meet at the driver. Rows may come in any order within a micro-batch, `n` says which; where micro-batches
end makes no difference. A micro-batch that is done again finds the state it found before, and the sink knows which it
has.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from .accounts import BalanceQuery
from .desk import ExpenditureQuery
from .direction import Direction, Found

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.state import GroupState

__all__ = ["END", "ROWS", "SECOND_OVER", "WARM_UP", "Batch", "batch_of", "each_batch", "found_in"]

ROWS = "n long, type int, time int, vid long, spd int, xway int, lane int, dir int, seg int, pos int, qid long, day int"
"""what `found_in` wants: `n` is the place in the input; -1 where a column says nothing"""
END = -1
"""the type of the row that says that no more come"""
SECOND_OVER = -3
"""the type of a row that says that none from before its time comes any more"""
WARM_UP = -2
"""the type of rows that say nothing, and go all the way"""

_FOUND = "kind int, time int, vid long, xway int, dir int, a long, b long"
_NOTIFICATION, _ALERT, _BALANCE, _EXPENDITURE, _TRAVEL_TIME, _CHARGE, _CLOCK = 0, 1, 2, 3, 4, 5, 6
# What belongs to no road has one of these for its key, so that it goes to all partitions.
_NO_ROADS = 8


def found_in(rows: "DataFrame") -> "DataFrame":
    """A streaming table for `batch_of`."""
    from pyspark.sql import functions as f

    road = (
        f.when(f.col("type") == 0, f.col("xway") * 2 + f.col("dir"))
        .otherwise(-1 - f.col("n") % _NO_ROADS)
        .alias("road")
    )
    return (
        rows.select(road, *(column.split()[0] for column in ROWS.split(", ")))
        .groupBy("road")
        .applyInPandasWithState(_found_by, _FOUND, "state binary", "append", "NoTimeout")
    )


def _found_by(key: tuple[int], frames: "Iterable[pd.DataFrame]", state: "GroupState") -> "Iterator[pd.DataFrame]":
    """Runs in Spark's Python workers, once a micro-batch for each direction that has rows in it."""
    import pandas as pd

    road = int(key[0])
    rows = pd.concat(list(frames), ignore_index=True).sort_values("n", kind="stable")
    if road < 0:
        if (rows["type"] == WARM_UP).any():
            state.update((pickle.dumps(Direction(0).state()),))
        yield _asked(rows)
        return
    direction = Direction.of(pickle.loads(state.get[0])) if state.exists else Direction(road % 2)
    found = direction.drive(zip(*(rows[name].tolist() for name in ("time", "vid", "spd", "lane", "seg", "pos"))))
    state.update((pickle.dumps(direction.state(), pickle.HIGHEST_PROTOCOL),))
    yield _table(
        [
            *((_NOTIFICATION, time, vid, lav, toll) for vid, time, lav, toll in found.notifications),
            *((_ALERT, time, vid, seg, 0) for time, seg, vid in found.alerts),
            *((_CHARGE, time, vid, toll, 0) for time, vid, toll in found.charges),
            (_CLOCK, int(rows["time"].iloc[-1]), 0, 0, 0),
        ],
        road // 2,
        road % 2,
    )


def _asked(rows: "pd.DataFrame") -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(
        {
            "kind": rows["type"],
            "time": rows["time"],
            "vid": rows["vid"],
            "xway": rows["xway"],
            "dir": rows["dir"],
            "a": rows["qid"],
            "b": rows["day"],
        }
    )


def _table(rows: list[tuple[int, ...]], xway: int, west: int) -> "pd.DataFrame":
    import pandas as pd

    found = pd.DataFrame(rows, columns=["kind", "time", "vid", "a", "b"])
    found.insert(3, "xway", xway)
    found.insert(4, "dir", west)
    return found


class Batch(NamedTuple):
    """What Desk.answer wants, of one micro-batch."""

    found: list[tuple[int, int, Found]]
    balances: list[BalanceQuery]
    expenditures: list[ExpenditureQuery]
    travel_times: int
    now: int
    """the newest time in it, or -1"""
    ended: bool
    warm_ups: int = 0


def batch_of(table: "pa.Table") -> Batch:
    """`table` is all of a micro-batch of `found_in`, in any order."""
    columns = [table.column(name).to_pylist() for name in ("kind", "time", "vid", "xway", "dir", "a", "b")]
    roads: dict[tuple[int, int], Found] = {}
    batch = Batch([], [], [], 0, -1, False)
    now, ended, travel_times, warm_ups = -1, False, 0, 0
    for kind, time, vid, xway, west, a, b in zip(*columns):
        if kind == END:
            ended = True
            continue
        if kind == WARM_UP:
            warm_ups += 1
            continue
        now = max(now, time)
        if kind == _BALANCE:
            batch.balances.append(BalanceQuery(time, vid, a))
        elif kind == _EXPENDITURE:
            batch.expenditures.append(ExpenditureQuery(time, vid, a, xway, b))
        elif kind == _TRAVEL_TIME:
            travel_times += 1
        elif kind not in (_CLOCK, SECOND_OVER):
            found = roads.setdefault((xway, west), Found([], [], []))
            if kind == _NOTIFICATION:
                found.notifications.append((vid, time, a, b))
            elif kind == _ALERT:
                found.alerts.append((time, a, vid))
            else:
                found.charges.append((time, vid, a))
    return batch._replace(
        found=[(*road, roads[road]) for road in sorted(roads)],
        now=now,
        ended=ended,
        travel_times=travel_times,
        warm_ups=warm_ups,
    )


def each_batch(do: Callable[[int, Batch], None]) -> "Callable[[DataFrame, int], Any]":
    """For foreachBatch. The table is always made, also of a micro-batch that was done before: making it is what brings
    the operator's state to where the next one begins."""

    def run(table: "DataFrame", number: int) -> None:
        do(number, batch_of(table.toArrow()))

    return run
