"""A v8 session is its history: what that means for saving, loading, forking, rolling back and limits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from gloveport import AgentSandbox, AsyncAgentSandbox, JournalError, JournalTooLarge, ReplayDivergence
from gloveport.core.commands import Dump, Load, Replay, Retrace, Step
from gloveport.engines.v8.link import V8Link

KEY = b"k" * 32


@pytest.fixture
def asked(monkeypatch):
    """What goes to the guests, as types of commands."""
    seen, really = [], V8Link.perform
    monkeypatch.setattr(V8Link, "perform", lambda link, command: (seen.append(command), really(link, command))[1])
    return seen


def load(blob, tools=None, **options):
    return AgentSandbox.load(blob, KEY, tools or {}, engine="v8", **options)


def test_a_whole_history_is_replayed_in_one_message_and_no_tool_is_called(v8, asked):
    called = []
    tools = {"t": lambda x: called.append(x) or x}
    session = v8(tools)
    for i in range(40):
        session.run(f"var last = await t({i}); console.log('line', last); return last")
    session.start("return [last, await t('pending')]")
    blob = session.dump(KEY)
    called.clear(), asked.clear()
    with load(blob, tools) as copy:
        assert [type(command) for command in asked] == [Retrace]
        assert (called, copy.calls_made) == ([], 41)
        assert copy.resume(copy.pending, "answer").value == [39, "answer"]


def test_images_are_neither_made_nor_asked_for(v8, asked):
    session = v8({"t": lambda x: x})
    session.run("let big = new Array(10000).fill({a: 1}); for (let i = 0; i < 1e7; i++); return 1")
    with session.fork() as branch:
        branch.run("big.length = 1")
        assert session.run("return big.length") == 10000
    assert {type(command) for command in asked} <= {Step, Replay, Retrace}
    assert not {Dump, Load} & {type(command) for command in asked}


def test_a_dump_needs_no_worker(v8):
    session = v8({"t": lambda x: x})
    session.run("let a = 7")
    step = session.start("return [a, await t(1)]")
    os.kill(session.worker_pid, signal.SIGKILL)
    blob = session.dump(KEY)
    with load(blob, {"t": lambda x: x}) as copy:
        assert copy.pending == step
        assert copy.resume(copy.pending, 2).value == [7, 2]


def test_it_comes_back_in_another_process(v8):
    session = v8({"t": lambda x: x}, random_seed=3, clock=1_000_000)
    session.run("let n = Math.random()")
    session.start("return [n, await t(1), Math.random(), Date.now()]")
    blob = session.dump(KEY)
    program = (
        "import sys; from gloveport import AgentSandbox\n"
        f"with AgentSandbox.load(sys.stdin.buffer.read(), {KEY!r}, {{'t': lambda x: x}}, engine='v8') as s:\n"
        "    print(s.resume(s.pending, 5).value)"
    )
    done = subprocess.run([sys.executable, "-c", program], input=blob, capture_output=True, timeout=60, check=False)
    assert done.stdout.decode().strip() == repr(session.resume(session.pending, 5).value), done.stderr.decode()


@pytest.mark.anyio
async def test_the_awaiting_class_loads_what_the_blocking_one_saved(v8):
    session = v8({"t": lambda x: x})
    session.run("const text = await t('x'.repeat(3_000_000)); return text.length")
    session.start("return [text.length, await t(1)]")
    tools = {"t": lambda x: x}
    copy = await AsyncAgentSandbox.load(
        session.dump(KEY), KEY, tools, engine="v8", max_journal_bytes=1 << 24
    )  # more than one part
    async with copy:
        assert (await copy.resume(copy.pending, 2)).value == [3_000_000, 2]


# ── what differs from what was recorded ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("change", ["nothing", "a digest", "an answer", "a run less", "an end more"])
def test_a_replay_with_another_outcome_is_refused(v8, change):
    session = v8({"t": lambda x: x})
    session.run("let seen = await t(1); await t(seen + 1); return 1")
    session.run("return seen")
    tail = session._core.tail
    if change == "a digest":
        tail[2].digest = b"\0" * 32
    elif change == "an answer":
        tail[1].requests[1] = tail[1].requests[1].replace(b"1", b"9")
    elif change == "a run less":
        tail[2].requests.clear()
    elif change == "an end more":
        tail[1].requests, tail[2].requests = tail[1].requests + tail[2].requests, [b"E" + bytes(8)]
    blob = session.dump(KEY)
    if change == "nothing":
        with load(blob, {"t": lambda x: x}) as copy:
            assert copy.run("return seen") == 1
    elif change == "a run less":
        with load(blob, {"t": lambda x: x}) as copy:  # that run changed nothing
            assert copy.run("return seen") == 1
    else:
        with pytest.raises(ReplayDivergence):
            load(blob, {"t": lambda x: x})


def test_another_build_of_the_guest_may_load_it(v8, monkeypatch):
    session = v8()
    session.run("let a = 1")
    blob = session.dump(KEY)
    monkeypatch.setattr("gloveport.engines.v8.build.v8_build", lambda: "another")
    with load(blob) as copy:
        assert copy.run("return a") == 1


@pytest.mark.parametrize(("made", "loaded"), [("v8", "wasm"), ("wasm", "v8")])
def test_an_engine_refuses_what_the_other_one_saved(made, loaded):
    with AgentSandbox({}, engine=made) as session:
        session.run("let a = 1")
        blob = session.dump(KEY)
    with pytest.raises(JournalError, match=f"engine='{made}'"):
        AgentSandbox.load(blob, KEY, {}, engine=loaded)
    AgentSandbox.load(blob, KEY, {}, engine=made).close()


def test_a_journal_on_request_is_the_same_dump(v8):
    session = v8()
    session.run("let a = 1")
    with load(session.dump(KEY, journal=True)) as copy:
        assert copy.run("return a") == 1
        assert load(copy.dump(KEY, journal=True)).run("return a") == 1


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_that_would_outgrow_the_history_is_rolled_back(v8):
    text = "x" * 6000
    for most, fits in ((20_000, 3), (40_000, 5)):
        session = v8({"big": lambda: text}, max_journal_bytes=most)
        code = "globalThis.n = (globalThis.n ?? 0) + 1; await big(); return n"
        done = 0
        while done < 5 and (result := session.execute(code)).ok:
            done += 1
        assert done == fits
        if fits < 5:
            assert (result.error_type, session.lost_runs) == ("JournalTooLarge", 1)
            assert "max_journal_bytes" in result.error
            with pytest.raises(JournalTooLarge):
                session.run("await big()")
        assert session.run("return n") == done  # nothing that was done before is lost
        assert len(session.dump(KEY)) < most


def test_a_lost_run_is_replayed_without_its_tools(v8):
    called = []
    session = v8({"t": lambda x: called.append(x) or x}, timeout=0.3)
    session.run("let a = [await t(1)]; a.push(await t(2))")
    for _ in range(2):
        assert session.execute("a.push(await t(3)); for (;;);").error_type == "RuntimeTimeout"
        assert session.run("return a") == [1, 2]
    assert (called, session.calls_made, session.lost_runs) == ([1, 2, 3, 3], 4, 2)


def test_a_call_that_fails_says_where_it_was_made_after_a_load_too(v8):
    """A replay notes no places of the calls that it settles well itself: of these it has to."""
    tools = {"t": lambda x: x if x % 5 else 1 / 0}
    code = "for (let i = 1; i < 8; i++)\n  await t(i).catch((e) => console.log(e.stack));\nreturn 1"
    session = v8(tools)
    told = session.execute(code).stdout
    assert "at t (<run>:2:" in told
    session.run("var stack; try {\n await t(10) } catch (e) { stack = e.stack }; await t(1)")
    session.start("try {\n\n await t(11) } catch (e) { return [stack, e.stack] }")
    with load(session.dump(KEY), tools) as copy:
        earlier, late = copy.resume(copy.pending, error=ValueError("no")).value
        assert "at t (<run>:2:" in earlier
        assert "at t (<run>:3:" in late
        assert copy.execute(code).stdout == told
