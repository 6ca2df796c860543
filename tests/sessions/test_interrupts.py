"""Sync tools that hang, and callers that are interrupted."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from gloveport import AgentSandbox, RuntimeTimeout


@pytest.mark.parametrize("option", [{"tool_timeout": 0.3}, {"max_pause": 0.3}])
@pytest.mark.parametrize("before", [0, 3])
def test_a_tool_that_hangs_is_left_behind(make_either, option, before):
    release, late = threading.Event(), []

    def t(i):
        if i == before:
            release.wait(30)
            late.append(i)
        return i

    with make_either({"t": t}, **option) as session:
        session.run("globalThis.x = 1")
        began = time.monotonic()
        result = session.execute("x = 2; for (let i = 0; i < 9; i++) await t(i)")
        assert time.monotonic() - began < 20
        assert result.error_type == ("ToolTimeoutError" if "tool_timeout" in option else "RuntimeTimeout")
        assert session.run("return x") == (2 if "tool_timeout" in option else 1)
        release.set()
        while not late:
            time.sleep(0.01)
        time.sleep(0.05)  # its late answer must not be taken for another one's
        assert session.run("return [await t(100), await t(101)]") == [100, 101]


def test_a_timer_fires_while_a_tool_hangs(make_either):
    release = threading.Event()

    def t(i):
        if i == 2:
            assert release.wait(20)
        if i == 3:
            release.set()
        return i

    with make_either({"t": t}) as session:
        code = (
            "await t(0); await t(1); const slow = t(2);"
            "const r = await Promise.race([slow, new Promise(r => setTimeout(() => r('timer'), 100))]);"
            "await t(3); return [r, await slow]"
        )
        assert session.run(code) == ["timer", 2]


def test_the_caller_can_be_interrupted_while_a_tool_runs(make_either):
    with make_either({"t": lambda: time.sleep(5)}) as session:
        session.run("globalThis.x = 1")
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            session.run("x = 2; await t()")
        assert time.monotonic() - began < 4
        assert (session.run("return x"), session.lost_runs) == (1, 1)


def test_the_caller_can_be_interrupted_while_the_guest_computes(worker):
    with AgentSandbox({"t": lambda: 1}, timeout=60, **worker) as session:
        session.run("globalThis.x = 1")
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            session.run("x = 2; await t(); for (;;);")
        assert session.run("return x") == 1


def test_the_guests_timeout_holds_after_a_call(make_session):
    session = make_session({"t": lambda: 1}, timeout=0.3)
    with pytest.raises(RuntimeTimeout):
        session.run("await t(); for (;;);")
    assert session.run("return await t()") == 1
