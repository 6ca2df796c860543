"""The contract of a store.

- A record is written whole, and only by whoever names the version that it replaces: two writers cannot both win.
- Versions of a key only grow, also after a delete, so that an old copy cannot be put back unnoticed.
- `spent` (tool calls charged so far) never shrinks: a write that would lower it is a rollback, and is refused.
- A store sees sealed blobs; what it needs for listings (`label`, `pending`) is given beside them, in clear.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ..errors import StoreConflict

__all__ = ("Record", "Store", "check_write")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """A stored session."""

    key: str
    """Unique in the store."""
    blob: bytes
    """What `dump` gave."""
    version: int = 0
    """Set by the store."""
    spent: int = 0
    """Tool calls charged so far."""
    label: str = ""
    """For listings: whose it is, what it is about."""
    pending: str | None = None
    """The tool that it waits at, if it is paused."""
    updated: float = 0.0
    """Epoch seconds of the write; set by the store."""


@runtime_checkable
class Store(Protocol):
    """Keeps records. Methods block; each is one short transaction, and any thread may call them."""

    def get(self, key: str) -> Record:
        """The record. Raises `RecordNotFound`."""
        ...

    def put(self, record: Record, *, expect: int | None) -> int:
        """Write, if the stored version is `expect` (`None`: there must be no record). Gives the new version.

        Raises `StoreConflict` when it is another one, or when `spent` would shrink.
        """
        ...

    def delete(self, key: str, *, expect: int | None = None) -> bool:
        """Remove; gives whether there was one. With `expect`, raises `StoreConflict` for another version."""
        ...

    def list(self, prefix: str = "") -> Sequence[Record]:
        """All records whose key starts with `prefix`, newest first, without their blobs."""
        ...

    def close(self) -> None:
        """Release what the store holds open."""
        ...


def check_write(record: Record, stored: tuple[int, int] | None, expect: int | None) -> None:
    """The rules of `put`; `stored` is the version and the calls spent of the record that is there."""
    found = None if stored is None else stored[0]
    if found != expect:
        raise StoreConflict(
            f"record {record.key!r} has version {found}, not {expect}: someone else wrote it; read it again"
        )
    if stored is not None and record.spent < stored[1]:
        raise StoreConflict(
            f"record {record.key!r} has spent {stored[1]} calls; writing {record.spent} would win some back"
        )
