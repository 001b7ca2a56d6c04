"""One event: the FES event model (seed 001, 5.2) with an identity.

    subject   "Speed"
    params    ordered, named: license_no "00D12345", rate 57.2      by name and by index
    attrs     context: Priority 3, Time 1700000000000               unknown ones travel untouched
    identity  (producer "car-7", seq 12)                            or none yet: see `stamp`

Values are str, int (64-bit signed), float, bool, bytes or Event. An event does not change after it was made:
`replace` and `stamp` give a new one. Events are equal when they would be the same bytes on the wire, so 1, 1.0
and True are three different values, and NaN equals itself.
"""

from . import limits
from ._compat import MICROPYTHON, Ordered, pairs, utf8_len
from .errors import LimitError, LocalProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, TypeAlias

    Value: TypeAlias = "str | int | float | bool | bytes | Event"
    Items: TypeAlias = "Mapping[str, Any] | Iterable[tuple[str, Any]]"

__all__ = ["Event"]

# Names found good before: a fleet sends the same few, a device fewer still. A stranger's names may not fill it.
_MAX_NAMES = 32 if MICROPYTHON else 4096
_names: "set[str]" = set()
_new = object.__new__


class Event:
    __slots__ = ("_nesting", "_wire", "attrs", "params", "producer", "seq", "subject")

    subject: str
    params: "dict[str, Value]"
    attrs: "dict[str, Any]"
    producer: "str | None"
    seq: "int | None"

    def __init__(
        self,
        subject: str,
        params: "Items" = (),
        attrs: "Items" = (),
        producer: "str | None" = None,
        seq: "int | None" = None,
    ) -> None:
        _check_name("subject", subject, limits.MAX_SUBJECT_BYTES)
        self.subject = subject
        self._nesting = 1
        self._wire: bytes | None = None
        self.params = self._items("parameter", params, limits.MAX_PARAMS)
        self.attrs = self._items("attribute", attrs, limits.MAX_ATTRS)
        if self.attrs:
            attributes_module().check(self.attrs)
        if self._nesting > limits.MAX_NESTING:
            raise LimitError(f"nesting of event {subject!r}", self._nesting, limits.MAX_NESTING)
        check_identity(producer, seq)
        self.producer = producer
        self.seq = seq

    def _items(self, what: str, items: "Items", most: int) -> "dict[str, Any]":
        found: dict[str, Any] = Ordered()
        for name, value in pairs(items):
            if type(name) is not str or name not in _names:
                _check_name(what, name, limits.MAX_NAME_BYTES)
                if len(_names) < _MAX_NAMES:
                    _names.add(name)
            if name in found:
                raise LocalProtocolError(f"{what} {name!r} is given twice")
            if len(found) == most:
                raise LimitError(f"number of {what}s of event {self.subject!r}", most + 1, most)
            kind = type(value)
            if kind is int:
                if not limits.INT_MIN <= value <= limits.INT_MAX:
                    raise LimitError(f"{what} {name!r}", value, "-2^63 .. 2^63-1")
            elif kind is str:
                if utf8_len(value) < 0:
                    raise LocalProtocolError(f"{what} {name!r} is {value!r}, which has no UTF-8 form")
            elif kind is Event:
                if value._nesting >= self._nesting:
                    self._nesting = value._nesting + 1
            elif kind is not float and kind is not bool and kind is not bytes:
                if what != "attribute" or name != "Proximity":
                    raise LocalProtocolError(
                        f"{what} {name!r} is a {kind.__name__}, want str, int, float, bool, bytes or Event"
                    )
            found[name] = value
        return found

    def __getitem__(self, key: "str | int") -> "Value":
        """A parameter's value by name, or by index as the FES allows."""
        if type(key) is int:
            return list(self.params.values())[key]
        return self.params[key]  # type: ignore[index]

    def __contains__(self, name: object) -> bool:
        return name in self.params

    def get(self, name: str, default: "Any" = None) -> "Any":
        return self.params.get(name, default)

    def name_at(self, index: int) -> str:
        return list(self.params)[index]

    @property
    def identity(self) -> "tuple[str, int] | None":
        if self.producer is None or self.seq is None:
            return None
        return (self.producer, self.seq)

    def stamp(self, producer: str, seq: int) -> "Event":
        """The same event with its identity, given once by who publishes it."""
        if self.producer is not None:
            raise LocalProtocolError(f"event {self.subject!r} is already stamped {self.producer!r}, {self.seq}")
        return self.replace(producer=producer, seq=seq)

    def replace(self, **changes: "Any") -> "Event":
        if "subject" not in changes and "params" not in changes:
            return self._with(changes)
        for name in ("subject", "params", "attrs", "producer", "seq"):
            if name not in changes:
                changes[name] = getattr(self, name)
        return Event(**changes)

    def _with(self, changes: "dict[str, Any]") -> "Event":
        """Other attributes or another identity: the parameters were checked before, and do not change."""
        made = Event(self.subject, (), changes.get("attrs", self.attrs))
        made.params = self.params
        made._nesting = max(made._nesting, self._nesting)
        made.producer, made.seq = changes.pop("producer", self.producer), changes.pop("seq", self.seq)
        check_identity(made.producer, made.seq)
        changes.pop("attrs", None)
        for name in changes:
            raise LocalProtocolError(f"{name!r} is no part of an event")
        return made

    def remade(self, attrs: "dict[str, Any]", producer: "str | None", seq: "int | None") -> "Event":
        """`replace`, of attributes and an identity that were checked before: for who makes one of every event. Both
        have the same parameters."""
        made: Event = _new(Event)
        made.subject = self.subject
        made.params = self.params
        made.attrs = attrs
        made.producer = producer
        made.seq = seq
        made._nesting = self._nesting
        made._wire = None
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Event) or len(self.attrs) != len(other.attrs):
            return False
        mine: list[Any] = [self.subject, self.producer, self.seq]
        theirs: list[Any] = [other.subject, other.producer, other.seq]
        for name, value in self.params.items():
            mine.extend((name, value))
        for name, value in other.params.items():
            theirs.extend((name, value))
        for name, value in self.attrs.items():
            mine.append(value)
            theirs.append(other.attrs.get(name))
        return len(mine) == len(theirs) and all([_same(a, b) for a, b in zip(mine, theirs)])

    def __hash__(self) -> int:
        return hash((self.subject, self.producer, self.seq, len(self.params)))

    def __repr__(self) -> str:
        text = f"Event({self.subject!r}, {list(self.params.items())!r}"
        if self.attrs:
            text += f", attrs={dict(self.attrs)!r}"
        if self.producer is not None:
            text += f", producer={self.producer!r}, seq={self.seq}"
        return text + ")"


_attributes: "Any" = None


def attributes_module() -> "Any":
    """vicinal.attributes, loaded with the first event that has some, and found without a search after that."""
    global _attributes
    if _attributes is None:
        from . import attributes

        _attributes = attributes
    return _attributes


def _same(a: "Any", b: "Any") -> bool:
    if type(a) is float and type(b) is float:
        return str(a) == str(b) if a == 0 == b else a == b or (a != a and b != b)
    return type(a) is type(b) and bool(a == b)


def _check_name(what: str, name: object, most: int) -> None:
    if type(name) is not str or not name:
        raise LocalProtocolError(f"{what} name is {name!r}, want a non-empty str")
    size = utf8_len(name)
    if size < 0:
        raise LocalProtocolError(f"{what} name {name!r} has no UTF-8 form")
    if size > most:
        raise LimitError(f"length of {what} name {name[:20]!r}...", size, f"{most} bytes")


def check_identity(producer: object, seq: object) -> None:
    if producer is None and seq is None:
        return
    if producer is None or seq is None:
        raise LocalProtocolError(f"an identity is both producer and seq, got {producer!r} and {seq!r}")
    _check_name("producer", producer, limits.MAX_PRODUCER_BYTES)
    if type(seq) is not int:
        raise LocalProtocolError(f"seq is {seq!r}, want an int")
    if not 0 <= seq <= limits.INT_MAX:
        raise LimitError("seq", seq, "0 .. 2^63-1")
