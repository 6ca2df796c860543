"""Whose check is next, and what slow types of one session cost the others."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gloveport import AgentSandbox, AsyncAgentSandbox, TypeCheckUnavailableError
from gloveport.core.sources import Sources
from gloveport.engines.checker import Checker, CheckerBusyError, Question, turns
from gloveport.engines.checker.turns import HALF_LIFE, HEAVY, SHARE, Turns
from gloveport.engines.defaults import toolbox
from gloveport.host import checking

from .test_server import MISTAKE, SLOW, codes

# ── turns ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Queue:
    """Two places, with a clock of the test."""

    def __init__(self):
        self.now = 1000.0
        self.turns = Turns(2, lambda: self.now)
        self.granted = []

    def ask(self, asker, *, heavy=False):
        return self.turns.ask(asker, lambda turn: self.granted.append(turn.asker), heavy=heavy)

    def used(self, asker, seconds):
        """It has had a turn of that length."""
        turn = self.ask(asker)
        self.now += seconds
        self.turns.end(turn)
        self.granted.clear()


@pytest.fixture
def queue():
    return Queue()


def test_those_who_have_used_little_come_in_the_order_of_asking(queue):
    queue.used("c", HEAVY / 2)
    running = [queue.ask(asker) for asker in "abcde"]
    assert queue.granted == ["a", "b"]
    for turn in running:
        queue.turns.end(turn)
    assert queue.granted == ["a", "b", "c", "d", "e"]


def test_each_has_one_at_a_time(queue):
    first, second, other = queue.ask("a"), queue.ask("a"), queue.ask("b")
    assert queue.granted == ["a", "b"]
    queue.turns.end(other)
    assert queue.granted == ["a", "b"]
    queue.turns.end(first)
    assert queue.granted == ["a", "b", "a"]
    queue.turns.end(second)


def test_those_who_have_used_much_are_behind_the_others_and_leave_a_place(queue):
    queue.used("much", 2 * HEAVY)
    queue.used("more", 4 * HEAVY)
    first = queue.ask("a"), queue.ask("b")
    waiting = [queue.ask(asker) for asker in ("more", "much", "c")]
    queue.turns.end(first[0])
    assert queue.granted == ["a", "b", "c"]
    queue.turns.end(first[1])
    assert queue.granted == ["a", "b", "c", "much"]
    queue.turns.end(waiting[2])
    assert queue.granted == ["a", "b", "c", "much"], "the last place is for those who use little"
    queue.ask("d")
    queue.turns.end(waiting[1])
    assert queue.granted == ["a", "b", "c", "much", "d", "more"]


def test_who_says_that_it_will_use_much_is_one_of_them(queue):
    running = [queue.ask(asker, heavy=True) for asker in "ab"]
    assert queue.granted == ["a"]
    queue.ask("c")
    assert queue.granted == ["a", "c"]
    queue.turns.end(running[0])
    assert queue.granted == ["a", "c", "b"]


def test_what_was_used_is_forgotten(queue):
    queue.used("a", 3 * HEAVY)
    assert queue.turns._seconds("a", queue.now) == 3 * HEAVY
    queue.now += 2 * HALF_LIFE
    queue.ask("b", heavy=True)
    queue.ask("a")
    assert queue.granted == ["b", "a"]


def test_askers_who_used_little_are_not_remembered(queue, monkeypatch):
    monkeypatch.setattr(turns, "_KEPT_ASKERS", 10)
    queue.used("much", 2 * HEAVY)
    for number in range(100):
        queue.used(number, 0.003)
    assert "much" in queue.turns._used
    assert len(queue.turns._used) <= 11


def test_time_counts_from_when_there_is_a_server(queue):
    turn = queue.ask("a")
    queue.now += 5 * HEAVY
    queue.turns.count(turn)
    queue.now += HEAVY / 2
    queue.turns.end(turn)
    assert queue.turns._seconds("a", queue.now) == HEAVY / 2


def test_a_check_gives_its_place_back_when_all_are_held_for_long_and_somebody_waits(queue):
    a, b = queue.ask("a"), queue.ask("b")
    queue.now += 2 * SHARE
    assert not queue.turns.unwanted(a), "nobody waits"
    heavy = queue.ask("h", heavy=True)
    assert not queue.turns.unwanted(a), "who waits needs no less"
    queue.turns.withdraw(heavy)
    queue.ask("c")
    queue.ask("d")
    assert queue.turns.unwanted(a)
    assert not queue.turns.unwanted(b), "one is enough"
    queue.turns.end(a)
    assert queue.granted == ["a", "b", "c"]
    assert not queue.turns.unwanted(b), "the other place is held for a short time yet"
    again = queue.ask("a")
    assert queue.turns._much(again, queue.now), "it is known now"


def test_a_check_that_is_known_to_be_slow_goes_on(queue):
    a, b = queue.ask("a", heavy=True), queue.ask("b")
    queue.now += 2 * SHARE
    queue.ask("c")
    assert not queue.turns.unwanted(a)
    assert queue.turns.unwanted(b)
    queue.turns.end(b)
    assert not queue.turns.unwanted(b)


def test_who_waits_for_too_long_is_told_and_is_not_granted_later(queue):
    running = queue.ask("a"), queue.ask("b")
    with pytest.raises(CheckerBusyError), queue.turns.taken("c", 0.01):
        pass
    for turn in running:
        queue.turns.end(turn)
        queue.turns.end(turn)
    with queue.turns.taken("c", 0.01), queue.turns.taken("d", 0.01):
        with pytest.raises(CheckerBusyError), queue.turns.taken("e", 0.01):
            pass


# ── a checker ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def own(compiler):
    with Checker(toolbox=toolbox("require")) as made:
        yield made


@pytest.fixture
def held(own):
    """That checker, both of whose places are taken until the test ends."""
    with own._turns.taken("one", 1), own._turns.taken("two", 1):
        yield own


@contextlib.contextmanager
def loops(own, count, timeout):
    """Others who check slow types all the time. Gives how many answers each has had."""
    stop, answers = threading.Event(), [0] * count

    def loop(number):
        while not stop.is_set():
            with contextlib.suppress(TypeCheckUnavailableError):
                own.check(Question(SLOW), timeout=timeout)
            answers[number] += 1

    threads = [threading.Thread(target=loop, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        stop.set()
        own.close()
        for thread in threads:
            thread.join()


def test_slow_types_of_others_fail_nobody(own):
    own.check(MISTAKE)
    with loops(own, 6, timeout=2.0) as answers:
        end = time.monotonic() + 120
        while not all(answers) and time.monotonic() < end:
            time.sleep(0.05)
        assert all(answers)
        before = sum(answers)
        for _ in range(5):
            assert codes(own.check(MISTAKE, timeout=1.0)) == ["TS2322"]
        assert sum(answers) - before < 6, "it was behind all of theirs"


def test_a_check_does_not_wait_for_slow_ones_that_nobody_knew_of(own):
    own.check(MISTAKE)
    slow = []

    def ask():
        with contextlib.suppress(TypeCheckUnavailableError):
            slow.append(own.check(Question(SLOW), timeout=60))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(1.0)
    try:
        assert codes(own.check(MISTAKE)) == ["TS2322"]
        assert not slow, "they were over, and showed nothing"
    finally:
        own.close()
        for thread in threads:
            thread.join()


def test_a_fork_waits_for_nobody(held):
    child = os.fork()
    if child == 0:
        try:
            fine = codes(held.check(MISTAKE)) == ["TS2322"]
            fine = fine and codes(asyncio.run(held.check_async(MISTAKE))) == ["TS2322"]
            held.close()
        except BaseException:
            fine = False
        os._exit(0 if fine else 1)
    assert os.waitpid(child, 0)[1] == 0


# ── event loops ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_check_needs_none_of_the_loops_threads(own, monkeypatch):
    monkeypatch.setattr(checking, "checker", lambda sandbox: own)
    session = checking.Checking("warn", "require", "wasm", None)
    release = threading.Event()

    async def main():
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        held = asyncio.create_task(asyncio.to_thread(release.wait, 60))
        await asyncio.sleep(0)
        try:
            found = await asyncio.wait_for(session.check_async(MISTAKE.code, Sources(), ""), 30)
        finally:
            release.set()
            await held
        assert codes(found) == ["TS2322"]

    asyncio.run(main())


def test_checks_that_wait_take_no_threads(held):
    async def main():
        waiting = [asyncio.create_task(held.check_async(MISTAKE, asker=number)) for number in range(50)]
        await asyncio.sleep(0.05)
        threads = threading.active_count()
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return threads, all(task.cancelled() for task in waiting)

    before = threading.active_count()
    threads, cancelled = asyncio.run(main())
    assert (threads <= before, cancelled) == (True, True)
    assert held._turns._waiting == []


def test_a_check_that_waits_for_too_long_on_a_loop(held):
    with pytest.raises(CheckerBusyError, match="try again"):
        asyncio.run(held.check_async(MISTAKE, timeout=0.05))
    assert held._turns._waiting == []


def test_many_at_once_on_a_loop(own):
    async def main():
        return await asyncio.gather(*(own.check_async(MISTAKE, asker=number % 5) for number in range(30)))

    assert [codes(found) for found in asyncio.run(main())] == [["TS2322"]] * 30


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def busy(held, monkeypatch):
    """The checker of every session is busy, and nobody waits long."""
    monkeypatch.setattr(checking, "checker", lambda sandbox: held)
    for check in (Checker.check, Checker.check_async):
        monkeypatch.setitem(check.__kwdefaults__, "timeout", 0.05)


def test_warn_runs_without_a_check_while_the_checker_is_busy(busy):
    with AgentSandbox({}, isolation="inline", typecheck="warn") as session:
        assert session.run("return [].lenght ?? 7") == 7
        assert codes(session.problems) == ["Unchecked"]
        with pytest.raises(TypeCheckUnavailableError, match="busy"):
            session.check("return 1")


def test_block_runs_nothing_while_the_checker_is_busy(busy):
    with AgentSandbox({}, isolation="inline", typecheck="block") as session:
        with pytest.raises(TypeCheckUnavailableError, match="busy"):
            session.run("return 1")
        assert session._core.runs == 0


def test_the_same_on_a_loop(busy):
    async def main():
        async with AsyncAgentSandbox({}, isolation="inline", typecheck="warn") as session:
            assert await session.run("return [].lenght ?? 7") == 7
            assert codes(session.problems) == ["Unchecked"]
        async with AsyncAgentSandbox({}, isolation="inline", typecheck="block") as session:
            with pytest.raises(TypeCheckUnavailableError, match="busy"):
                await session.run("return 1")

    asyncio.run(main())


def test_each_session_is_an_asker_of_its_own(own, monkeypatch):
    askers = []
    monkeypatch.setattr(Checker, "check", lambda self, question, *, asker, **more: askers.append(asker) or [])
    with (
        AgentSandbox({}, isolation="inline", typecheck="warn") as one,
        AgentSandbox({}, isolation="inline", typecheck="warn") as other,
    ):
        for session in (one, other, one):
            session.run("return 1")
    assert askers[0] is askers[2]
    assert askers[0] is not askers[1]
