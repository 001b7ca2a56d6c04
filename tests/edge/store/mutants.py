"""Stores that are wrong in one way each. A suite that does not tell them from the right one proves nothing."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from vicinal.event import Event
from vicinal.federation.outbox import Flight, Outbox
from vicinal_edge import _store_stored
from vicinal_edge._store_database import Database, Result, Row, Transaction
from vicinal_edge._store_held import Held, New
from vicinal_edge._store_stored import StoredQueue

MUTANTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {}


def mutant(function: Callable[[], Iterator[None]]) -> None:
    MUTANTS[function.__name__] = contextmanager(function)


@contextmanager
def apply(name: str | None) -> Iterator[None]:
    if name is None:
        yield
    else:
        with MUTANTS[name]():
            yield


@mutant
def no_fsync() -> Iterator[None]:
    right = Database._connect

    def connect(self: Database, check: bool = False) -> None:
        right(self, check)
        self._run("PRAGMA synchronous = OFF")

    with patch.object(Database, "_connect", connect):
        yield


@mutant
def accept_before_commit() -> Iterator[None]:
    right = StoredQueue.accept

    def accept(self: StoredQueue, event: Event) -> "asyncio.Future[int]":
        done = right(self, event)
        for new in self._new.values():
            new.settle()
        return done

    with patch.object(StoredQueue, "accept", accept):
        yield


@mutant
def accept_in_spite_of_the_disk() -> Iterator[None]:
    def fail(self: New, reason: str) -> None:
        self.settle()

    with patch.object(New, "fail", fail):
        yield


@mutant
def numbers_given_again() -> Iterator[None]:
    """After a restart counting goes on in the block that was begun."""
    right = StoredQueue.end_restore

    def end_restore(self: StoredQueue, totals: dict[str, Any]) -> None:
        if totals:
            self.outbox.number -= self._store.options.block
        right(self, totals)

    with patch.object(StoredQueue, "end_restore", end_restore):
        yield


@mutant
def deleted_when_handed_out() -> Iterator[None]:
    right = StoredQueue._take

    def take(self: StoredQueue, most: int) -> list[tuple[int, Event]]:
        found = right(self, most)
        held = {one.flight.number: one.flight.id for one in self._held.values()}
        self._deletes += [held[number] for number, _ in found if held.get(number) not in self._new]
        return found

    with patch.object(StoredQueue, "_take", take):
        yield


@mutant
def retried_in_the_wrong_order() -> Iterator[None]:
    right = Outbox.failed

    def failed(self: Outbox, numbers: Iterable[int]) -> None:
        right(self, numbers)
        self._again.reverse()

    with patch.object(Outbox, "failed", failed):
        yield


@mutant
def retried_behind_the_others() -> Iterator[None]:
    """And under a new number."""

    def failed(self: Outbox, numbers: Iterable[int]) -> None:
        for number in numbers:
            flight = self._flying.pop(number, None)
            if flight is not None:
                flight.number = self.number
                self.number += 1
                self._again.insert(0, flight)

    with patch.object(Outbox, "failed", failed):
        yield


@mutant
def record_forgotten() -> Iterator[None]:
    """What was handed out after it was written gets another number after a crash."""
    right = Database._apply

    def apply(self: Database, work: Transaction) -> Result:
        work.handed = []
        return right(self, work)

    with patch.object(Database, "_apply", apply):
        yield


@mutant
def sent_before_the_record() -> Iterator[None]:
    right = StoredQueue._hold

    def hold(self: StoredQueue, flight: Flight) -> Held:
        held = right(self, flight)
        held.ready = held.event is not None
        return held

    with patch.object(StoredQueue, "_hold", hold):
        yield


@mutant
def inserted_without_its_number() -> Iterator[None]:
    right = StoredQueue.begin

    def begin(self: StoredQueue, work: Transaction) -> None:
        for new in self._new.values():
            new.number = 0
        right(self, work)

    with patch.object(StoredQueue, "begin", begin):
        yield


@mutant
def restored_out_of_order() -> Iterator[None]:
    right = Database.rows

    def rows(self: Database, service: int, after: int, most: int) -> list[Row]:
        """As if none had been handed out: they go by priority, under new numbers."""
        return [row._replace(number=0) for row in right(self, service, after, most)]

    with patch.object(Database, "rows", rows):
        yield


@mutant
def drop_not_counted() -> Iterator[None]:
    def count_drop(self: Outbox, reason: str) -> str:
        if reason not in self.dropped or self.dropped[reason] % 3:
            self.dropped[reason] = self.dropped.get(reason, 0) + 1
        return reason

    with patch.object(Outbox, "_count_drop", count_drop):
        yield


@mutant
def damage_not_noticed() -> Iterator[None]:
    class Same(int):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = int.__hash__

    from vicinal_edge import _store_database

    right = _store_database.checksum

    def checksum(id: int, number: int, data: bytes) -> int:
        return Same(right(id, number, data))

    with patch.object(_store_database, "checksum", checksum), patch.object(_store_stored, "checksum", right):
        yield
