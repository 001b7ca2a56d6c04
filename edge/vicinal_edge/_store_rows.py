"""The rows of the store's file, and what is done in one transaction. A row is read with suspicion: bits flip."""

import struct
from typing import Any, NamedTuple
from zlib import crc32

from vicinal import limits
from vicinal.federation.outbox import NEVER

__all__ = [
    "COLUMNS",
    "TABLES",
    "Found",
    "Heard",
    "Result",
    "Row",
    "Saved",
    "Transaction",
    "checksum",
    "good_event",
    "good_heard",
    "good_numbers",
    "good_service",
    "repaired",
    "sane",
    "service_checksum",
]

COLUMNS = "id, service, producer, priority, expires, number, crc, data"
_SCHEMA = """
CREATE TABLE service (name TEXT PRIMARY KEY, key INTEGER NOT NULL, high INTEGER NOT NULL, totals TEXT NOT NULL,
    crc INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE event (id INTEGER PRIMARY KEY, service INTEGER NOT NULL, producer TEXT NOT NULL, priority INTEGER NOT NULL,
    expires INTEGER NOT NULL, number INTEGER NOT NULL, crc INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE handed (id INTEGER PRIMARY KEY, number INTEGER NOT NULL);
CREATE TABLE heard (source TEXT NOT NULL, producer TEXT NOT NULL, seq INTEGER NOT NULL, id INTEGER NOT NULL,
    PRIMARY KEY (source, producer)) WITHOUT ROWID
"""
TABLES = [statement.strip() for statement in _SCHEMA.split(";")]


class Saved(NamedTuple):
    """A row of `service`."""

    name: str
    key: int
    high: int
    totals: str = "{}"


class Row(NamedTuple):
    id: int
    producer: str
    priority: int
    expires: int
    number: int
    size: int


class Heard(NamedTuple):
    """A row of `heard`: the highest number of a producer that came from a source and is, or was, in the store."""

    source: str
    producer: str
    seq: int
    id: int
    """of that event: who has said nothing for longest is forgotten first"""


class Found(NamedTuple):
    """What was there on opening."""

    services: list[Saved]
    heard: list[Heard]
    damaged: str
    """what was wrong with the file; "" if nothing was"""


class Transaction:
    """What one commit does."""

    __slots__ = ("deletes", "handed", "heard", "inserts", "reads", "services", "unhanded")

    def __init__(self) -> None:
        self.inserts: list[tuple[int, int, str, int, int, int, int, bytes]] = []
        self.handed: list[tuple[int, int]] = []
        self.heard: dict[tuple[str, str], Heard] = {}
        self.deletes: list[int] = []
        self.unhanded: list[int] = []
        self.services: list[Saved] = []
        self.reads: list[int] = []

    def __bool__(self) -> bool:
        return bool(self.inserts or self.handed or self.deletes or self.services or self.reads)


class Result(NamedTuple):
    read: dict[int, bytes]
    """what is missing was not there, or was damaged"""
    refused: str = ""
    """why nothing was inserted; the rest was done"""


def checksum(id: int, number: int, data: bytes) -> int:
    return crc32(data, crc32(struct.pack(">qq", id, number)))


def service_checksum(name: str, key: int, high: int, totals: str) -> int:
    return crc32(f"{key} {high} {name} {totals}".encode(errors="replace"))


def good_service(row: tuple[Any, ...]) -> bool:
    return [type(one) for one in row] == [str, int, int, str, int] and service_checksum(*row[:4]) == row[4]


def repaired(row: tuple[Any, ...]) -> list[Saved]:
    """The key leads to the events; the rest is made anew."""
    name, key = row[:2]
    return [Saved(name, key, 0)] if type(name) is str and type(key) is int else []


def sane(id: Any, producer: Any, priority: Any, expires: Any, number: Any, size: Any) -> Row:
    """Of what kind it must be. What is wrong with a row is found when its event is read."""
    if type(priority) is not int or not -limits.MAX_PRIORITY <= priority <= limits.MAX_PRIORITY:
        priority = 0
    if type(expires) is not int:
        expires = NEVER
    if type(number) is not int or not 0 <= number <= limits.INT_MAX:
        number = 0
    return Row(id, str(producer), priority, expires, number, size if type(size) is int else 0)


def good_numbers(row: tuple[Any, ...]) -> bool:
    return [type(one) for one in row] == [int, int]


def good_heard(row: tuple[Any, ...]) -> bool:
    return [type(one) for one in row] == [str, str, int, int]


def good_event(row: tuple[Any, ...]) -> bool:
    kinds = [type(one) for one in row]
    return kinds == [int, int, str, int, int, int, int, bytes] and checksum(row[0], row[5], row[7]) == row[6]
