"""A store in this process's memory."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Sequence

from ..errors import RecordNotFound
from .base import Record, check_write

__all__ = ("MemoryStore",)


class MemoryStore:
    """Gone with the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, Record] = {}
        self._versions: dict[str, int] = {}

    def get(self, key: str) -> Record:
        """See `Store.get`."""
        with self._lock:
            record = self._records.get(key)
        if record is None:
            raise RecordNotFound(f"there is no record {key!r}")
        return record

    def put(self, record: Record, *, expect: int | None) -> int:
        """See `Store.put`."""
        with self._lock:
            stored = self._records.get(record.key)
            check_write(record, None if stored is None else (stored.version, stored.spent), expect)
            version = self._versions.get(record.key, 0) + 1
            self._versions[record.key] = version
            self._records[record.key] = dataclasses.replace(record, version=version, updated=time.time())
            return version

    def delete(self, key: str, *, expect: int | None = None) -> bool:
        """See `Store.delete`."""
        with self._lock:
            stored = self._records.get(key)
            if stored is None:
                return False
            if expect is not None:
                check_write(stored, (stored.version, stored.spent), expect)
            del self._records[key]
            return True

    def list(self, prefix: str = "") -> Sequence[Record]:
        """See `Store.list`."""
        with self._lock:
            found = [record for key, record in self._records.items() if key.startswith(prefix)]
        return [dataclasses.replace(record, blob=b"") for record in sorted(found, key=lambda r: -r.updated)]

    def close(self) -> None:
        """Nothing to release."""
