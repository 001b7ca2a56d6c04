"""What follows from the positions of some days, made anew, while batches go on.

    files of positions and speeding, as they are now ──▶ every table of those days, aside ──▶ a commit in their place

Nothing of what is read is removed meanwhile (run.py): batches only add to it, and days that they have changed are due
again. A table of a day is a function of all its positions: which of two refreshes saw one first does not matter.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...traffic.control import Settings
from ..session import SETTINGS
from .offences import cases, offences, settles_ms, to_keep
from .places import Places
from .small import NO_DAY
from .store import Staged, Store
from .tables import TABLES, following, observed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["DERIVED", "FAST", "OFFENCES", "Days", "beside"]

OFFENCES, FAST = "offences", "speeding"
DERIVED = (*TABLES, OFFENCES)


def beside(spark: "SparkSession") -> "SparkSession":
    """A session of the same application that has half of the cores at a time: the others are for the batches, which
    would wait for its tasks."""
    session = spark.newSession()
    half = str(max(1, spark.sparkContext.defaultParallelism // 2))
    for name, value in SETTINGS.items():
        if session.conf.isModifiable(name):
            session.conf.set(name, value)
    for name in ("shuffle.partitions", "leafNodeDefaultParallelism", "files.minPartitionNum"):
        session.conf.set(f"spark.sql.{name}", half)
    session.conf.set("spark.sql.files.maxPartitionBytes", "1g")
    return session


class Days:
    def __init__(
        self, spark: "SparkSession", store: Store, days: Sequence[str], places: Places, settings: Settings, ended: bool
    ) -> None:
        """As they are now. `ended`: nothing comes any more."""
        self._store = store
        self._days = days
        self._places = places
        self._settings = settings
        self._ended = ended
        self._speeding_files = store.files(FAST, days)
        # With what has no rows, so that of nothing there are tables too.
        self._positions = _of(store.read(spark, "positions", store.files("positions", [*days, NO_DAY])))
        self._speeding = _of(store.read(spark, FAST, store.files(FAST, [*days, NO_DAY])))

    def staged(self, derived: Sequence[str]) -> tuple[Staged, dict[str, Any]]:
        """The tables, and notes for their commit."""
        assert self._positions is not None, "begun with the first batch"
        held: list[DataFrame] = []

        def keep(frame: "DataFrame") -> "DataFrame":
            held.append(frame.persist())
            return held[-1]

        try:
            found = following(keep(observed(self._positions)), self._places, keep)
            tables = {name: found[name] for name in derived if name != OFFENCES}
            undecided: list[str] = []
            if OFFENCES in derived and self._speeding is not None:
                known = keep(cases(self._speeding, self._positions, self._places, self._settings))
                final = None if self._ended else self._final(self._positions)
                tables |= {OFFENCES: offences(known), FAST: to_keep(self._speeding, known, final)}
                undecided = [] if final is None else [day for day in self._days if self._places.end_of(day) >= final]
            return self._store.stage(tables), {"undecided": undecided}
        finally:
            for one in held:
                one.unpersist()

    def replaced(self, derived: Sequence[str]) -> dict[str, list[Path]]:
        """What the tables stand for; of `speeding` what was read, as batches add to it."""
        tables = {name: self._store.files(name, self._days) for name in derived}
        return tables | ({FAST: self._speeding_files} if OFFENCES in derived else {})

    def _final(self, positions: "DataFrame") -> int:
        """Of what happened before it, all that may be believed has come: ms."""
        ((received,),) = positions.selectExpr("max(unix_millis(received_time))").collect()
        return int(received) - settles_ms(self._settings)


def _of(found: "DataFrame | None") -> "DataFrame | None":
    return None if found is None else found.selectExpr("* except (day)", "cast(day as string) as day")
