"""The output: what each answer looks like as a row of its file, `type0.csv` to `type3.csv`, without header.

    0, vid, time, emit, lav, toll               toll notification
    1, time, emit, xway, accseg, dir, vid       accident alert
    2, time, emit, resulttime, qid, balance     account balance, as of resulttime
    3, time, emit, qid, toll                    daily expenditure

`emit` is when the answer was given, in whole seconds of the input's time, rounded up. `emit - time` must not be more
than 5 s for types 0 to 2 and 10 s for type 3. A run that is not paced has no clock but the input: there emit is time.
"""

from collections.abc import Iterable

from .accounts import Balance

__all__ = ["BOUNDS", "FILES", "alert_row", "balance_row", "expenditure_row", "notification_row"]

FILES = ("type0.csv", "type1.csv", "type2.csv", "type3.csv")
BOUNDS = (5, 5, 5, 10)
"""seconds from the time of a tuple to its answer, by type"""


def notification_row(vid: int, time: int, emit: int, lav: int, toll: int) -> str:
    return f"0,{vid},{time},{emit},{lav},{toll}\n"


def alert_row(time: int, emit: int, xway: int, accident: int, west: int, vid: int) -> str:
    return f"1,{time},{emit},{xway},{accident},{west},{vid}\n"


def balance_row(answer: Balance, emit: int) -> str:
    return f"2,{answer.time},{emit},{answer.time},{answer.qid},{answer.balance}\n"


def expenditure_row(time: int, emit: int, qid: int, toll: int) -> str:
    return f"3,{time},{emit},{qid},{toll}\n"


def text(rows: Iterable[str]) -> bytes:
    return "".join(rows).encode()
