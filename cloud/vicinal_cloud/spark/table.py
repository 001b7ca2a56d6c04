"""Blocks of events as rows of a table, with the columns and types that were asked for.

    subject                 of the event
    rate, lat, ...          parameters, by name
    $Time, $Priority, ...   attributes
    _producer, _seq         its identity
    _log, _offset           where it lies
    _received_ms            when the broker had it
    _event                  its bytes
    _error                  why something of it is not in the row; null where all is well

A parameter that an event lacks is null. One of another type than the column's is null too, and `_error` says so: an
int goes into a double and into an int that can hold it, and nothing else is converted. What is no event at all, what
damage or retention has taken, is a row with an `_error` and a place, so that nothing is lost without a trace.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from vicinal.errors import VicinalError
from vicinal.event import Event

from .forms import BOOL, BYTES, FLOAT, INT, TEXT, Block, Loose

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = [
    "ERROR",
    "META",
    "Column",
    "Malformed",
    "columns_of_schema",
    "lost_in",
    "rows_of_block",
    "rows_of_loose",
    "rows_of_lost",
    "wrong",
]

ERROR = "_error"
META = ("subject", "_producer", "_seq", "_log", "_offset", "_received_ms", "_event", ERROR)
_META_TYPES = {"_seq": "bigint", "_offset": "bigint", "_received_ms": "bigint", "_event": "binary"}
# Spark's name of a type, Arrow's, and which of ours go into it.
_TYPES: dict[str, tuple[pa.DataType, tuple[str, ...]]] = {
    "string": (pa.string(), (TEXT,)),
    "bigint": (pa.int64(), (INT,)),
    "int": (pa.int32(), (INT,)),
    "smallint": (pa.int16(), (INT,)),
    "tinyint": (pa.int8(), (INT,)),
    "double": (pa.float64(), (FLOAT, INT)),
    "float": (pa.float32(), (FLOAT, INT)),
    "boolean": (pa.bool_(), (BOOL,)),
    "binary": (pa.binary(), (BYTES,)),
}
_PYTHON = {int: INT, float: FLOAT, str: TEXT, bool: BOOL, bytes: BYTES}
_A = {INT: "an int", FLOAT: "a float", TEXT: "a text", BOOL: "a bool", BYTES: "bytes"}


class Malformed(VicinalError):
    """A row is not as the schema says, and the mode is failfast."""


class Column(NamedTuple):
    name: str
    spark: str
    arrow: pa.DataType
    kinds: tuple[str, ...]


def columns_of_schema(schema: "StructType") -> list[Column]:
    """Raises VicinalError for a column that cannot be had."""
    found = []
    for field in schema.fields:
        kind = field.dataType.simpleString()
        if kind not in _TYPES:
            raise VicinalError(f"column {field.name!r} is {kind}, want one of {', '.join(_TYPES)}")
        wanted = _META_TYPES.get(field.name, "string") if field.name in META else kind
        if kind != wanted:
            raise VicinalError(f"column {field.name!r} is {kind}, want {wanted}")
        found.append(Column(field.name, kind, *_TYPES[kind]))
    return found


def rows_of_block(block: Block, columns: Sequence[Column], log: str) -> pa.RecordBatch:
    count = len(block)
    kinds = {name: (kind, block.columns[at]) for at, (name, kind) in enumerate(block.form.columns)}
    arrays: list[Any] = []
    error: Any = None
    for column in columns:
        if column.name in META:
            arrays.append(None if column.name == ERROR else _meta(block, column.name, log))
            continue
        found = kinds.get(column.name)
        if found is None:
            arrays.append(pa.nulls(count, column.arrow))
            continue
        array, where = _converted(column, *found)
        arrays.append(array)
        if where is not None:
            import pyarrow.compute as pc  # a tenth of a second, in each of Spark's processes

            said = pc.if_else(pa.array(where), wrong(column, found[0]), None)
            error = said if error is None else pc.coalesce(pc.binary_join_element_wise(error, said, "; "), error, said)
    arrays = [
        pa.nulls(count, pa.string()) if one is None and error is None else error if one is None else one
        for one in arrays
    ]
    return pa.RecordBatch.from_arrays([_plain(one) for one in arrays], names=[column.name for column in columns])


def _plain(array: Any) -> pa.Array:
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def _meta(block: Block, name: str, log: str) -> Any:
    if name == "subject":
        return pa.repeat(pa.scalar(block.form.subject), len(block))
    if name == "_log":
        return pa.repeat(pa.scalar(log), len(block))
    if name == "_producer":
        return block.producer
    if name == "_event":
        from vicinal.wire import encode

        from .forms import event_at

        return pa.array([encode(event_at(block, row)) for row in range(len(block))], pa.binary())
    return pa.array({"_seq": block.seq, "_offset": block.offset, "_received_ms": block.received}[name])


def _converted(column: Column, kind: str, array: Any) -> tuple[Any, Any]:
    """The array, and where it is not what was asked for; None: nowhere."""
    if kind not in column.kinds:
        return pa.nulls(len(array), column.arrow), np.ones(len(array), np.bool_)
    if kind in (TEXT, BYTES):
        return array, None
    if kind == INT and pa.types.is_integer(column.arrow):
        bits = column.arrow.bit_width
        if bits < 64:
            wrong = (array < -(1 << bits - 1)) | (array >= 1 << bits - 1)
            if wrong.any():
                return pa.array(np.where(wrong, 0, array), mask=wrong).cast(column.arrow), wrong
        return pa.array(array).cast(column.arrow), None
    if pa.types.is_floating(column.arrow):
        return pa.array(array.astype(np.float64 if column.arrow.bit_width == 64 else np.float32, copy=False)), None
    return pa.array(array), None


def wrong(column: Column, kind: str) -> str:
    """What the error of a row says of a value of this kind that is not in the column."""
    if kind in column.kinds:
        return f"{column.name} is out of the range of {column.spark}"
    return f"{column.name} is {_A[kind]}, want {column.spark}"


def rows_of_loose(loose: Sequence[Loose], columns: Sequence[Column], log: str) -> pa.RecordBatch:
    rows = [_loose_row(one, columns, log) for one in loose]
    return _batch(rows, columns)


def _loose_row(one: Loose, columns: Sequence[Column], log: str) -> dict[str, Any]:
    record, event = one.record, one.event
    errors = [one.error] if one.error else []
    row: dict[str, Any] = {
        "_producer": record.producer,
        "_seq": record.seq,
        "_log": log,
        "_offset": record.offset,
        "_received_ms": record.time,
        "_event": record.event,
    }
    if event is not None:
        row["subject"] = event.subject
        for column in columns:
            if column.name not in META:
                row[column.name] = _value(column, event, errors)
    row[ERROR] = "; ".join(errors) or None
    return row


def _value(column: Column, event: Event, errors: list[str]) -> Any:
    value: Any = event.attrs.get(column.name[1:]) if column.name.startswith("$") else event.params.get(column.name)
    if value is None:
        return None
    kind = _PYTHON.get(type(value))
    if kind is None:
        errors.append(f"{column.name} is an event or an area, want {column.spark}")
    elif kind not in column.kinds or (
        kind == INT
        and pa.types.is_integer(column.arrow)
        and not -1 << column.arrow.bit_width - 1 <= value < 1 << column.arrow.bit_width - 1
    ):
        errors.append(wrong(column, kind))
    else:
        return float(value) if pa.types.is_floating(column.arrow) else value
    return None


def rows_of_lost(first: int, last: int, why: str, columns: Sequence[Column], log: str) -> pa.RecordBatch:
    """One row for a run of offsets that nobody can read any more."""
    error = f"{why}: {last - first + 1} events, offsets {first} to {last}"
    return _batch([{"_log": log, "_offset": first, ERROR: error}], columns)


def lost_in(error: str) -> int:
    """How many events the row with this error stands for."""
    count = error.rpartition(" events, offsets ")[0].rpartition(" ")[2]
    return int(count) if count.isdecimal() else 1


def _batch(rows: list[dict[str, Any]], columns: Sequence[Column]) -> pa.RecordBatch:
    arrays = [pa.array([row.get(column.name) for row in rows], column.arrow) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])
