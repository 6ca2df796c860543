"""What every store has to do, as tests: for the stores of this package, and for those of others.

class TestMyStore(StoreSuite):
    @pytest.fixture
    def store(self): …       # a new, empty one; and close it

    @pytest.fixture
    def other(self, store): … # a second store on the same data, as another process has it; the same one by default

pytest collects the methods. They use plain asserts and short waits, and take no more than two seconds altogether.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ..errors import LeaseHeld, LeaseLost, RecordNotFound, StoreConflict
from .base import Record, Store

__all__ = ("StoreSuite",)

_SHORT = 0.05
_LONG = 60.0


def _refused(error: type[Exception], call: Callable[..., Any], *arguments: Any, **keywords: Any) -> str:
    try:
        gave = call(*arguments, **keywords)
    except error as raised:
        return str(raised)
    raise AssertionError(f"expected {error.__name__}; it gave {gave!r}")


class StoreSuite:
    """Derive from it, and define the fixture `store`."""

    # ── records ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_a_record_comes_back_whole(self, store: Store) -> None:
        given = Record(
            key="a/é", blob=b"\0x\xff", spent=2, tally=b"\1", label="l\n", pending="mail", ttl=90.0, counter_ttl=9.0
        )
        version = store.put(given, expect=None)
        record = store.get("a/é")
        assert record.updated > 0
        assert dataclasses.replace(record, updated=0.0) == dataclasses.replace(given, version=version)

    def test_only_the_one_who_names_the_version_writes(self, store: Store) -> None:
        first = store.put(Record(key="a", blob=b"1"), expect=None)
        _refused(StoreConflict, store.put, Record(key="a", blob=b"2"), expect=None)
        second = store.put(Record(key="a", blob=b"2"), expect=first)
        assert second > first
        assert "read it again" in _refused(StoreConflict, store.put, Record(key="a", blob=b"3"), expect=first)
        assert "read it again" in _refused(StoreConflict, store.append, "a", b"s", expect=first, spent=0)
        assert store.get("a").blob == b"2"
        _refused(StoreConflict, store.put, Record(key="new", blob=b""), expect=1)

    def test_segments_are_added_in_order_until_the_next_whole_write(self, store: Store) -> None:
        version = store.put(Record(key="a", blob=b"base", label="who"), expect=None)
        for number in range(12):
            more: dict[str, Any] = {"spent": number, "tally": b"%d" % number, "pending": f"t{number}"}
            version = store.append("a", b"%d" % number, expect=version, **more)
        record = store.get("a")
        assert record.segments == tuple(b"%d" % number for number in range(12))
        assert (record.blob, record.version, record.spent, record.tally, record.pending) == (
            b"base",
            version,
            11,
            b"11",
            "t11",
        )
        assert record.label == "who"
        after = store.put(Record(key="a", blob=b"new", spent=11), expect=version)
        assert (store.get("a").segments, after > version) == ((), True)

    def test_a_segment_needs_a_record(self, store: Store) -> None:
        _refused(StoreConflict, store.append, "a", b"s", expect=1, spent=0)
        version = store.put(Record(key="a", blob=b""), expect=None)
        store.delete("a")
        _refused(StoreConflict, store.append, "a", b"s", expect=version, spent=0)

    def test_delete_and_the_version_after_it(self, store: Store) -> None:
        version = store.put(Record(key="a", blob=b"1"), expect=None)
        version = store.append("a", b"s", expect=version, spent=0)
        _refused(StoreConflict, store.delete, "a", expect=version + 1)
        assert store.delete("a", expect=version)
        assert not store.delete("a")
        assert "'a'" in _refused(RecordNotFound, store.get, "a")
        assert store.put(Record(key="a", blob=b"2"), expect=None) > version
        assert store.get("a").segments == ()

    def test_lists_and_counts_take_a_prefix_literally(self, store: Store) -> None:
        for key in ("u/1", "u/2", "v/1", "u%", "u/\U0010fffe"):
            store.put(Record(key=key, blob=b"secret", pending="p"), expect=None)
        store.delete("u/2")
        assert [record.key for record in store.list("u/")] == ["u/\U0010fffe", "u/1"]
        assert [record.key for record in store.list("u%")] == ["u%"]
        assert all((record.blob, record.segments, record.pending) == (b"", (), "p") for record in store.list())
        assert (store.count(), store.count("u/"), store.count(most=3), store.count("w")) == (4, 2, 3, 0)

    def test_bad_keys_are_refused(self, store: Store) -> None:
        for key in ("", "a\0", "\ud800", "x" * 1025, "\U0010ffff"):
            _refused(ValueError, store.put, Record(key=key, blob=b""), expect=None)
            _refused(ValueError, store.acquire, key, "me", 1.0)
        store.put(Record(key="x" * 1024, blob=b""), expect=None)

    def test_a_record_ends_with_its_time(self, store: Store) -> None:
        version = store.put(Record(key="a", blob=b"1", ttl=_SHORT), expect=None)
        kept = store.put(Record(key="b", blob=b"1", ttl=_LONG), expect=None)
        time.sleep(_SHORT * 1.5)
        _refused(RecordNotFound, store.get, "a")
        _refused(StoreConflict, store.append, "a", b"s", expect=version, spent=0)
        assert [record.key for record in store.list()] == ["b"]
        assert store.count() == 1
        assert store.get("b").version == kept
        assert store.put(Record(key="a", blob=b"2"), expect=None) > version

    def test_every_write_begins_the_time_anew(self, store: Store) -> None:
        version = store.put(Record(key="a", blob=b"1", ttl=0.4), expect=None)
        for _ in range(3):
            time.sleep(0.2)
            version = store.append("a", b"s", expect=version, spent=0)
        assert len(store.get("a").segments) == 3

    # ── budgets ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_spent_budget_cannot_shrink(self, store: Store) -> None:
        version = store.put(Record(key="a", blob=b"1", spent=5), expect=None)
        assert "win some back" in _refused(
            StoreConflict, store.put, Record(key="a", blob=b"2", spent=4), expect=version
        )
        _refused(StoreConflict, store.append, "a", b"s", expect=version, spent=4)
        version = store.put(Record(key="a", blob=b"2", spent=5), expect=version)
        store.append("a", b"s", expect=version, spent=6)
        assert (store.spent("a"), store.spent("never")) == (6, 0)

    def test_neither_by_deleting_nor_by_waiting(self, store: Store) -> None:
        store.put(Record(key="a", blob=b"1", spent=5, tally=b"t"), expect=None)
        store.delete("a")
        lease = store.acquire("a", "me", _LONG)
        assert (lease.spent, lease.tally, lease.exists) == (5, b"t", False)
        store.release(lease)
        store.put(Record(key="b", blob=b"1", spent=5, ttl=_SHORT), expect=None)
        time.sleep(_SHORT * 1.5)
        store.prune()
        for key in ("a", "b"):
            assert store.spent(key) == 5
            _refused(StoreConflict, store.put, Record(key=key, blob=b"2", spent=4), expect=None)
            store.put(Record(key=key, blob=b"2", spent=5), expect=None)

    def test_until_its_counter_ends(self, store: Store) -> None:
        for key, counter_ttl in (("a", _SHORT), ("b", _LONG)):
            store.put(Record(key=key, blob=b"1", spent=5, counter_ttl=counter_ttl), expect=None)
            store.delete(key)
        time.sleep(_SHORT * 1.5)
        assert (store.spent("a"), store.spent("b")) == (0, 5)
        store.put(Record(key="a", blob=b"2", spent=1), expect=None)
        _refused(StoreConflict, store.put, Record(key="b", blob=b"2", spent=1), expect=None)

    def test_prune_removes_what_is_over_and_nothing_else(self, store: Store) -> None:
        store.put(Record(key="over", blob=b"1", ttl=_SHORT, counter_ttl=_SHORT), expect=None)
        store.put(Record(key="counted", blob=b"1", ttl=_SHORT), expect=None)
        store.put(Record(key="kept", blob=b"1"), expect=None)
        lease = store.acquire("free", "me", _LONG)
        time.sleep(_SHORT * 2.5)
        assert store.prune("c") == 1
        assert store.prune() == 1
        assert store.prune() == 0
        assert [record.key for record in store.list()] == ["kept"]
        assert store.renew(lease).token == lease.token

    # ── leases ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_a_lease_says_what_there_is(self, store: Store) -> None:
        lease = store.acquire("a", "me", _LONG)
        assert (lease.key, lease.owner, lease.ttl, lease.version, lease.spent, lease.exists) == (
            "a",
            "me",
            _LONG,
            0,
            0,
            False,
        )
        version = store.put(Record(key="a", blob=b"1", spent=3), expect=None, token=lease.token)
        lease = store.renew(lease)
        assert (lease.version, lease.spent, lease.exists) == (version, 3, True)
        store.delete("a", token=lease.token)
        lease = store.renew(lease)
        assert (lease.version, lease.spent, lease.exists) == (version, 3, False)

    def test_one_holds_it_and_only_they_write(self, store: Store, other: Store) -> None:
        version = store.put(Record(key="a", blob=b"1"), expect=None)
        lease = store.acquire("a", "me", _LONG)
        assert "me" in _refused(LeaseHeld, other.acquire, "a", "you", _LONG)
        _refused(LeaseHeld, other.put, Record(key="a", blob=b"2"), expect=version)
        _refused(LeaseHeld, other.append, "a", b"s", expect=version, spent=0)
        _refused(LeaseHeld, other.delete, "a")
        assert other.get("a").blob == b"1"
        version = store.put(Record(key="a", blob=b"2"), expect=version, token=lease.token)
        assert store.release(lease)
        assert not store.release(lease)
        other.put(Record(key="a", blob=b"3"), expect=version)
        assert other.acquire("a", "you", _LONG).token > lease.token

    def test_an_old_token_writes_nothing(self, store: Store, other: Store) -> None:
        old = store.acquire("a", "me", _SHORT)
        version = store.put(Record(key="a", blob=b"1"), expect=None, token=old.token)
        time.sleep(_SHORT * 1.5)
        new = other.acquire("a", "you", _LONG)
        assert new.token > old.token
        for write in (
            lambda: store.put(Record(key="a", blob=b"2"), expect=version, token=old.token),
            lambda: store.append("a", b"s", expect=version, spent=0, token=old.token),
            lambda: store.delete("a", token=old.token),
            lambda: store.renew(old),
        ):
            _refused(LeaseLost, write)
        assert not store.release(old)
        other.append("a", b"s", expect=version, spent=0, token=new.token)
        record = store.get("a")
        assert (record.blob, record.segments) == (b"1", (b"s",))

    def test_a_token_that_was_given_back_writes_nothing(self, store: Store) -> None:
        lease = store.acquire("a", "me", _LONG)
        version = store.put(Record(key="a", blob=b"1"), expect=None, token=lease.token, release=True)
        _refused(LeaseLost, store.put, Record(key="a", blob=b"2"), expect=version, token=lease.token)
        _refused(LeaseLost, store.renew, lease)
        lease = store.acquire("a", "you", _LONG)
        version = store.append("a", b"s", expect=version, spent=0, token=lease.token, release=True)
        _refused(LeaseLost, store.append, "a", b"s", expect=version, spent=0, token=lease.token)
        _refused(LeaseLost, store.put, Record(key="b", blob=b""), expect=None, token=lease.token)

    def test_renewing_keeps_it(self, store: Store, other: Store) -> None:
        lease = store.acquire("a", "me", 0.25)
        for _ in range(2):
            time.sleep(0.15)
            lease = store.renew(lease)
        _refused(LeaseHeld, other.acquire, "a", "you", _LONG)
        time.sleep(0.3)
        assert store.renew(lease).token == lease.token, "it ran out, and nobody took it"
        time.sleep(0.3)
        other.acquire("a", "you", _LONG)
        _refused(LeaseLost, store.renew, lease)

    def test_the_same_owner_gets_a_new_token(self, store: Store) -> None:
        first = store.acquire("a", "me", _LONG)
        second = store.acquire("a", "me", _LONG)
        assert second.token > first.token
        _refused(LeaseLost, store.renew, first)

    def test_tokens_grow_also_after_everything_of_a_key_is_gone(self, store: Store) -> None:
        first = store.acquire("a", "me", _SHORT)
        time.sleep(_SHORT * 1.5)
        store.prune()
        _refused(LeaseLost, store.put, Record(key="a", blob=b""), expect=None, token=first.token)
        assert store.acquire("a", "you", _LONG).token > first.token

    # ── many at once ─────────────────────────────────────────────────────────────────────────────────────────────────

    def test_of_many_writers_one_wins(self, store: Store, other: Store) -> None:
        version = store.put(Record(key="a", blob=b"0"), expect=None)

        def write(number: int) -> int | None:
            with suppress(StoreConflict):
                return (store, other)[number % 2].put(Record(key="a", blob=b"%d" % number), expect=version)
            return None

        won = _at_once(write)
        assert len(won) == 1
        assert store.get("a").blob == b"%d" % won[0]

    def test_of_many_who_make_a_record_one_wins(self, store: Store, other: Store) -> None:
        def write(number: int) -> int | None:
            with suppress(StoreConflict):
                return (store, other)[number % 2].put(Record(key="new", blob=b"%d" % number), expect=None)
            return None

        assert len(_at_once(write)) == 1

    def test_of_many_who_want_a_lease_one_gets_it(self, store: Store, other: Store) -> None:
        def take(number: int) -> int | None:
            with suppress(LeaseHeld):
                return (store, other)[number % 2].acquire("a", f"owner {number}", _LONG).token
            return None

        assert len(_at_once(take)) == 1

    def test_no_count_is_lost(self, store: Store, other: Store) -> None:
        store.put(Record(key="a", blob=b""), expect=None)

        def add(number: int) -> int:
            for _ in range(4):
                while True:
                    record = other.get("a")
                    with suppress(StoreConflict):
                        store.append("a", b"%d" % number, expect=record.version, spent=record.spent + 1)
                        break
            return number

        assert len(_at_once(add)) == 8
        record = store.get("a")
        assert (record.spent, len(record.segments)) == (32, 32)


def _at_once(work: Callable[[int], int | None]) -> list[int]:
    """Who of eight threads succeeded."""
    won: list[int] = []
    gate = threading.Barrier(8)

    def run(number: int) -> None:
        gate.wait()
        if work(number) is not None:
            won.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won
