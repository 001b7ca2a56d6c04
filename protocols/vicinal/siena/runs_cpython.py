"""Runs: publishes in a row, of a few shapes, dealt with as tables.

A producer that sends faster than the broker reads leaves hundreds of publishes in one read that differ in a few bytes
at fixed places (_shapes_cpython.py says which). With a row for each of them, what must be the same in all is one
comparison, what varies is columns of numbers, and the deliveries are the same table with other bytes around it:

    58 6a 84 0a f6 01 58 63 │85 65 S p e e d .. 1b│seq│84 64 r a t e fb│rate│.. 80         a publish in each row
    58 68 85 0c 81 01 58 63 │85 65 S p e e d .. 1b│seq│84 64 r a t e fb│rate│.. 80│f6 80   its delivery

A rate of 50 has fewer bytes than one of 47.3, so a run has a table for each of the shapes that alternate in it, and
knows which rows are whose. Every row is what the strict reader would have taken: a run ends before the first that is
not, or that is for the reader alone to say. Only publishes that want no answer come in runs.
"""

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from .._shapes_cpython import Field, layout
from ..event import Event
from ..stream import FrameReader
from ..wire import decode
from .messages import KINDS, delivery

__all__ = ["CHECKED", "MIN_RUN", "Group", "Run", "RunReader", "Shape"]

# Fewer are faster one by one.
MIN_RUN = 8
# Rows at once: some milliseconds, and tables of some hundred kilobytes.
_MAX_RUN = 2048
# Shapes remembered for a connection; when there are more, all are forgotten, and the frequent learned anew.
_MAX_SHAPES = 16
# To learn one takes as long as to read so many events.
_COST_OF_LEARNING = 32

# Attributes that are not good whatever their value, and the one for which a delivery has a trail.
CHECKED = ("Priority", "Expires", "Trace")
_HEAD = bytes([0x84, KINDS["publish"], 0xF6])  # no answer is wanted
_FRAME = 0x58  # the head of a frame of 24 to 255 bytes
_SHORTEST = 26

_Array = np.ndarray[Any, Any]


class RunReader:
    """Takes runs from a stream of frames, of the shapes it was shown."""

    def __init__(self) -> None:
        self._shapes: dict[int, list[Shape]] = {}  # by the length of a frame
        self._count = 0
        self._saved = _COST_OF_LEARNING

    def learn(self, content: bytes, event: Event, read: int) -> None:
        """From a publish that was read one by one, as so many were."""
        self._saved = min(self._saved + read, 8 * _COST_OF_LEARNING)
        known = self._shapes.get(len(content) + 2, [])
        if self._saved < _COST_OF_LEARNING or any([shape.fits(content) for shape in known]):
            return
        self._saved -= _COST_OF_LEARNING
        shape = Shape.of(content, event)
        if shape is None:
            return
        if self._count >= _MAX_SHAPES:
            self._shapes = {}
            self._count = 0
        self._shapes.setdefault(shape.length, []).insert(0, shape)
        self._count += 1

    def next_run(self, frames: FrameReader) -> "Run | None":
        """What stands next in the stream, if it is a run."""
        if not self._shapes:
            return None
        buffer, start = frames.waiting()
        if len(buffer) - start < MIN_RUN * _SHORTEST or type(buffer) is not bytes or buffer[start] != _FRAME:
            return None
        run = self._of_one(buffer, start) or self._of_several(buffer, start)
        if run is not None:
            frames.skip(run.size)
            self._saved = min(self._saved + len(run), 8 * _COST_OF_LEARNING)
        return run

    def _of_one(self, buffer: bytes, start: int) -> "Run | None":
        """All that is there has the length of the first, and its shape."""
        length = buffer[start + 1] + 2
        count = min((len(buffer) - start) // length, _MAX_RUN)
        if count < MIN_RUN or buffer[start + (count - 1) * length] != _FRAME:
            return None
        table = np.frombuffer(buffer, np.uint8, count * length, start).reshape(count, length)
        for shape in self._shapes.get(length, ()):
            good = shape.good(table)
            if good is None:
                return Run([Group(shape, None, table)])
            right = int(good.argmin())
            if right > count // 2 and right >= MIN_RUN:
                return Run([Group(shape, None, table[:right])])
        return None

    def _of_several(self, buffer: bytes, start: int) -> "Run | None":
        starts: list[int] = []
        at, end = start, len(buffer) - 1
        while at < end and buffer[at] == _FRAME and len(starts) < _MAX_RUN:
            starts.append(at)
            at += buffer[at + 1] + 2
        if at > len(buffer):
            at = starts.pop()
        if len(starts) < MIN_RUN:
            return None
        places = np.array(starts)
        lengths = np.diff(places, append=at)
        data = np.frombuffer(buffer, np.uint8)
        found: list[Group] = []
        right = np.zeros(len(starts), bool)
        for length in np.unique(lengths).tolist():
            left = np.flatnonzero(lengths == length)
            for shape in self._shapes.get(length, ()):
                table = sliding_window_view(data, length)[places[left]]
                good = shape.good(table)
                rows = left if good is None else left[good]
                if len(rows):
                    found.append(Group(shape, rows, table if good is None else table[good]))
                    right[rows] = True
                    left = left[:0] if good is None else left[~good]
                if not len(left):
                    break
        count = len(starts) if right.all() else int(right.argmin())
        found = [group for one in found if (group := one.until(count)) is not None]
        if count < MIN_RUN or any([group.shape.advert != found[0].shape.advert for group in found]):
            return None
        return Run(found)


class Shape:
    """Of a frame that holds a publish."""

    def __init__(self, frame: bytes, at: int, event: Event, fields: list[Field], advert: int) -> None:
        self.length = len(frame)
        self.event_at = at
        self.producer = event.producer
        self.advert = advert
        self.seq = fields[1]
        self.columns = {field.place: field for field in fields[2:] if field.place is not None}
        self._event = event
        self._template = np.frombuffer(frame, np.uint8)
        self._fixed = np.full(self.length, 0xFF, np.uint8)
        # The producer stays the same in a run: it is the client's name.
        for field in fields[1:]:
            self._fixed[field.start : field.start + field.size] = 0
        self._checks = _Checks(fields[1:])

    @classmethod
    def of(cls, content: bytes, event: Event) -> "Shape | None":
        data = event._wire
        if data is None or event.producer is None or content[:3] != _HEAD or not 24 <= len(content) < 256:
            return None
        if any([name in event.attrs for name in CHECKED]):
            return None
        fields = layout(data, event)
        if fields is None:
            return None
        frame = bytes([_FRAME, len(content)]) + content
        at = len(frame) - len(data)
        moved = [field._replace(start=field.start + at) for field in fields]
        first = content[3]
        size = 1 << first - 0x18 if first >= 0x18 else 0
        advert = int.from_bytes(content[4 : 4 + size], "big") if size else first
        return cls(frame, at, event, moved, advert)

    def fits(self, content: bytes) -> bool:
        row = np.frombuffer(bytes([_FRAME, len(content)]) + content, np.uint8)
        return not ((row ^ self._template) & self._fixed).any()

    def good(self, table: _Array) -> "_Array | None":
        """The rows that are of this shape and in order; None if all are."""
        wrong = table ^ self._template
        wrong &= self._fixed
        bad = self._checks.bad(table)
        if not wrong.any():
            return None if bad is None else ~bad
        good: _Array = ~np.any(wrong, axis=1)
        return good if bad is None else good & ~bad

    def delivery(self, numbers: "tuple[int, ...]") -> "tuple[_Array, int]":
        """A frame that delivers to subscriptions, and where the event stands in it. Before it, and before its head, is
        the last number."""
        frame = np.frombuffer(delivery(numbers, self._event), np.uint8)
        return frame, len(frame) - (self.length - self.event_at) - 2  # after it: no offset, no trail


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
        # Of each byte that is looked at the place, and where it is said which of its 256 values are right.
        looks = [(field.start + place, rule) for field in fields for place, rule in _looks(field)]
        self._places: _Array = np.array([place for place, _ in looks], np.intp)
        self._rules: _Array = np.array([_RULES[rule] for _, rule in looks], np.intp)
        # Bytes of which one at least is not 0, each group from its start to the next.
        halves = [field for field in fields if field.kind in ("+", "-") and field.size > 2]
        groups = [list(range(field.start, field.start + field.size // 2)) for field in halves]
        self._some: _Array = np.array([place for group in groups for place in group], np.intp)
        self._starts: _Array = np.cumsum([0] + [len(group) for group in groups[:-1]])

    def bad(self, table: _Array) -> "_Array | None":
        """The rows that are; None if there are none."""
        good = _RIGHT.take(table[:, self._places] + self._rules)
        some = np.bitwise_or.reduceat(table[:, self._some], self._starts, axis=1) if len(self._some) else good
        if good.all() and some.all():
            return None
        bad: _Array = ~(good.all(axis=1) & (some != 0).all(axis=1))
        return bad


_BYTES = np.arange(256)
_ALLOWED = {
    "ASCII": _BYTES < 0x80,
    "bool": _BYTES & 0xFE == 0xF4,
    "small+": _BYTES < 24,
    "small-": (_BYTES >= 0x20) & (_BYTES < 0x38),
    "24 or more": _BYTES >= 24,
    "not 0": _BYTES != 0,
    "positive": _BYTES < 0x80,
    "half": _BYTES & 0x7C != 0x7C,
    "finite": _BYTES & 0x7F != 0x7F,
}
_RIGHT: _Array = np.concatenate(list(_ALLOWED.values()))
_RULES = {rule: 256 * place for place, rule in enumerate(_ALLOWED)}


def _looks(field: Field) -> "list[tuple[int, str]]":
    """The bytes of a field that are looked at one by one, each with its rule."""
    if field.kind == "text":
        return [(place, "ASCII") for place in range(field.size)]
    if field.kind in ("bool", "small+", "small-"):
        return [(0, field.kind)]
    if field.kind == "float":
        return [(0, "half")] if field.size == 2 else [(0, "finite"), (field.size - 1, "not 0")]
    if field.kind == "bytes":
        return []
    rules = {1: "24 or more", 2: "not 0", 8: "positive"}
    return [(0, rules[field.size])] if field.size in rules else []


class Group:
    """Rows of one shape: which of the run they are, or all."""

    def __init__(self, shape: Shape, rows: "_Array | None", table: _Array) -> None:
        self.shape = shape
        self.rows = rows
        self.table = table
        self._frames: dict[tuple[int, ...], _Array] = {}

    def until(self, count: int) -> "Group | None":
        """Those of the first rows of the run."""
        assert self.rows is not None
        size = int(self.rows.searchsorted(count))
        return Group(self.shape, self.rows[:size], self.table[:size]) if size else None

    def places(self, count: int) -> _Array:
        """For each row of the run its place here, or -1."""
        found = np.full(count, -1)
        found[self.rows] = np.arange(len(self.table))
        return found

    def event(self, place: int) -> Event:
        return decode(self.table[place, self.shape.event_at :].tobytes())

    def column(self, place: "tuple[int, str]") -> "_Array | None":
        """The values there as numbers that compare exactly with floats; None if they do not, or are not numbers."""
        field = self.shape.columns[place]
        if field.kind == "float" or field.kind in ("small+", "small-") or (field.kind in ("+", "-") and field.size < 8):
            return _number(field, self.table)
        return None

    def deliveries(self, numbers: "tuple[int, ...] | _Array", which: "_Array | None" = None) -> _Array:
        """Frames that deliver rows, all or some of them, to subscriptions of these numbers; or each to that of its own
        number, all below 24."""
        different = not isinstance(numbers, tuple)
        kind: tuple[int, ...] = (1,) if different else numbers  # type: ignore[assignment]
        frames = self._frames.get(kind)
        if frames is None:
            frames = self._frames[kind] = self._made(kind)
        if which is not None:
            frames = frames.take(which, axis=0)
        if different:
            size = self.table.shape[1] - self.shape.event_at
            before = frames.shape[1] - 2 - size - _head_size(size)  # behind the event: no offset, no trail
            frames = frames.copy() if which is None else frames
            frames[:, before - 1] = numbers
        return frames

    def _made(self, numbers: "tuple[int, ...]") -> _Array:
        """All rows as frames: who gets some of them takes those."""
        first, at = self.shape.delivery(numbers)
        events = self.table[:, self.shape.event_at :]
        frames = np.empty((len(events), len(first)), np.uint8)
        after = at + events.shape[1]
        frames[:, :at] = first[:at]
        frames[:, at:after] = events
        frames[:, after:] = first[after:]
        return frames


def _head_size(size: int) -> int:
    """Of a byte string."""
    return 1 if size < 24 else 2 if size < 256 else 3


class Run:
    """`seqs` are its sequence numbers, by row."""

    def __init__(self, groups: list[Group]) -> None:
        self.groups = groups
        self.advert = groups[0].shape.advert
        self.producer = groups[0].shape.producer
        self.size = sum([group.table.size for group in groups])
        self._length = sum([len(group.table) for group in groups])
        if len(groups) == 1:
            self.seqs = _number(groups[0].shape.seq, groups[0].table)
        else:
            self.seqs = np.empty(self._length, np.int64)
            for group in groups:
                self.seqs[group.rows] = _number(group.shape.seq, group.table)

    def __len__(self) -> int:
        return self._length

    @property
    def rises(self) -> bool:
        """Whether each event is newer than the one before."""
        return bool((self.seqs[1:] > self.seqs[:-1]).all())

    def messages(self) -> "list[tuple[Any, ...]]":
        """One by one, as they were sent."""
        events: list[Any] = [None] * len(self)
        for group in self.groups:
            rows = range(len(self)) if group.rows is None else group.rows.tolist()
            for place, row in enumerate(rows):
                events[row] = group.event(place)
        return [("publish", None, self.advert, event) for event in events]


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
