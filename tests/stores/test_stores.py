"""Stores: whole writes, versions, and budgets that cannot shrink."""

from __future__ import annotations

import multiprocessing
import os
import stat
import threading

import pytest

from gloveport.errors import RecordNotFound, StoreConflict, StoreError
from gloveport.stores import MemoryStore, Record, SQLiteStore, Store


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    made = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "deep" / "store.db")
    assert isinstance(made, Store)
    yield made
    made.close()


def test_a_record_comes_back_whole(store):
    version = store.put(Record(key="a", blob=b"\0x", spent=2, label="l", pending="mail"), expect=None)
    record = store.get("a")
    assert (record.blob, record.version, record.spent, record.label, record.pending) == (
        b"\0x",
        version,
        2,
        "l",
        "mail",
    )
    assert record.updated > 0


def test_only_the_one_who_names_the_version_writes(store):
    first = store.put(Record(key="a", blob=b"1"), expect=None)
    with pytest.raises(StoreConflict):
        store.put(Record(key="a", blob=b"2"), expect=None)
    second = store.put(Record(key="a", blob=b"2"), expect=first)
    assert second > first
    with pytest.raises(StoreConflict, match="read it again"):
        store.put(Record(key="a", blob=b"3"), expect=first)
    assert store.get("a").blob == b"2"


def test_spent_budget_cannot_shrink(store):
    version = store.put(Record(key="a", blob=b"1", spent=5), expect=None)
    with pytest.raises(StoreConflict, match="win some back"):
        store.put(Record(key="a", blob=b"2", spent=4), expect=version)
    store.put(Record(key="a", blob=b"2", spent=5), expect=version)


def test_delete_and_the_version_after_it(store):
    version = store.put(Record(key="a", blob=b"1"), expect=None)
    with pytest.raises(StoreConflict):
        store.delete("a", expect=version + 1)
    assert store.delete("a", expect=version)
    assert not store.delete("a")
    with pytest.raises(RecordNotFound, match="'a'"):
        store.get("a")
    assert store.put(Record(key="a", blob=b"2"), expect=None) > version


def test_list_has_no_blobs_and_takes_a_prefix_literally(store):
    for key in ("u/1", "u/2", "v/1", "u%"):
        store.put(Record(key=key, blob=b"secret"), expect=None)
    assert {record.key for record in store.list("u/")} == {"u/1", "u/2"}
    assert {record.key for record in store.list("u%")} == {"u%"}
    assert all(record.blob == b"" for record in store.list())


def test_of_many_writers_one_wins(store):
    version = store.put(Record(key="a", blob=b"0"), expect=None)
    won = []

    def write(number):
        try:
            store.put(Record(key="a", blob=b"%d" % number), expect=version)
        except StoreConflict:
            return
        won.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert store.get("a").blob == b"%d" % won[0]


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


def test_a_file_that_is_no_store_is_named(tmp_path):
    path = tmp_path / "x.db"
    path.write_bytes(b"not a database, by far not" * 100)
    with pytest.raises(StoreError, match="x.db"):
        SQLiteStore(path)
