"""Whether the durable engines that tests use are here."""

from __future__ import annotations

import sqlite3
import sys

import pytest


def need_dbos() -> None:
    """Skips without DBOS, or where it cannot store anything: its tables for SQLite have `unixepoch('subsec')` on Python 3.12 and newer
    (seen with 3.4.0)."""
    pytest.importorskip("dbos", reason="needs DBOS: pip install 'dbos>=3.4,<4'")
    if sys.version_info >= (3, 12) and sqlite3.sqlite_version_info < (3, 42):
        pytest.skip(f"DBOS needs SQLite 3.42 on this Python, which has {sqlite3.sqlite_version}")
