"""Instances of inline guests that are used again: nothing of the last session is in them, and nobody who had it reaches the next."""

from __future__ import annotations

import threading

import pytest

from gloveport import AgentSandbox
from gloveport.engines.wasm.guest import Guest
from gloveport.engines.wasm.module import GuestModule
from gloveport.engines.wasm.spares import Spares

LIMIT = 64 << 20


@pytest.fixture(scope="module")
def module():
    return GuestModule.load()


@pytest.fixture
def spares(module):
    return Spares(module)


def memory_of(guest):
    return guest._instance.snapshot()


def used(spares, name=b"x"):
    """A guest in which something has happened."""
    guest = spares.take(LIMIT)
    guest._instance.write(guest._module.io_offset + 65536, name * 10_000, 10_000)
    return guest


def test_one_that_was_used_is_as_a_new_one(module, spares):
    first = used(spares)
    instance = first._instance
    assert memory_of(first) != module.base
    spares.give_back(first)
    second = spares.take(LIMIT)
    assert second._instance is instance and memory_of(second) == module.base
    spares.give_back(second)


def test_who_had_it_does_not_reach_the_next(spares):
    first = spares.take(LIMIT)
    spares.give_back(first)
    second = spares.take(LIMIT)
    before = memory_of(second)
    first.interrupt()
    first.close()
    assert memory_of(second) == before
    second.interrupt()
    assert memory_of(second) != before  # the control: that flag is where it would be
    spares.give_back(second)
    spares.give_back(second)  # twice is once
    one, other = spares.take(LIMIT), spares.take(LIMIT)
    assert one._instance is not other._instance


def test_one_that_was_spoilt_or_has_grown_is_not_used_again(spares):
    spoilt = spares.take(LIMIT)
    spoilt._usable = False
    spares.give_back(spoilt)
    grown = spares.take(LIMIT)
    assert grown._instance.grow_to(grown._instance.size() + 65536)
    spares.give_back(grown)
    assert spares._waiting == []


def test_a_limit_is_that_of_its_session(module, spares):
    spares.give_back(spares.take(LIMIT))
    small = spares.take(module.base_size)
    assert not small._instance.grow_to(module.base_size + 65536)
    spares.give_back(small)
    large = spares.take(LIMIT)
    assert large._instance.grow_to(module.base_size + 65536)
    with pytest.raises(ValueError, match="memory limit"):
        spares.take(1)


def test_few_wait(spares):
    guests = [spares.take(LIMIT) for _ in range(8)]
    for guest in guests:
        spares.give_back(guest)
    assert len(spares._waiting) == 4


def test_many_threads(spares):
    seen = []

    def work():
        for _ in range(50):
            guest = spares.take(LIMIT)
            assert isinstance(guest, Guest)
            seen.append(memory_of(guest) == guest._module.base)
            used_by_me = guest._instance
            used_by_me.write(guest._module.io_offset + 65536, b"y", 1)
            spares.give_back(guest)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 200 and all(seen)


def test_sessions_one_after_the_other_know_nothing_of_each_other():
    before = None
    for number in range(6):
        with AgentSandbox({}, isolation="inline", random_seed=1) as session:
            told = session.run("return [typeof globalThis.left, Math.random(), Object.keys(globalThis).length]")
            session.run(f"globalThis.left = {number}; Array.prototype.evil = 1; let big = 'x'.repeat(200000)")
            assert before in (None, told)
            before = told
