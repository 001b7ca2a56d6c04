"""The store's file: SQLite in WAL mode, synchronous=FULL, so that what a commit has returned from survives a power cut.

    service  name, key, high, totals, crc      numbers below `high` may have been given; '' is the row of the ids
    event    id, service, producer, priority, expires, number, crc, data       number 0: was not handed out when written
    handed   id, number                        was handed out later
    heard    source, producer, seq, id         the highest that came from a source which says everything again that
                                               was not acknowledged to it

Everything here runs in the store's thread. A statement lets the other thread of the program run, and waits up to 5 ms
for its turn after that; so rows go many in one statement.

A file that `quick_check` does not like, or that SQLite finds malformed later, is set aside, and what can be read of it
is copied into a new one. SQLite does not check what is in a page: each row has a CRC of its own, looked at when it is
read.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ._store_rows import (
    COLUMNS,
    TABLES,
    Found,
    Heard,
    Result,
    Row,
    Saved,
    Transaction,
    checksum,
    good_event,
    good_heard,
    good_numbers,
    good_service,
    repaired,
    sane,
    service_checksum,
)

__all__ = ["Database", "Found", "Heard", "Result", "Row", "Saved", "StoreInUse", "Transaction", "checksum", "reason_of"]

FORMAT = 1
NO_SPACE = "no space on the disk"
WRITE_FAILED = "the disk failed"
# So that statements are prepared once for each size. SQLite before 3.32 takes 999 values in one.
_SIZES = (100, 25, 5, 1)
# Producers of which it is known how far they have come.
MAX_HEARD = 10_000
_MALFORMED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_CONSTRAINT)


class StoreInUse(Exception):
    pass


def reason_of(error: BaseException) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return NO_SPACE if code == sqlite3.SQLITE_FULL else WRITE_FAILED


class Database:
    def __init__(self, path: Path, ballast: int = 0) -> None:
        """`ballast` is the size of a file beside it: given up when the disk is full, so that what makes room, deleting,
        has room itself."""
        self.path = path
        self.ballast = path.with_suffix(".ballast")
        self.ballast_bytes = ballast
        self.set_aside = 0
        self._ballasted = False
        self._connection: sqlite3.Connection | None = None

    # Opening

    def open(self) -> Found:
        """Raises StoreInUse, OSError or sqlite3.Error."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        damaged = ""
        try:
            self._connect(check=True)
        except sqlite3.DatabaseError as error:
            # The last is what SQLite says when it cannot make sense of the names of tables and the like.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (*_MALFORMED, sqlite3.SQLITE_ERROR):
                raise
            damaged = str(error)
            self._start_anew()
        self._fill_ballast()
        services = []
        for row in self._run("SELECT name, key, high, totals, crc FROM service").fetchall():
            if good_service(row):
                services.append(Saved(*row[:4]))
            else:
                damaged = damaged or f"the row of service {row[0]!r}"
                services += repaired(row)
        self._run("DELETE FROM heard WHERE id < (SELECT id FROM heard ORDER BY id DESC LIMIT 1 OFFSET ?)", (MAX_HEARD,))
        heard = self._run("SELECT source, producer, seq, id FROM heard").fetchall()
        return Found(services, [Heard(*row) for row in heard if good_heard(row)], damaged)

    def rows(self, service: int, after: int, most: int) -> list[Row]:
        """The next rows of a service, without the events."""
        found = self._run(
            "SELECT event.id, producer, priority, expires, coalesce(handed.number, event.number), length(data)"
            " FROM event LEFT JOIN handed ON handed.id = event.id"
            " WHERE event.id > ? AND service = ? ORDER BY event.id LIMIT ?",
            (after, service, most),
        )
        return [sane(*row) for row in found.fetchall()]

    def unclaimed(self, services: list[int]) -> tuple[int, int]:
        """How many events there are of others, and their bytes."""
        places = ", ".join("?" * len(services))
        found = self._run(
            f"SELECT count(*), coalesce(sum(length(data)), 0) FROM event WHERE service NOT IN ({places})", services
        )
        count, size = found.fetchone()
        return count, size

    def _connect(self, check: bool = False) -> None:
        connection = sqlite3.connect(
            self.path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=64
        )
        try:
            for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
                connection.execute(f"PRAGMA {pragma}").fetchall()
            # 2 MB of pages in memory. 1 MB of log goes into the file, which may need as much room for it: the ballast
            # is more than that. What a burst has made of the log is not kept.
            for pragma in ("cache_size = -2000", "wal_autocheckpoint = 250", f"journal_size_limit = {4 << 20}"):
                connection.execute(f"PRAGMA {pragma}").fetchall()
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.text_factory = _text
            connection.execute("BEGIN IMMEDIATE")
            self._check_format(connection)
            connection.execute("COMMIT")
            if check:
                (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
                if found != "ok":
                    raise _malformed(found)
        except BaseException as error:
            connection.close()
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                raise StoreInUse(f"{self.path} is in use by another process") from error
            raise
        self._connection = connection
        _sync_directory(self.path.parent)  # the names of the file and of its log

    def _check_format(self, connection: sqlite3.Connection) -> None:
        tables = [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE type = 'table'")]
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if not tables and version == 0:
            for statement in TABLES:
                connection.execute(statement)
        elif sorted(tables) != sorted(TABLES):
            if FORMAT < version < 1000:
                raise OSError(f"{self.path} has format {version}, this program knows {FORMAT}")
            raise _malformed(f"its tables are {tables!r}")
        if version != FORMAT:
            connection.execute(f"PRAGMA user_version = {FORMAT}")

    # Committing

    def apply(self, work: Transaction) -> Result:
        """All of it is on disk when it returns, but for the inserts if they are refused. Raises sqlite3.Error or
        OSError when nothing is."""
        if work.inserts and not self._fill_ballast():
            return self._apply_rest(work, NO_SPACE)
        try:
            return self._apply(work)
        except (sqlite3.Error, OSError) as error:
            self._recover(error)
            reason = reason_of(error)
            if reason == NO_SPACE:
                self._drop_ballast()
                self._shorten_log()
            elif not work.inserts:
                raise
            return self._apply_rest(work, reason)

    def _apply_rest(self, work: Transaction, reason: str) -> Result:
        """Without the inserts."""
        rest = Transaction()
        rest.handed, rest.unhanded, rest.reads = work.handed, work.unhanded, work.reads
        # The inserts may be there after all, when a sync has failed.
        rest.deletes = work.deletes + [row[0] for row in work.inserts]
        if not work.inserts:
            rest.services, reason = work.services, ""
        return Result(self._apply(rest).read, reason)

    def _apply(self, work: Transaction) -> Result:
        if self._connection is None:
            self._connect()
        run = self._run
        writes = bool(work.inserts or work.handed or work.deletes or work.unhanded or work.services)
        if writes:
            run("BEGIN IMMEDIATE")
            if work.inserts:
                self._many(f"INSERT OR REPLACE INTO event ({COLUMNS}) VALUES ", work.inserts)
            if work.heard:
                self._many("INSERT OR REPLACE INTO heard (source, producer, seq, id) VALUES ", [*work.heard.values()])
            if work.handed:
                self._many("INSERT OR REPLACE INTO handed (id, number) VALUES ", work.handed)
            if work.deletes:
                self._delete("event", work.deletes)
            if work.unhanded:
                self._delete("handed", work.unhanded)
            if work.services:
                rows = [(*saved, service_checksum(*saved)) for saved in work.services]
                self._many("INSERT OR REPLACE INTO service (name, key, high, totals, crc) VALUES ", rows)
            run("COMMIT")
        return Result(self.read(work.reads))

    def _run(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        assert self._connection is not None
        return self._connection.execute(sql, values)

    def _many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        places = "(" + ", ".join("?" * len(rows[0])) + ")"
        for part in _parts(rows):
            self._run(sql + ", ".join([places] * len(part)), [value for row in part for value in row])

    def _delete(self, table: str, ids: list[int]) -> None:
        """By spans, where they are dense: most of what is delivered was stored together."""
        ids = sorted(ids)
        single: list[int] = []
        start = previous = ids[0]
        for id in [*ids[1:], -1]:
            if id == previous + 1:
                previous = id
                continue
            if previous - start >= 3:
                self._run(f"DELETE FROM {table} WHERE id BETWEEN ? AND ?", (start, previous))
            else:
                single.extend(range(start, previous + 1))
            start = previous = id
        for part in _parts(single):
            self._run(f"DELETE FROM {table} WHERE id IN ({', '.join('?' * len(part))})", part)

    def read(self, ids: list[int]) -> dict[int, bytes]:
        """The events; what is missing is not there, or is damaged."""
        return dict(self._read(ids))

    def _read(self, ids: list[int]) -> Iterator[tuple[int, bytes]]:
        for part in _parts(ids):
            places = ", ".join("?" * len(part))
            for id, number, crc, data in self._run(
                f"SELECT id, number, crc, data FROM event WHERE id IN ({places})", part
            ).fetchall():
                if type(data) is bytes and checksum(id, number, data) == crc:
                    yield id, data

    def _recover(self, error: BaseException) -> None:
        """After a failure: nothing of the transaction stays."""
        connection = self._connection
        if connection is None:
            return
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            with suppress(sqlite3.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                return
        # What an open connection believes of the file after that is not to be trusted.
        self._connection = None
        with suppress(sqlite3.Error):
            connection.close()
        if code in _MALFORMED:
            self._start_anew()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # A damaged file

    def _start_anew(self) -> None:
        self.set_aside += 1
        aside = self.path.with_name(f"{self.path.name}.damaged")
        for tail in ("-wal", "-shm", ""):
            # One of them is kept, the last: a disk that fails must not fill up with them.
            aside.with_name(aside.name + tail).unlink(missing_ok=True)
            with suppress(FileNotFoundError):
                self.path.with_name(self.path.name + tail).rename(aside.with_name(aside.name + tail))
        self._connect()
        with suppress(sqlite3.Error):
            old = sqlite3.connect(f"file:{aside}?mode=ro", uri=True, isolation_level=None)
            try:
                self._copy(old)
            finally:
                old.close()

    def _copy(self, old: sqlite3.Connection) -> None:
        """What can be read, from both ends of each table."""
        self._run("BEGIN IMMEDIATE")
        for table, columns, good in (
            ("service", "name, key, high, totals, crc", good_service),
            ("handed", "id, number", good_numbers),
            ("heard", "source, producer, seq, id", good_heard),
            ("event", COLUMNS, good_event),
        ):
            order = columns.split(",")[0]
            for direction in ("ASC", "DESC"):
                rows = _readable(old, f"SELECT {columns} FROM {table} ORDER BY {order} {direction}", good)
                batch: list[tuple[Any, ...]] = []
                for row in rows:
                    batch.append(row)
                    if len(batch) == _SIZES[0]:
                        self._many(f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ", batch)
                        batch = []
                if batch:
                    self._many(f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ", batch)
        self._run("COMMIT")

    # Ballast

    def _fill_ballast(self) -> bool:
        """Whether it is there. Without it nothing is inserted. When the file has taken some of its room, a smaller one
        must do."""
        if self._ballasted or not self.ballast_bytes:
            return True
        for size in (self.ballast_bytes, self.ballast_bytes // 2, self.ballast_bytes // 4):
            try:
                descriptor = os.open(self.ballast, os.O_WRONLY | os.O_CREAT, 0o600)
                try:
                    os.posix_fallocate(descriptor, 0, size)
                finally:
                    os.close(descriptor)
            except OSError:
                self._drop_ballast()
                continue
            self._ballasted = True
            return True
        return False

    def _drop_ballast(self) -> None:
        self._ballasted = False
        with suppress(OSError):
            self.ballast.unlink()

    def _shorten_log(self) -> None:
        """What is in the log and in the file is there twice."""
        with suppress(sqlite3.Error):
            if self._connection is not None:
                self._run("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _parts(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    at = 0
    while at < len(rows):
        size = next(size for size in _SIZES if size <= len(rows) - at)
        yield rows[at : at + size]
        at += size


def _readable(old: sqlite3.Connection, sql: str, good: Callable[[tuple[Any, ...]], bool]) -> Iterator[tuple[Any, ...]]:
    try:
        for row in old.execute(sql):
            if good(row):
                yield row
    except (sqlite3.Error, UnicodeDecodeError):
        return


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _malformed(message: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(message)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
