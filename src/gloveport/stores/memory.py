"""A store in this process's memory."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Sequence

from ..errors import LeaseLost, RecordNotFound
from .base import Lease, Record, Stored, check_acquire, check_key, check_seconds, check_write

__all__ = ("MemoryStore",)


@dataclasses.dataclass
class _Entry:
    """What is kept of a key: its record, or after that is gone its counter; and its lease."""

    record: Record | None = None
    version: int = 0
    spent: int = 0
    tally: bytes = b""
    expires: float | None = None
    counter_ttl: float | None = None
    lease: tuple[int, str | None, float] | None = None

    def stored(self, now: float) -> Stored:
        row = (self.version, self.spent, self.tally, self.record is not None, self.expires, self.counter_ttl)
        return Stored.of(now, row, self.lease)


class MemoryStore:
    """Gone with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._tokens = 0

    def _find(self, key: str) -> tuple[_Entry, Stored]:
        check_key(key)
        entry = self._entries.get(key) or _Entry()
        return entry, entry.stored(time.time())

    def get(self, key: str) -> Record:
        """See `Store.get`."""
        with self._lock:
            entry, stored = self._find(key)
            if entry.record is None or not stored.alive:
                raise RecordNotFound(f"there is no record {key!r}")
            return entry.record

    def put(self, record: Record, *, expect: int | None, token: int | None = None, release: bool = False) -> int:
        """See `Store.put`."""
        check_seconds("ttl", record.ttl)
        check_seconds("counter_ttl", record.counter_ttl)
        with self._lock:
            entry, stored = self._find(record.key)
            check_write(record.key, stored, expect=expect, spent=record.spent, token=token)
            self._entries[record.key] = entry
            made = dataclasses.replace(record, segments=(), version=stored.version + 1, updated=stored.now)
            return self._write(entry, made, release)

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
        with self._lock:
            entry, stored = self._find(key)
            check_write(key, stored, expect=expect, spent=spent, token=token)
            assert entry.record is not None
            made = dataclasses.replace(
                entry.record,
                segments=(*entry.record.segments, segment),
                version=stored.version + 1,
                spent=spent,
                tally=tally,
                pending=pending,
                updated=stored.now,
            )
            return self._write(entry, made, release)

    @staticmethod
    def _write(entry: _Entry, record: Record, release: bool) -> int:
        entry.record, entry.version, entry.spent, entry.tally = record, record.version, record.spent, record.tally
        entry.expires = None if record.ttl is None else record.updated + record.ttl
        entry.counter_ttl = record.counter_ttl
        if release and entry.lease is not None:
            entry.lease = (entry.lease[0], None, 0.0)
        return record.version

    def delete(self, key: str, *, expect: int | None = None, token: int | None = None) -> bool:
        """See `Store.delete`."""
        with self._lock:
            entry, stored = self._find(key)
            if expect is None and stored.alive:
                expect = stored.version
            check_write(key, stored, expect=expect if stored.alive else None, spent=stored.spent, token=token)
            if not stored.alive:
                return False
            entry.record, entry.expires = None, stored.now
            return True

    def list(self, prefix: str = "") -> Sequence[Record]:
        """See `Store.list`."""
        found = [dataclasses.replace(record, blob=b"", segments=()) for record in self._alive(prefix)]
        return sorted(found, key=lambda record: -record.updated)

    def count(self, prefix: str = "", *, most: int | None = None) -> int:
        """See `Store.count`."""
        found = len(self._alive(prefix))
        return found if most is None else min(found, most)

    def _alive(self, prefix: str) -> list[Record]:
        now = time.time()
        with self._lock:
            return [
                entry.record
                for key, entry in self._entries.items()
                if entry.record is not None and key.startswith(prefix) and entry.stored(now).alive
            ]

    def spent(self, key: str) -> int:
        """See `Store.spent`."""
        with self._lock:
            return self._find(key)[1].spent

    def acquire(self, key: str, owner: str, ttl: float) -> Lease:
        """See `Store.acquire`."""
        with self._lock:
            entry, stored = self._find(key)
            check_acquire(key, stored, owner, ttl)
            self._entries[key] = entry
            self._tokens += 1
            entry.lease = (self._tokens, owner, stored.now + ttl)
            return stored.lease(key, owner, self._tokens, ttl)

    def renew(self, lease: Lease) -> Lease:
        """See `Store.renew`."""
        with self._lock:
            entry, stored = self._find(lease.key)
            if stored.token != lease.token or stored.owner is None:
                raise LeaseLost(f"the lease of record {lease.key!r} with token {lease.token} is over")
            entry.lease = (lease.token, lease.owner, stored.now + lease.ttl)
            return stored.lease(lease.key, lease.owner, lease.token, lease.ttl)

    def release(self, lease: Lease) -> bool:
        """See `Store.release`."""
        with self._lock:
            entry, stored = self._find(lease.key)
            if stored.token != lease.token or stored.owner is None:
                return False
            entry.lease = (lease.token, None, 0.0)
            return True

    def prune(self, prefix: str = "") -> int:
        """See `Store.prune`."""
        now, removed = time.time(), 0
        with self._lock:
            for key, entry in list(self._entries.items()):
                stored = entry.stored(now)
                if stored.alive or not key.startswith(prefix):
                    continue
                removed += entry.record is not None
                entry.record = None
                if not stored.version and not stored.leased:
                    del self._entries[key]
        return removed

    def close(self) -> None:
        """Nothing to release."""
