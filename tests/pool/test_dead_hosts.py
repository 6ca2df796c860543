"""Hosts that die, freeze or lose their store, and stores that somebody changed."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from gloveport import (
    CallOutcomeUnknownError,
    Done,
    LeaseLost,
    SealError,
    SessionBusyError,
    SessionPausedError,
    StaleJournal,
    ToolCall,
)
from gloveport.errors import StoreConflict, StoreUnavailable
from gloveport.host.pool.book import Book
from gloveport.stores import MemoryStore

from .conftest import as_of_now

CODE = "globalThis.n = 2; const a = await charge(10); const b = await charge(20); return [a, b, n]"


class Shop:
    """A tool whose calls cannot be taken back, and what other hosts would find if all hosts died in the middle of one."""

    def __init__(self, store):
        self.store = store
        self.charged = []
        self.before = []
        self.after = []

    async def charge(self, amount):
        self.before.append(as_of_now(self.store))
        self.charged.append(amount)
        self.after.append(as_of_now(self.store))
        return f"receipt {amount}"

    @property
    def tools(self):
        return {"charge": self.charge}


async def one_run(make_pool, store, **options):
    shop = Shop(store)
    pool = make_pool(store, shop.tools, **options)
    async with pool.session("ada", "1") as session:
        await session.run("globalThis.n = 1")
        assert await session.run(CODE) == ["receipt 10", "receipt 20", 2]
    return shop


@pytest.mark.parametrize("durability", ["turn", "call"])
@pytest.mark.parametrize("moment", [0, 1])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_call_that_was_begun_is_reported_and_not_repeated(durability, moment, when, store, make_pool, play):
    async def main():
        shop = await one_run(make_pool, store, durability=durability)
        found = getattr(shop, when)[moment]
        later = Shop(found)
        async with make_pool(found, later.tools).session("ada", "1") as session:
            assert session.interrupted
            assert session.pending is None
            # with "turn" the first answer is written together with the note that the second call begins
            assert [call.args for call in session.unknown_calls] == [((10,), (20,))[moment]]
            assert session.calls_made == moment + 1
            with pytest.raises(SessionPausedError, match=r"recover\(\)"):
                await session.run("return 1")
            step = await session.recover()
            assert step.error_type == "CallOutcomeUnknownError"
            assert "may have happened or not" in step.message
            assert not session.interrupted
            assert await session.run("return n") == 2, "the run completed: its state is kept"
        assert later.charged == []

    play(main)


def test_code_can_catch_it_and_the_rest_goes_on(store, make_pool, play):
    code = "let a; try { a = await charge(10) } catch (e) { a = e.name } return [a, await charge(20)]"

    async def main():
        shop = Shop(store)
        async with make_pool(store, shop.tools).session("ada", "1") as session:
            await session.run(code)
        later = Shop(shop.after[0])
        async with make_pool(shop.after[0], later.tools).session("ada", "1") as session:
            assert (await session.recover()).value == ["CallOutcomeUnknownError", "receipt 20"]
            assert session.calls_made == 2
        assert later.charged == [20]

    play(main)


@pytest.mark.parametrize("kind", ["value", "async value", "error", "async error"])
def test_the_application_can_find_out(kind, store, make_pool, play):
    asked = []

    def known(owner, sid, call):
        asked.append((owner, sid, call.name, call.args))
        if kind == "error":
            raise LookupError("no such receipt")
        return "receipt found"

    async def known_later(owner, sid, call):
        asked.append((owner, sid, call.name, call.args))
        if kind == "async error":
            raise LookupError("no such receipt")
        return "receipt found"

    async def main():
        shop = await one_run(make_pool, store)
        hook = known_later if kind.startswith("async") else known
        pool = make_pool(shop.after[0], shop.tools, on_unknown=hook)
        async with pool.session("ada", "1") as session:
            step = await session.recover()
            if kind.endswith("error"):
                assert step.error_type == "LookupError"
            else:
                assert step.value == ["receipt found", "receipt 20", 2]
        assert asked == [("ada", "1", "charge", (10,))]

    play(main)


@pytest.mark.parametrize("how", ["by hand", "by the pool"])
def test_an_interrupted_run_can_be_undone(how, store, make_pool, play):
    async def main():
        shop = await one_run(make_pool, store)
        pool = make_pool(shop.after[1], shop.tools, interrupted="rollback" if how == "by the pool" else "keep")
        async with pool.session("ada", "1") as session:
            if how == "by hand":
                assert session.interrupted
                await session.roll_back()
            assert not session.interrupted
            assert (await session.run("return n"), session.lost_runs, session.calls_made) == (1, 1, 2)
        async with make_pool(shop.after[1], shop.tools).session("ada", "1") as session:
            assert (await session.run("return n"), session.lost_runs, session.calls_made) == (1, 1, 2)

    play(main)


def test_answers_are_written_at_once_if_asked_for(store, make_pool, play):
    """Between an answer and what is written next lies all that the code computes."""
    found = {}

    class Noting(MemoryStore):
        def append(self, key, segment, **more):
            version = super().append(key, segment, **more)
            found[len(found)] = as_of_now(self)
            return version

    async def main():
        for durability, first_known in (("turn", 2), ("call", 1)):
            found.clear()
            noting = Noting()
            await one_run(make_pool, noting, durability=durability)
            # appends: the first run; charge(10) begins; [its answer]; charge(20) begins; …
            states = []
            for number in range(1, len(found)):
                async with make_pool(found[number], Shop(found[number]).tools).session("ada", "1") as session:
                    states.append([call.args[0] for call in session.unknown_calls] if session.interrupted else None)
            assert states[0] == [10]
            assert states[1] == ([20] if durability == "turn" else []), first_known
            assert states[-1] is None

    play(main)


def test_every_answer_of_a_run_with_many_calls_survives(store, make_pool, play):
    """Also when the trail has grown so long that the whole session is written in the middle of the run."""
    made = []

    async def charge(amount):
        made.append(amount)
        if amount == 700:
            found.append(as_of_now(store))
        return "r" * 100 + str(amount)

    found = []

    async def main():
        pool = make_pool(store, {"charge": charge})
        async with pool.session("ada", "1") as session:
            await session.run("globalThis.all = []")
            await session.run("for (let i = 0; i < 750; i++) all.push(await charge(i)); return all.length")
        made.clear()
        async with make_pool(found[0], {"charge": charge}).session("ada", "1") as session:
            assert [call.args for call in session.unknown_calls] == [(700,)]
            assert session.calls_made == 701
            step = await session.recover()
            assert step.error_type == "CallOutcomeUnknownError"
            assert await session.run("return [all.length, all[699].slice(100)]") == [700, "699"]
        assert made == []

    play(main)


# ── calls that the application makes ─────────────────────────────────────────────────────────────────────────────────


def test_a_call_that_the_application_makes_is_noted_first(store, make_pool, play):
    async def main():
        shop = Shop(store)
        pool = make_pool(store, shop.tools)
        async with pool.session("ada", "1") as session:
            step = await session.start("return [await charge(1), await charge(2)]")
            before = as_of_now(store)
            value = await session.call(step)
            second = await session.call(step)  # this host knows what became of the first one
            assert (value, second, shop.charged) == ("receipt 1", "receipt 1", [1, 1])
            during = shop.before[0]
        async with make_pool(before, shop.tools).session("ada", "1") as session:
            assert (session.pending, session.unknown_calls) == (step, ())
            assert await session.call(session.pending) == "receipt 1"
        async with make_pool(during, shop.tools).session("ada", "1") as session:
            assert (session.pending, session.unknown_calls, session.interrupted) == (step, (step,), False)
            charged = len(shop.charged)
            with pytest.raises(CallOutcomeUnknownError, match="again=True"):
                await session.call(session.pending)
            assert len(shop.charged) == charged
            assert await session.call(session.pending, again=True) == "receipt 1"
            step = await session.resume(session.pending, "as found out")
            assert isinstance(step, ToolCall)
            assert step.args == (2,)

    play(main)


@pytest.mark.parametrize("whole", [True, False])
def test_a_paused_call_stays_one_when_its_tool_raises(whole, store, make_pool, play, monkeypatch):
    """Also when the whole session was written at the pause, so that the trail after it does not say that it is one."""
    monkeypatch.setattr("gloveport.host.pool.book._REST_NS", 1 if whole else 10**12)

    def charge(amount):
        raise LookupError("no shop")

    async def main():
        tools = {"charge": charge}
        async with make_pool(store, tools).session("ada", "1") as session:
            step = await session.start("return await charge(1)")
            assert (store.get("gloveport/session/ada/1").segments == ()) is whole
            with pytest.raises(LookupError):
                await session.call(step)
        async with make_pool(store, tools).session("ada", "1") as session:
            assert (session.pending, session.unknown_calls, session.interrupted) == (step, (step,), False)
            assert (await session.resume(step, "as found out")).value == "as found out"

    play(main)


def test_an_answer_given_by_hand_is_not_asked_for_again(store, make_pool, play):
    """A person's approval is in the store before the code gets it."""
    found = []

    class Noting(MemoryStore):
        def append(self, key, segment, **more):
            version = super().append(key, segment, **more)
            found.append(as_of_now(self))
            return version

    async def main():
        noting = Noting()
        async with make_pool(noting).session("ada", "1") as session:
            step = await session.start("const a = await mail('x'); let i = 0; while (i < 1000) i++; return a")
            count = len(found)
            await session.resume(step, "approved")
        async with make_pool(found[count]).session("ada", "1") as session:
            assert session.interrupted
            assert (await session.recover()).value == "approved"

    play(main)


# ── leases ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def frozen(pool):
    """A pool that renews nothing by itself, as one whose process does not run."""
    for task in pool._tasks:
        task.cancel()


@pytest.mark.parametrize("at", ["a write", "a pause", "an answer", "a release"])
def test_a_host_that_lost_its_lease_neither_writes_nor_goes_on(at, any_store, make_pool, play):
    made = []

    async def main():
        resumed = asyncio.Event()

        async def charge(amount):
            made.append(amount)
            if at == "an answer" and amount == 1:
                await resumed.wait()
            return amount

        tools = {"charge": charge}
        old, new = make_pool(any_store(), tools, lease=0.2), make_pool(any_store(), tools, lease=30)
        session = await old.get("ada", "1")
        await session.run("globalThis.n = 1")
        frozen(old)
        work = None
        if at == "a pause":
            step = await session.start("n = 5; return await charge(9)")
        elif at == "an answer":
            work = asyncio.create_task(session.run("n = 5; await charge(1); await charge(2); return n"))
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.3)
        async with new.session("ada", "1") as other:
            if other.interrupted:
                assert [call.args for call in other.unknown_calls] == [(1,)]
                await other.roll_back()
            if other.pending:
                await other.resume(other.pending, 3)
            await other.run("n = 7; await charge(70)")
            before = list(made)
            if at == "a release":
                await old.release("ada", "1")
            else:
                with pytest.raises(LeaseLost):
                    if work is not None:
                        resumed.set()
                        await work
                    elif at == "a pause":
                        await session.resume(step, 4)
                    else:
                        await session.run("n = 6; await charge(6)")
                with pytest.raises(LeaseLost):
                    await session.run("return 1")
                await old.release("ada", "1")
            assert made == before, "no tool ran for the host that lost it"
        async with new.session("ada", "1") as other:
            assert await other.run("return n") == 7
        assert old.stats().lost == (0 if at == "a release" else 1)

    play(main)


def test_a_busy_host_keeps_its_lease(any_store, make_pool, play):
    """The control: as long as it runs, it renews."""

    async def main():
        async def slow():
            await asyncio.sleep(0.8)
            return 1

        one = make_pool(any_store(), {"slow": slow}, lease=0.3)
        two = make_pool(any_store(), {"slow": slow}, lease=0.3)
        session = await one.get("ada", "1")
        work = asyncio.create_task(session.run("return await slow()"))
        with pytest.raises(SessionBusyError, match="another host"):
            await two.get("ada", "1", timeout=0.7)
        assert await work == 1
        await one.release("ada", "1")
        async with two.session("ada", "1"):
            pass

    play(main)


def test_a_lease_that_is_lost_ends_what_computes(store, make_pool, play):
    async def main():
        pool = make_pool(store, lease=0.2, isolation="process")
        session = await pool.get("ada", "1")
        await session.run("globalThis.n = 1")
        work = asyncio.create_task(session.execute("while (true) {}"))
        await asyncio.sleep(0.05)
        entry = store._entries["gloveport/session/ada/1"]
        entry.lease = (entry.lease[0] + 1, "someone else", entry.lease[2] + 60)
        with pytest.raises(LeaseLost):
            await asyncio.wait_for(work, 20)

    play(main)


def test_a_store_that_fails_ends_the_session_here_and_nothing_is_lost(make_pool, play):
    class Failing(MemoryStore):
        fail = False

        def append(self, *arguments, **more):
            if self.fail:
                raise StoreUnavailable("gone")
            return super().append(*arguments, **more)

        def put(self, *arguments, **more):
            if self.fail:
                raise StoreUnavailable("gone")
            return super().put(*arguments, **more)

    async def main():
        store = Failing()
        shop = Shop(store)
        pool = make_pool(store, shop.tools)
        with pytest.raises(StoreUnavailable):
            async with pool.session("ada", "1") as session:
                await session.run("globalThis.n = 1; await charge(1)")
                store.fail = True
                await session.run("n = 2; await charge(2)")
        assert shop.charged == [1], "what could not be noted was not called"
        with pytest.raises(StoreUnavailable):
            async with pool.session("ada", "1") as session:
                await session.run("n = 3")
        store.fail = False
        async with pool.session("ada", "1") as session:
            assert (await session.run("return n"), session.calls_made) == (1, 1)

    play(main)


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_write_that_is_cancelled_while_it_dumps_loses_no_run_in_between(
    cancelled, store, make_pool, play, monkeypatch
):
    monkeypatch.setattr("gloveport.host.pool.book._REST_SEGMENTS", 2)
    # Only the number of segments asks for a dump.
    monkeypatch.setattr("gloveport.host.pool.book._REST_NS", 10**12)

    async def main():
        reached, gate = asyncio.Event(), asyncio.Event()
        dump = Book._dump

        async def held(self, *arguments):
            if not reached.is_set():
                reached.set()
                await gate.wait()
            return await dump(self, *arguments)

        pool = make_pool(store)
        async with pool.session("ada", "1") as session:
            await session.run("globalThis.runs = []")
            monkeypatch.setattr(Book, "_dump", held)
            work, number = None, 0
            while not reached.is_set():
                number += 1
                work = asyncio.create_task(session.run(f"runs.push({number})"))
                await asyncio.wait([work, asyncio.ensure_future(reached.wait())], return_when="FIRST_COMPLETED")
            if cancelled:
                work.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await work
            gate.set()
            await asyncio.wait([work])
        known = number - 1 if cancelled else number
        async with pool.session("ada", "1") as session:
            assert await session.run("runs.push(100); return runs") == [*range(1, known + 1), 100]
        async with make_pool(store).session("ada", "1") as session:
            assert await session.run("return runs") == [*range(1, known + 1), 100]

    play(main)


# ── stores that somebody changed ─────────────────────────────────────────────────────────────────────────────────────


async def two_turns(make_pool, store):
    """The record after each of two turns."""
    pool = make_pool(store, max_tool_calls=5, max_live=1)
    records = []
    for _ in range(2):
        async with pool.session("ada", "1") as session:
            await session.run("globalThis.n = (globalThis.n ?? 0) + 1; await look()")
        records.append(store.get("gloveport/session/ada/1"))
    return records


def put_back(store, record, **changes):
    entry = store._entries[record.key]
    entry.record = dataclasses.replace(record, **changes)
    for name in ("version", "spent", "tally"):
        if name in changes:
            setattr(entry, name, changes[name])


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("nothing", None),
        ("an older state under the newer version", SealError),
        ("an older state that says its own version", StaleJournal),
        ("a segment is missing", SealError),
        ("segments are swapped", SealError),
        ("a segment twice", SealError),
        ("a counter set back", StaleJournal),
        ("another one's record", SealError),
    ],
)
def test_a_changed_store_is_noticed(what, error, store, make_pool, play):
    async def main():
        first, second = await two_turns(make_pool, store)
        entry = store._entries[second.key]
        if what == "an older state under the newer version":
            put_back(store, first, version=second.version)
        elif what == "an older state that says its own version":
            put_back(store, first, spent=second.spent)
            entry.version = first.version
        elif what == "a segment is missing":
            put_back(store, second, segments=second.segments[:-1])
        elif what == "segments are swapped":
            put_back(store, second, segments=second.segments[::-1])
        elif what == "a segment twice":
            put_back(store, second, segments=(*second.segments, second.segments[-1]), version=second.version + 1)
        elif what == "a counter set back":
            put_back(store, second, spent=0)
        elif what == "another one's record":
            async with make_pool(store).session("eve", "1") as session:
                await session.run("await look(); await look()")
            put_back(store, dataclasses.replace(store.get("gloveport/session/eve/1"), key=second.key))
            entry.version = store.get("gloveport/session/eve/1").version
        pool = make_pool(store, max_tool_calls=5)
        if error is None:
            async with pool.session("ada", "1") as session:
                assert (await session.run("return n"), session.calls_remaining) == (2, 3)
            return
        with pytest.raises(error):
            await pool.get("ada", "1")
        entry.spent, entry.tally = 2, second.tally
        await pool.drop("ada", "1")
        async with pool.session("ada", "1") as session:
            assert (session.calls_remaining, await session.run("return globalThis.n ?? null")) == (3, None)

    play(main)


def test_a_tally_that_was_taken_away_is_noticed(store, make_pool, play):
    async def main():
        _, second = await two_turns(make_pool, store)
        pool = make_pool(store, max_tool_calls=5)
        await pool.drop("ada", "1")
        entry = store._entries[second.key]
        kept = entry.tally
        for tally in (b"", kept[:-1], second.blob):
            entry.tally = tally
            with pytest.raises(SealError):
                await pool.get("ada", "1")
        entry.tally = kept
        async with pool.session("ada", "1") as session:
            assert session.calls_remaining == 3

    play(main)


def test_nobody_writes_beside_the_holder(store, make_pool, play):
    async def main():
        pool = make_pool(store)
        async with pool.session("ada", "1") as session:
            await session.run("globalThis.n = 1")
            record = store.get("gloveport/session/ada/1")
            with pytest.raises(StoreConflict):
                store.put(dataclasses.replace(record, blob=b"x"), expect=record.version)
            assert isinstance(await session.start("return 1"), Done)

    play(main)


def test_a_host_that_was_stopped_between_lease_and_reading_begins_anew(make_pool, play):
    class Stopping(MemoryStore):
        meanwhile = None

        def get(self, key):
            if self.meanwhile is not None:
                meanwhile, self.meanwhile = self.meanwhile, None
                meanwhile()
            return super().get(key)

    async def main():
        store = Stopping()
        pool = make_pool(store)
        async with pool.session("ada", "1") as session:
            await session.run("globalThis.n = 1; await look()")

        def someone_else():
            """Takes over while this host does not run, writes, and is done."""
            entry = store._entries["gloveport/session/ada/1"]
            entry.lease = (entry.lease[0], entry.lease[1], 0.0)
            lease = store.acquire("gloveport/session/ada/1", "someone else", 60)
            record = entry.record
            store.put(dataclasses.replace(record, spent=2), expect=record.version, token=lease.token)
            store.put(dataclasses.replace(record, spent=2), expect=record.version + 1, token=lease.token)
            store.release(lease)

        store.meanwhile = someone_else
        other = make_pool(store)
        with pytest.raises(
            SealError
        ):  # what they wrote here is no session; that it was read under a new lease is what matters
            await other.get("ada", "1")
        assert store._entries["gloveport/session/ada/1"].lease[0] == store._tokens == 4

    play(main)
