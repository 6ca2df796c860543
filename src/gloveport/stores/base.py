"""The contract of a store.

- A record is a blob and the segments that were appended to it since. It is written only by whoever names the version that it
  replaces: two writers cannot both win. Versions of a key only grow, also after a delete, so that an old copy cannot be put back
  unnoticed.
- `spent` (tool calls charged so far) never shrinks: a write that would lower it is a rollback, and is refused. The counter outlives its
  record by the record's `counter_ttl`, so that deleting a session and making it anew wins nothing back.
- A **lease** says who may write. Each one has a token that is higher than all before it; a write that carries a token which is not the
  newest is refused, however late it comes. Nobody writes without a token while a lease lasts. The store's clock decides how long.
- A store sees sealed blobs; what it needs for listings (`label`, `pending`) is given beside them, in clear.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

from ..errors import LeaseHeld, LeaseLost, StoreConflict

__all__ = ("MAX_KEY", "Lease", "Record", "Store", "Stored", "check_acquire", "check_key", "check_token", "check_write")

MAX_KEY: Final = 1024
_LAST: Final = "\U0010ffff"
"""No key holds this noncharacter, so every key that starts with a prefix sorts below the prefix followed by it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """A stored session."""

    key: str
    """Unique in the store: 1 to 1,024 characters."""
    blob: bytes
    """What `dump` gave."""
    segments: tuple[bytes, ...] = ()
    """What was appended since; set by the store."""
    version: int = 0
    """Set by the store."""
    spent: int = 0
    """Tool calls charged so far."""
    tally: bytes = b""
    """What else is to be remembered with `spent`, for as long: calls per tool, say."""
    label: str = ""
    """For listings: whose it is, what it is about."""
    pending: str | None = None
    """The tool that it waits at, if it is paused."""
    ttl: float | None = None
    """Seconds after the last write at which it is gone; `None`: never."""
    counter_ttl: float | None = None
    """Seconds that version and `spent` are remembered after it is gone; `None`: until the store itself is deleted."""
    updated: float = 0.0
    """Epoch seconds of the last write by the store's clock; set by the store."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lease:
    """The right to write one record, for a while."""

    key: str
    owner: str
    """Who holds it; unique to the holder."""
    token: int
    """Higher than that of every earlier lease."""
    ttl: float
    """Seconds that it lasts from the moment it was given or renewed."""
    now: float
    """That moment by the store's clock, as epoch seconds."""
    version: int = 0
    """Of the record at that moment, or of the last one that there was."""
    spent: int = 0
    """Calls charged so far, also by a record that is gone."""
    tally: bytes = b""
    """What was last written beside it."""
    exists: bool = False
    """Whether there is a record."""


@runtime_checkable
class Store(Protocol):
    """Keeps records. Methods block; each is one short transaction, and any thread may call them.

    Every method may raise `StoreUnavailable`. Every write raises `StoreConflict` when the stored version is not `expect` (`None`:
    there must be no record) or `spent` would shrink; `LeaseLost` when `token` is not that of the lease in force; and `LeaseHeld` when it
    comes without a token while someone holds the lease. `release=True` gives the lease back in the same transaction.
    """

    def get(self, key: str) -> Record:
        """The record. Raises `RecordNotFound`, also when its `ttl` is over."""
        ...

    def put(self, record: Record, *, expect: int | None, token: int | None = None, release: bool = False) -> int:
        """Write the whole record; what was appended before is gone. Gives the new version."""
        ...

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
        """Add a segment to a record without writing the rest of it again. Its `ttl` begins anew. Gives the new version."""
        ...

    def delete(self, key: str, *, expect: int | None = None, token: int | None = None) -> bool:
        """Remove; gives whether there was one. `expect=None`: whatever its version is."""
        ...

    def list(self, prefix: str = "") -> Sequence[Record]:
        """All records whose key starts with `prefix`, newest first, without blobs and segments."""
        ...

    def count(self, prefix: str = "", *, most: int | None = None) -> int:
        """How many records there are whose key starts with `prefix`; with `most`, counting stops there."""
        ...

    def spent(self, key: str) -> int:
        """Calls charged so far under a key, also by a record that is gone, as long as its counter is kept; else 0."""
        ...

    def acquire(self, key: str, owner: str, ttl: float) -> Lease:
        """Take the lease of a key, whether there is a record or not. Raises `LeaseHeld`.

        Whoever holds it already as the same `owner` gets a new one, with a new token.
        """
        ...

    def renew(self, lease: Lease) -> Lease:
        """Begin its time anew. One that ran out is renewed as well, if nobody took it since; else raises `LeaseLost`."""
        ...

    def release(self, lease: Lease) -> bool:
        """Give it back. Gives whether it was still in force; never raises for one that was not."""
        ...

    def prune(self, prefix: str = "") -> int:
        """Remove records whose `ttl` is over and counters whose `counter_ttl` is. Gives how many keys became free of records."""
        ...

    def close(self) -> None:
        """Release what the store holds open."""
        ...


# ── the rules, the same for every store ──────────────────────────────────────────────────────────────────────────────


@dataclasses.dataclass(frozen=True)
class Stored:
    """What is known of a key, as of `now`."""

    now: float
    version: int = 0
    spent: int = 0
    tally: bytes = b""
    alive: bool = False
    """Whether there is a record."""
    token: int = 0
    owner: str | None = None
    """Of the lease; `None`: it was given back, or there never was one."""
    until: float = 0.0

    @classmethod
    def of(
        cls,
        now: float,
        session: tuple[int, int, bytes, bool, float | None, float | None] | None,
        lease: tuple[int, str | None, float] | None,
    ) -> Stored:
        """From a row (version, spent, tally, whether it has a blob, expires, counter_ttl) and a lease (token, owner, until)."""
        token, owner, until = lease or (0, None, 0.0)
        if session is None:
            return cls(now, token=token, owner=owner, until=until)
        version, spent, tally, filled, expires, counter_ttl = session
        over = expires is not None and expires <= now
        if over and expires is not None and counter_ttl is not None and expires + counter_ttl <= now:
            version, spent, tally = 0, 0, b""
        return cls(now, version, spent, tally, filled and not over, token, owner, until)

    @property
    def leased(self) -> bool:
        """Whether a lease is in force."""
        return self.owner is not None and self.until > self.now

    def lease(self, key: str, owner: str, token: int, ttl: float) -> Lease:
        """A lease from now on."""
        return Lease(
            key=key,
            owner=owner,
            token=token,
            ttl=ttl,
            now=self.now,
            version=self.version,
            spent=self.spent,
            tally=self.tally,
            exists=self.alive,
        )


def check_key(key: str) -> None:
    """Raise unless every store can keep that key."""
    if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a key is a string, not {type(key).__name__}")
    if not 1 <= len(key) <= MAX_KEY:
        raise ValueError(f"a key has 1 to {MAX_KEY} characters, not {len(key)}")
    if "\0" in key or _LAST in key or any("\ud800" <= char <= "\udfff" for char in key):
        raise ValueError(f"a key has no NUL, no surrogate and no U+10FFFF: {key!r}")


def after(prefix: str) -> str:
    """What sorts behind every key that starts with `prefix`."""
    return prefix + _LAST


def check_seconds(name: str, value: float | None, *, optional: bool = True) -> None:
    """Raise unless it is a number of seconds (or `None`)."""
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"`{name}` must be a number of seconds, not {value!r}")
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"`{name}` must be a finite number of seconds that is not negative, not {value!r}")


def check_token(key: str, stored: Stored, token: int | None) -> None:
    """Raise unless whoever has this token (or none) may write."""
    if token is None:
        if stored.leased:
            raise LeaseHeld(f"record {key!r} is leased to {stored.owner}; only they write it")
    elif token != stored.token or stored.owner is None:
        raise LeaseLost(
            f"the lease of record {key!r} with token {token} is over (the newest token is {stored.token}); nothing was written"
        )


def check_write(key: str, stored: Stored, *, expect: int | None, spent: int, token: int | None) -> None:
    """Raise unless that version may be replaced by one that has spent so much."""
    check_token(key, stored, token)
    found = stored.version if stored.alive else None
    if found != expect:
        raise StoreConflict(f"record {key!r} has version {found}, not {expect}: someone else wrote it; read it again")
    if spent < stored.spent:
        raise StoreConflict(f"record {key!r} has spent {stored.spent} calls; writing {spent} would win some back")


def check_acquire(key: str, stored: Stored, owner: str, ttl: float) -> None:
    """Raise unless `owner` may have the lease now."""
    check_seconds("ttl", ttl, optional=False)
    if not owner or not isinstance(owner, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError("the owner of a lease is a string that is not empty")
    if stored.leased and stored.owner != owner:
        raise LeaseHeld(f"record {key!r} is leased to {stored.owner} for another {stored.until - stored.now:.1f} s")
