"""A file of a sidecar, and its orders: the same rows once more, by the value of one column.

    0.parquet           by producer, then by offset: a car's rows are together, close in place and time
    0.by-2.parquet      by the form's column 2, then by offset

Every row group has the least and the greatest of each column, so one that no row of can match is not read. By producer
that serves vehicles, places and times. A value that is spread evenly over all of them (`rate > 55`) is in every group:
whoever asks for one first reads all groups, sees that few rows were kept, and writes the rows by that value. Who asks
next reads the few groups that have it. Of the files that would do, the one with the fewest bytes to read is read.
"""

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vicinal.filter import Filter
from vicinal.filter._ast import ATTRIBUTE, SUBJECT, And, Compare, In, Name, Node, Or
from vicinal.filter._match_cpython import OPERATORS

from .conditions import Bound, may_match, may_select, names_in, select, share_of
from .forms import BOOL, BYTES, INT, TEXT, Block, Form, concatenated

__all__ = ["Read", "about_file", "best_of", "file_name", "parquet_name", "write"]

_META = ("offset", "received", "producer", "seq")
_META_COLUMNS = ("_offset", "_received_ms", "_producer", "_seq")
# Rows of a group: few enough that a hundredth of a segment is few groups, many enough that their ends are no burden.
_GROUP_ROWS, _MOST_GROUPS = 2048, 64
# Groups that are read at once where nothing is skipped: Spark takes large batches faster.
_TOGETHER = 8
# An order is made when no more than this part of the rows was kept, of a file with so many rows.
_FEW, _LEAST_ROWS = 0.1, 8 * _GROUP_ROWS
# Each is as large as the first or twice that, which is a tenth or a fifth of the log.
_MOST_ORDERS = 4
# Of a file's end, which is read at once: that of one of few groups is smaller.
_TAIL = 4 << 10


class Read:
    """What was read, in bytes as they lie on disk."""

    def __init__(self) -> None:
        self.bytes = 0
        self.rows = 0


def file_name(form: int, column: int | None = None) -> str:
    return f"{form}.parquet" if column is None else f"{form}.by-{column}.parquet"


def parquet_name(column: str) -> str:
    """In the files. A parameter may be called as one of ours is: Parquet's names must differ."""
    return _META[_META_COLUMNS.index(column)] if column in _META_COLUMNS else f"p.{column}"


def about_file(path: Path, read: Read) -> Any:
    """What its end says of the groups. Raises OSError, ArrowException."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        tail = file.read()
        length = int.from_bytes(tail[-8:-4], "little") + 8
        if length > len(tail):
            file.seek(max(0, size - length))
            tail = file.read()
    read.bytes += len(tail)
    # As a file of nothing but its end: Parquet's own way reads 64 KiB of every one.
    return pq.read_metadata(pa.BufferReader(b"PAR1" + tail[-length:]))


class _Term(NamedTuple):
    """All that is asked of one column, without which no row is kept."""

    column: int
    node: Node


def best_of(
    folder: Path,
    number: int,
    about: Any,
    form: Form,
    wanted: "set[str] | None",
    condition: Filter | None,
    bounds: tuple[Bound, ...],
    read: Read,
    stack: ExitStack,
) -> "File":
    """The file, of all orders of a form, with the least to read. `about` is what is known of the first. Of `wanted`
    columns those of the log begin with an underscore; None for all."""
    terms = _terms(form, condition, bounds)
    found = File(folder, number, None, form, wanted, read, stack, about)
    found.choose(condition, bounds)
    orders = _orders(folder, number) if terms else set()
    for column in sorted(orders & {term.column for term in terms}):
        with suppress(OSError, pa.ArrowException):
            other = File(folder, number, column, form, wanted, read, stack)
            other.choose(condition, bounds)
            if other.file.metadata.num_rows == found.file.metadata.num_rows and other.size < found.size:
                found = other
    if len(orders) < _MOST_ORDERS and found.file.metadata.num_rows >= _LEAST_ROWS:
        found.missing = [term for term in terms if term.column not in orders]
    return found


def _orders(folder: Path, number: int) -> set[int]:
    found = (re.fullmatch(rf"{number}\.by-(\d+)\.parquet", one.name) for one in folder.iterdir())
    return {int(one[1]) for one in found if one}


def _terms(form: Form, condition: Filter | None, bounds: tuple[Bound, ...]) -> list[_Term]:
    nodes = [bound.node() for bound in bounds if bound.column not in _META_COLUMNS]
    if condition is not None:
        whole = condition.node
        nodes += whole.terms if isinstance(whole, And) and not isinstance(whole, Or) else [whole]
    places = {name: at for at, (name, kind) in enumerate(form.columns) if kind not in (BOOL, BYTES)}
    found: dict[int, list[Node]] = {}
    for node in nodes:
        if isinstance(node, In) or (isinstance(node, Compare) and type(node.value) is not Name):
            name: Name = node.name
            column = places.get("$" + name.ident if name.kind == ATTRIBUTE else name.ident)
            if column is not None and name.kind != SUBJECT:
                found.setdefault(column, []).append(node)
    # Together: each end of a range may keep most rows, where both keep few.
    return [_Term(column, And(tuple(some)) if len(some) > 1 else some[0]) for column, some in found.items()]


class File:
    """Open, with the columns that are wanted and the groups that may have rows."""

    def __init__(
        self,
        folder: Path,
        number: int,
        order: int | None,
        form: Form,
        wanted: "set[str] | None",
        read: Read,
        stack: ExitStack,
        about: Any = None,
    ) -> None:
        self.folder, self.number, self.order, self.form, self.read = folder, number, order, form, read
        path = folder / file_name(number, order)
        self.file = stack.enter_context(pq.ParquetFile(path, metadata=about or about_file(path, read)))
        self.names = self.file.schema_arrow.names
        kept = [at for at, (name, _) in enumerate(form.columns) if wanted is None or name in wanted]
        self.columns = [at for at, name in enumerate(_META_COLUMNS) if wanted is None or name in wanted]
        if order is not None and 0 not in self.columns:
            self.columns.insert(0, 0)  # for the order in which they are given out
        self.columns += [len(_META) + at for at in kept]
        self.narrow = _narrow(form, kept)
        self.groups: list[int] = []
        self.size = 0
        self.missing: list[_Term] = []

    def choose(self, condition: Filter | None, bounds: tuple[Bound, ...]) -> None:
        """The groups; and of the columns of the log also those without which no row can be chosen."""
        needed = {bound.column for bound in bounds if bound.column != "_offset"}
        for group in range(self.file.metadata.num_row_groups):
            ranges = _ranges(self.file.metadata.row_group(group), self.form)
            if may_match(self.form, ranges, condition, bounds):
                self.groups.append(group)
                if not _all_within(ranges.get("_offset"), bounds):
                    needed.add("_offset")
        more = [at for at, name in enumerate(_META_COLUMNS) if name in needed and at not in self.columns]
        self.columns = sorted([*self.columns, *more])
        for group in self.groups:
            about = self.file.metadata.row_group(group)
            self.size += sum(about.column(at).total_compressed_size for at in self.columns)

    def blocks(self, condition: Filter | None, bounds: tuple[Bound, ...]) -> Iterator[Block]:
        kept, rows, shares = 0, 0, dict.fromkeys(self.missing, 0)
        some: list[Block] = []
        for block, whole in self._blocks(condition, bounds):
            rows += len(whole)
            for term in self.missing:
                shares[term] += share_of(whole, term.node)
            kept += len(block)
            if self.order is not None and len(block):
                some.append(block)
            elif len(block):
                yield block
        if some:
            yield concatenated(some)
        if shares and kept <= _FEW * rows and rows >= self.file.metadata.num_rows // 2:
            best = min(shares, key=shares.__getitem__)
            if shares[best] <= _FEW * rows:
                with suppress(OSError):
                    self._make(best.column)

    def _blocks(self, condition: Filter | None, bounds: tuple[Bound, ...]) -> Iterator[tuple[Block, Block]]:
        """What is kept, and all of what was read to know."""
        first = _needed(self.form, condition, bounds)
        asked = sorted(first & set(self.columns))
        if 0 not in self.columns:
            bounds = tuple(bound for bound in bounds if bound.column != "_offset")  # all rows are within
        # What decides is read first, where it is not nearly all: the rest only if anything is left.
        look_first = self.order is None and condition is not None and 0 < 2 * len(asked) <= len(self.columns)
        step = 1 if look_first else _TOGETHER
        for at in range(0, len(self.groups), step):
            groups = self.groups[at : at + step]
            if not look_first or condition is None:
                whole = _block(self.narrow, self._table(groups, self.columns))
                yield select(whole, condition, bounds), whole
                continue
            table = self._table(groups, asked)
            looked = _block(_narrow(self.form, [at - len(_META) for at in asked if at >= len(_META)]), table)
            if may_select(looked, condition, _of(bounds, table.schema.names)):
                rest = self._table(groups, [at for at in self.columns if at not in first])
                names = [self.names[at] for at in self.columns]
                columns = [(table if name in table.schema.names else rest).column(name) for name in names]
                looked = _block(self.narrow, pa.table(columns, names))
                yield select(looked, condition, bounds), looked
            else:
                yield looked.take(np.zeros(len(looked), np.bool_)), looked

    def _table(self, groups: list[int], columns: list[int]) -> pa.Table:
        for group in groups:
            about = self.file.metadata.row_group(group)
            self.read.bytes += sum(about.column(at).total_compressed_size for at in columns)
            self.read.rows += about.num_rows
        return self.file.read_row_groups(groups, columns=[self.names[at] for at in columns], use_threads=False)

    def _make(self, column: int) -> None:
        """Raises OSError."""
        table = self._table(list(range(self.file.metadata.num_row_groups)), list(range(len(self.names))))
        name = self.names[len(_META) + column]
        half = self.folder / f".{secrets.token_hex(4)}"
        try:
            _write_table(half, table.sort_by([(name, "ascending"), ("offset", "ascending")]))
            half.rename(self.folder / file_name(self.number, column))
        except BaseException:
            half.unlink(missing_ok=True)
            raise


def _narrow(form: Form, kept: list[int]) -> Form:
    columns, params = form.columns, len(form.params)
    return Form(
        form.subject,
        tuple(columns[at] for at in kept if at < params),
        tuple((columns[at][0][1:], columns[at][1]) for at in kept if at >= params),
    )


def _of(bounds: tuple[Bound, ...], present: list[str]) -> tuple[Bound, ...]:
    """Those on columns that are there."""
    meta = dict(zip(_META_COLUMNS, _META))
    return tuple(bound for bound in bounds if meta.get(bound.column, f"p.{bound.column}") in present)


def _needed(form: Form, condition: Filter | None, bounds: tuple[Bound, ...]) -> set[int]:
    """Numbers of the columns that say whether a row matches."""
    names = set() if condition is None else names_in(condition.node)
    # Offsets are of the whole segment nearly always: the groups' ends have said it.
    names |= {bound.column for bound in bounds if bound.column != "_offset"}
    meta = {at for at, name in enumerate(_META_COLUMNS) if name in names}
    return meta | {len(_META) + at for at, (name, _) in enumerate(form.columns) if name in names}


def _ranges(group: Any, form: Form) -> dict[str, tuple[Any, Any]]:
    found = {}
    for at, name in enumerate([*_META_COLUMNS, *(name for name, _ in form.columns)]):
        statistics = group.column(at).statistics
        if statistics is not None and statistics.has_min_max:
            found[name] = (statistics.min, statistics.max)
    return found


def _block(form: Form, table: pa.Table) -> Block:
    """What of the log's own columns was not read is filled in, and nobody looks at it."""
    present, count = set(table.schema.names), table.num_rows
    nothing = np.zeros(count, np.int64) if len(present & set(_META)) < len(_META) else None
    numbers = [_array(table, name, INT) if name in present else nothing for name in ("offset", "received", "seq")]
    producer = _array(table, "producer", TEXT) if "producer" in present else pa.repeat(pa.scalar("?"), count)
    arrays = tuple(_array(table, f"p.{name}", kind) for name, kind in form.columns)
    return Block(form, numbers[0], numbers[1], producer, numbers[2], arrays)


def _all_within(ends: "tuple[int, int] | None", bounds: tuple[Bound, ...]) -> bool:
    """Whether every row of a group is within the bounds on offsets."""
    mine = [bound for bound in bounds if bound.column == "_offset"]
    if ends is None or any(one.op == "in" for one in mine):
        return False
    return all(OPERATORS[one.op](end, one.value) for one in mine for end in ends)


def _array(table: pa.Table, name: str, kind: str) -> Any:
    column = table.column(name)
    whole = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
    return whole if kind in (TEXT, BYTES) else whole.to_numpy(zero_copy_only=False)


# Writing


def write(path: Path, block: Block) -> None:
    """By producer, then by offset. Raises OSError."""
    arrays: dict[str, pa.Array] = {
        "offset": pa.array(block.offset),
        "received": pa.array(block.received),
        "producer": block.producer,
        "seq": pa.array(block.seq),
    }
    for (name, _), array in zip(block.form.columns, block.columns):
        # A parameter may be called as one of ours is: Parquet's names must differ, and who reads goes by place.
        arrays[f"p.{name}"] = array if isinstance(array, pa.Array) else pa.array(array)
    _write_table(path, pa.table(arrays).sort_by([("producer", "ascending"), ("offset", "ascending")]))


def _write_table(path: Path, table: pa.Table) -> None:
    whole = [field.name for field in table.schema if pa.types.is_int64(field.type)]
    others = [field.name for field in table.schema if pa.types.is_string(field.type) or pa.types.is_float64(field.type)]
    pq.write_table(
        table,
        path,
        row_group_size=max(_GROUP_ROWS, -(-table.num_rows // _MOST_GROUPS)),
        compression="zstd",
        compression_level=1,
        use_dictionary=others,
        column_encoding=dict.fromkeys(whole, "DELTA_BINARY_PACKED"),
        write_statistics=True,
    )
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)  # so that a name never stands for bytes that a power cut took
    finally:
        os.close(descriptor)
