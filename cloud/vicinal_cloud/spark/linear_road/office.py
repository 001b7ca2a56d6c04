"""What happens to each micro-batch at the driver: the Desk answers, the Sink keeps, and a clock measures.

Paced, a tuple of second t comes at `began + t`. An answer's emit is when its row is written; the delays that are
counted go on to the end of the commit that makes it last.
"""

import math
import time
from collections.abc import Callable
from threading import Event as Flag

from .desk import Desk
from .history import TollHistory
from .plain import TRAVEL_TIME
from .sink import Sink
from .streaming import Batch

__all__ = ["Delays", "Office"]


class Delays:
    """How long answers took, by type: in hundredths of a second, so that a day of them is small."""

    def __init__(self) -> None:
        self._counts: list[dict[int, int]] = [{}, {}, {}, {}]

    def add(self, kind: int, times: list[int], now: float) -> None:
        counts = self._counts[kind]
        for when in times:
            late = math.ceil((now - when) * 100)
            counts[late] = counts.get(late, 0) + 1

    def count(self, kind: int) -> int:
        return sum(self._counts[kind].values())

    def most(self, kind: int) -> float:
        return max(self._counts[kind], default=0) / 100

    def quantile(self, kind: int, part: float) -> float:
        wanted, seen = part * self.count(kind), 0
        for late, count in sorted(self._counts[kind].items()):
            seen += count
            if seen >= wanted:
                return late / 100
        return 0.0


class Office:
    """`began` gives the moment, by `clock`, that is second 0 of the input, and 0 before there is one: what is answered
    then was fed by a run that was killed, and the input's time has stood still since. None where nothing is paced."""

    def __init__(
        self,
        sink: Sink,
        history: TollHistory | None,
        began: Callable[[], float] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sink = sink
        self._desk = Desk(history, sink.accounts())
        self._desk.unanswered.update(sink.unanswered())
        self._began, self._clock = began, clock
        self.delays = Delays()
        self.ended = Flag()
        if sink.ended:
            self.ended.set()

    @property
    def answered(self) -> list[int]:
        """By type, those of earlier runs too."""
        return self._sink.rows

    @property
    def unanswered(self) -> dict[str, int]:
        return dict(self._desk.unanswered)

    def _moment(self, now: int) -> float | None:
        """Of the input's time; None if it is not paced."""
        if self._began is None:
            return None
        began = self._began()
        return self._clock() - began if began else float(now)

    def do(self, number: int, batch: Batch) -> None:
        if number <= self._sink.batch:
            return  # it is in the files: whoever started us was killed before it could note that
        sink, desk = self._sink, self._desk
        now = max(sink.now, batch.now)
        moment = self._moment(now)
        if batch.travel_times:
            desk.unanswered[TRAVEL_TIME] += batch.travel_times
        answers = desk.answer(
            batch.found,
            batch.balances,
            batch.expenditures,
            None if batch.ended else now,
            (lambda time: time) if moment is None else (lambda time: max(time, math.ceil(moment))),
        )
        charged = {vid for _, _, found in batch.found for _, vid, _ in found.charges}
        sink.commit(number, answers, desk.accounts, charged, desk.unanswered, now, batch.ended)
        kept = self._moment(now)
        if kept is not None:
            for kind, times in enumerate(answers.times):
                self.delays.add(kind, times, kept)
        if batch.ended:
            self.ended.set()
