"""What the stores that speak SQL have in common: every statement and every rule. They differ in how a transaction begins.

Three tables: sessions (one row per key; a deleted record leaves its row, without the blob, because version and counter go on), their
segments, and leases. A write is a transaction that nobody else of the same key is in, so that reading, checking and writing are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ..errors import LeaseLost, RecordNotFound
from .base import Lease, Record, Stored, after, check_acquire, check_key, check_seconds, check_write

__all__ = ("Cursor", "SQLStore", "Transaction")

_FIND = """
SELECT s.version, s.spent, s.tally, s.blob IS NOT NULL, s.expires, s.counter_ttl, l.token, l.owner, l.until
FROM (SELECT CAST(? AS TEXT) AS key) AS wanted
LEFT JOIN {sessions} AS s ON s.key = wanted.key LEFT JOIN {leases} AS l ON l.key = wanted.key
"""
_GET = """
SELECT 0, blob, version, spent, tally, label, pending, ttl, counter_ttl, updated FROM {sessions}
WHERE key = ? AND blob IS NOT NULL AND (expires IS NULL OR expires > ?)
UNION ALL SELECT number, data, 0, 0, NULL, '', NULL, NULL, NULL, 0.0 FROM {segments} WHERE key = ? ORDER BY 1
"""
_PUT = """
INSERT INTO {sessions} (key, blob, version, spent, tally, label, pending, updated, ttl, counter_ttl, expires)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET blob = excluded.blob, version = excluded.version, spent = excluded.spent,
tally = excluded.tally, label = excluded.label, pending = excluded.pending, updated = excluded.updated, ttl = excluded.ttl,
counter_ttl = excluded.counter_ttl, expires = excluded.expires
"""
_APPEND = "INSERT INTO {segments} (key, number, data) VALUES (?, ?, ?)"
_APPENDED = (
    "UPDATE {sessions} SET version = ?, spent = ?, tally = ?, pending = ?, updated = ?, expires = ? + ttl WHERE key = ?"
)
_FORGET_SEGMENTS = "DELETE FROM {segments} WHERE key = ?"
_DELETE = "UPDATE {sessions} SET blob = NULL, pending = NULL, expires = ? WHERE key = ?"
_LIST = """
SELECT key, version, spent, label, pending, ttl, counter_ttl, updated FROM {sessions}
WHERE key >= ? AND key < ? AND blob IS NOT NULL AND (expires IS NULL OR expires > ?) ORDER BY updated DESC
"""
_COUNT = """
SELECT count(*) FROM (SELECT 1 FROM {sessions}
WHERE key >= ? AND key < ? AND blob IS NOT NULL AND (expires IS NULL OR expires > ?) LIMIT ?) AS found
"""
_LEASE = """
INSERT INTO {leases} (key, token, owner, until) VALUES (?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET token = excluded.token, owner = excluded.owner, until = excluded.until
"""
_RENEW = "UPDATE {leases} SET until = ? WHERE key = ? AND token = ?"
_RELEASE = "UPDATE {leases} SET owner = NULL, until = 0 WHERE key = ? AND token = ?"
_OVER = """
SELECT key FROM {sessions} WHERE key >= ? AND key < ? AND expires <= ?
AND (blob IS NOT NULL OR expires + counter_ttl <= ?)
"""
_EXPIRE = "UPDATE {sessions} SET blob = NULL, pending = NULL WHERE key = ?"
_FORGET = "DELETE FROM {sessions} WHERE key = ?"
_IDLE_LEASES = """
DELETE FROM {leases} WHERE key >= ? AND key < ? AND until <= ?
AND NOT EXISTS (SELECT 1 FROM {sessions} AS s WHERE s.key = {leases}.key)
"""
_MANY = 2**31 - 1


class Cursor(Protocol):
    """The answer to a statement."""

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...


class Transaction(Protocol):
    """A transaction under way."""

    @property
    def now(self) -> float:
        """When it began by the store's clock, as epoch seconds."""
        ...

    def execute(self, statement: str, *parameters: Any) -> Cursor:
        """Perform a statement with `{tables}` and `?` in it."""
        ...

    def next_token(self) -> int:
        """A number higher than every one before."""
        ...


class SQLStore:
    """Not for use by itself: see `SQLiteStore` and `PostgresStore`."""

    def _reading(self) -> AbstractContextManager[Transaction]:
        raise NotImplementedError

    def _writing(self, key: str) -> AbstractContextManager[Transaction]:
        """A transaction in which nobody else writes that key."""
        raise NotImplementedError

    # ── records ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, key: str) -> Record:
        """See `Store.get`."""
        check_key(key)
        with self._reading() as transaction:
            rows = transaction.execute(_GET, key, transaction.now, key).fetchall()
        if not rows or rows[0][0]:
            raise RecordNotFound(f"there is no record {key!r} in {self}")
        _, blob, version, spent, tally, label, pending, ttl, counter_ttl, updated = rows[0]
        return Record(
            key=key,
            blob=bytes(blob),
            segments=tuple(bytes(row[1]) for row in rows[1:]),
            version=version,
            spent=spent,
            tally=bytes(tally or b""),
            label=label,
            pending=pending,
            ttl=ttl,
            counter_ttl=counter_ttl,
            updated=updated,
        )

    def put(self, record: Record, *, expect: int | None, token: int | None = None, release: bool = False) -> int:
        """See `Store.put`."""
        check_seconds("ttl", record.ttl)
        check_seconds("counter_ttl", record.counter_ttl)
        key = record.key
        with self._found(key) as (transaction, stored):
            check_write(key, stored, expect=expect, spent=record.spent, token=token)
            now, version = stored.now, stored.version + 1
            expires = None if record.ttl is None else now + record.ttl
            values = (
                record.spent,
                record.tally,
                record.label,
                record.pending,
                now,
                record.ttl,
                record.counter_ttl,
                expires,
            )
            transaction.execute(_PUT, key, record.blob, version, *values)
            transaction.execute(_FORGET_SEGMENTS, key)
            if release:
                transaction.execute(_RELEASE, key, stored.token)
        return version

    def append(
        self,
        key: str,
        segment: bytes,
        *,
        expect: int,
        spent: int,
        tally: bytes = b"",
        pending: str | None = None,
        token: int | None = None,
        release: bool = False,
    ) -> int:
        """See `Store.append`."""
        with self._found(key) as (transaction, stored):
            check_write(key, stored, expect=expect, spent=spent, token=token)
            now, version = stored.now, stored.version + 1
            transaction.execute(_APPEND, key, version, segment)
            transaction.execute(_APPENDED, version, spent, tally, pending, now, now, key)
            if release:
                transaction.execute(_RELEASE, key, stored.token)
        return version

    def delete(self, key: str, *, expect: int | None = None, token: int | None = None) -> bool:
        """See `Store.delete`."""
        with self._found(key) as (transaction, stored):
            if expect is None or not stored.alive:
                expect = stored.version if stored.alive else None
            check_write(key, stored, expect=expect, spent=stored.spent, token=token)
            if not stored.alive:
                return False
            transaction.execute(_DELETE, stored.now, key)
            transaction.execute(_FORGET_SEGMENTS, key)
        return True

    def list(self, prefix: str = "") -> Sequence[Record]:
        """See `Store.list`."""
        with self._reading() as transaction:
            rows = transaction.execute(_LIST, prefix, after(prefix), transaction.now).fetchall()
        return [
            Record(
                key=key,
                blob=b"",
                version=version,
                spent=spent,
                label=label,
                pending=pending,
                ttl=ttl,
                counter_ttl=counter_ttl,
                updated=updated,
            )
            for key, version, spent, label, pending, ttl, counter_ttl, updated in rows
        ]

    def count(self, prefix: str = "", *, most: int | None = None) -> int:
        """See `Store.count`."""
        with self._reading() as transaction:
            limit = _MANY if most is None else most
            return transaction.execute(_COUNT, prefix, after(prefix), transaction.now, limit).fetchone()[0]

    def spent(self, key: str) -> int:
        """See `Store.spent`."""
        check_key(key)
        with self._reading() as transaction:
            return _find(transaction, key).spent

    # ── leases ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def acquire(self, key: str, owner: str, ttl: float) -> Lease:
        """See `Store.acquire`."""
        with self._found(key) as (transaction, stored):
            check_acquire(key, stored, owner, ttl)
            token = transaction.next_token()
            transaction.execute(_LEASE, key, token, owner, stored.now + ttl)
        return stored.lease(key, owner, token, ttl)

    def renew(self, lease: Lease) -> Lease:
        """See `Store.renew`."""
        with self._found(lease.key) as (transaction, stored):
            if stored.token != lease.token or stored.owner is None:
                raise LeaseLost(f"the lease of record {lease.key!r} with token {lease.token} is over")
            transaction.execute(_RENEW, stored.now + lease.ttl, lease.key, lease.token)
        return stored.lease(lease.key, lease.owner, lease.token, lease.ttl)

    def release(self, lease: Lease) -> bool:
        """See `Store.release`."""
        with self._found(lease.key) as (transaction, stored):
            if stored.token != lease.token or stored.owner is None:
                return False
            transaction.execute(_RELEASE, lease.key, lease.token)
        return True

    def _found(self, key: str) -> AbstractContextManager[tuple[Transaction, Stored]]:
        check_key(key)
        return _Found(self._writing(key), key)

    # ── the end of things ────────────────────────────────────────────────────────────────────────────────────────────

    def prune(self, prefix: str = "") -> int:
        """See `Store.prune`. One short transaction per key, so that nobody waits for it."""
        end = after(prefix)
        with self._reading() as transaction:
            now = transaction.now
            keys = [row[0] for row in transaction.execute(_OVER, prefix, end, now, now).fetchall()]
        removed = sum(self._prune_one(key) for key in keys)
        with self._writing(prefix or "*") as transaction:
            transaction.execute(_IDLE_LEASES, prefix, end, transaction.now)
        return removed

    def _prune_one(self, key: str) -> bool:
        with self._found(key) as (transaction, stored):
            if stored.alive:  # someone wrote it meanwhile
                return False
            row = transaction.execute("SELECT blob IS NOT NULL FROM {sessions} WHERE key = ?", key).fetchone()
            transaction.execute(_EXPIRE if stored.version else _FORGET, key)
            transaction.execute(_FORGET_SEGMENTS, key)
        return row is not None and bool(row[0])


class _Found:
    """A write transaction, and what the key holds at its beginning."""

    def __init__(self, writing: AbstractContextManager[Transaction], key: str) -> None:
        self._writing = writing
        self._key = key

    def __enter__(self) -> tuple[Transaction, Stored]:
        transaction = self._writing.__enter__()
        try:
            return transaction, _find(transaction, self._key)
        except BaseException as error:
            self._writing.__exit__(type(error), error, error.__traceback__)
            raise

    def __exit__(self, *exc: Any) -> bool | None:
        return self._writing.__exit__(*exc)


def _find(transaction: Transaction, key: str) -> Stored:
    row = transaction.execute(_FIND, key).fetchone()
    session = None if row[0] is None else (row[0], row[1], bytes(row[2] or b""), bool(row[3]), row[4], row[5])
    lease = None if row[6] is None else (row[6], row[7], row[8])
    return Stored.of(transaction.now, session, lease)
