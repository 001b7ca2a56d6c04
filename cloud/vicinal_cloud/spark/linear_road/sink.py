"""The files of the answers, each row in them once, whatever is killed when.

A micro-batch is a transaction: its rows are appended to the files and synced, then one commit says how long the files
are now, what the accounts hold and which queries wait. Whoever opens the folder cuts the files to what was committed;
a micro-batch that comes again is known by its number.
"""

import os
import sqlite3
from pathlib import Path

from .accounts import Accounts, BalanceQuery
from .answers import FILES
from .desk import Answers

__all__ = ["Sink"]

_TABLES = """
create table if not exists done (batch integer not null, now integer not null, ended integer not null);
create table if not exists files (name text primary key, length integer not null, rows integer not null);
create table if not exists balances (vid integer primary key, balance integer not null);
create table if not exists waiting (time integer not null, vid integer not null, qid integer not null);
create table if not exists unanswered (reason text primary key, count integer not null);
"""


class Sink:
    """`folder` gets the files, `state` the small database beside them."""

    def __init__(self, folder: Path, state: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(state, isolation_level=None, check_same_thread=False)
        self._database.execute("pragma journal_mode = wal")
        self._database.execute("pragma synchronous = full")
        self._database.executescript(_TABLES)
        known = {name: (length, rows) for name, length, rows in self._database.execute("select * from files")}
        self._files = []
        self.rows = [known.get(name, (0, 0))[1] for name in FILES]
        """in each of the files"""
        for name in FILES:
            file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            os.ftruncate(file, known.get(name, (0, 0))[0])
            self._files.append(file)
        row = self._database.execute("select batch, now, ended from done").fetchone()
        self.batch, self.now, self.ended = (int(row[0]), int(row[1]), bool(row[2])) if row else (-1, -1, False)
        """the last micro-batch that is in the files, the newest time it had seen, whether it was the end"""

    def accounts(self) -> Accounts:
        found = Accounts()
        found.balances.update(self._database.execute("select vid, balance from balances"))
        found.waiting.extend(
            BalanceQuery(*row) for row in self._database.execute("select * from waiting order by time")
        )
        return found

    def unanswered(self) -> dict[str, int]:
        return dict(self._database.execute("select reason, count from unanswered"))

    def commit(
        self,
        batch: int,
        answers: Answers,
        accounts: Accounts,
        charged: set[int],
        unanswered: dict[str, int],
        now: int,
        ended: bool,
    ) -> None:
        """`charged` are the vehicles whose balance is another than at the last commit."""
        files = []
        for name, file, rows, before in zip(FILES, self._files, answers.rows, self.rows):
            if rows:
                data = memoryview("".join(rows).encode())
                while data:
                    data = data[os.write(file, data) :]
                os.fdatasync(file)
            files.append((name, os.fstat(file).st_size, before + len(rows)))
        run = self._database.execute
        run("begin immediate")
        try:
            run("delete from done")
            run("insert into done values (?, ?, ?)", (batch, now, ended))
            self._database.executemany("insert or replace into files values (?, ?, ?)", files)
            changed = [(vid, accounts.balances[vid]) for vid in charged]
            self._database.executemany("insert or replace into balances values (?, ?)", changed)
            run("delete from waiting")
            self._database.executemany("insert into waiting values (?, ?, ?)", accounts.waiting)
            self._database.executemany("insert or replace into unanswered values (?, ?)", unanswered.items())
            run("commit")
        except BaseException:
            run("rollback")
            raise
        self.batch, self.now, self.ended = batch, now, ended
        self.rows = [count for _, _, count in files]

    def close(self) -> None:
        for file in self._files:
            os.close(file)
        self._database.close()
