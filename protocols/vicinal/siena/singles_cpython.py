"""A publish that comes alone, of a shape that the connection has sent before.

Most producers send an event now and then. Each is one read of one frame, and what it costs is the Python that is gone
through while nothing is in the processor's caches. So for what comes again there is a function that looks at the whole
frame (as runs_cpython.py does for many at once) and gives nothing but the numbers that decide where it goes:

    58 6a 84 0a f6 01 58 63 85 65 S p e e d .. 1b│seq│84 64 r a t e fb│rate│.. 80     ->     seq, rate

No Event is made: the bytes go on as they came. What fits no shape, or fails a check, is for the strict reader, and so
is what wants an answer: to say no here is always right.
"""

from struct import Struct
from typing import TYPE_CHECKING, Any

from .._cbor import float_bytes
from .._shapes_cpython import Field, check_of, constants_of, layout, value_of
from .runs_cpython import CHECKED

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..event import Event

    Values = tuple[Any, ...]
    Read = Callable[[bytes], "Values | None"]

__all__ = ["Single", "Singles"]

# One in so many that came alone and were not known is learned from.
_LEARN_EVERY = 8
# Of one connection; when there are more, all are forgotten, and the frequent learned anew.
_MAX_SHAPES = 8
# Texts of functions, of all connections: producers of a kind have the same.
_MAX_TEXTS = 512

_NUMBERS = ("+", "-", "small+", "small-", "float")


class Single:
    """`read` gives of a frame the seq and the values at `places`, or None. What a matcher knows of the shape is kept
    here too, and so goes with the connection."""

    __slots__ = ("advert", "answers", "event_at", "is_fresh", "looks", "others", "places", "read")

    def __init__(self, read: "Read", fields: list[Field], event_at: int, advert: int) -> None:
        self.read = read
        self.event_at = event_at
        self.advert = advert
        # (kind, name) as a filter has it, in the order of the values, the first, of the seq, None; then of what else
        # varies.
        self.places = [field.place for field in fields if field.kind in _NUMBERS]
        self.others = [field.place for field in fields if field.kind not in _NUMBERS]
        self.is_fresh = False
        self.looks: list[tuple[int, list[float]]] | None = None
        self.answers: dict[int, Any] = {}


class Singles:
    """Of one connection, by the size of a frame."""

    def __init__(self) -> None:
        self.by_size: dict[int, Single] = {}
        self._missed = 0

    def missed(self, content: bytes, advert: int, event: "Event") -> None:
        """A publish that came alone, wants no answer, and had to be read strictly."""
        self._missed += 1
        if self._missed % _LEARN_EVERY:
            return
        found = _single_of(content, advert, event)
        if found is not None:
            if len(self.by_size) >= _MAX_SHAPES:
                self.by_size.clear()
            self.by_size[len(content) + 2] = found


def _single_of(content: bytes, advert: int, event: "Event") -> Single | None:
    data = event._wire
    if data is None or event.producer is None or event.seq is None or not 24 <= len(content) < 256:
        return None
    if any([name in event.attrs for name in CHECKED]):
        return None
    fields = layout(data, event)
    if fields is None:
        return None
    frame = bytes([0x58, len(content)]) + content
    at = len(frame) - len(data)
    # The producer is the client's name: it stays as it is.
    moved = [field._replace(start=field.start + at) for field in fields[1:]]
    return Single(_reader(frame, moved), moved, at, advert)


def _reader(frame: bytes, fields: list[Field]) -> "Read":
    pieces, format = constants_of(frame, fields)
    names = [f"k{n}" for n in range(len(pieces))]
    unpacked = "".join([f"c{n}, v{n}, " for n in range(len(fields))]) + f"c{len(fields)},"
    checks = [f"c{n} != k{n}" for n in range(len(pieces))]
    for n, field in enumerate(fields):
        check = f"not v{n}.isascii()" if field.kind == "text" else check_of(n, field)
        checks += [f"({check})"] if check else []
    values = [value_of(n, field) for n, field in enumerate(fields) if field.kind in _NUMBERS]
    text = (
        f"def make(unpack, float_bytes, {', '.join(names)}):\n"
        f"    def read(data):\n"
        f"        {unpacked} = unpack(data)\n"
        f"        if {' or '.join(checks)}: return None\n"
        f"        return {', '.join(values)},\n"
        f"    return read\n"
    )
    made: Read = _make_of(text)(Struct(format).unpack, float_bytes, *pieces)
    return made


_makers: "dict[str, Callable[..., Any]]" = {}


def _make_of(text: str) -> "Callable[..., Any]":
    make = _makers.get(text)
    if make is None:
        if len(_makers) >= _MAX_TEXTS:
            _makers.clear()
        names: dict[str, Any] = {}
        exec(text, names)
        make = _makers[text] = names["make"]
    return make
