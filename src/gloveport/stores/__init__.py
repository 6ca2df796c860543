"""Where stored sessions live: `MemoryStore` for tests and single processes, `SQLiteStore` for a file."""

from .base import Record, Store
from .memory import MemoryStore
from .sqlite import SQLiteStore

__all__ = ("MemoryStore", "Record", "SQLiteStore", "Store")
