"""Tables as folders of Parquet, changed by commits: all of a batch in all tables, or nothing.

    OUT/positions/day=2026-11-17/area=old-town/b7-0.parquet       any reader of Parquet can read OUT/positions
    OUT/_vicinal/state.json                                       which files count, and the batch they are of
    OUT/_vicinal/staging/7.0/...                                  what is being written
    OUT/_vicinal/lock                                             flock of who writes
    OUT/positions/_delta_log                                      where asked for: the same as a Delta table (delta.py)

A batch is written aside; state.json that names its files and the moves to be made is replaced, which is the commit;
then the files are moved, and those that they stand for are removed. Killed before the commit, nothing was done, and the
batch runs again; killed after it, the moves are made when the store is opened, and the batch, run again, is seen to be
done. A file is moved whole: there is none of 0 bytes, and none that is in no commit. On a file system that has
rename: a local or shared disk.

Who reads a folder of Parquet without state.json sees what was committed, but while files are moved: a batch that is
there in part, and, as new files come before those go that they stand for, of a refresh or a compaction rows that are
there twice. A writer that is killed just then leaves it so until the store is opened again. The other order would leave
rows that are missing. reading.py gives what was committed, and so does Delta's log.
"""

import fcntl
import itertools
import json
import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from vicinal.errors import VicinalError

from .delta import DeltaLog, check_installed
from .small import read_partitioned, together, write_empty, write_partitioned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["STATE", "Staged", "Store", "StoreInUse"]

_OWN = "_vicinal"
STATE = f"{_OWN}/state.json"
# Of the tables: what another one has written cannot be added to.
FORM = 3
# Rows of one file of Parquet: 20 MB.
FILE_ROWS = 1_000_000
# Of one that is made of small ones: a stream waits for it, half a second.
COMPACT_ROWS = 250_000
# Tables of which nothing is replaced; the others are made anew by the day.
_ADDED_TO = ("positions", "late", "quarantine")


class StoreInUse(VicinalError):
    pass


class Staged(NamedTuple):
    place: Path
    files: dict[str, list[tuple[Path, list[int]]]]
    """by table, each with what state.json says of it"""


class Store:
    def __init__(self, root: Path, query: str = "", delta: bool = False) -> None:
        """`query` is who fills it: another one has other batches, and is refused. `delta`: the tables are Delta tables
        too, from now on and for good."""
        if delta:
            check_installed()
        self.root = root = root.resolve()  # Spark's processes may have another current folder
        self._own = root / _OWN
        (self._own / "staging").mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self._own / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise StoreInUse(f"{root}: another program writes these tables") from error
        file = self._own / "state.json"
        self._state: dict[str, Any] = (
            json.loads(file.read_text())
            if file.exists()
            else {"form": FORM, "query": "", "batch": -1, "files": {}, "notes": {}, "moves": []}
        )
        if self._state.get("form", 1) != FORM:
            self.close()
            raise VicinalError(
                f"{root}: these tables have the columns of another version of Vicinal, want form {FORM}: give another "
                "folder; the log has all that is in them"
            )
        self._delta: dict[str, DeltaLog] = {}
        if delta and not self._state.get("delta"):
            self._state["delta"] = True
            _replace(file, json.dumps(self._state))
        self._finish()
        shutil.rmtree(self._own / "staging", ignore_errors=True)
        (self._own / "staging").mkdir()
        if query and self._state["query"] not in ("", query):
            self.close()
            raise VicinalError(
                f"{root} was filled by another query ({self._state['query']}): give another folder, or remove this one "
                "with its checkpoint"
            )
        self._query = query
        self._numbers = itertools.count()

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def batch(self) -> int:
        """The last that was committed; -1 for none."""
        return int(self._state["batch"])

    @property
    def notes(self) -> dict[str, Any]:
        """What was committed beside the files."""
        return dict(self._state["notes"])

    def files(self, table: str, days: "Iterable[str] | None" = None) -> list[Path]:
        wanted = None if days is None else {f"day={day}" for day in days}
        found = self._state["files"].get(table, {})
        return [self.root / name for name in sorted(found) if wanted is None or name.split("/")[1] in wanted]

    def overlapping(self, table: str, low: int, high: int) -> list[Path]:
        """Files with an event_time within low .. high, in ms."""
        found = self._state["files"].get(table, {})
        return [self.root / name for name, (_, least, most) in found.items() if least <= high and most >= low]

    def rows(self, table: str) -> int:
        return sum(one[0] for one in self._state["files"].get(table, {}).values())

    def read(self, spark: "SparkSession", table: str, files: "list[Path] | None" = None) -> "DataFrame | None":
        """What is committed; None where there is nothing."""
        chosen = self.files(table) if files is None else files
        if not chosen:
            return None
        return spark.read.option("basePath", str(self.root / table)).parquet(*[str(one) for one in chosen])

    def stage(self, tables: "dict[str, DataFrame | pa.Table]", rows: "dict[str, int] | None" = None) -> "Staged":
        """Written aside, for a commit of it; others may be made meanwhile. `rows`, if they are known, say how many
        files there should be. A table that is new has a file without rows, so that there is one to be read, with its
        columns, whatever comes."""
        # A name that no earlier state.json has among its moves: these are made again when the store is opened.
        place = self._own / "staging" / f"{self._state.get('commit', 0) + 1}.{next(self._numbers)}"
        found: dict[str, list[tuple[Path, list[int]]]] = {}
        for table, frame in tables.items():
            if isinstance(frame, pa.Table):
                write_partitioned(frame, place / table)
            else:
                parts = max(1, -(-(rows or {}).get(table, 1) // FILE_ROWS))
                frame.coalesce(parts).write.mode("overwrite").partitionBy("day", "area").option(
                    "compression", "zstd"
                ).parquet(str(place / table))
            files = [(one, _about(one)) for one in sorted((place / table).rglob("*.parquet"))]
            found[table] = [(one, about) for one, about in files if about[0]]
            if table not in self._state["files"]:
                found[table].append((empty := write_empty(frame, place / table), _about(empty)))
        for files in found.values():
            for one, _ in files:
                _sync(one)
        return Staged(place, found)

    def commit(
        self,
        batch: int | None,
        staged: "Staged",
        replaced: "dict[str, list[Path]] | None" = None,
        notes: dict[str, Any] | None = None,
    ) -> None:
        """All of it. `batch` None for what is of no batch: a refresh, or a compaction. `replaced` are files that no
        longer count."""
        number = self._state.get("commit", 0) + 1
        moves: list[list[str]] = []
        files: dict[str, dict[str, Any]] = {name: dict(found) for name, found in self._state["files"].items()}
        removed: list[str] = []
        for table, gone in (replaced or {}).items():
            for one in gone:
                name = one.relative_to(self.root).as_posix()
                files.get(table, {}).pop(name, None)
                removed.append(name)
        for table, fresh in staged.files.items():
            for at, (one, about) in enumerate(fresh):
                folder = one.parent.relative_to(staged.place / table).as_posix()
                name = f"{table}/{folder}/c{number}-{at}.parquet"
                moves.append([one.relative_to(self.root).as_posix(), name])
                files.setdefault(table, {})[name] = about
        state = {
            "form": FORM,
            "query": self._query or self._state["query"],
            "batch": self._state["batch"] if batch is None else batch,
            "commit": number,
            "files": files,
            "notes": {**self._state["notes"], **(notes or {})},
            "moves": moves,
            "removed": removed,
            "delta": self._state.get("delta", False),
        }
        _replace(self._own / "state.json", json.dumps(state))
        self._state = state
        self._finish()
        shutil.rmtree(staged.place, ignore_errors=True)

    def _finish(self) -> None:
        """The moves of the last commit, those that are still to be made."""
        for old, new in self._state["moves"]:
            source, goal = self.root / old, self.root / new
            if source.exists():
                goal.parent.mkdir(parents=True, exist_ok=True)
                source.replace(goal)
            elif not goal.exists():
                raise VicinalError(f"{goal} was committed and is gone: somebody has removed it")
        if self._state.get("delta"):
            self._follow()  # before what it no longer names is removed
        for name in self._state.get("removed", []):
            (self.root / name).unlink(missing_ok=True)

    def _follow(self) -> None:
        """The logs of the Delta tables, up to what counts."""
        for table, files in self._state["files"].items():
            if table not in self._delta:
                self._delta[table] = DeltaLog(self.root / table)
            within = {name.partition("/")[2]: about for name, about in files.items()}
            # Of what is only ever added to, files that are gone have been put together.
            self._delta[table].follow(within, time.time_ns() // 1_000_000, table in _ADDED_TO)

    def compact(self, table: str) -> int:
        """Days and areas with many small files get fewer (small.together), here and without a job of Spark's: a stream
        waits for it. How many files there are fewer."""
        known = self._state["files"].get(table, {})
        chosen = together({name: about[0] for name, about in known.items()}, COMPACT_ROWS)
        if not chosen:
            return 0
        gone = [self.root / name for name in chosen]
        self.commit(None, self.stage({table: read_partitioned(gone, self.root / table)}), {table: gone})
        return len(known) - len(self._state["files"][table])


def _about(path: Path) -> list[int]:
    """Rows, and the least and greatest event_time in ms, 0 and 2^62 where there is none."""
    found = pq.read_metadata(path)
    names = found.schema.names
    low, high = 0, 1 << 62
    if "event_time" in names and found.num_rows:
        at = names.index("event_time")
        ends = [found.row_group(group).column(at).statistics for group in range(found.num_row_groups)]
        if all(one is not None and one.has_min_max for one in ends):
            low = int(min(one.min for one in ends).timestamp() * 1000) - 1
            high = int(max(one.max for one in ends).timestamp() * 1000) + 1
    return [found.num_rows, low, high]


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace(path: Path, text: str) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(text, encoding="utf-8")
    _sync(fresh)
    fresh.replace(path)
    _sync(path.parent)
