"""A whole run: a file into a broker, through Spark, and the answers into files.

While it runs the folder has `.linear-road` in it: the broker's log, Spark's checkpoint, and what the sink knows. A
run that was killed goes on where it was when it is started again with the same input; one that is done leaves the
answers alone.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event as Flag
from typing import TYPE_CHECKING, NamedTuple

from .errors import LinearRoadError
from .feeding import Feeder, fed_before, rows_from
from .history import TollHistory
from .office import Delays, Office
from .sink import Sink
from .streaming import Batch, each_batch, found_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from .rows import LeftOut

__all__ = ["SETTINGS", "STATE", "Progress", "Result", "Stopped", "clean", "prepare", "run"]

STATE = ".linear-road"
# A direction's state is one value of some megabytes, all of which changes with every batch: what is made for many
# small ones costs twice as much.
SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ),
    "spark.sql.streaming.minBatchesToRetain": "3",
    # Each costs a file a batch; more than cores are no faster.
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}
# So that what waits for a batch is not more than its state: not paced, all of the input may wait.
_MOST = 250_000


# Spark waits 10 s for a Python process of its own to start, which cannot be set. On a crowded machine that is short;
# a query goes on where it was.
_SLOW, _TRIES = "Python worker failed to connect back", 10


class Stopped(LinearRoadError):
    """The query or the broker ended before the input did."""


class Progress(NamedTuple):
    fed: int
    time: int
    """of the last row fed"""
    answered: list[int]


class Result(NamedTuple):
    rows: int
    """good ones, those that an earlier run fed among them"""
    fed: int
    """by this run"""
    seconds: float
    """from the first row fed in this run to the last answer kept"""
    answered: list[int]
    """by type, those of earlier runs too"""
    unanswered: dict[str, int]
    left_out: "LeftOut"
    delays: Delays
    """of answers, if it was paced"""


def prepare(input_: Path, out: Path) -> Path:
    """The folder of the run's own files; raises LinearRoadError if another run's, or its answers, are there."""
    state = out / STATE
    if not state.exists() and any(file.stat().st_size for file in out.glob("type?.csv")):
        raise LinearRoadError(f"{out} has the answers of a run that is done: give another folder, or remove them")
    state.mkdir(parents=True, exist_ok=True)
    with input_.open("rb") as file:
        about = {"size": input_.stat().st_size, "begin": hashlib.sha256(file.read(1 << 16)).hexdigest()}
    note = state / "input.json"
    if note.exists() and json.loads(note.read_text()) != about:
        raise LinearRoadError(
            f"{out} has an unfinished run of another input: start it again with that, or remove {state}"
        )
    note.write_text(json.dumps(about))
    return state


def run(
    spark: "SparkSession",
    input_: Path,
    out: Path,
    address: str,
    history: TollHistory | None = None,
    paced: bool = False,
    tell: Callable[[Progress], None] = lambda progress: None,
    most: int = _MOST,
    over_network: bool = False,
) -> Result:
    """`address` is of a broker whose log is in the run's folder (`prepare`), and in which nobody else publishes. Where
    workers see no file of ours, they ask the broker for it, `over_network`."""
    state = prepare(input_, out)
    log = state / "log"
    sink = Sink(out, state / "sink.sqlite")
    came = Flag()
    before = fed_before(log)
    feeder = Feeder(input_, address, before, paced, _waiter(came) if paced else None)
    office = Office(sink, history, (lambda: feeder.began) if paced else None)

    def do(number: int, batch: Batch) -> None:
        if batch.warm_ups:
            came.set()
        office.do(number, batch)

    def start() -> "StreamingQuery":
        rows = rows_from(spark, most, **({"brokers": address} if over_network else {"path": str(log)}))
        found = found_in(rows).writeStream.foreachBatch(each_batch(do))
        return found.option("checkpointLocation", str(state / "checkpoint")).start()

    query, tries = start(), _TRIES
    try:
        if not office.ended.is_set():
            feeder.start()
        told = time.monotonic()
        while not office.ended.wait(0.05):
            if feeder.error is not None:
                raise feeder.error
            if not query.isActive:
                error, tries = query.exception(), tries - 1
                if _SLOW not in str(error) or not tries:
                    raise Stopped(f"Spark's query ended: {_first_line(error)}")
                query = start()
            if time.monotonic() - told > 1:
                told = time.monotonic()
                tell(Progress(feeder.fed, feeder.newest, office.answered))
        done = time.monotonic()
    finally:
        feeder.stop()
        came.set()
        query.stop()
        feeder.join(60)
        sink.close()
    return Result(
        feeder.fed,
        feeder.fed - before,
        done - (feeder.first or done),
        office.answered,
        office.unanswered,
        feeder.left_out,
        office.delays,
    )


def clean(out: Path) -> None:
    """After a run that is done."""
    shutil.rmtree(out / STATE, ignore_errors=True)


def _waiter(came: Flag) -> Callable[[], None]:
    def wait() -> None:
        came.wait(120)
        came.clear()

    return wait


def _first_line(error: object) -> str:
    text = str(error or "no reason was given").strip()
    return text.splitlines()[0] if text else "no reason was given"
