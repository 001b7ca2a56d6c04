"""The input as events through a broker: one event a row, in the order of the file, as fast as they are taken or by
their times.

    PositionReport      time, vid, spd, xway, lane, dir, seg, pos
    AccountBalance      time, vid, qid
    DailyExpenditure    time, vid, xway, qid, day
    TravelTime          time, vid, xway, qid, sinit, send, dow, tod
    SecondOver          time, before which no more comes: paced, balances need not wait for the next second's rows
    EndOfInput          time, of the last row
    WarmUp              nothing: so that what is measured is not how long Spark takes to start

Row n of the input is the event with the number 2n, and what follows it 2n+1: a feeder that was killed goes on behind
the last that is in the log.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from vicinal.event import Event

from ...broker.client import Client, connect
from ...log import LogReader
from .reading import read
from .rows import COLUMNS, NEEDS, LeftOut, Row
from .streaming import END, ROWS, SECOND_OVER, WARM_UP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ...broker._handles import Advertisement

__all__ = ["PRODUCER", "Feeder", "event_of", "fed_before", "rows_from"]

PRODUCER = "linear-road"
_WARM = "linear-road-warm-up"
SUBJECTS = {
    0: "PositionReport",
    2: "AccountBalance",
    3: "DailyExpenditure",
    4: "TravelTime",
    END: "EndOfInput",
    SECOND_OVER: "SecondOver",
    WARM_UP: "WarmUp",
}
# Events of one call of the client: enough that its own cost is small, few enough that the window stays full.
_TOGETHER = 500
# Warming up ends with a round trip that is as short as it gets, or after so many.
_ROUNDS, _SHORT = 12, 1.5
_EACH_ROUND = 8
# Rows lie behind the warming up of as many runs as were killed in it.
_LOOK_BACK = 20 * _ROUNDS * _EACH_ROUND

_PARAMS = {**NEEDS, 4: ("time", "vid", "xway", "qid", "sinit", "send", "dow", "tod")}
_PLACES = {
    kind: tuple((name, COLUMNS.index(name)) for name in names if name != "type") for kind, names in _PARAMS.items()
}


def event_of(number: int, row: Row) -> Event:
    """Rows count from 1."""
    kind = row[0]
    params = [(name, row[place]) for name, place in _PLACES[kind]]
    return Event(SUBJECTS[kind], params, producer=PRODUCER, seq=2 * number)


def fed_before(log: Path) -> int:
    """How many rows are in it already; `log` is a broker's directory."""
    if not (log / "published").is_dir():
        return 0
    reader = LogReader(log / "published")
    for offset in range(reader.next - 1, max(-1, reader.next - 1 - _LOOK_BACK), -1):
        records, _ = reader.read(offset, 1)
        if records and records[0].producer == PRODUCER:
            return records[0].seq // 2
    return 0


def rows_from(spark: "SparkSession", most: int | None, **where: str) -> "DataFrame":
    """The events again as rows (streaming.ROWS); `where` is the source's path or brokers, `most` are in one batch."""
    from pyspark.sql import functions as f

    names = [column.split()[0] for column in ROWS.split(", ")]
    params = [column for column in ROWS.split(", ") if column.split()[0] not in ("n", "type")]
    source = spark.readStream.format("vicinal").schema(
        f"subject string, _offset long, _producer string, {', '.join(params)}"
    )
    source = source.option("startingOffsets", "earliest").option("columns", "false")
    for name, value in where.items():
        source = source.option(name, value)
    if most is not None:
        source = source.option("maxOffsetsPerTrigger", str(most))
    kind = f.create_map(*(f.lit(value) for number, name in SUBJECTS.items() for value in (name, number)))
    table = source.load().withColumn("type", kind[f.col("subject")]).withColumn("n", f.col("_offset"))
    ours = f.col("_producer").isin(PRODUCER, _WARM)
    return table.where(ours & f.col("type").isNotNull()).fillna(-1).select(*names)


class Feeder(Thread):
    """`before` rows are left out, as they are in the log. With `warm`, warming up comes first: it is called for each
    round, and returns when what was published has come out at the other end."""

    def __init__(
        self, path: Path, address: str, before: int = 0, paced: bool = False, warm: Callable[[], None] | None = None
    ) -> None:
        super().__init__(name="linear-road-feeder", daemon=True)
        self._path, self._address, self._before, self._paced, self._warm = path, address, before, paced, warm
        self._stop_asked = False
        self.left_out = LeftOut()
        self.fed = before
        self.newest = 0
        """the time of the last row fed"""
        self.began = 0.0
        """time.monotonic() of second 0, once it is paced"""
        self.first = 0.0
        """time.monotonic() when the first row was fed"""
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        """What was fed is waited for; of an end nothing is said."""
        self._stop_asked = True

    async def _run(self) -> None:
        if self._warm is not None:
            await self._warm_up(self._warm)
        async with await connect(self._address, PRODUCER) as client:
            subjects = ", ".join(f"'{subject}'" for subject in SUBJECTS.values())
            advertisement = await client.advertise(f"subject IN ({subjects})")
            self.first = time.monotonic()
            feed = self._feed_paced if self._paced else self._feed
            await feed(client, advertisement)
            if not self._stop_asked:
                await client.publish(_after(self.fed, END, self.newest), advertisement)

    async def _warm_up(self, warm: Callable[[], None]) -> None:
        async with await connect(self._address, _WARM) as client:  # events have the name of who publishes them
            advertisement = await client.advertise(f"subject = '{SUBJECTS[WARM_UP]}'")
            for _ in range(_ROUNDS):
                began = time.monotonic()
                for _ in range(_EACH_ROUND):
                    await client.publish(Event(SUBJECTS[WARM_UP]), advertisement)
                await asyncio.to_thread(warm)
                if time.monotonic() - began < _SHORT:
                    break

    async def _feed(self, client: Client, advertisement: "Advertisement") -> None:
        waiting: list[asyncio.Future[dict[int, BaseException]]] = []
        for events in self._events():
            waiting.append(await client.submit_many(events, advertisement))
            waiting = [one for one in waiting if not _answered(one)]
            self._count(events)
            await asyncio.sleep(0)
            if self._stop_asked:
                break
        for one in waiting:
            await one
            _answered(one)

    async def _feed_paced(self, client: Client, advertisement: "Advertisement") -> None:
        waiting: list[asyncio.Future[dict[int, BaseException]]] = []
        for events in self._events():
            if not self.began:
                self.began = time.monotonic() - _time(events[0])
            while events and not self._stop_asked:
                due = time.monotonic() - self.began
                now = [event for event in events if _time(event) <= due]
                events = events[len(now) :]
                if now:
                    self._count(now)
                    if events and _time(events[0]) > self.newest:
                        now.append(_after(self.fed, SECOND_OVER, _time(events[0])))
                    waiting.append(await client.submit_many(now, advertisement))
                    waiting = [one for one in waiting if not _answered(one)]
                if events:
                    await asyncio.sleep(max(0.0, self.began + _time(events[0]) - time.monotonic()))
            if self._stop_asked:
                break
        for one in waiting:
            await one
            _answered(one)

    def _count(self, events: list[Event]) -> None:
        self.fed += len(events)
        self.newest = _time(events[-1])

    def _events(self) -> Iterator[list[Event]]:
        number = 0
        for table in read(self._path, self.left_out):
            rows: Iterator[Row] = zip(*(column.tolist() for column in table.T))
            skipped = min(len(table), max(0, self._before - number))
            number += skipped
            rows = islice(rows, skipped, None)
            while some := list(islice(rows, _TOGETHER)):
                yield [event_of(number + place, row) for place, row in enumerate(some, 1)]
                number += len(some)


def _after(rows: int, kind: int, time: int) -> Event:
    return Event(SUBJECTS[kind], [("time", time)], producer=PRODUCER, seq=2 * rows + 1)


def _time(event: Event) -> int:
    return event.params["time"]  # type: ignore[return-value]


def _answered(one: "asyncio.Future[dict[int, BaseException]]") -> bool:
    """Whether it is done; raises what was refused."""
    if not one.done():
        return False
    for error in one.result().values():
        raise error
    return True
