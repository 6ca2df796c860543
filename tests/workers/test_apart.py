"""A worker that is waited for awake runs on another processor than its host: only then, and only where that is allowed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from gloveport import AgentSandbox
from gloveport.engines.wasm import apart as places
from gloveport.engines.wasm.apart import Apart

PROCESSORS = frozenset(os.sched_getaffinity(0))
pytestmark = pytest.mark.skipif(len(PROCESSORS) < 2, reason="there is one processor")


@pytest.fixture
def other():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process.pid
        process.kill()


@pytest.fixture
def here(monkeypatch):
    """Where this thread runs, as far as `Apart` knows."""
    at = [min(PROCESSORS)]
    monkeypatch.setattr(places, "_sched_getcpu", lambda: at[0])
    return at


def may_run(pid):
    return frozenset(os.sched_getaffinity(pid))


def test_it_is_kept_off_one_processor_and_let_go_again(other, here):
    apart = Apart(other)
    first, second = sorted(PROCESSORS)[:2]
    apart.let_go()
    assert may_run(other) == PROCESSORS
    apart.keep_off()
    assert may_run(other) == PROCESSORS - {first}
    here[0] = second
    apart.keep_off()
    assert may_run(other) == PROCESSORS - {second}
    for _ in range(2):
        apart.let_go()
        assert may_run(other) == PROCESSORS


def test_one_that_may_run_in_one_place_only_stays_there(other, here):
    os.sched_setaffinity(other, {max(PROCESSORS)})
    apart = Apart(other)
    apart.keep_off()
    apart.let_go()
    assert may_run(other) == {max(PROCESSORS)}


def test_what_was_set_from_outside_holds(other, here):
    if len(PROCESSORS) < 3:
        os.sched_setaffinity(other, PROCESSORS)
    else:
        os.sched_setaffinity(other, sorted(PROCESSORS)[:2])
    allowed = may_run(other)
    apart = Apart(other)
    apart.keep_off()
    apart.let_go()
    assert may_run(other) == allowed


def test_one_that_has_ended_or_is_not_ours_to_move_is_left_alone(other, here, monkeypatch):
    def forbidden(pid, mask):
        calls.append(mask)
        raise PermissionError(1, "Operation not permitted")

    calls = []
    with monkeypatch.context() as patched:
        patched.setattr(os, "sched_setaffinity", forbidden)
        apart = Apart(other)
        for _ in range(5):
            apart.keep_off()
            here[0] = sorted(PROCESSORS)[len(calls) % 2]
            apart.let_go()
    assert len(calls) == 1
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    apart = Apart(gone.pid)
    apart.keep_off()
    apart.let_go()


def test_a_worker_that_sessions_share_is_not_moved():
    """Each would take for its choice what another one has set."""
    seen = []

    def look(i):
        seen.append(may_run(one.worker_pid))
        return i

    options = {"isolation": "shared", "group": "apart"}
    with AgentSandbox({"look": look}, **options) as one, AgentSandbox({"look": look}, **options) as other:
        assert one.worker_pid == other.worker_pid
        for session in (one, other):
            assert session.run("for (let i = 0; i < 50; i++) await look(i); return 1") == 1
        assert set(seen) == {PROCESSORS}


def test_a_worker_that_computes_may_run_anywhere_and_one_in_a_loop_of_calls_not_here():
    """With a real worker: what the host sees in the middle of a call, and while a run computes."""
    seen = []

    def look(i):
        seen.append(len(may_run(session.worker_pid)))
        return i

    with AgentSandbox({"look": look}) as session:
        assert session.run("for (let i = 0; i < 200; i++) await look(i); return 1") == 1
        assert seen.count(len(PROCESSORS) - 1) > 100
        later = []
        watcher = threading.Timer(0.3, lambda: later.append(may_run(session.worker_pid)))
        watcher.start()
        session.run("let x = 0; for (let i = 0; i < 4e7; i++) x = (x * 31 + i) % 1000003; return x")
        watcher.join()
        assert later == [PROCESSORS]
