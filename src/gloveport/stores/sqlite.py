"""A store in one SQLite file, shared by any number of processes of one machine."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

from .._forks import ProcessLock
from ..errors import StoreError, StoreUnavailable
from .sql import Cursor, SQLStore, Transaction

__all__ = ("SQLiteStore",)

_SCHEMA: Final = (
    """CREATE TABLE IF NOT EXISTS sessions (
        key TEXT PRIMARY KEY, blob BLOB, version INTEGER NOT NULL, spent INTEGER NOT NULL,
        label TEXT NOT NULL, pending TEXT, updated REAL NOT NULL
    ) STRICT""",
    "ALTER TABLE sessions ADD COLUMN ttl REAL",
    "ALTER TABLE sessions ADD COLUMN counter_ttl REAL",
    "ALTER TABLE sessions ADD COLUMN expires REAL",
    "ALTER TABLE sessions ADD COLUMN tally BLOB",
    """CREATE TABLE segments (
        key TEXT NOT NULL, number INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (key, number)
    ) STRICT, WITHOUT ROWID""",
    "CREATE TABLE leases (key TEXT PRIMARY KEY, token INTEGER NOT NULL, owner TEXT, until REAL NOT NULL) STRICT",
    "CREATE TABLE tokens (last INTEGER NOT NULL) STRICT",
    "INSERT INTO tokens VALUES (0)",
)
_VERSION: Final = 1
"""`PRAGMA user_version`. 0 is an empty file, or one of a release before there were leases."""


class _Transaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.now = time.time()
        self._connection = connection

    def execute(self, statement: str, *parameters: Any) -> Cursor:
        text = statement.format(sessions="sessions", segments="segments", leases="leases")
        return self._connection.execute(text, parameters)

    def next_token(self) -> int:
        self._connection.execute("UPDATE tokens SET last = last + 1")
        return self._connection.execute("SELECT last FROM tokens").fetchone()[0]


class SQLiteStore(SQLStore):
    """`path` is made with its folder, readable by its owner only. WAL mode, so readers do not wait for a writer.

    For the processes of one machine: SQLite's locks do not hold on network file systems. Raises `StoreError` when the file is
    something else, or was written by a newer release.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = ProcessLock()
        self._owner = os.getpid()
        self._inherited: list[sqlite3.Connection] = []
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        self._connection = self._connect()

    def __str__(self) -> str:
        return repr(str(self.path))

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=30, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")  # a spent budget must survive a power cut
            self._prepare(connection)
        except sqlite3.DatabaseError as error:
            connection.close()
            raise StoreError(f"{str(self.path)!r} is not a store of sessions: {error}") from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if self._version(connection) == _VERSION:
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = self._version(connection)  # another process may have been first
            if version > _VERSION:
                raise StoreError(f"{str(self.path)!r} was written by a newer release (schema {version})")
            if version < _VERSION:
                for statement in _SCHEMA:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {_VERSION}")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    @staticmethod
    def _version(connection: sqlite3.Connection) -> int:
        return connection.execute("PRAGMA user_version").fetchone()[0]

    @contextmanager
    def _transaction(self, begin: str) -> Generator[Transaction]:
        with self._lock.own:
            if self._owner != os.getpid():  # a connection must not cross a fork (sqlite.org/howtocorrupt.html §2.6)
                self._inherited.append(self._connection)  # kept, so that it is not closed here
                self._connection, self._owner = self._connect(), os.getpid()
            connection = self._connection
            try:
                connection.execute(begin)
            except sqlite3.Error as error:
                raise StoreUnavailable(f"{str(self.path)!r} cannot be used now: {error}") from error
            try:
                yield _Transaction(connection)
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                self._roll_back(connection)
                raise StoreUnavailable(f"{str(self.path)!r} cannot be used now: {error}") from error
            except BaseException:
                self._roll_back(connection)
                raise

    @staticmethod
    def _roll_back(connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")

    def _reading(self) -> AbstractContextManager[Transaction]:
        return self._transaction("BEGIN")

    def _writing(self, key: str) -> AbstractContextManager[Transaction]:
        return self._transaction("BEGIN IMMEDIATE")  # of all keys: SQLite has one writer

    def close(self) -> None:
        """Close the file; a store that is dropped closes it too."""
        with self._lock.own:
            self._connection.close()

    def __del__(self) -> None:
        connection = getattr(self, "_connection", None)
        if connection is not None and self._owner == os.getpid():
            connection.close()
