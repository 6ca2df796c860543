"""What is special about one store or another; `test_conformance.py` has what all of them do."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sqlite3
import stat
import subprocess
import sys
import threading

import psycopg
import pytest

from gloveport.errors import StoreError, StoreUnavailable
from gloveport.stores import PostgresStore, Record, SQLiteStore


def _child(store, queue):
    queue.put(store.get("a").blob)
    store.put(Record(key="b", blob=b"from child"), expect=None)


def test_a_store_survives_a_fork_and_is_private(tmp_path):
    path = tmp_path / "private" / "s.db"
    store = SQLiteStore(path)
    store.put(Record(key="a", blob=b"x"), expect=None)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(store, queue))
    child.start()
    assert queue.get(timeout=30) == b"x"
    child.join(30)
    assert store.get("b").blob == b"from child"
    store.close()
    again = SQLiteStore(path)
    assert again.get("a").blob == b"x"
    again.close()


def _get(store, queue):
    queue.put(store.get("a").blob)


def _forked(store):
    """What a child finds in the store."""
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_get, args=(store, queue))
    child.start()
    try:
        child.join(20)
        assert child.exitcode == 0, "it hangs"
        return queue.get(timeout=10)
    finally:
        child.kill()
        child.join()


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # 3.12 warns of threads
def test_a_child_does_not_wait_for_a_thread_of_its_parent(busy, tmp_path):
    store = SQLiteStore(tmp_path / "s.db")
    store.put(Record(key="a", blob=b"x"), expect=None)
    began, go_on = threading.Event(), threading.Event()

    def read():
        with store._reading():
            began.set()
            go_on.wait(60)

    thread = threading.Thread(target=read)
    if busy:
        thread.start()
        assert began.wait(30)
    try:
        assert _forked(store) == b"x"
    finally:
        go_on.set()
        if busy:
            thread.join()
    assert store.get("a").blob == b"x"
    store.close()


def test_a_child_of_a_child_closes_no_connection_of_either(tmp_path, monkeypatch):
    store = SQLiteStore(tmp_path / "s.db")
    store.put(Record(key="a", blob=b"x"), expect=None)
    first = store._connection
    for pid in (1, 2):  # as after a fork
        monkeypatch.setattr("gloveport.stores.sqlite.os.getpid", lambda pid=pid: pid)
        assert store.get("a").blob == b"x"
    assert store._inherited[0] is first
    assert len({id(connection) for connection in [*store._inherited, store._connection]}) == 3
    for connection in store._inherited:
        connection.close()
    store.close()


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_does_not_wait_for_a_thread_that_connects(busy, postgres):
    store = PostgresStore(postgres, table_prefix=f"connecting_{busy}_".lower())
    store.put(Record(key="a", blob=b"x"), expect=None)
    with store._lock.own if busy else contextlib.nullcontext():  # as another thread holds it
        assert _forked(store) == b"x"
    assert store.get("a").blob == b"x"
    store.close()


def test_a_file_that_is_no_store_is_named(tmp_path):
    path = tmp_path / "x.db"
    path.write_bytes(b"not a database, by far not" * 100)
    with pytest.raises(StoreError, match="x.db"):
        SQLiteStore(path)


OLD_SCHEMA = """CREATE TABLE sessions (
    key TEXT PRIMARY KEY, blob BLOB, version INTEGER NOT NULL, spent INTEGER NOT NULL,
    label TEXT NOT NULL, pending TEXT, updated REAL NOT NULL
) STRICT"""


def test_a_file_from_before_there_were_leases_is_brought_up_to_date(tmp_path):
    path = tmp_path / "old.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(OLD_SCHEMA)
        connection.execute("INSERT INTO sessions VALUES ('a', x'01', 3, 7, 'l', NULL, 5.0)")
        connection.commit()
    store = SQLiteStore(path)
    assert (store.get("a").version, store.spent("a")) == (3, 7)
    lease = store.acquire("a", "me", 60)
    assert store.append("a", b"s", expect=3, spent=7, token=lease.token) == 4
    store.close()


def test_a_newer_schema_is_refused(tmp_path, postgres):
    path = tmp_path / "new.db"
    SQLiteStore(path).close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="newer release"):
        SQLiteStore(path)
    store = PostgresStore(postgres, table_prefix="newer_")
    assert store.list() == []
    store.close()
    with psycopg.connect(postgres) as connection:
        connection.execute("UPDATE newer_schema SET version = 99")
    store = PostgresStore(postgres, table_prefix="newer_")
    with pytest.raises(StoreError, match="newer release"):
        store.list()
    store.close()


def test_many_processes_may_be_the_first_to_use_a_database(postgres):
    script = (
        "import sys; from gloveport.stores import PostgresStore, Record\n"
        "store = PostgresStore(sys.argv[1], table_prefix='first_'); sys.stdin.readline()\n"
        "store.put(Record(key=sys.argv[2], blob=b'x'), expect=None); store.close()"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", script, postgres, str(number)], stdin=subprocess.PIPE)
        for number in range(4)
    ]
    for child in children:
        child.stdin.write(b"\n")
        child.stdin.close()
    assert [child.wait(60) for child in children] == [0, 0, 0, 0]
    store = PostgresStore(postgres, table_prefix="first_")
    assert store.count() == 4
    store.close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # 3.12 warns of threads; the pool has some
def test_postgres_after_a_fork_and_after_its_connections_were_ended(postgres):
    store = PostgresStore(postgres, table_prefix="forked_")
    store.put(Record(key="a", blob=b"x"), expect=None)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(store, queue))
    child.start()
    assert queue.get(timeout=30) == b"x"
    child.join(30)
    assert store.get("b").blob == b"from child"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    assert store.get("a").blob == b"x"
    store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        store.get("a")


def test_an_unreachable_server_is_named_soon(tmp_path):
    store = PostgresStore(f"host={tmp_path} password=hush")
    with pytest.raises(StoreUnavailable, match="PostgreSQL cannot be used") as caught:
        store.get("a")
    assert caught.value.retryable
    assert "hush" not in str(caught.value) + repr(store) + str(store)
    store.close()


def test_a_bad_table_prefix_is_refused():
    for prefix in ("", "x; DROP TABLE y", "UPPER_", "a" * 41, "1a"):
        with pytest.raises(ValueError, match="table_prefix"):
            PostgresStore("", table_prefix=prefix)
