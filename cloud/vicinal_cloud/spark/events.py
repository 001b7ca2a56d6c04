"""Logs as a table, of all that is there by now: the way to read them in a batch.

    events(spark, path="b1.log")                                                     the columns are learned
    events(spark, "lat bigint, rate double", path="b1.log", filter="subject = 'Position'")

The rows, the columns and the options are those of format("vicinal") (source.py), and so is what this is made of:

    forms of closed segments that have columns (sidecar.py)     Spark's own Parquet scan of these
    all other events, and those of brokers                      format("vicinal"), which makes columns for the next

Spark turns what any Python source gives it into rows one by one, which takes longer than all that we do; its own scan
has batches of columns, reads only those that a query needs, and leaves out row groups by its filters. So a form goes
there whenever the answer is the same: the whole segment is asked for, no event's bytes are, and `filter` is true of
all events of the form. A `filter` that must look at values is asked by our source, which has orders for it (orders.py)
and gives Spark only what it keeps.

What there is, is found out when this is called, and not again when a query runs. If retention takes a segment in
between, the query ends with an error; who wants to go on (failOnDataLoss=false) is given format("vicinal").
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from pyspark.sql import functions
from pyspark.sql.types import StructType

from .conditions import decided
from .forms import INT, TEXT, Form
from .infer import TYPES, infer_schema
from .logs import DirectoryLog, Piece, log_at
from .orders import file_name, parquet_name
from .sidecar import Sidecar
from .source import Settings, register
from .table import ERROR, META, Column, columns_of_schema, wrong

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["events"]

# Each is a scan of its own: past it, planning them takes longer than what they save.
MAX_SCANS = 16
_OF_LOG = {"_offset": INT, "_received_ms": INT, "_producer": TEXT, "_seq": INT}
_NARROW = ("int", "smallint", "tinyint")


class _Scan(NamedTuple):
    """Of files that one scan can read. What is not asked for makes no difference."""

    log: str
    subject: str
    kinds: tuple[tuple[str, str], ...]
    """of the columns that are asked for, those that the files have"""


class _File(NamedTuple):
    piece: Piece
    number: int
    """of the form"""
    path: Path
    rows: int


def events(spark: "SparkSession", schema: "str | StructType | None" = None, **options: str) -> "DataFrame":
    """Raises VicinalError for options that are wrong, and OSError."""
    register(spark)
    settings = Settings(options)
    logs = [log_at(where, settings.options) for where in settings.logs]
    if schema is None:
        schema = infer_schema(logs, settings.condition)
    wanted = cast(StructType, StructType.fromDDL(schema) if isinstance(schema, str) else schema)
    columns = columns_of_schema(wanted)
    start = settings.offsets("startingOffsets", "earliest")
    end = settings.offsets("endingOffsets", "latest")
    reader = spark.read.format("vicinal").schema(wanted).options(**settings.options)
    reader = reader.options(startingOffsets=json.dumps(start), endingOffsets=json.dumps(end))
    if not _can_be(settings, columns):
        return reader.load()
    by_name: dict[str, DirectoryLog] = {log.name: log for log in logs}
    pieces = [partition.piece for partition in settings.plan(start, end)]
    sidecars = {piece: by_name[piece.log].whole_sidecar(piece) for piece in pieces}
    scans = _scans(sidecars, settings, columns)
    without = _without(sidecars, scans, settings)
    frames = [_frame(spark, scan, [file.path for file in files], columns) for scan, files in scans.items()]
    if not frames or any(without[piece.log].get(piece.segment, []) is not None for piece in pieces):
        frames.append(reader.option("without", json.dumps(without)).load())
    return reduce(lambda one, other: one.unionAll(other), frames)


def _can_be(settings: Settings, columns: Sequence[Column]) -> bool:
    return (
        "path" in settings.options
        and settings.sidecars
        and settings.fail_on_loss
        and settings.mode == "permissive"
        and all(column.name != "_event" for column in columns)
    )


def _chosen(form: Form, settings: Settings) -> bool | None:
    return True if settings.condition is None else decided(form, settings.condition)


def _scans(
    sidecars: "Mapping[Piece, Sidecar | None]", settings: Settings, columns: Sequence[Column]
) -> dict[_Scan, list[_File]]:
    names = {column.name for column in columns}
    found: dict[_Scan, list[_File]] = {}
    for piece, sidecar in sidecars.items():
        if sidecar is None:
            continue
        for number, form in enumerate(sidecar.forms):
            if _chosen(form, settings) and not _alike(form):
                # A parameter may be called as a column of the log is, which then is what is meant.
                kinds = {name: kind for name, kind in form.columns if name in names and name not in META}
                scan = _Scan(
                    piece.log if "_log" in names else "",
                    form.subject if "subject" in names else "",
                    tuple(sorted(kinds.items())),
                )
                path, rows = sidecar.folder / file_name(number), sidecar.files[number].num_rows
                found.setdefault(scan, []).append(_File(piece, number, path, rows))
    most = sorted(found, key=lambda scan: -sum(file.rows for file in found[scan]))[:MAX_SCANS]
    return {scan: found[scan] for scan in most}


def _without(
    sidecars: "Mapping[Piece, Sidecar | None]", scans: Mapping[_Scan, list[_File]], settings: Settings
) -> dict[str, dict[str, list[int] | None]]:
    """By log and segment, the forms that are scanned; None where nothing else is wanted of it."""
    scanned = {(file.piece, file.number) for files in scans.values() for file in files}
    found: dict[str, dict[str, list[int] | None]] = {piece.log: {} for piece in sidecars}
    for piece, sidecar in sidecars.items():
        if sidecar is not None:
            wanted = [number for number, form in enumerate(sidecar.forms) if _chosen(form, settings) is not False]
            here = [number for number in wanted if (piece, number) in scanned]
            nothing_else = here == wanted and not sidecar.loose and not sidecar.damaged
            found[piece.log][piece.segment] = None if nothing_else else here
    return found


def _alike(form: Form) -> bool:
    """Names that a session of somebody else's takes for one (spark.sql.caseSensitive)."""
    return len({name.lower() for name, _ in form.columns}) < len(form.columns)


def _frame(spark: "SparkSession", scan: _Scan, files: Sequence[Path], columns: Sequence[Column]) -> "DataFrame":
    kinds = dict(scan.kinds)
    schema = StructType()
    for name, kind in (_OF_LOG | kinds).items():
        schema = schema.add(parquet_name(name), TYPES[kind])
    frame = (
        spark.read.schema(schema)
        # A file that is gone or damaged is an error here, whatever the session thinks of files.
        .options(ignoreMissingFiles="false", ignoreCorruptFiles="false")
        .parquet(*map(_literally, files))
    )
    values = {column.name: _value(column, scan, kinds) for column in columns if column.name != ERROR}
    errors = [_error(column, kinds[column.name], values[column.name]) for column in columns if column.name in kinds]
    said = [error for error in errors if error is not None]
    # NULL where nothing is said; and nullable always, as the columns of a source are.
    error = functions.nullif(functions.concat_ws("; ", *said), functions.lit(""))
    return frame.select(*[(error if name == ERROR else values[name]).alias(name) for name in (c.name for c in columns)])


def _value(column: Column, scan: _Scan, kinds: Mapping[str, str]) -> "Expression":
    if column.name in ("subject", "_log"):
        text = functions.lit(scan.subject if column.name == "subject" else scan.log)
        return functions.when(functions.lit(True), text)  # nullable, as a source's
    there = _of_file(column.name)
    if column.name in _OF_LOG:
        return there
    kind = kinds.get(column.name)
    if kind is None or kind not in column.kinds:
        return functions.lit(None).cast(column.spark)
    return there if TYPES[kind].simpleString() == column.spark else there.try_cast(column.spark)


def _error(column: Column, kind: str, value: "Expression") -> "Expression | None":
    text = functions.lit(wrong(column, kind))
    if kind not in column.kinds:
        return text
    # Of a form no event lacks it: NULL is what did not go into the type.
    return functions.when(value.isNull(), text) if kind == INT and column.spark in _NARROW else None


def _of_file(name: str) -> "Expression":
    return functions.col("`" + parquet_name(name).replace("`", "``") + "`")


def _literally(path: Path) -> str:
    """As Hadoop wants a path that is no pattern."""
    return "file://" + re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path.resolve()))
