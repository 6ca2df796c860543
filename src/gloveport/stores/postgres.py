"""A store in PostgreSQL, shared by any number of hosts. Needs `gloveport[postgres]`."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, LiteralString, cast

from .._forks import ProcessLock
from ..errors import StoreError, StoreUnavailable
from .sql import Cursor, SQLStore, Transaction

try:
    import psycopg
    from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout
except ImportError as missing:  # pragma: no cover  the tests have it
    raise ImportError(f"{missing}: install gloveport[postgres]", name=missing.name) from missing

__all__ = ("PostgresStore",)

_SCHEMA: Final = (
    """CREATE TABLE IF NOT EXISTS {sessions} (
        key TEXT COLLATE "C" PRIMARY KEY, blob BYTEA, version BIGINT NOT NULL, spent BIGINT NOT NULL, tally BYTEA,
        label TEXT NOT NULL, pending TEXT, updated DOUBLE PRECISION NOT NULL,
        ttl DOUBLE PRECISION, counter_ttl DOUBLE PRECISION, expires DOUBLE PRECISION
    )""",
    """CREATE TABLE IF NOT EXISTS {segments} (
        key TEXT COLLATE "C" NOT NULL, number BIGINT NOT NULL, data BYTEA NOT NULL, PRIMARY KEY (key, number)
    )""",
    """CREATE TABLE IF NOT EXISTS {leases} (
        key TEXT COLLATE "C" PRIMARY KEY, token BIGINT NOT NULL, owner TEXT, until DOUBLE PRECISION NOT NULL
    )""",
    "ALTER TABLE {sessions} ALTER COLUMN blob SET STORAGE EXTERNAL",  # blobs are compressed or encrypted already
    "ALTER TABLE {segments} ALTER COLUMN data SET STORAGE EXTERNAL",
    "CREATE SEQUENCE IF NOT EXISTS {tokens}",
)
_VERSION: Final = 1
_LOCK_SPACE: Final = 0x676C7670
"""The first of the two numbers of our advisory locks; the second is a hash of the key."""
_READ: Final = "SELECT extract(epoch FROM clock_timestamp())::float8"
_WRITE: Final = "SELECT pg_advisory_xact_lock(%s, hashtext(%s)), extract(epoch FROM clock_timestamp())::float8"
_EXISTS: Final = "SELECT 1 FROM pg_catalog.pg_class WHERE relname = %s AND pg_catalog.pg_table_is_visible(oid)"
_PREFIX: Final = re.compile(r"[a-z_][a-z0-9_]{0,39}\Z")


class _Transaction:
    def __init__(self, connection: psycopg.Connection, store: PostgresStore, now: float) -> None:
        self.now = now
        self._connection = connection
        self._store = store

    def execute(self, statement: str, *parameters: Any) -> Cursor:
        return self._connection.execute(self._store.text(statement), parameters, binary=True)

    def next_token(self) -> int:
        return cast(int, self.execute("SELECT nextval('{tokens}')").fetchone()[0])


class PostgresStore(SQLStore):
    """Sessions in PostgreSQL 14 or later. The server's clock decides about leases and expiry.

    - `conninfo`: a `postgresql://` URL, or `host=… dbname=…` as libpq takes it. Keep passwords in a password file or the environment.
    - `table_prefix`: begins the names of its tables (default `gloveport_`); lower-case letters, digits and underscores.
    - `max_connections`: at the same time from this process (default 4); a call that finds none waits up to `timeout` seconds (10).

    Nothing is connected before the first use, which makes the tables when they are missing; any number of hosts may do so at once. A
    role that may not create tables can use tables that another one made. After a fork the child connects anew.

    Raises `StoreUnavailable` when the server cannot be reached, and `StoreError` when the tables are those of a newer release.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        table_prefix: str = "gloveport_",
        max_connections: int = 4,
        timeout: float = 10.0,
    ) -> None:
        if not _PREFIX.match(table_prefix):
            raise ValueError(f"`table_prefix` has lower-case letters, digits and underscores, not {table_prefix!r}")
        if max_connections < 1:
            raise ValueError(f"`max_connections` must be at least 1, not {max_connections!r}")
        self._conninfo = conninfo
        self._names = {name: table_prefix + name for name in ("sessions", "segments", "leases", "tokens", "schema")}
        self._texts: dict[str, LiteralString] = {}
        self._max = max_connections
        self._timeout = timeout
        self._lock = ProcessLock()
        self._pool: ConnectionPool | None = None
        self._owner = 0
        self._inherited: list[Any] = []
        self._closed = False

    def __str__(self) -> str:  # without the password that a URL may have
        return f"PostgreSQL table {self._names['sessions']}"

    def __repr__(self) -> str:
        return f"<PostgresStore {self._names['sessions']}>"

    def text(self, statement: str) -> LiteralString:
        """A statement in this server's words."""
        found = self._texts.get(statement)
        if found is None:
            found = cast(LiteralString, statement.format(**self._names).replace("?", "%s"))
            self._texts[statement] = found
        return found

    # ── connections ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _connections(self) -> ConnectionPool:
        with self._lock.own:
            if self._closed:
                raise StoreUnavailable("the store is closed")
            if self._pool is None or self._owner != os.getpid():
                if (
                    self._pool is not None
                ):  # a connection must not cross a fork; kept, so that nothing of it is closed here
                    self._inherited.append(self._pool)
                    self._pool = None
                self._prepare()
                self._pool, self._owner = self._new_pool(), os.getpid()
            return self._pool

    def _new_pool(self) -> ConnectionPool:
        return ConnectionPool(
            self._conninfo,
            min_size=0,
            max_size=self._max,
            timeout=self._timeout,
            max_idle=60.0,
            num_workers=1,
            open=True,
            configure=_configure,
            check=ConnectionPool.check_connection,  # one that the server closed while it was idle is replaced
            name="gloveport-postgres",
        )

    def _prepare(self) -> None:
        """Have the tables. Whoever comes second waits for the first one, and finds them."""
        # A connection of its own: the pool would say "timeout" where this says why.
        with _translated(), psycopg.connect(self._conninfo, connect_timeout=max(2, int(self._timeout))) as connection:
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            version = self._version(connection)
            if version is None:
                connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (_LOCK_SPACE,))
                version = self._version(connection)
            if version is None:
                for statement in _SCHEMA:
                    connection.execute(self.text(statement))
                connection.execute(self.text("CREATE TABLE {schema} (version INTEGER NOT NULL)"))
                connection.execute(self.text("INSERT INTO {schema} VALUES (?)"), (_VERSION,))
            elif version > _VERSION:
                raise StoreError(f"{self} was made by a newer release (schema {version})")

    def _version(self, connection: psycopg.Connection) -> int | None:
        # By a snapshot: `to_regclass` looks into a cache, which does not hear of a table that was made while we waited (seen: 18).
        if connection.execute(_EXISTS, (self._names["schema"],)).fetchone() is None:
            return None
        row = connection.execute(self.text("SELECT version FROM {schema}")).fetchone()
        if row is None:
            raise StoreError(f"the table {self._names['schema']} is empty; it should hold the version of the schema")
        return cast(int, row[0])

    # ── transactions ─────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _transaction(self, begin: LiteralString, parameters: tuple[Any, ...] = ()) -> Generator[Transaction]:
        with _translated(), self._connections().connection() as connection:
            row = connection.execute(begin, parameters, binary=True).fetchone()
            yield _Transaction(connection, self, cast(float, row[-1] if row else 0.0))

    def _reading(self) -> AbstractContextManager[Transaction]:
        return self._transaction(_READ)

    def _writing(self, key: str) -> AbstractContextManager[Transaction]:
        # The lock is a statement of its own: under READ COMMITTED, what comes after it sees what the last holder committed.
        return self._transaction(_WRITE, (_LOCK_SPACE, key))

    def close(self) -> None:
        """Close the connections. Idempotent."""
        with self._lock.own:
            self._closed = True
            pool, self._pool = self._pool, None
        if pool is not None and self._owner == os.getpid():
            pool.close()


def _configure(connection: psycopg.Connection) -> None:
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # whatever the server's default is


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout, PoolClosed) as error:
        raise StoreUnavailable(f"PostgreSQL cannot be used now: {error}") from error
    except psycopg.Error as error:
        raise StoreError(f"PostgreSQL refused: {error}") from error
