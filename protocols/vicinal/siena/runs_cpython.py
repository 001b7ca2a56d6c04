"""Runs: publishes of one shape in a row, dealt with as a table.

A producer that sends faster than the broker reads leaves hundreds of publishes in one read that differ in a few bytes
at fixed places (_shapes_cpython.py says which). With a row for each of them, what must be the same in all is one
comparison, what varies is columns of numbers, and the deliveries are the same table with other bytes around it:

    58 6a 84 0a f6 01 58 63 │85 65 S p e e d .. 1b│seq│84 64 r a t e fb│rate│.. 80      a publish in each row
    58 68 85 0c 81 01 58 63 │85 65 S p e e d .. 1b│seq│84 64 r a t e fb│rate│.. 80│f6 80   its delivery

Every row is what the strict reader would have taken: a run ends before the first that is not, or that is for the
reader alone to say. Only publishes that want no answer come in runs.
"""

from typing import Any

import numpy as np

from .._shapes_cpython import Field, layout
from ..event import Event
from ..stream import FrameReader
from ..wire import decode
from .messages import KINDS, delivery

__all__ = ["MIN_RUN", "Run", "RunReader"]

# Fewer are faster one by one.
MIN_RUN = 8
# Rows at once: some milliseconds, and a table of some hundred kilobytes.
_MAX_RUN = 2048

# Attributes that are not good whatever their value, and the one for which a delivery has a trail.
_CHECKED = ("Priority", "Expires", "Trace")
_HEAD = bytes([0x84, KINDS["publish"], 0xF6])  # no answer is wanted
_Array = np.ndarray[Any, Any]


class RunReader:
    """Takes runs from a stream of frames, of the shape it was shown last."""

    def __init__(self) -> None:
        self._shape: _Shape | None = None

    def learn(self, content: bytes, event: Event) -> None:
        """From a publish that was read one by one."""
        if self._shape is None or not self._shape.fits(content):
            self._shape = _Shape.of(content, event)

    def next_run(self, frames: FrameReader) -> "Run | None":
        """What stands next in the stream, if it is a run."""
        shape = self._shape
        if shape is None:
            return None
        buffer, start = frames.waiting()
        count = min((len(buffer) - start) // shape.length, _MAX_RUN)
        if count < MIN_RUN or type(buffer) is not bytes:
            return None
        table = np.frombuffer(buffer, np.uint8, count * shape.length, start).reshape(count, shape.length)
        table = shape.those_that_fit(table)
        if len(table) < MIN_RUN:
            return None
        frames.skip(len(table) * shape.length)
        return Run(shape, table)


class _Shape:
    """Of a frame that holds a publish."""

    def __init__(self, frame: bytes, at: int, event: Event, fields: list[Field], advert: int) -> None:
        self.length = len(frame)
        self.event_at = at
        self.subject = event.subject
        self.producer = event.producer
        self.advert = advert
        self.seq = fields[1]
        self.columns = {field.place: field for field in fields[2:] if field.place is not None}
        self._template = np.frombuffer(frame, np.uint8)
        self._fixed = np.full(self.length, 0xFF, np.uint8)
        # The producer stays the same in a run: it is the client's name.
        for field in fields[1:]:
            self._fixed[field.start : field.start + field.size] = 0
        self._checks = _Checks(fields[1:])
        self._deliveries: dict[int, tuple[_Array, int, int]] = {}

    @classmethod
    def of(cls, content: bytes, event: Event) -> "_Shape | None":
        data = event._wire
        if data is None or event.producer is None or content[:3] != _HEAD or content[3] > 23:
            return None
        if any([name in event.attrs for name in _CHECKED]) or not 24 <= len(content) < 256:
            return None
        fields = layout(data, event)
        if fields is None:
            return None
        frame = bytes([0x58, len(content)]) + content
        at = len(frame) - len(data)
        moved = [field._replace(start=field.start + at) for field in fields]
        return cls(frame, at, event, moved, content[3])

    def fits(self, content: bytes) -> bool:
        row = np.frombuffer(b"\x58" + bytes([len(content) & 255]) + content, np.uint8)
        return len(row) == self.length and not ((row ^ self._template) & self._fixed).any()

    def those_that_fit(self, table: _Array) -> _Array:
        """The rows up to the first that is of another shape, or not in order."""
        wrong = table ^ self._template
        wrong &= self._fixed
        if wrong.any():
            table = table[: int(wrong.any(axis=1).argmax())]
        bad = self._checks.bad(table)
        return table if bad is None else table[: int(bad.argmax())]

    def delivery(self, number: int, run: "Run") -> "tuple[_Array, int, int]":
        """A frame that delivers to a subscription, where the number stands in it, and where the event."""
        found = self._deliveries.get(number)
        if found is None:
            frame = delivery((number,), run.event(0))
            event_at = len(frame) - (self.length - self.event_at) - 2  # after it: no offset, no trail
            at = frame.index(bytes([0x85, KINDS["deliver"], 0x81])) + 3
            found = self._deliveries[number] = (np.frombuffer(frame, np.uint8), at, event_at)
        return found


class _Checks:
    """What can be wrong with values of a shape: that they are not in their one right encoding. Byte by byte, because
    that is the same few steps for all fields; where more steps were needed to tell right from wrong, it is said to be
    wrong, and left to the reader.

        integers    of 2, 4, 8 bytes: not all of the first half are 0; of 1 byte: 24 or more; in the head: below 24
        floats      of 4 and 8 bytes: the last is not 0, or half the bytes might do; too large to be infinite or NaN
        bools       true or false
        text        ASCII
    """

    def __init__(self, fields: list[Field]) -> None:
        # Of each byte that is looked at the place, and which of its 256 values are right.
        places: list[int] = []
        right: list[_Array] = []
        for field in fields:
            for place, allowed in _allowed(field):
                places.append(field.start + place)
                right.append(allowed)
        self._places: _Array = np.array(places, np.intp)
        self._right: _Array = np.concatenate(right) if right else np.empty(0, bool)
        self._offsets: _Array = np.arange(len(places)) * 256
        # Bytes of which one at least is not 0, each group from its start to the next.
        halves = [field for field in fields if field.kind in ("+", "-") and field.size > 2]
        groups = [list(range(field.start, field.start + field.size // 2)) for field in halves]
        self._some: _Array = np.array([place for group in groups for place in group], np.intp)
        self._starts: _Array = np.cumsum([0] + [len(group) for group in groups[:-1]])

    def bad(self, table: _Array) -> "_Array | None":
        """The rows that are; None if there are none."""
        good = self._right.take(table[:, self._places] + self._offsets)
        some = np.bitwise_or.reduceat(table[:, self._some], self._starts, axis=1) if len(self._some) else good
        if good.all() and some.all():
            return None
        bad: _Array = ~(good.all(axis=1) & (some != 0).all(axis=1))
        return bad


_BYTES = np.arange(256)


def _allowed(field: Field) -> "list[tuple[int, _Array]]":
    """The bytes of a field that are looked at one by one, each with those that are right."""
    last = field.size - 1
    if field.kind == "text":
        return [(place, _BYTES < 0x80) for place in range(field.size)]
    if field.kind == "bool":
        return [(0, _BYTES & 0xFE == 0xF4)]
    if field.kind == "small+":
        return [(0, _BYTES < 24)]
    if field.kind == "small-":
        return [(0, (_BYTES >= 0x20) & (_BYTES < 0x38))]
    if field.kind == "float":
        exponent = 0x7C if field.size == 2 else 0x7F
        found = [(0, _BYTES & exponent != exponent)]
        return found if field.size == 2 else [*found, (last, _BYTES != 0)]
    if field.kind == "bytes":
        return []
    first = {1: _BYTES >= 24, 2: _BYTES != 0, 8: _BYTES < 0x80}
    return [(0, first[field.size])] if field.size in first else []


class Run:
    """`seqs` are its sequence numbers, by row."""

    def __init__(self, shape: _Shape, table: _Array) -> None:
        self.shape = shape
        self.seqs = _number(shape.seq, table)
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    @property
    def rises(self) -> bool:
        """Whether each event is newer than the one before."""
        return bool((self.seqs[1:] > self.seqs[:-1]).all())

    def event(self, row: int) -> Event:
        return decode(self._table[row, self.shape.event_at :].tobytes())

    def messages(self) -> "list[tuple[Any, ...]]":
        """One by one, as they were sent."""
        return [("publish", None, self.shape.advert, self.event(row)) for row in range(len(self))]

    def column(self, place: "tuple[int, str]") -> "_Array | None":
        """The values there as numbers that compare exactly with floats; None if they do not, or are not numbers."""
        field = self.shape.columns[place]
        if field.kind == "float" or field.kind in ("small+", "small-") or (field.kind in ("+", "-") and field.size < 8):
            return _number(field, self._table)
        return None

    def deliveries(self, number: int) -> "_Array":
        """The frames of deliveries for the subscription of a number below 24, one in each row."""
        first, _, at = self.shape.delivery(number, self)
        events = self._table[:, self.shape.event_at :]
        after = at + events.shape[1]
        frames = np.empty((len(self), len(first)), np.uint8)
        frames[:, :at] = first[:at]
        frames[:, at:after] = events
        frames[:, after:] = first[after:]
        return frames

    def chosen(self, rows: "_Array", numbers: "_Array") -> "_Array":
        """The frames of deliveries of some rows, each for the subscription of its number."""
        frames = self.deliveries(1).take(rows, axis=0)
        frames[:, self.shape.delivery(1, self)[1]] = numbers
        return frames


def _number(field: Field, table: _Array) -> _Array:
    if field.kind in ("small+", "small-"):
        small = table[:, field.start].astype(np.int64)
        return small if field.kind == "small+" else 31 - small
    code = f">{'f' if field.kind == 'float' else 'u'}{field.size}"
    values = np.ascontiguousarray(table[:, field.start : field.start + field.size]).view(code)[:, 0]
    if field.kind == "float":
        return values.astype(np.float64)
    whole = values.astype(np.int64)
    return whole if field.kind == "+" else -1 - whole
