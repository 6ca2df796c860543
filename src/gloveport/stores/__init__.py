"""Where stored sessions live: `MemoryStore` (one process), `SQLiteStore` (one machine), `PostgresStore` (any number of hosts)."""

from typing import TYPE_CHECKING, Any

from .base import Lease, Record, Store
from .memory import MemoryStore
from .sqlite import SQLiteStore

if TYPE_CHECKING:
    from .postgres import PostgresStore

__all__ = ("Lease", "MemoryStore", "PostgresStore", "Record", "SQLiteStore", "Store")


def __getattr__(name: str) -> Any:
    if name != "PostgresStore":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .postgres import PostgresStore  # needs an extra

    return PostgresStore
