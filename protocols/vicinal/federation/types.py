"""Event types: which parameters the events of a subject have, and of what types (seed 001, 8.2.9; spec/types.md).

    [[type]]
    subject = "Speed"
    version = 2
    params = { license_no = "str", rate = "float", note = "str" }
    optional = ["note"]
    unknown = "refuse"                  # other parameters; without it they are allowed

A declared type is checked on every event that comes in. It evolves: a new version takes every event of the old one, and
who could read the old can read the new (`compatible`). A learned type is what announcements have shown: it tells people
and programs what there is, and checks nothing, as anybody may announce.
"""

from .. import limits
from .._compat import Ordered, pairs
from .._table import Table, shown
from ..errors import LimitError, LocalProtocolError, RemoteProtocolError
from ..event import Event
from .capabilities import ALL_TYPES, type_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["MAX_TYPES", "MAX_VERSIONS", "SUBJECT", "EventType", "TypeRepository", "compatible"]

SUBJECT = "FES_EventType"
RESERVED = "FES_"
# Subjects: as many as a gateway can keep in mind; strangers announce, too.
MAX_TYPES = 4096
# Of one subject: all are kept, because what was said once still drives around.
MAX_VERSIONS = 64
ANY = "any"
TYPES = ALL_TYPES + (ANY,)
_PYTHON = {"str": str, "int": int, "float": float, "bool": bool, "bytes": bytes, "event": Event}


class EventType:
    """`params` are names and types. `unknown`: whether other parameters are allowed. A learned type has version 0."""

    __slots__ = ("optional", "params", "subject", "unknown", "version")

    def __init__(
        self,
        subject: str,
        version: int = 1,
        params: "Any" = (),
        optional: "Any" = (),
        unknown: bool = True,
    ) -> None:
        Event(subject)  # its own kind errors
        if type(version) is not int or not 0 <= version <= limits.INT_MAX:
            raise LocalProtocolError(f"version of type {subject!r} is {shown(version)}, want an int, 0 or more")
        found: dict[str, str] = Ordered()
        for name, kind in pairs(params):
            if kind not in TYPES:
                raise LocalProtocolError(
                    f"parameter {name!r} of type {subject!r} is {shown(kind)}, want one of {', '.join(TYPES)}"
                )
            found[name] = kind
        Event(subject, list(found.items()))
        for name in optional:
            if name not in found:
                raise LocalProtocolError(f"optional of type {subject!r} has {shown(name)}, which is none of its params")
        self.subject = subject
        self.version = version
        self.params = found
        self.optional = set(optional)
        self.unknown = unknown

    @property
    def learned(self) -> bool:
        return self.version == 0

    def check(self) -> "Callable[[Event], str]":
        """What is wrong with an event of this subject; "" if nothing is. Made once, used on every event."""
        subject, unknown = self.subject, self.unknown
        params = self.params
        kinds: dict[str, Any] = {}
        for name, kind in params.items():
            kinds[name] = _PYTHON.get(kind)
        required = [name for name in params if name not in self.optional]
        get = kinds.get

        def check(event: Event) -> str:
            found = event.params
            for name, value in found.items():
                want = get(name)
                if want is type(value):
                    continue
                if want is None:
                    if not unknown and name not in kinds:
                        return f"{subject!r} has a parameter {name!r}, which its type does not know"
                elif want is not float or type(value) is not int:
                    return f"parameter {name!r} of {subject!r} is a {type_name(value)}, want {params[name]}"
            for name in required:
                if name not in found:
                    return f"{subject!r} has no parameter {name!r}"
            return ""

        return check

    def to_event(self) -> Event:
        """As it is told to others. An optional parameter has a ? after its type."""
        params = [(name, kind + ("?" if name in self.optional else "")) for name, kind in self.params.items()]
        return Event(
            SUBJECT,
            [
                ("Subject", self.subject),
                ("Version", self.version),
                ("Unknown", self.unknown),
                ("Params", Event("Params", params)),
            ],
        )

    @staticmethod
    def from_event(event: Event) -> "EventType":
        """Raises RemoteProtocolError."""
        if event.subject != SUBJECT:
            raise RemoteProtocolError(f"event type: subject is {event.subject!r}, want {SUBJECT}")
        for name, kind in (("Subject", str), ("Version", int), ("Unknown", bool), ("Params", Event)):
            if type(event.get(name)) is not kind:
                raise RemoteProtocolError(f"event type: {name} is {shown(event.get(name))}, want {kind.__name__}")
        params, optional = [], []
        for name, kind in event.get("Params").params.items():
            text = kind if type(kind) is str else ""
            if text.endswith("?"):
                optional.append(name)
                text = text[:-1]
            params.append((name, text))
        try:
            return EventType(event.get("Subject"), event.get("Version"), params, optional, event.get("Unknown"))
        except LocalProtocolError as error:
            raise RemoteProtocolError(f"event type: {error}")

    @staticmethod
    def of(event: Event) -> "EventType":
        """What an example shows."""
        return EventType(event.subject, 0, [(name, type_name(value)) for name, value in event.params.items()])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EventType) and all(
            [getattr(self, field) == getattr(other, field) for field in self.__slots__]
        )

    def __hash__(self) -> int:
        return hash((self.subject, self.version))

    def __repr__(self) -> str:
        return f"EventType({self.subject!r}, {self.version}, {dict(self.params)!r})"


def compatible(old: EventType, new: EventType) -> "list[str]":
    """What would break. Nothing: events of the old type, with the parameters that it knows, are events of the new, and
    who reads the old finds in an event of the new all that it had to have, of a type that compares alike."""
    breaks: list[str] = []
    if old.subject != new.subject:
        return [f"{old.subject!r} is not {new.subject!r}"]
    for name, kind in old.params.items():
        now = new.params.get(name)
        required = name not in old.optional
        if now is None:
            if required:
                breaks.append(f"{name!r} is gone: who reads version {old.version} relies on it")
            elif not new.unknown:
                breaks.append(f"{name!r} is gone, and unknown parameters are refused: it is still sent")
            continue
        if now != kind and (kind, now) != ("int", "float"):
            breaks.append(f"{name!r} is {now} and was {kind}: an int may become a float, and nothing else")
        if required and name in new.optional:
            breaks.append(f"{name!r} becomes optional: who reads version {old.version} relies on it")
        elif not required and name not in new.optional:
            breaks.append(f"{name!r} becomes required: who sends version {old.version} may leave it out")
    for name in new.params:
        if name not in old.params and name not in new.optional:
            breaks.append(f"{name!r} is new and required: who sends version {old.version} has none. Make it optional")
    if old.unknown and not new.unknown:
        breaks.append(f"unknown parameters become refused: who sends version {old.version} may have some")
    return breaks


class TypeRepository:
    """`closed`: events of subjects that nobody declared are refused, but for the federation's own."""

    def __init__(self, closed: bool = False) -> None:
        self.closed = closed
        self.overflow = 0
        """announcements that taught nothing, for MAX_TYPES were known"""
        self._versions: dict[str, list[EventType]] = {}
        self._learned: dict[str, EventType] = {}
        self._checks: dict[str, Callable[[Event], str]] = {}

    @staticmethod
    def from_tables(rows: "Any", where: str = "types", closed: bool = False) -> "TypeRepository":
        """From the [[type]] tables of a TOML or JSON file; what is wrong is said with `where`, table and key."""
        found = TypeRepository(closed)
        if not isinstance(rows, list):
            raise LocalProtocolError(f"{where}: write [[type]], not [type]: there may be several")
        for at, values in enumerate(rows):
            table = Table(f"{where}: [[type]] {at + 1}", values)
            made = _read(table)
            try:
                found.add(made)
            except LocalProtocolError as error:
                raise table.error("version", f"is {made.version}: {error}")
        return found

    def add(self, new: EventType) -> bool:
        """Declares a type, or a version of it; False if it was known. Raises LocalProtocolError with every reason why
        it cannot be: then nothing has changed."""
        if new.learned:
            raise LocalProtocolError(f"version of {new.subject!r} is 0, want 1 or more: 0 is for what is only learned")
        if new.subject.startswith(RESERVED):
            raise LocalProtocolError(f"{new.subject!r} is one of the federation's own: its type is not declared")
        known = self._versions.get(new.subject, [])
        if not known and len(self._versions) >= MAX_TYPES:
            raise LimitError("number of event types", MAX_TYPES + 1, MAX_TYPES)
        if len(known) >= MAX_VERSIONS:
            raise LimitError(f"number of versions of type {new.subject!r}", MAX_VERSIONS + 1, MAX_VERSIONS)
        breaks: list[str] = []
        for one in known:
            if one.version == new.version:
                if one == new:
                    return False
                breaks.append(f"version {new.version} is known, and another")
            else:
                # Versions may come in any order: what counts is which is the older.
                old, young = (one, new) if one.version < new.version else (new, one)
                breaks += [reason for reason in compatible(old, young) if reason not in breaks]
        if breaks:
            raise LocalProtocolError(f"type {new.subject!r} does not fit: {'; '.join(breaks)}")
        versions = sorted(known + [new], key=lambda one: one.version)
        self._versions[new.subject] = versions
        self._checks[new.subject] = versions[-1].check()
        self._learned.pop(new.subject, None)
        return True

    def check(self, event: Event) -> str:
        """Why the event is none of its type; "" if it is, or if nobody has declared one."""
        check = self._checks.get(event.subject)
        if check is not None:
            return check(event)
        if self.closed and not event.subject.startswith(RESERVED):
            return f"no type is declared for {event.subject!r}"
        return ""

    def learn(self, event: Event) -> str:
        """From an announcement, whose event stands for its type. Gives why it contradicts what is declared, or ""."""
        subject = event.subject
        if subject.startswith(RESERVED):
            return ""
        if subject in self._checks or self.closed:
            return self.check(event)
        known = self._learned.get(subject)
        if known is None:
            if len(self._learned) + len(self._versions) >= MAX_TYPES:
                self.overflow += 1
                return ""
            self._learned[subject] = EventType.of(event)
        else:
            self._learned[subject] = _both(known, EventType.of(event))
        return ""

    def get(self, subject: str, version: int = 0) -> "EventType | None":
        """The newest version, declared or learned; or the one that is asked for."""
        versions = self._versions.get(subject, [])
        if version:
            return next(iter([one for one in versions if one.version == version]), None)
        return versions[-1] if versions else self._learned.get(subject)

    def types(self) -> "list[EventType]":
        """The newest of each subject, by subject."""
        subjects = sorted(set(list(self._versions) + list(self._learned)))
        return [found for found in [self.get(subject) for subject in subjects] if found is not None]

    def events(self) -> "list[Event]":
        """All that is declared, each version, for who keeps or passes them on."""
        found = []
        for subject in sorted(self._versions):
            found += [one.to_event() for one in self._versions[subject]]
        return found

    def receive(self, event: Event) -> bool:
        """Of another repository; True if it was new. Raises RemoteProtocolError of what is no type, LocalProtocolError
        of one that does not fit."""
        return self.add(EventType.from_event(event))

    def report(self) -> "list[dict[str, Any]]":
        """For people and programs that ask what there is."""
        return [
            {
                "subject": one.subject,
                "version": one.version,
                "learned": one.learned,
                "params": dict(one.params),
                "optional": sorted(one.optional),
                "unknown": "allow" if one.unknown else "refuse",
            }
            for one in self.types()
        ]


def _both(one: EventType, other: EventType) -> EventType:
    """What two examples have shown: what only one has is optional; an int and a float are a float, else anything."""
    params: dict[str, str] = Ordered()
    for found in (one, other):
        for name, kind in found.params.items():
            known = params.get(name, kind)
            if known != kind:
                kind = "float" if sorted([known, kind]) == ["float", "int"] else ANY
            params[name] = kind
            if len(params) == limits.MAX_PARAMS:
                break
    optional = [
        name
        for name in params
        if name in one.optional or name in other.optional or name not in one.params or name not in other.params
    ]
    return EventType(one.subject, 0, list(params.items()), optional)


def _read(table: Table) -> EventType:
    subject = table.name("subject", limits.MAX_SUBJECT_BYTES)
    version = table.integer("version", 1, limits.INT_MAX, 1)
    params = table.take("params", dict, {})
    optional = table.take("optional", list, [])
    unknown = table.take("unknown", str, "allow")
    table.done()
    if unknown not in ("allow", "refuse"):
        raise table.error("unknown", f"is {shown(unknown)}, want allow or refuse")
    for name in optional:
        if name not in params:
            raise table.error("optional", f"has {shown(name)}, which is none of params")
    for name, kind in params.items():
        if kind not in TYPES:
            raise table.error("params", f"has {name} = {shown(kind)}, want one of {', '.join(TYPES)}")
    try:
        return EventType(subject, version, params, optional, unknown == "allow")
    except LocalProtocolError as error:
        raise table.error("params", f"is wrong: {error}")
