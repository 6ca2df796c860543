"""A store in one SQLite file, shared by any number of processes of one machine."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..errors import RecordNotFound, StoreError
from .base import Record, check_write

__all__ = ("SQLiteStore",)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (
    key TEXT PRIMARY KEY, blob BLOB, version INTEGER NOT NULL, spent INTEGER NOT NULL,
    label TEXT NOT NULL, pending TEXT, updated REAL NOT NULL
) STRICT
"""
# A deleted record keeps its row, without the blob: its version must go on growing.


class SQLiteStore:
    """`path` is made with its folder, readable by its owner only. WAL mode, so readers do not wait for a writer."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        self._connection = self._connect()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=30, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")  # a spent budget must survive a power cut
            connection.execute(_SCHEMA)
        except sqlite3.DatabaseError as error:
            connection.close()
            raise StoreError(f"{str(self.path)!r} is not a store of sessions: {error}") from error
        return connection

    @contextmanager
    def _transaction(self, *, write: bool) -> Generator[sqlite3.Connection]:
        with self._lock:
            if self._owner != os.getpid():  # a connection must not cross a fork (sqlite.org/howtocorrupt.html §2.6)
                self._inherited = self._connection  # kept, so that it is not closed here
                self._connection, self._owner = self._connect(), os.getpid()
            connection = self._connection
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def get(self, key: str) -> Record:
        """See `Store.get`."""
        with self._transaction(write=False) as connection:
            row = connection.execute(
                "SELECT key, blob, version, spent, label, pending, updated FROM sessions WHERE key = ? AND blob NOT NULL",
                (key,),
            ).fetchone()
        if row is None:
            raise RecordNotFound(f"there is no record {key!r} in {str(self.path)!r}")
        return _record(row)

    def put(self, record: Record, *, expect: int | None) -> int:
        """See `Store.put`."""
        with self._transaction(write=True) as connection:
            row = connection.execute(
                "SELECT version, spent, blob NOT NULL FROM sessions WHERE key = ?", (record.key,)
            ).fetchone()
            check_write(record, (row[0], row[1]) if row is not None and row[2] else None, expect)
            version = (row[0] if row is not None else 0) + 1
            connection.execute(
                "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?)",
                (record.key, record.blob, version, record.spent, record.label, record.pending, time.time()),
            )
            return version

    def delete(self, key: str, *, expect: int | None = None) -> bool:
        """See `Store.delete`."""
        with self._transaction(write=True) as connection:
            row = connection.execute(
                "SELECT version, spent FROM sessions WHERE key = ? AND blob NOT NULL", (key,)
            ).fetchone()
            if row is None:
                return False
            if expect is not None:
                check_write(Record(key=key, blob=b"", spent=row[1]), (row[0], row[1]), expect)
            connection.execute("UPDATE sessions SET blob = NULL, pending = NULL WHERE key = ?", (key,))
            return True

    def list(self, prefix: str = "") -> Sequence[Record]:
        """See `Store.list`."""
        with self._transaction(write=False) as connection:
            rows = connection.execute(
                "SELECT key, x'', version, spent, label, pending, updated FROM sessions "
                "WHERE blob NOT NULL AND substr(key, 1, ?) = ? ORDER BY updated DESC",
                (len(prefix), prefix),
            ).fetchall()
        return [_record(row) for row in rows]

    def close(self) -> None:
        """Close the file; a store that is dropped closes it too."""
        with self._lock:
            self._connection.close()

    def __del__(self) -> None:
        connection = getattr(self, "_connection", None)
        if connection is not None and self._owner == os.getpid():
            connection.close()


def _record(row: tuple[str, bytes, int, int, str, str | None, float]) -> Record:
    key, blob, version, spent, label, pending, updated = row
    return Record(key=key, blob=blob, version=version, spent=spent, label=label, pending=pending, updated=updated)
