"""Events as columns: many at once, without making an Event of each.

A *form* is what events of one kind have in common: a subject, and the names of parameters and attributes with a type
each. Events of one form are a *block*: an array for each name, with no hole in it. A fleet sends a few forms.

    records ──▶ by length ──▶ one is read strictly, those like it by their places ──▶ blocks by form
                                └─ what fits none, one by one ──▶ blocks, or `Loose`

The bytes of events with the same layout (vicinal._shapes_cpython) lie at the same places, so a thousand of them are a
matrix, and a parameter is some of its columns. As there, what could still be wrong is checked, and what fails a check
is for the strict reader. `Loose` are those that are not for columns: no events at all, events in events, areas, NaN.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view

from vicinal import limits
from vicinal._shapes_cpython import Field, layout
from vicinal.attributes import KEYS
from vicinal.errors import RemoteProtocolError
from vicinal.event import Event
from vicinal.filter._ast import ATTRIBUTE
from vicinal.wire import decode as decode_event

from ..log import Record
from .stretches import Stretch, stretch_of

__all__ = [
    "BOOL",
    "BYTES",
    "FLOAT",
    "INT",
    "TEXT",
    "Block",
    "Form",
    "Loose",
    "blocks_in",
    "blocks_of",
    "concatenated",
    "event_at",
]

INT, FLOAT, TEXT, BOOL, BYTES = "int", "float", "str", "bool", "bytes"
_KINDS: dict[type, str] = {int: INT, float: FLOAT, str: TEXT, bool: BOOL, bytes: BYTES}
_OF_FIELD = {
    "+": INT,
    "-": INT,
    "small+": INT,
    "small-": INT,
    "float": FLOAT,
    "bool": BOOL,
    "text": TEXT,
    "bytes": BYTES,
}
_ARROW = {INT: pa.int64(), FLOAT: pa.float64(), TEXT: pa.string(), BOOL: pa.bool_(), BYTES: pa.binary()}
_LEAST = {1: 24, 2: 1 << 8, 4: 1 << 16, 8: 1 << 32}
# Below it, numpy's own cost is more than that of reading them one by one.
_FEW = 24
# Layouts tried for events of one length; the rest are read one by one.
_LAYOUTS = 8


class Form(NamedTuple):
    subject: str
    params: tuple[tuple[str, str], ...]
    """name and type, in their order"""
    attrs: tuple[tuple[str, str], ...]
    """without the `$`"""

    @property
    def columns(self) -> list[tuple[str, str]]:
        """name, type; attributes with `$`"""
        return [*self.params, *(("$" + name, kind) for name, kind in self.attrs)]


class Block(NamedTuple):
    """All of one form. `columns` are numpy arrays, of texts and bytes Arrow's."""

    form: Form
    offset: Any
    received: Any
    """ms"""
    producer: pa.Array
    seq: Any
    columns: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.offset)

    def take(self, mask: Any) -> "Block":
        """Those for which it is true."""
        if mask.all():
            return self
        chosen = pa.array(mask)
        return Block(
            self.form,
            self.offset[mask],
            self.received[mask],
            self.producer.filter(chosen),
            self.seq[mask],
            tuple(one[mask] if isinstance(one, np.ndarray) else one.filter(chosen) for one in self.columns),
        )


class Loose(NamedTuple):
    """Not for columns. `event` is None where the record holds none, and `error` says why."""

    record: Record
    event: Event | None
    error: str


def blocks_of(records: Sequence[Record]) -> tuple[list[Block], list[Loose]]:
    """One block for each form, in the order of offsets within."""
    return blocks_in(stretch_of(records))


def blocks_in(stretch: Stretch) -> tuple[list[Block], list[Loose]]:
    """As `blocks_of`."""
    by_length = np.argsort(stretch.size, kind="stable")
    sizes = stretch.size[by_length]
    edges = np.flatnonzero(np.diff(sizes)) + 1
    blocks: list[Block] = []
    slow: list[int] = []
    for rows in np.split(by_length, edges):
        if len(rows):
            slow += _by_layout(stretch, int(stretch.size[rows[0]]), rows, blocks).tolist()
    loose: list[Loose] = []
    blocks += _one_by_one(stretch, sorted(slow), loose)
    by_form: dict[Form, list[Block]] = {}
    for block in blocks:
        by_form.setdefault(block.form, []).append(block)
    return [concatenated(some) for some in by_form.values()], loose


def concatenated(blocks: Sequence[Block]) -> Block:
    """Of one form; by offset."""
    if len(blocks) == 1:
        return blocks[0]
    offset = np.concatenate([one.offset for one in blocks])
    # Of parts of a log, one after the other, they are by offset already.
    order = None if (np.diff(offset) > 0).all() else np.argsort(offset, kind="stable")

    def whole(arrays: Iterable[Any]) -> Any:
        found = list(arrays)
        if isinstance(found[0], np.ndarray):
            together = np.concatenate(found)
            return together if order is None else together[order]
        texts = pa.concat_arrays(found)
        return texts if order is None else texts.take(pa.array(order))

    return Block(
        blocks[0].form,
        offset if order is None else offset[order],
        whole(one.received for one in blocks),
        whole(one.producer for one in blocks),
        whole(one.seq for one in blocks),
        tuple(whole(one.columns[at] for one in blocks) for at in range(len(blocks[0].columns))),
    )


def event_at(block: Block, row: int) -> Event:
    """The event again, for those who need it whole."""
    values = [_python(one[row]) for one in block.columns]
    params = [name for name, _ in block.form.params]
    attrs = [name for name, _ in block.form.attrs]
    return Event(
        block.form.subject,
        list(zip(params, values)),
        list(zip(attrs, values[len(params) :])),
        block.producer[row].as_py(),
        int(block.seq[row]),
    )


def _python(value: Any) -> Any:
    return value.as_py() if isinstance(value, pa.Scalar) else value.item()


# One by one


def _one_by_one(stretch: Stretch, rows: list[int], loose: list[Loose]) -> list[Block]:
    by_form: dict[Form, tuple[list[Record], list[Event]]] = {}
    for row in rows:
        record = stretch.record(row)
        try:
            event = decode_event(stretch.event(row))
        except RemoteProtocolError as error:
            loose.append(Loose(record, None, f"not an event: {error}"))
            continue
        form = _form_of(event)
        if form is None:
            loose.append(Loose(record, event, ""))
        else:
            records, events = by_form.setdefault(form, ([], []))
            records.append(record)
            events.append(event)
    return [_block(form, *both) for form, both in by_form.items()]


def _form_of(event: Event) -> Form | None:
    if event.producer is None or event.seq is None:
        return None
    params = _named(event.params)
    attrs = _named(event.attrs)
    return None if params is None or attrs is None else Form(event.subject, params, attrs)


def _named(values: dict[str, Any]) -> tuple[tuple[str, str], ...] | None:
    found = []
    for name, value in values.items():
        kind = _KINDS.get(type(value))
        if kind is None or value != value:
            return None
        found.append((name, kind))
    return tuple(found)


def _block(form: Form, records: list[Record], events: list[Event]) -> Block:
    columns = []
    for at, (_, kind) in enumerate([*form.params, *form.attrs]):
        in_params = at < len(form.params)
        name = form.params[at][0] if in_params else form.attrs[at - len(form.params)][0]
        values = [event.params[name] if in_params else event.attrs[name] for event in events]
        columns.append(_column(kind, values))
    return Block(
        form,
        np.array([record.offset for record in records], np.int64),
        np.array([record.time for record in records], np.int64),
        pa.array([event.producer for event in events], pa.string()),
        np.array([event.seq for event in events], np.int64),
        tuple(columns),
    )


def _column(kind: str, values: list[Any]) -> Any:
    if kind == INT:
        return np.array(values, np.int64)
    if kind == FLOAT:
        return np.array(values, np.float64)
    return np.array(values, np.bool_) if kind == BOOL else pa.array(values, _ARROW[kind])


# Many at once


def _by_layout(stretch: Stretch, length: int, rows: Any, blocks: list[Block]) -> Any:
    """Adds blocks, and gives the rows that fitted none."""
    for _ in range(_LAYOUTS):
        if len(rows) < _FEW:
            return rows
        shape = _layout(stretch.event(int(rows[0])))
        if shape is None:
            return rows
        template, form, fields = shape
        matrix = sliding_window_view(np.frombuffer(stretch.data, np.uint8), length)[stretch.start[rows]]
        fits = _fits(matrix, template, fields)
        if not fits[0]:  # the one that it was made after: it would be tried for ever
            return rows
        every = bool(fits.all())
        chosen = rows if every else rows[fits]
        made = _from_matrix(form, fields, matrix if every else matrix[fits], stretch, chosen)
        if made is None:
            return rows
        blocks.append(made)
        rows = rows[~fits]
    return rows


def _layout(data: bytes) -> "tuple[bytes, Form, list[Field]] | None":
    try:
        event = decode_event(data)
    except RemoteProtocolError:
        return None
    form = _form_of(event)
    fields = None if form is None else layout(data, event)
    return None if form is None or fields is None else (data, form, fields)


def _fits(matrix: Any, template: bytes, fields: "list[Field]") -> Any:
    """Rows that are the same where all of a layout are, and right where they differ."""
    constant = np.ones(matrix.shape[1], np.bool_)
    for field in fields:
        constant[field.start : field.start + field.size] = False
    wanted = np.frombuffer(template, np.uint8)
    fits = (matrix[:, constant] == wanted[constant]).all(axis=1)
    values: dict[str, Any] = {}
    for field in fields:
        value = _values(matrix, field)
        if field.kind in ("+", "-"):
            fits &= (value >= _LEAST[field.size]) & (value <= limits.INT_MAX)
        elif field.kind in ("small+", "small-"):
            least = 0x20 if field.kind == "small-" else 0
            fits &= (value >= least) & (value < least + 24)
        elif field.kind == "bool":
            fits &= (value == 0xF4) | (value == 0xF5)
        elif field.kind == "float":
            fits &= _shortest(value, field.size)
        if field.place is not None and field.place[0] == ATTRIBUTE and field.place[1] in KEYS:
            values[field.place[1]] = (_numbers(field, value), fits)
            fits &= _in_order(field.place[1], field, value)
    if "Expires" in values and "Time" in values:
        fits &= values["Expires"][0] > values["Time"][0]
    return fits


def _in_order(name: str, field: "Field", value: Any) -> Any:
    """What vicinal.attributes asks of a known one: the type is that of the first, which was asked."""
    if name in ("Source", "Session"):
        return np.ones(len(value), np.bool_)
    number = _numbers(field, value)
    return np.abs(number) <= limits.MAX_PRIORITY if name == "Priority" else number >= 0


def _values(matrix: Any, field: "Field") -> Any:
    """As they stand: unsigned, floats, or rows of bytes."""
    part = np.ascontiguousarray(matrix[:, field.start : field.start + field.size])
    if field.kind in ("text", "bytes"):
        return part
    code = {"float": "f"}.get(field.kind, "u")
    return part.view(f">{code}{field.size}").reshape(len(matrix))


def _shortest(value: Any, size: int) -> Any:
    """Numbers that need so many bytes."""
    fits = ~np.isnan(value)
    if size > 2:
        with np.errstate(over="ignore"):
            fits &= value.astype(np.float16 if size == 4 else np.float32).astype(np.float64) != value
    return fits


def _numbers(field: "Field", value: Any) -> Any:
    if field.kind == "+" or field.kind == "small+":
        return value.astype(np.int64)
    if field.kind == "-":
        return -1 - value.astype(np.int64)
    if field.kind == "small-":
        return 31 - value.astype(np.int64)
    return value


def _from_matrix(form: Form, fields: "list[Field]", matrix: Any, stretch: Stretch, rows: Any) -> Block | None:
    """None where a text is none: those are for the strict reader."""
    columns = []
    for field in fields:
        value = _values(matrix, field)
        kind = _OF_FIELD[field.kind]
        if kind in (TEXT, BYTES):
            made = _texts(value, field.size, kind)
            if made is None:
                return None
            columns.append(made)
        elif kind == BOOL:
            columns.append(value == 0xF5)
        elif kind == FLOAT:
            columns.append(value.astype(np.float64))
        else:
            columns.append(_numbers(field, value))
    producer, seq, *rest = columns
    return Block(
        form,
        stretch.offset[rows],
        stretch.received[rows],
        producer,
        seq,
        tuple(rest),
    )


def _texts(part: Any, size: int, kind: str) -> pa.Array | None:
    offsets = np.arange(len(part) + 1, dtype=np.int32) * np.int32(size)
    data = part.tobytes()
    found = pa.Array.from_buffers(_ARROW[kind], len(part), [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data)])
    if kind == TEXT:
        try:
            found.validate(full=True)
        except pa.ArrowInvalid:
            return None
    return found
