"""The list of machines, in one SQLite file: what they were asked to be. How they are now is never written here, but looked up."""

from __future__ import annotations

import dataclasses
import json
import os
import sqlite3
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from .._forks import ProcessLock
from ..errors import SandboxError

__all__ = ("Record", "Registry", "SnapshotRecord")

_VERSION: Final = 1
_SCHEMA: Final = (
    """CREATE TABLE boxes (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, owner TEXT NOT NULL, host TEXT NOT NULL, driver TEXT NOT NULL, created REAL NOT NULL,
        metadata TEXT NOT NULL, options TEXT NOT NULL, timeout REAL, idle REAL, auto_delete REAL, auto_resume INTEGER NOT NULL,
        pool TEXT, starts INTEGER NOT NULL DEFAULT 0, ended REAL, reason TEXT
    ) STRICT""",
    "CREATE INDEX boxes_by_time ON boxes (created, id)",
    """CREATE TABLE snapshots (
        id TEXT PRIMARY KEY, name TEXT UNIQUE, box TEXT NOT NULL, created REAL NOT NULL, options TEXT NOT NULL, size INTEGER NOT NULL
    ) STRICT""",
)
_REMEMBER: Final = 7 * 86400.0
"""Seconds for which it is known why a deleted machine is gone."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """What a machine was asked to be."""

    id: str
    name: str
    owner: str
    host: str
    driver: str
    created: float
    metadata: Mapping[str, str]
    options: Mapping[str, Any]
    """Everything that it takes to start it again; the keys are those of `host.machines.options.Options`."""
    timeout: float | None
    idle: float | None
    auto_delete: float | None
    auto_resume: bool
    pool: str | None = None
    """The pool for which it waits, if it does."""
    starts: int = 0
    """How often its processes were started."""
    ended: float | None = None
    reason: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class SnapshotRecord:
    """A frozen copy of a machine's files."""

    id: str
    name: str | None
    box: str
    created: float
    options: Mapping[str, Any]
    size: int


_JSON: Final = ("metadata", "options")


def _row(record: Any) -> dict[str, Any]:
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    for name in _JSON:
        if name in values:
            values[name] = json.dumps(dict(values[name]))
    return values


class Registry:
    """Usable by any thread, and after a fork. Raises `SandboxError` for a file that is not ours or of a newer release."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = ProcessLock()
        self._owner = os.getpid()
        self._connection: sqlite3.Connection | None = None

    def _open(self) -> sqlite3.Connection:
        if self._owner != os.getpid():  # a connection must not cross a fork (sqlite.org/howtocorrupt.html §2.6)
            self._inherited = self._connection  # kept, so that it is not closed here
            self._connection, self._owner = None, os.getpid()
        if self._connection is None:
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            connection = sqlite3.connect(self.path, timeout=30, isolation_level=None, check_same_thread=False)
            try:
                connection.row_factory = sqlite3.Row
                connection.execute("PRAGMA journal_mode=WAL")
                # A row that a power cut loses belongs to a machine that it has ended as well.
                connection.execute("PRAGMA synchronous=NORMAL")
                self._prepare(connection)
            except sqlite3.DatabaseError as error:
                connection.close()
                raise SandboxError(f"{str(self.path)!r} is not a list of machines: {error}") from error
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if _version(connection) == _VERSION:
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = _version(connection)  # another process may have been first
            if version > _VERSION:
                raise SandboxError(f"{str(self.path)!r} was written by a newer release (schema {version})")
            for statement in _SCHEMA if version == 0 else ():
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {_VERSION}")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    @contextmanager
    def _using(self) -> Generator[sqlite3.Connection]:
        with self._lock.own:
            try:
                yield self._open()
            except sqlite3.OperationalError as error:
                raise SandboxError(f"the list of machines {str(self.path)!r} cannot be used now: {error}") from error

    # ── machines ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, record: Record) -> None:
        """A new one."""
        self._insert("boxes", _row(record))

    def _insert(self, table: str, row: dict[str, Any]) -> None:
        names = ", ".join(row)
        with self._using() as connection:
            connection.execute(
                f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(row))})",  # noqa: S608
                tuple(row.values()),
            )

    def get(self, id: str) -> Record | None:  # noqa: A002
        """The one with this id, deleted ones included."""
        with self._using() as connection:
            row = connection.execute("SELECT * FROM boxes WHERE id = ?", (id,)).fetchone()
        return None if row is None else _record(row)

    def change(self, id: str, *, where: str = "ended IS NULL", **values: Any) -> bool:  # noqa: A002
        """Set these columns. Gives whether there is such a machine."""
        row = {name: json.dumps(dict(value)) if name in _JSON else value for name, value in values.items()}
        with self._using() as connection:
            done = connection.execute(
                f"UPDATE boxes SET {', '.join(f'{name} = ?' for name in row)} WHERE id = ? AND {where}",  # noqa: S608
                (*row.values(), id),
            )
            return done.rowcount > 0

    def end(self, id: str, reason: str) -> None:  # noqa: A002
        """It is deleted. Why is remembered for a week."""
        self.change(id, ended=time.time(), reason=reason, pool=None)

    def find(self, *, pool: str | None = None, ended: bool = False) -> list[Record]:
        """Those that are not deleted (or those that are), in the order of their making; with `pool`, those that wait for it."""
        query = f"SELECT * FROM boxes WHERE ended IS {'NOT ' if ended else ''}NULL"  # noqa: S608
        if pool is not None:
            query += " AND pool = ?"
        with self._using() as connection:
            rows = connection.execute(f"{query} ORDER BY created, id", () if pool is None else (pool,)).fetchall()
        return [_record(row) for row in rows]

    def forget(self) -> None:
        """Drop what is remembered of machines that were deleted long ago."""
        with self._using() as connection:
            connection.execute("DELETE FROM boxes WHERE ended < ?", (time.time() - _REMEMBER,))

    # ── snapshots ────────────────────────────────────────────────────────────────────────────────────────────────────

    def add_snapshot(self, record: SnapshotRecord) -> None:
        """A new one. Raises `SandboxError` when the name is taken."""
        try:
            self._insert("snapshots", _row(record))
        except sqlite3.IntegrityError as error:
            raise SandboxError(
                f"a snapshot is already named {record.name!r}", hint="delete that one, or take another name"
            ) from error

    def snapshots(self, box: str | None = None) -> list[SnapshotRecord]:
        """All of them, or those of one machine, the oldest first."""
        query = "SELECT * FROM snapshots WHERE ?1 IS NULL OR box = ?1 ORDER BY created, id"
        with self._using() as connection:
            rows = connection.execute(query, (box,)).fetchall()
        return [SnapshotRecord(**{**dict(row), "options": json.loads(row["options"])}) for row in rows]

    def remove_snapshot(self, id: str) -> bool:  # noqa: A002
        """Forget one. Gives whether there was one."""
        with self._using() as connection:
            return connection.execute("DELETE FROM snapshots WHERE id = ?", (id,)).rowcount > 0

    def close(self) -> None:
        """Close the file; it is opened again when it is needed."""
        with self._lock.own:
            if self._connection is not None and self._owner == os.getpid():
                self._connection.close()
                self._connection = None

    def __del__(self) -> None:
        if getattr(self, "_connection", None) is not None:
            self.close()


def _version(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA user_version").fetchone()[0]


def _record(row: sqlite3.Row) -> Record:
    values = dict(row)
    for name in _JSON:
        values[name] = json.loads(values[name])
    values["auto_resume"] = bool(values["auto_resume"])
    return Record(**values)
