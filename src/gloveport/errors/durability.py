"""Errors of what is stored."""

from __future__ import annotations

from .base import GloveportError

__all__ = (
    "JournalError",
    "JournalTooLarge",
    "LeaseHeld",
    "LeaseLost",
    "PoolFull",
    "RecordNotFound",
    "ReplayDivergence",
    "SealError",
    "StaleJournal",
    "StoreConflict",
    "StoreError",
    "StoreUnavailable",
)


class JournalError(GloveportError, ValueError):
    """A stored session cannot be saved or loaded."""

    code = "journal"


class SealError(JournalError):
    """The blob is not authentic under this key and associated data. Nothing was started for it."""

    code = "seal"


class JournalTooLarge(JournalError):
    """The blob is larger than `max_journal_bytes`; or (`engine="v8"`) the history of a session would be, and the run was rolled back."""

    code = "journal_too_large"


class StaleJournal(JournalError):
    """The store gave an older state of a session than it charged tool calls for: going on would win some back."""

    code = "stale_journal"


class ReplayDivergence(JournalError):
    """Replaying the journal gave another outcome than the one recorded. The stored session is unchanged."""

    code = "replay_divergence"


class StoreError(GloveportError):
    """A store cannot do what was asked."""

    code = "store"


class StoreConflict(StoreError):
    """The record changed since it was read. Read it again and decide anew."""

    code = "store_conflict"
    retryable = True


class LeaseHeld(StoreConflict):
    """Someone else holds the lease of the record. It ends when they release it, or stop renewing it."""

    code = "lease_held"


class LeaseLost(StoreConflict):
    """The lease ended, and with it the right to write. What was going on must stop: someone else may have taken over."""

    code = "lease_lost"
    retryable = False


class StoreUnavailable(StoreError, ConnectionError):
    """The store cannot be reached, or is too busy. Whether a write happened is not known."""

    code = "store_unavailable"
    retryable = True


class RecordNotFound(StoreError, LookupError):
    """No record has that key."""

    code = "record_not_found"


class PoolFull(GloveportError, RuntimeError):
    """A limit of a `SessionPool`: sessions at the same time, stored sessions, or stored sessions of one owner. The text says which."""

    code = "pool_full"
    retryable = True
