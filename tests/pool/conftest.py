"""Pools over every store, with sessions of each engine, and a host that dies."""

from __future__ import annotations

import asyncio
import copy
import itertools
from pathlib import Path

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


WASM_ONLY = {
    # About images, about the name of an isolation, or about sessions that come and go faster than a process starts.
    "test_idle_sessions_give_their_workers_back",  # of v8: test_engines.py
    "test_what_was_computed_is_not_computed_again_by_waking",
    "test_the_bars_are_the_promises_of_the_specification",
    "test_it_measures_and_it_notices_what_is_lost",
}


def pytest_generate_tests(metafunc):
    """Both engines. What a store does is the same for both, so v8 has one that is in memory and one that is not."""
    if "make_pool" in metafunc.fixturenames:
        name = metafunc.function.__name__
        one = name in WASM_ONLY or metafunc.module.__name__.endswith("test_engines")
        metafunc.parametrize("pool_engine", ["wasm"] if one else ["wasm", "v8"])


def pytest_collection_modifyitems(items):
    """A server's store is tested with the engine that costs least."""
    here = Path(__file__).parent
    items[:] = [
        item
        for item in items
        if item.path.parent != here or not {"v8", "postgres"} <= set(item.name.rpartition("[")[2][:-1].split("-"))
    ]


@pytest.fixture
def make_pool(pool_engine):
    """Makes pools of sessions of that engine (wasm: inline); they are closed by `play`."""
    made = []
    own = {"engine": "v8"} if pool_engine == "v8" else {"isolation": "inline"}

    def make(store, tools=None, key=KEY, **options):
        pool = SessionPool(store, key, TOOLS if tools is None else tools, **{**own, **options})
        made.append(pool)
        return pool

    make.made = made
    make.own = own
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
