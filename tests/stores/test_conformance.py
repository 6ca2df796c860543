"""The stores of this package against the suite that every store has to pass."""

from __future__ import annotations

import itertools

import pytest

from gloveport.stores import MemoryStore, PostgresStore, SQLiteStore, Store
from gloveport.testing import StoreSuite

_numbers = itertools.count()


class TestMemory(StoreSuite):
    @pytest.fixture
    def store(self):
        return MemoryStore()

    @pytest.fixture
    def other(self, store):
        return store


class TestSQLite(StoreSuite):
    @pytest.fixture
    def store(self, tmp_path):
        store = SQLiteStore(tmp_path / "deep" / "store.db")
        yield store
        store.close()

    @pytest.fixture
    def other(self, store):
        other = SQLiteStore(store.path)
        yield other
        other.close()


class TestPostgres(StoreSuite):
    @pytest.fixture
    def prefix(self):
        return f"suite_{next(_numbers)}_"

    @pytest.fixture
    def store(self, postgres, prefix):
        store = PostgresStore(postgres, table_prefix=prefix)
        yield store
        store.close()

    @pytest.fixture
    def other(self, postgres, prefix, store):
        other = PostgresStore(postgres, table_prefix=prefix)
        yield other
        other.close()


@pytest.mark.parametrize("kind", [MemoryStore, SQLiteStore, PostgresStore])
def test_they_are_stores(kind):
    assert all(hasattr(kind, name) for name in dir(Store) if not name.startswith("_"))
