"""The holder of a resident process: what `close` and a fork must reach."""

from __future__ import annotations

import os
import threading

import pytest

from gloveport.engines.resident import Resident


class Process:
    """What is lent."""

    def __init__(self):
        self.killed = self.closed = False

    def kill(self):
        self.killed = True

    def close(self):
        self.closed = True


class Closed(Exception):
    pass


class Busy(Exception):
    pass


@pytest.fixture
def made():
    return []


@pytest.fixture
def resident(made):
    def start():
        made.append(Process())
        return made[-1]

    return Resident(start, patience=0.01, extras=1, busy=Busy, closed=Closed)


def test_it_stays_until_it_is_closed(resident, made):
    for _ in range(2):
        with resident.borrowed(1.0) as process:
            assert [process] == made
    assert not made[0].closed
    resident.close()
    assert made[0].closed
    with pytest.raises(Closed), resident.borrowed(1.0):
        pass


def test_a_process_that_starts_for_longer_than_close_waits_does_not_stay(made):
    starting, go_on = threading.Event(), threading.Event()

    def start():
        starting.set()
        assert go_on.wait(60)
        made.append(Process())
        return made[-1]

    resident = Resident(start, patience=0.01, extras=1, busy=Busy, closed=Closed)
    said = []

    def borrow():
        try:
            with resident.borrowed(1.0) as process:
                said.append(process)
        except Closed:
            said.append("closed")

    thread = threading.Thread(target=borrow)
    thread.start()
    assert starting.wait(60)
    resident.close()
    go_on.set()
    thread.join()
    assert said == ["closed"]
    assert made[0].closed
    assert resident.process is None


def test_one_that_is_in_use_for_longer_than_close_waits_does_not_stay(resident, made):
    with resident.borrowed(1.0) as process:
        resident.close()
        assert process.killed
    assert process.closed


def test_extra_ones_are_ended_as_well(resident, made):
    with resident.borrowed(1.0) as first, resident.borrowed(1.0) as extra:
        assert first is not extra
        resident.close()
        assert first.killed
        assert extra.killed
    assert all(process.closed for process in made)


def test_a_fork_lets_go_of_extra_ones(resident):
    with resident.borrowed(1.0) as first, resident.borrowed(1.0) as extra:
        child = os.fork()
        if child == 0:
            os._exit(0 if first.closed and extra.closed else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert not extra.closed
    assert extra.closed
    assert not first.closed
