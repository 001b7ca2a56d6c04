"""What traffic control keeps, in SQLite (the default) or PostgreSQL, by one URL:

    Store("sqlite:///traffic.sqlite")        Store("postgresql+psycopg://user@host/traffic")

`save` takes what the core has changed and how far the event log was read, in one transaction: after a crash the office
goes on from there, and nothing is missing and nothing twice. Vehicles that were not over a limit are here only as
pseudonyms, for as long as `retain` leaves them.

Everything here raises StoreAway while the database cannot be had (it starts anew, its disk is full, somebody has locked
it): who asks again later may be luckier. No message has the values of a statement in it: plates are among them.
"""

import logging
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import sqlalchemy as sql
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from vicinal.errors import LocalProtocolError

from . import rows, tables
from .cases import Case, Step, moved
from .control import Changes, Quarantined, TrafficControl
from .following import Mark
from .limits import Rule
from .posted import Shown
from .sifting import sifted
from .stretches import Evidence, Stretch
from .whereabouts import Sighting

__all__ = ["Held", "NoSuchCase", "Removed", "Retention", "Sign", "Store", "StoreAway", "StoreError", "StoreRefused"]

_log = logging.getLogger("vicinal.traffic")

DAY_MS = 86_400_000
CONNECT_S = 5
"""that a server may take to answer: the office waits for it"""
_PENDING = ("open", "fined", "appealed", "upheld")


Sign = tuple[str, int | None, list[int]]
"""a monitor, what it shows, and which limits it may have subscriptions for"""


class StoreError(LocalProtocolError):
    """The database cannot be used; the message says which and why."""


class StoreAway(StoreError):
    """For now: it is worth to try again."""


class StoreRefused(StoreError):
    """What it was asked to keep, or to look for; it is there."""


class NoSuchCase(LocalProtocolError):
    pass


class Retention(NamedTuple):
    """ms after which it is gone."""

    sightings: int = 1 * DAY_MS
    quarantine: int = 30 * DAY_MS
    void: int = 30 * DAY_MS
    """cases that came to nothing"""
    cases: int = 730 * DAY_MS


class Removed(NamedTuple):
    """What was too old."""

    sightings: int
    quarantine: int
    cases: tuple[int, ...]
    """their numbers"""
    vehicles: frozenset[str]
    """in the evidence of these"""


class Held(NamedTuple):
    """What was erased of a driver, and what must be kept until its case is over."""

    cases: int
    sightings: int
    held: tuple[int, ...]
    """numbers of the cases"""


class Store:
    def __init__(self, url: str = "sqlite://") -> None:
        try:
            parsed = sql.make_url(url)
            if parsed.get_backend_name() not in ("sqlite", "postgresql"):
                raise StoreError(f"database {url!r}: want sqlite:///FILE or postgresql+psycopg://...")
            memory = parsed.get_backend_name() == "sqlite" and not parsed.database
            self.name = _without_password(url)
            kind: dict[str, Any] = {}
            if parsed.get_backend_name() == "postgresql":
                kind = {"connect_args": {"connect_timeout": CONNECT_S}}
            if memory:  # one connection for all threads: each would have a database of its own
                kind = {"poolclass": sql.StaticPool, "connect_args": {"check_same_thread": False}}
            self._engine = sql.create_engine(parsed, pool_pre_ping=True, hide_parameters=True, **kind)
            if parsed.get_backend_name() == "sqlite" and not memory:
                sql.event.listen(self._engine, "connect", _durable)
            tables.metadata.create_all(self._engine)
        except (SQLAlchemyError, ImportError) as error:
            raise StoreError(f"database {_without_password(url)}: {_why(error)}") from error

    def close(self) -> None:
        self._engine.dispose()

    def check(self) -> None:
        """Whether it is there."""
        with self._reading() as connection:
            connection.execute(sql.select(1))

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._kindly(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """All of it or nothing."""
        with self._kindly(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _kindly(self) -> Iterator[None]:
        try:
            yield
        except (DataError, IntegrityError, OverflowError, UnicodeEncodeError) as error:
            raise StoreRefused(f"database {self.name}: {_why(error)}") from error
        except SQLAlchemyError as error:
            lost = isinstance(error, DBAPIError) and error.connection_invalidated
            away = lost or isinstance(error, OperationalError | InterfaceError | PoolTimeout)
            raise (StoreAway if away else StoreError)(f"database {self.name}: {_why(error)}") from error

    # What the core has changed

    def save(
        self, changes: Changes, offset: int | None = None, signs: Iterable[Sign] = (), mark: Mark | None = None
    ) -> None:
        """What the database refuses is in quarantine then, and the rest is saved (sifting.py)."""
        try:
            self._save(changes, offset, signs, mark)
        except StoreRefused as error:
            _log.warning("%s: what it refuses goes into quarantine", error)
            self._save(sifted(changes, self._refused), offset, signs, mark)

    def _save(self, changes: Changes, offset: int | None, signs: Iterable[Sign], mark: Mark | None) -> None:
        with self._writing() as connection:
            rows.write(connection, changes)
            for sign in signs:
                rows.write_sign(connection, *sign)
            if offset is not None:
                rows.put(connection, "offset", offset)
            for name, value in () if mark is None else mark._asdict().items():
                rows.put(connection, f"mark {name}", value)

    def _refused(self, changes: Changes) -> str:
        """Why, if these alone would be; nothing is changed."""
        try:
            with self._reading() as connection:
                rows.write(connection, changes)
                connection.rollback()
        except StoreRefused as error:
            return str(error)
        return ""

    def offset(self) -> int | None:
        return self._get("offset")

    def mark(self) -> Mark | None:
        """Of the event before the offset; none in a database that is older than marks."""
        found = [self._get(f"mark {name}") for name in Mark._fields]
        return None if None in found else Mark(*[value or 0 for value in found])

    def restore(self, control: TrafficControl) -> None:
        """Limits that were set and shown, and cases that were open, from before a restart. Void ones too: those to
        which nothing can be added any more the core forgets at its next timeout."""
        for rule in self.rules():
            control.limits.add(rule)
        control.stretches.next_number = self._get("next case") or 1
        with self._reading() as connection:
            for row in connection.execute(sql.select(tables.shown).order_by(tables.shown.c.id)).mappings():
                control.posted.add(Shown(row["monitor"], row["value"], row["since"]))
            found = connection.execute(sql.select(tables.cases).where(tables.cases.c.state.in_(("open", "void"))))
            for row in found.mappings().all():
                stretch = Stretch(row["number"], row["plate"])
                for one in rows.evidence_of(connection, row["number"]):
                    stretch.add(one)
                control.recall(stretch, rows.steps_of(connection, row["number"]))

    def rules(self) -> list[Rule]:
        with self._reading() as connection:
            found = connection.execute(sql.select(tables.rules).order_by(tables.rules.c.id)).mappings().all()
        return [rows.rule_of_row(row) for row in found]

    def signs(self) -> list[Sign]:
        with self._reading() as connection:
            found = connection.execute(sql.select(tables.signs)).mappings().all()
        return [(row["monitor"], row["shown"], row["standing"]) for row in found]

    # Cases

    def cases(self, state: str | None = None, since: int | None = None, plate: str | None = None) -> list[Case]:
        query = sql.select(tables.cases).order_by(tables.cases.c.number)
        if state is not None:
            query = query.where(tables.cases.c.state == state)
        if since is not None:
            query = query.where(tables.cases.c.last >= since)
        if plate is not None:
            query = query.where(tables.cases.c.plate == plate)
        with self._reading() as connection:
            steps: dict[int, list[Step]] = {}
            for row in connection.execute(
                sql.select(tables.steps).order_by(tables.steps.c.number, tables.steps.c.place)
            ).mappings():
                steps.setdefault(row["number"], []).append(rows.step_of_row(row))
            found = connection.execute(query).mappings().all()
            return [rows.case_of_row(row, tuple(steps[row["number"]])) for row in found]

    def last_cases(self, count: int, until: int = 1 << 62) -> list[Case]:
        """The last so many that had begun by then, as they are now."""
        column = tables.cases.c
        query = sql.select(tables.cases).where(column.first <= until).order_by(column.number.desc()).limit(count)
        with self._reading() as connection:
            found = connection.execute(query).mappings().all()
            return [rows.case_of_row(row, rows.steps_of(connection, row["number"])) for row in reversed(found)]

    def case(self, number: int) -> Case:
        with self._reading() as connection:
            row = (
                connection.execute(sql.select(tables.cases).where(tables.cases.c.number == number))
                .mappings()
                .one_or_none()
            )
            if row is None:
                raise NoSuchCase(f"there is no case {number}")
            return rows.case_of_row(row, rows.steps_of(connection, number))

    def evidence(self, number: int) -> list[Evidence]:
        with self._reading() as connection:
            return rows.evidence_of(connection, number)

    def move(self, number: int, state: str, now: int, who: str, note: str = "") -> Case:
        """Fined, paid, appealed, upheld, void: cases.py. An open case is the core's."""
        case = moved(self.case(number), state, now, who, note)
        with self._writing() as connection:
            rows.write_case(connection, case)
        return case

    # Others

    def quarantine(self, limit: int = 1000) -> list[Quarantined]:
        query = sql.select(tables.quarantine).order_by(tables.quarantine.c.id.desc()).limit(limit)
        with self._reading() as connection:
            found = connection.execute(query).mappings().all()
        return [rows.quarantined_of_row(row) for row in found]

    def sightings(self, since: int, until: int, vehicles: Iterable[str] | None = None) -> list[Sighting]:
        """From `since` on, before `until`."""
        column = tables.sightings.c
        query = sql.select(tables.sightings).where(column.time >= since, column.time < until)
        if vehicles is not None:
            query = query.where(column.vehicle.in_(list(vehicles)))
        with self._reading() as connection:
            found = connection.execute(query.order_by(column.time, column.vehicle)).mappings().all()
        return [rows.sighting_of_row(row) for row in found]

    def span(self) -> tuple[int | None, int | None]:
        """From when to when vehicles were seen."""
        column = tables.sightings.c.time
        with self._reading() as connection:
            first, last = connection.execute(sql.select(sql.func.min(column), sql.func.max(column))).one()
        return first, last

    def counts(self) -> dict[str, int]:
        with self._reading() as connection:
            return {
                name: connection.execute(sql.select(sql.func.count()).select_from(table)).scalar_one()
                for name, table in (
                    ("cases", tables.cases),
                    ("evidence", tables.evidence),
                    ("quarantine", tables.quarantine),
                    ("sightings", tables.sightings),
                )
            }

    # A driver's data

    def vehicles_of(self, plate: str) -> set[str]:
        """The pseudonyms that came with an offence."""
        return {one.vehicle for case in self.cases(plate=plate) for one in self.evidence(case.number)}

    def driver(self, plate: str, vehicles: Iterable[str] = ()) -> dict[str, Any]:
        """All that is kept of a driver. `vehicles` are the pseudonyms that the vehicle has had: who has the keys knows
        them (vicinal.pseudonyms_cpython); those that came with an offence are here."""
        cases = self.cases(plate=plate)
        found = [(case, self.evidence(case.number)) for case in cases]
        known = {one.vehicle for _, several in found for one in several} | set(vehicles)
        return {
            "plate": plate,
            "cases": [{**_plain(case), "evidence": [one._asdict() for one in several]} for case, several in found],
            "sightings": [one._asdict() for one in self.sightings(0, 1 << 62, known)] if known else [],
        }

    def erase(self, plate: str, vehicles: Iterable[str] = (), held: Collection[int] = ()) -> Held:
        """Whatever is not needed for a case that is not over yet, or that is `held` by the core. What is held is named,
        so that it can be said."""
        cases = self.cases(plate=plate)
        known = self.vehicles_of(plate) | set(vehicles)
        held = tuple(case.number for case in cases if case.state in _PENDING or case.number in held)
        with self._writing() as connection:
            gone = [case.number for case in cases if case.number not in held]
            for number in gone:
                rows.forget_case(connection, number)
            seen = 0
            if known:
                column = tables.sightings.c.vehicle
                seen = connection.execute(sql.delete(tables.sightings).where(column.in_(known))).rowcount
                connection.execute(sql.delete(tables.quarantine).where(tables.quarantine.c.vehicle.in_(known)))
        return Held(len(gone), seen, held)

    def retain(self, now: int, retention: Retention) -> Removed:
        """Removes what is too old."""
        counts = []
        with self._writing() as connection:
            for table, column, age in (
                (tables.sightings, tables.sightings.c.time, retention.sightings),
                (tables.quarantine, tables.quarantine.c.received, retention.quarantine),
            ):
                counts.append(connection.execute(sql.delete(table).where(column < now - age)).rowcount)
            case = tables.cases.c
            old = sql.or_(
                sql.and_(case.state == "void", case.last < now - retention.void),
                sql.and_(case.state == "paid", case.last < now - retention.cases),
            )
            numbers = connection.execute(sql.select(case.number).where(old)).scalars().all()
            vehicles = {one.vehicle for number in numbers for one in rows.evidence_of(connection, number)}
            for number in numbers:
                rows.forget_case(connection, number)
        seen, quarantined = counts
        return Removed(seen, quarantined, tuple(numbers), frozenset(vehicles))

    def _get(self, key: str) -> int | None:
        with self._reading() as connection:
            query = sql.select(tables.meta.c.value).where(tables.meta.c.key == key)
            found: int | None = connection.execute(query).scalar_one_or_none()
            return found


def _durable(connection: Any, _: object) -> None:
    for line in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL"):
        connection.execute(line)


def _why(error: Exception) -> str:
    """Without the statement."""
    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _without_password(url: str) -> str:
    try:
        return str(sql.make_url(url))
    except SQLAlchemyError:
        return repr(url)


def _plain(case: Case) -> dict[str, Any]:
    made = case._asdict()
    made["worst"] = case.worst._asdict()
    made["steps"] = [step._asdict() for step in case.steps]
    return made
