"""The data source `vicinal`: event logs as tables, of now and of before (DESIGN 7).

    events(spark, path="b1.log")                            in a batch: events.py, with these options
    register(spark)
    spark.read.format("vicinal").option("path", "b1.log").load()
    spark.readStream.format("vicinal").option("brokers", "tcp://127.0.0.1:7447").option("filter", "rate > 30").load()

    path                    directories of event logs, or of brokers that have one; several with commas
    brokers                 addresses of brokers, instead; several with commas: each gives what was published there
    filter                  in the filter language (DESIGN 3): only events for which it is true
    startingOffsets         earliest (the default of read), latest (of readStream), or JSON {"path or address": offset}
    endingOffsets           of read: latest, or JSON
    maxOffsetsPerTrigger    of readStream: so many at most in one batch
    failOnDataLoss          true: offsets that retention has removed end the query; false: they are a row with an _error
    mode                    permissive (the default), dropmalformed or failfast: what of rows with an _error (table.py)
    columns                 false: never make or read a sidecar (sidecar.py)
    token, ca, cert, key, timeout       of brokers: who we are, and seconds to wait for one that is away

Without a schema it is made from what the log declares (event types, spec/types.md) and from its newest events.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import datasource as spark_filters
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from vicinal.errors import VicinalError
from vicinal.filter import Filter

# For each step of a query Spark starts a process that imports this: what it may not need is imported where it is used.
if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from .conditions import Bound
    from .logs import Lost, Piece
    from .table import Column

ERROR = "_error"

__all__ = ["DataLoss", "VicinalSource", "register"]

_MODES = ("permissive", "dropmalformed", "failfast")
_KNOWN = {
    *("path", "brokers", "filter", "startingoffsets", "endingoffsets", "maxoffsetspertrigger", "failondataloss"),
    *("mode", "columns", "token", "tokenfile", "ca", "cert", "key", "timeout", "offsetsperpartition"),
    *("name", "batch", "subject", "scopes"),  # of the writer
    "without",  # of events.py: {log: {segment: forms that are read there, or null for all of it}}
}


class DataLoss(VicinalError):
    """Offsets that were wanted are gone."""


def register(spark: "SparkSession") -> None:
    """So that this session knows format("vicinal"); again, nothing is done."""
    try:
        spark.dataSource.register(VicinalSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


class VicinalSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "vicinal"

    def schema(self) -> StructType | str:
        from .infer import infer_schema
        from .logs import log_at

        settings = Settings(dict(self.options))
        return infer_schema([log_at(where, settings.options) for where in settings.logs], settings.condition)

    def reader(self, schema: StructType) -> "VicinalReader":
        return VicinalReader(Settings(dict(self.options)), schema)

    def streamReader(self, schema: StructType) -> "VicinalStreamReader":
        return VicinalStreamReader(Settings(dict(self.options)), schema)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        from .writer import VicinalWriter

        return VicinalWriter(dict(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        from .writer import VicinalStreamWriter

        return VicinalStreamWriter(dict(self.options), schema)


class Settings:
    """Options, checked. Travels to the workers."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = {name.lower(): value for name, value in options.items()}
        unknown = sorted(name for name in self.options if name not in _KNOWN)
        if unknown:
            raise VicinalError(f"option {unknown[0]!r} is unknown, want one of {', '.join(sorted(_KNOWN))}")
        path, brokers = self.options.get("path"), self.options.get("brokers")
        if bool(path) == bool(brokers):
            raise VicinalError('want option("path", directory of a log) or option("brokers", addresses), one of them')
        self.logs = [part.strip() for part in (path or brokers or "").split(",") if part.strip()]
        text = self.options.get("filter")
        self.condition = Filter(text) if text else None
        self.mode = self.options.get("mode", "permissive").lower()
        if self.mode not in _MODES:
            raise VicinalError(f"option mode is {self.mode!r}, want one of {', '.join(_MODES)}")
        self.fail_on_loss = self._bool("failondataloss", True)
        self.sidecars = self._bool("columns", True)
        self.most = self._int("maxoffsetspertrigger")
        self.piece = self._int("offsetsperpartition")

    def _bool(self, name: str, default: bool) -> bool:
        text = self.options.get(name, str(default)).lower()
        if text not in ("true", "false"):
            raise VicinalError(f"option {name} is {text!r}, want true or false")
        return text == "true"

    def _int(self, name: str) -> int | None:
        text = self.options.get(name)
        if text is None:
            return None
        if not text.isdigit() or int(text) == 0:
            raise VicinalError(f"option {name} is {text!r}, want a number, 1 or more")
        return int(text)

    def offsets(self, which: str, default: str) -> dict[str, int]:
        """By log. `which` is an option: earliest, latest or JSON."""
        from .logs import log_at

        text = self.options.get(which.lower(), default)
        if text in ("earliest", "latest"):
            return {where: log_at(where, self.options).ends()[text == "latest"] for where in self.logs}
        try:
            found = json.loads(text)
            ok = isinstance(found, dict) and all(type(value) is int and value >= 0 for value in found.values())
        except ValueError:
            ok = False
        if not ok or set(found) != set(self.logs):
            raise VicinalError(
                f'{which} is {text!r}, want earliest, latest or {{"{self.logs[0]}": 0}}, one for each log'
            )
        return {where: found[where] for where in self.logs}

    def plan(self, start: Mapping[str, int], end: Mapping[str, int], shares: bool = True) -> list["VicinalPartition"]:
        """Without `shares` what is still written gets no columns: who follows a log reads it once, in a hurry."""
        from .logs import PIECE, log_at

        pieces: list[Piece] = []
        for where in self.logs:
            low, high = start.get(where, 0), end.get(where, 0)
            if low < high:
                pieces += log_at(where, self.options).plan(low, high, self.sidecars, self.piece or PIECE)
        without = json.loads(self.options.get("without", "{}"))
        if without:
            elsewhere = [without[piece.log].get(piece.segment, ()) for piece in pieces]
            pieces = [
                piece._replace(without=tuple(forms) or None)
                for piece, forms in zip(pieces, elsewhere)
                if forms is not None
            ]
        if not shares:
            pieces = [piece._replace(segment="", shares=-1) if piece.shares >= 0 else piece for piece in pieces]
        return [VicinalPartition(piece) for piece in pieces]


class VicinalPartition(InputPartition):
    def __init__(self, piece: "Piece") -> None:
        super().__init__(piece)
        self.piece = piece


class _Rows:
    """Reading a partition, in a worker."""

    def __init__(self, settings: Settings, schema: StructType) -> None:
        from .table import columns_of_schema

        self.settings = settings
        self.columns: list[Column] = columns_of_schema(schema)
        self.bounds: tuple[Bound, ...] = ()

    def read(self, piece: "Piece") -> "Iterator[pa.RecordBatch]":
        from .forms import Block
        from .logs import Asked, Lost, log_at
        from .table import rows_of_block, rows_of_loose, rows_of_lost

        names = {column.name for column in self.columns}
        whole = "_event" in names
        asked = Asked(
            None if whole else frozenset(names),
            self.settings.condition,
            self.bounds,
            self.settings.sidecars and not whole,
        )
        log = log_at(piece.log, self.settings.options)
        for found in log.blocks(piece, asked):
            if isinstance(found, Block):
                batch = rows_of_block(found, self.columns, piece.log)
            elif isinstance(found, Lost):
                if self.settings.fail_on_loss and found.why != "damaged":
                    raise DataLoss(_loss(found, piece.log))
                batch = rows_of_lost(found.first, found.last, found.why, self.columns, piece.log)
            else:
                batch = rows_of_loose(found, self.columns, piece.log)
            if self.settings.mode != "permissive":
                batch = self._strict(batch, found)
            if batch.num_rows:
                yield batch

    def _strict(self, batch: "pa.RecordBatch", found: Any) -> "pa.RecordBatch":
        import pyarrow as pa

        from .table import Column, Malformed

        errors = batch.column(ERROR) if ERROR in batch.schema.names else None
        if errors is None:  # asked for with it, to know
            with_error = _Rows(self.settings, StructType())
            with_error.columns = [*self.columns, Column(ERROR, "string", pa.string(), ("str",))]
            errors = with_error._again(found).column(ERROR)
        if errors.null_count == batch.num_rows:
            return batch
        if self.settings.mode == "failfast":
            raise Malformed(next(text for text in errors.to_pylist() if text is not None))
        return batch.filter(errors.is_null())

    def _again(self, found: Any) -> "pa.RecordBatch":
        from .forms import Block
        from .logs import Lost
        from .table import rows_of_block, rows_of_loose, rows_of_lost

        if isinstance(found, Block):
            return rows_of_block(found, self.columns, "")
        if isinstance(found, Lost):
            return rows_of_lost(found.first, found.last, found.why, self.columns, "")
        return rows_of_loose(found, self.columns, "")


def _loss(lost: "Lost", log: str) -> str:
    return (
        f"{log}: {lost.last - lost.first + 1} events, offsets {lost.first} to {lost.last}, were {lost.why} before they "
        'were read. option("failOnDataLoss", "false") goes on, with a row that says so; keep the log longer ([log] '
        "max_age_hours, max_bytes) or start from a new checkpoint"
    )


class VicinalReader(DataSourceReader):
    def __init__(self, settings: Settings, schema: StructType) -> None:
        self.settings = settings
        self.rows = _Rows(settings, schema)
        self.types = {column.name: column.spark for column in self.rows.columns}

    def pushFilters(self, filters: "list[spark_filters.Filter]") -> "Iterator[spark_filters.Filter]":
        """What can be is used to read less. Spark asks all of them again: a bound may be wider, never narrower."""
        bounds = [bound for bound in (_bound(one, self.types) for one in filters) if bound is not None]
        self.rows.bounds = tuple(bounds)
        yield from filters

    def partitions(self) -> Sequence[InputPartition]:
        start = self.settings.offsets("startingOffsets", "earliest")
        return self.settings.plan(start, self.settings.offsets("endingOffsets", "latest"))

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        # Of no partitions Spark makes one, of nothing.
        return self.rows.read(partition.piece) if isinstance(partition, VicinalPartition) else iter(())


_COMPARISONS: dict[type, str] = {
    spark_filters.EqualTo: "=",
    spark_filters.GreaterThan: ">",
    spark_filters.GreaterThanOrEqual: ">=",
    spark_filters.LessThan: "<",
    spark_filters.LessThanOrEqual: "<=",
}
_LITERALS = {
    "string": (str,),
    "bigint": (int,),
    "int": (int,),
    "smallint": (int,),
    "tinyint": (int,),
    "double": (int, float),
    "boolean": (bool,),
}


def _bound(one: Any, types: Mapping[str, str]) -> "Bound | None":
    """None for what would not be the same, or is not worth it."""
    from .conditions import Bound

    column = ".".join(getattr(one, "attribute", ()))
    if column not in types or column in ("_log", "_event", ERROR):
        return None
    allowed = _LITERALS.get(types[column], ())
    if isinstance(one, spark_filters.In):
        if all(_exact(value, allowed) for value in one.value):
            return Bound(column, "in", tuple(one.value))
        return None
    op = _COMPARISONS.get(type(one))
    if op is None or not _exact(one.value, allowed) or (op != "=" and type(one.value) is bool):
        return None
    return Bound(column, op, one.value)


def _exact(value: Any, allowed: tuple[type, ...]) -> bool:
    if type(value) not in allowed:
        return False
    # An int of more than 53 bits in a double column is rounded: then Spark compares another number than the event's.
    return not isinstance(value, float) or abs(value) < 1 << 53


def _last(log: str) -> str:
    """Beside its offset in a checkpoint, which event was the last before it."""
    return f"{log} before"


class VicinalStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, settings: Settings, schema: StructType) -> None:
        self.settings = settings
        self.rows = _Rows(settings, schema)
        self._logs: dict[str, Any] = {}
        self._until: dict[str, int] | None = None
        self._same: set[str] = set()
        """logs that were seen to be those of the checkpoint"""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_logs": {}}  # connections stay where they are

    def initialOffset(self) -> dict[str, int]:
        return self.settings.offsets("startingOffsets", "latest")

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self.settings.most is None else ReadMaxRows(self.settings.most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = self._ends()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        ends = self._ends() if self._until is None else self._until
        for where in self.settings.logs:
            if where in start and (ends[where] != start[where] or where not in self._same):
                self._check_same(where, start, ends[where])
        # A log that has come since the checkpoint begins at its beginning; one that has gone stays where it was.
        end = {**start, **{where: max(start.get(where, 0), ends[where]) for where in self.settings.logs}}
        if isinstance(limit, ReadMaxRows):
            left = limit.max_rows
            waiting = sorted(self.settings.logs, key=lambda where: end[where] - start.get(where, 0))
            for count, where in zip(range(len(waiting), 0, -1), waiting):
                share = min(end[where] - start.get(where, 0), -(-left // count))
                end[where] = start.get(where, 0) + share
                left -= share
        for where in self.settings.logs:
            if end[where] > start.get(where, 0):
                end[_last(where)] = self._log(where).name_at(end[where] - 1)
        return end

    def _check_same(self, where: str, start: dict[str, Any], end: int) -> None:
        """The last event that was read is still what it was, or nobody can say."""
        was = start.get(_last(where))
        now = self._log(where).name_at(start[where] - 1) if was and end >= start[where] else was
        if end < start[where] or (now is not None and now != was):
            raise DataLoss(
                f"{where}: this is another log than the one that was read: offset {start[where] - 1} was {was}, and "
                f"now {'there are ' + str(end) if end < start[where] else 'is ' + str(now)}. If it was begun anew on "
                "purpose, read it with a new checkpoint, into new tables"
            )
        self._same.add(where)

    def reportLatestOffset(self) -> dict[str, int] | None:
        return self._ends() if self._until is None else self._until

    def _ends(self) -> dict[str, int]:
        return {where: self._log(where).ends()[1] for where in self.settings.logs}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        from .logs import Lost

        for where in self.settings.logs:
            first = int(self._log(where).ends()[0])
            start = {where: first, **start}
            if start[where] < min(first, end.get(where, 0)):
                lost = Lost(start[where], min(first, end[where]) - 1, "removed by retention")
                if self.settings.fail_on_loss:
                    raise DataLoss(_loss(lost, where))
                print(f"vicinal: {_loss(lost, where).partition('. ')[0]}", file=sys.stderr)
        return self.settings.plan(start, end, shares=False)

    def _log(self, where: str) -> Any:
        from .logs import log_at

        if where not in self._logs:
            self._logs[where] = log_at(where, self.settings.options)
        return self._logs[where]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        # Of no partitions Spark makes one, of nothing.
        return self.rows.read(partition.piece) if isinstance(partition, VicinalPartition) else iter(())

    def stop(self) -> None:
        for log in self._logs.values():
            close = getattr(log, "close", None)
            if close is not None:
                close()
        self._logs = {}
