"""Pools of inline sessions over every store, and a host that dies."""

from __future__ import annotations

import asyncio
import copy
import itertools

import pytest

from gloveport import SessionPool
from gloveport.stores import MemoryStore, PostgresStore, SQLiteStore

KEY = b"a key of the pool tests, 32 byte"
_numbers = itertools.count()


async def look(x=None):
    return x


def mail(to="x"):
    return f"sent to {to}"


TOOLS = {"look": look, "mail": mail}


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def any_store(request, tmp_path):
    """Each store in turn; the fixture gives a function that opens it once more."""
    opened = []
    memory = MemoryStore()
    prefix = f"pool_{next(_numbers)}_"

    def open_it():
        if request.param == "memory":
            return memory
        if request.param == "sqlite":
            store = SQLiteStore(tmp_path / "pool.db")
        else:
            store = PostgresStore(request.getfixturevalue("postgres"), table_prefix=prefix)
        opened.append(store)
        return store

    yield open_it
    for store in opened:
        store.close()


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def make_pool():
    """Makes pools of inline sessions; they are closed by `play`."""
    made = []

    def make(store, tools=None, key=KEY, **options):
        pool = SessionPool(store, key, TOOLS if tools is None else tools, **{"isolation": "inline", **options})
        made.append(pool)
        return pool

    make.made = made
    return make


@pytest.fixture
def play(make_pool):
    """Runs a coroutine function to its end, and closes the pools that it made."""

    def run(main):
        async def whole():
            try:
                return await main()
            finally:
                for pool in make_pool.made:
                    await pool.close()

        return asyncio.run(whole())

    return run


def as_of_now(store):
    """What another host finds when all hosts die at this moment: the records, and no lease."""
    twin = MemoryStore()
    for key, entry in store._entries.items():
        twin._entries[key] = copy.copy(entry)
        twin._entries[key].lease = None
    twin._tokens = store._tokens
    return twin
