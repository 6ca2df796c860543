"""Saving, loading, forking and rolling back."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from gloveport import (
    AgentSandbox,
    JournalError,
    JournalTooLarge,
    NotPausedError,
    SealError,
    StaleStepError,
    ToolCall,
    ValueCrossingError,
)

from ..conftest import SETTINGS

KEY = b"0123456789abcdef"

OPTIONS: dict = {}
"""Of the engine under test."""

WASM_ONLY = {
    "test_a_session_comes_back_in_another_process",  # of v8: tests/v8/test_v8_history.py
    # A history is what a v8 session is: it follows no heap, needs no second copy, and a run that would be too much for it fails.
    "test_a_dump_over_the_cap_is_refused_and_the_session_goes_on",
    "test_a_dump_follows_the_live_heap_and_not_the_history",
    "test_the_journal_rebuilds_a_session_of_another_guest_build",
    "test_a_loaded_session_without_a_journal_says_so",
}


def pytest_generate_tests(metafunc):
    """Both engines, unless a test makes its sessions otherwise or is about what one of them has."""
    other = {"make_session", "setting"} & set(metafunc.fixturenames)
    one = other or metafunc.function.__name__ in WASM_ONLY
    metafunc.parametrize("each_engine", ["inline"] if one else ["inline", "v8"], indirect=True)


@pytest.fixture(autouse=True)
def each_engine(request):
    OPTIONS.clear()
    OPTIONS.update(SETTINGS[request.param])


def inline(tools=None, **options):
    return AgentSandbox(tools or {}, **{**OPTIONS, **options})


def load(blob, tools=None, key=KEY, **options):
    return AgentSandbox.load(blob, key, tools or {}, **OPTIONS, **options)


TOOLS = {"ask": lambda x: x, "mail": lambda: "m"}
CODE = """
let count = 0; function inc() { return ++count } class Box { #v = 7; get v() { return this.#v } }
const box = new Box(), shared = {n: 1}, list = [shared, shared], m = new Map([[shared, 'k']]);
inc();
const answer = await ask('?');
list[0].n += answer;
return [inc(), box.v, list[1].n, m.get(shared), Math.random()]
"""


def test_everything_of_the_heap_comes_back(make_session, setting):
    session = make_session(TOOLS, random_seed=7, clock=1_000_000)
    step = session.start(CODE)
    blob = session.dump(KEY)
    with AgentSandbox.load(blob, KEY, TOOLS, **setting) as copy:
        assert copy.pending == step
        assert (copy.clock, copy.random_seed, copy.session_id) == (session.clock, 7, session.session_id)
        one, two = session.resume(step, 41), copy.resume(copy.pending, 41)
        assert one == two
        assert one.value[:4] == [2, 7, 42, "k"]
        follow = "return [inc(), count, list[0].n, Date.now(), Math.random(), crypto.randomUUID()]"
        assert session.run(follow) == copy.run(follow)


def test_a_session_comes_back_in_another_process():
    with AgentSandbox(TOOLS) as session:
        session.start(CODE)
        blob = session.dump(KEY)
        expected = session.resume(session.pending, 1).value
    script = (
        "import sys; from gloveport import AgentSandbox\n"
        "s = AgentSandbox.load(sys.stdin.buffer.read(), b'0123456789abcdef', {'ask': None or (lambda x: x), 'mail': lambda: 1})\n"
        "print(s.resume(s.pending, 1).value)"
    )
    done = subprocess.run([sys.executable, "-c", script], input=blob, capture_output=True, check=False)
    assert done.stdout.decode().strip() == str(expected), done.stderr.decode()


def test_tools_are_not_called_by_a_load():
    calls = []
    tools = {"ask": lambda x: calls.append(x) or x}
    with inline(tools) as session:
        session.run("await ask(1); await ask(2)")
        blob = session.dump(KEY, journal=True)
    calls.clear()
    load(blob, tools).close()
    assert calls == []


def test_a_dump_is_bound_to_key_and_associated_data():
    with inline() as session:
        session.run("globalThis.x = 1")
        blob = session.dump(KEY, associated_data=b"tenant-1")
    load(blob, associated_data=b"tenant-1").close()
    for key, data in (
        (KEY, b""),
        (KEY, b"tenant-2"),
        (b"another key 0123", b"tenant-1"),
        (KEY, b"tenant-1" + bytes(1)),
    ):
        with pytest.raises(SealError):
            load(blob, key=key, associated_data=data)


def test_no_split_of_data_and_payload_gives_the_same_seal():
    from gloveport.core.seal import seal, unseal

    blob = seal(b"c", KEY, b"ab")
    assert unseal(blob, KEY, b"ab") == b"c"
    with pytest.raises(SealError):
        unseal(blob[:-1] + b"bc", KEY, b"a")


def test_any_change_of_a_dump_is_found_before_anything_is_started(monkeypatch):
    with inline(TOOLS) as session:
        session.start("await ask(1)")
        blob = session.dump(KEY)
    from gloveport.engines.v8.engine import V8Engine
    from gloveport.engines.wasm.engine import WasmEngine

    for engine in (V8Engine, WasmEngine):
        monkeypatch.setattr(engine, "open", lambda self: pytest.fail("a guest was started"))
    for position in (0, 4, 5, 6, 20, 37, 38, 100, len(blob) // 2, len(blob) - 1):
        changed = bytearray(blob)
        changed[position] ^= 1
        with pytest.raises(SealError):
            load(bytes(changed), TOOLS)
    for cut in (b"", blob[:5], blob[:37], blob[:-1], blob + b"x", b"not a dump at all" * 10):
        with pytest.raises(SealError):
            load(cut, TOOLS)


@pytest.mark.parametrize("key", [b"short", b"", "0123456789abcdef", None])
def test_a_bad_key_is_named(key):
    with inline() as session, pytest.raises((TypeError, JournalError), match="key"):
        session.dump(key)


def test_too_much_associated_data_is_named():
    with inline() as session:
        session.dump(KEY, associated_data=bytes(4096))
        with pytest.raises(JournalError, match="4096"):
            session.dump(KEY, associated_data=bytes(4097))


def test_a_dump_belongs_to_its_tools_and_its_redaction():
    with inline(TOOLS) as session:
        blob = session.dump(KEY)
    with pytest.raises(JournalError, match="mail"):
        load(blob, {"ask": lambda x: x})
    with pytest.raises(JournalError, match="extra"):
        load(blob, {**TOOLS, "extra": lambda: 1})
    with pytest.raises(JournalError, match="redact_host_errors=True"):
        load(blob, TOOLS, redact_host_errors=False)


def test_an_authentic_dump_that_is_malformed_starts_nothing(monkeypatch):
    """Whoever has the key may still have a broken writer."""
    from gloveport.core.saved import FORMAT
    from gloveport.core.seal import seal, unseal
    from gloveport.engines.v8.engine import V8Engine
    from gloveport.engines.wasm.engine import WasmEngine

    with inline(TOOLS) as session:
        session.start("await ask(1)")
        payload = bytes(unseal(session.dump(KEY), KEY, b""))
    for engine in (V8Engine, WasmEngine):
        monkeypatch.setattr(engine, "open", lambda self: pytest.fail("a guest was started"))
    assert payload[:2] == bytes([0x93, FORMAT])
    broken = {
        "nothing": b"",
        "a text": b"\xa3abc",
        "cut": payload[:-1],
        "cut in half": payload[: len(payload) // 2],
        "more": payload + b"\0",
        "of another format": payload[:1] + bytes([FORMAT + 1]) + payload[2:],
        "not compressed": payload[:2] + b"\x92\x90\xc0\xc4\x04junk",
    }
    for name, changed in broken.items():
        with pytest.raises(JournalError):
            pytest.fail(f"{name}: {load(seal(changed, KEY, b''), TOOLS)}")


def test_errors_of_tools_and_of_runs_are_part_of_what_comes_back():
    def fails(kind):
        raise {"KeyError": KeyError, "OSError": OSError}[kind]("secret")

    tools = {"fails": fails, "ask": lambda x: x}
    with inline(tools, max_tool_calls=9) as session:
        session.run("const seen = []; try { await fails('KeyError') } catch (e) { seen.push(e.name) }")
        session.execute("seen.push('before'); await fails('OSError'); seen.push('never')")
        step = session.start("try { await ask(1) } catch (e) { seen.push(e.name) }; await ask(2); return seen")
        session.resume(step, error=PermissionError("no"))
        blob, journal = session.dump(KEY), session.dump(KEY, journal=True)
        expected = ["KeyError", "before", "PermissionError"]
        assert session.resume(session.pending, 0).value == expected
    assert b"secret" not in blob + journal
    for saved in (blob, journal):
        with load(saved, {"fails": lambda kind: pytest.fail("called"), "ask": lambda x: x}) as copy:
            assert copy.resume(copy.pending, 0).value == expected
            assert (copy.calls_made, copy.lost_runs) == (4, 0)


def test_a_session_comes_back_with_less_time_than_it_has_used():
    """What a history or an image costs to restore is not the code's computing time."""
    with inline(TOOLS, timeout=30) as session:
        session.run("let n = 0; for (let i = 0; i < 3e6; i++) n += i % 7; const kept = n")
        session.start("return [kept, await ask(1)]")
        blob = session.dump(KEY)
        expected = session.resume(session.pending, 1).value
    with load(blob, TOOLS, timeout=0.02) as copy:
        assert copy.resume(copy.pending, 1).value == expected


def test_a_loaded_session_goes_on_with_the_random_numbers_and_ids():
    code = "return [Math.random(), crypto.randomUUID()]"
    with inline(random_seed=4) as session:
        first = session.run(code)
        with load(session.dump(KEY)) as copy:
            assert copy.run(code) == session.run(code) != first


def test_large_values_cross_within_the_limits_that_are_named():
    """No other limit than those that have a name is met first, and none of them costs a run."""
    size, most = 20_000_000, 63 << 20
    tools = {"big": lambda n: "x" * n, "take": len}
    options = {"max_result_bytes": 1 << 26, "max_memory": 1 << 30, "max_journal_bytes": 1 << 28}
    with inline(tools, **options) as session:
        assert session.run(f"return (await big({size})).length") == size
        assert session.run(f"return (await Promise.all([big({2 * size}), big({2 * size})])).length") == 2
        assert session.run(f"return await take('y'.repeat({size}))") == size
        assert len(session.run(f"return 'z'.repeat({size})")) == size
        for code, kind in (
            (f"return await big({most})", "TypeError"),
            (f"return await take('y'.repeat({most}))", "RangeError"),
            (f"return 'z'.repeat({most})", "ValueCrossingError"),
        ):
            result = session.execute(code)
            assert (result.error_type, "63 MiB" in result.error or str(most) in result.error) == (kind, True)
        assert session.lost_runs == 0
        step = session.start("return (await take('')).length")
        with pytest.raises(ValueCrossingError, match="give less"):
            session.resume(step, "x" * most)
        assert session.resume(step, "x").value == 1
    with inline(tools, max_result_bytes=1000) as session:
        assert session.execute("return 'z'.repeat(1000)").error_type == "ResultTooLarge"


def test_a_dump_over_the_cap_is_refused_and_the_session_goes_on():
    with inline(max_journal_bytes=200_000) as session:
        session.run("globalThis.big = Array.from({length: 100000}, (_, i) => Math.random())")
        with pytest.raises(JournalTooLarge, match="max_journal_bytes"):
            session.dump(KEY)
        session.run("big = null")
        blob = session.dump(KEY)
        with pytest.raises(JournalTooLarge):
            load(blob, max_journal_bytes=1000)
        load(blob, max_journal_bytes=len(blob)).close()


def test_a_dump_follows_the_live_heap_and_not_the_history():
    with inline({"t": lambda x: x}) as session:
        session.run("for (let i = 0; i < 10; i++) await t({i})")
        small = len(session.dump(KEY))
        session.run("for (let i = 0; i < 3000; i++) await t({i})")
        session.run("await Promise.all(Array.from({length: 3000}, (_, i) => t({i})))")
        assert len(session.dump(KEY)) < 2 * small


def test_a_dump_does_not_change_the_session():
    with inline(TOOLS, random_seed=1) as session, inline(TOOLS, random_seed=1) as twin:
        for _ in range(3):
            session.dump(KEY)
            assert session.run("return Math.random()") == twin.run("return Math.random()")


def test_the_journal_rebuilds_a_session_of_another_guest_build(monkeypatch):
    from gloveport.engines.wasm.engine import WasmEngine

    with inline(TOOLS, random_seed=3) as session:
        session.run(
            "let n = 1; await ask(n); setTimeout(() => n++, 5); await new Promise(r => setTimeout(r, 10)); return n"
        )
        session.execute("n++; throw new Error('x')")
        step = session.start("n++; const a = await ask(n); return [a, n, Math.random(), Date.now()]")
        plain, blob = session.dump(KEY), session.dump(KEY, journal=True)
        expected = session.resume(step, "yes").value
    monkeypatch.setattr(WasmEngine, "build", property(lambda self: "another build"))
    with pytest.raises(JournalError, match="journal=True"):
        load(plain, TOOLS)
    with load(blob, TOOLS) as copy:
        assert copy.pending == step
        assert copy.resume(copy.pending, "yes").value == expected


def test_a_loaded_session_without_a_journal_says_so():
    with inline() as session:
        session.run("globalThis.x = 1")
        blob = session.dump(KEY)
    with load(blob) as copy:
        copy.dump(KEY)
        copy.run("x = 2")
        with pytest.raises(JournalError, match="no journal"):
            copy.dump(KEY, journal=True)


def test_loading_twice_gives_two_sessions():
    with inline() as session:
        session.run("globalThis.x = 1")
        blob = session.dump(KEY)
    with load(blob) as one, load(blob) as two:
        one.run("x = 5")
        assert (one.run("return x"), two.run("return x")) == (5, 1)


# ── forks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fork_goes_its_own_way(make_session):
    session = make_session(TOOLS, max_tool_calls=11)
    step = session.start("let path = await ask(1); return path")
    with session.fork() as branch:
        assert branch.pending == step
        assert (session.calls_remaining, branch.calls_remaining) == (5, 5)
        assert branch.session_id != session.session_id
        assert session.resume(step, "left").value == "left"
        assert branch.resume(branch.pending, "right").value == "right"
        assert (session.run("return path"), branch.run("return path")) == ("left", "right")


def test_a_fork_shares_the_random_stream_unless_it_is_reseeded():
    with inline(random_seed=5) as session:
        session.run("Math.random()")
        with session.fork() as same, session.fork(reseed=True) as other:
            code = "return [Math.random(), Math.random()]"
            here = session.run(code)
            assert same.run(code) == here
            assert other.run(code) != here


def test_a_reseeded_fork_stays_so_after_a_rollback():
    with inline(random_seed=5, timeout=0.2) as session, session.fork(reseed=True) as branch, branch.fork() as twin:
        expected = twin.run("return Math.random()")
        branch.execute("for (;;);")
        assert branch.run("return Math.random()") == expected


def test_a_fork_takes_the_calls_it_is_given():
    with inline(TOOLS, max_tool_calls=10) as session, session.fork(calls=3) as branch:
        assert (session.calls_remaining, branch.calls_remaining) == (7, 3)
        with pytest.raises(ValueError, match="calls that are left"):
            session.fork(calls=8)


# ── rollback ─────────────────────────────────────────────────────────────────────────────────────────────────────────

LOSSES = {
    "timeout": "x = 2; for (;;);",
    "memory": "x = 2; const a = []; for (;;) a.push(new Uint8Array(1 << 20))",
    "regex": r"x = 2; /^(\w+\s?)*\1$/.test('a'.repeat(60) + '!')",
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("history", ["x = 1", "x = 1; let s = 0; for (let i = 0; i < 400000; i++) s += i"])
def test_a_lost_run_is_undone_and_nothing_else(make_session, loss, history):
    session = make_session(timeout=0.5, max_memory=32 << 20)
    session.run(f"globalThis.x = 0; function get() {{ return x }}; {history}")
    result = session.execute(LOSSES[loss])
    assert result.error_type in ("RuntimeTimeout", "MemoryLimitExceeded")
    assert (session.run("return [x, get()]"), session.lost_runs) == ([1, 1], 1)


def test_a_run_lost_after_a_load_goes_back_to_before_that_run():
    with inline(TOOLS, timeout=0.3) as session:
        session.run("let x = 1")
        session.start("x = 2; await ask(1); for (;;);")
        blob = session.dump(KEY)
    with load(blob, TOOLS, timeout=0.3) as copy:
        assert copy.resume(copy.pending, 1).error_type == "RuntimeTimeout"
        assert copy.run("return x") == 1


@pytest.mark.parametrize("with_base", [False, True])
def test_a_session_goes_on_from_a_paused_image_again_and_again(with_base):
    """Each load continues a run from its image: later rollbacks, pauses and dumps build on that image."""
    tools = {"ask": lambda x: x}
    session = inline(tools, timeout=0.3)
    session.run("globalThis.log = []; globalThis.big = 'b'.repeat(20000)")
    if with_base:
        session.run("for (let i = 0; i < 400000; i++) log.length = 0")  # long enough for an image of its own
    for turn in range(4):
        step = session.start(f"log.push({turn}, await ask(1)); big = big.slice(1); await ask(2); log.push('end')")
        for answer in ("a", "b"):
            blob = session.dump(KEY)
            session.close()
            session = load(blob, tools, timeout=0.3)
            step = session.resume(session.pending, answer)
        assert step.status == "Succeeded"
        assert session.execute("log.push('lost'); for (;;);").error_type == "RuntimeTimeout"
        if turn % 2:
            blob = session.dump(KEY)
            session.close()
            session = load(blob, tools, timeout=0.3)
        expected = [item for past in range(turn + 1) for item in (past, "a", "end")]
        assert session.run("return [log, big.length]") == [expected, 20000 - turn - 1]
    assert session.lost_runs == 4
    session.close()


def test_a_session_that_is_loaded_with_its_journal_keeps_it(monkeypatch):
    tools = {"ask": lambda x: x}
    session = inline(tools)
    session.run("globalThis.x = await ask(1)")
    for _ in range(2):
        session.start("x += await ask(2); x += await ask(3); return x")
        for answer in (10, 100):
            blob = session.dump(KEY, journal=True)
            session.close()
            session = load(blob, tools)
            session.resume(session.pending, answer)
    blob = session.dump(KEY, journal=True)
    session.close()
    monkeypatch.setattr("gloveport.engines.wasm.engine.WasmEngine.build", "0" * 64)
    with load(blob, tools) as rebuilt:
        assert rebuilt.run("return x") == 221


def test_random_and_ids_after_a_rollback_are_as_if_the_run_had_not_been():
    with inline(TOOLS, random_seed=9, timeout=0.3) as session, inline(TOOLS, random_seed=9) as twin:
        for each in (session, twin):
            each.run("Math.random()")
        session.execute("Math.random(); for (;;);")
        assert session.run("return Math.random()") == twin.run("return Math.random()")


# ── pauses ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_calls_made_together_are_handed_out_in_order():
    with inline({"t": lambda x: x}) as session:
        step = session.start("return await Promise.all([t('a'), t('b'), t('c')])")
        seen = []
        while hasattr(step, "call_id"):
            seen.append((step.args[0], step.call_id))
            step = session.resume(step, step.args[0].upper())
        assert seen == [("a", 1), ("b", 2), ("c", 3)]
        assert step.value == ["A", "B", "C"]


def test_every_refusal_leaves_the_session_answerable():
    with inline(TOOLS) as session:
        with pytest.raises(NotPausedError):
            session.resume(None or ToolCall("ask", (), 1), 1)
        step = session.start("return await ask(1)")
        wrong = [
            (ValueCrossingError, lambda: session.resume(step, object())),
            (TypeError, lambda: session.resume(step, 1, error=ValueError())),
            (TypeError, lambda: session.resume(step, error=ValueError)),
            (TypeError, lambda: session.resume("ask", 1)),
            (StaleStepError, lambda: session.resume(ToolCall("ask", (), 99), 1)),
            (StaleStepError, lambda: session.resume(ToolCall("mail", (), 1), 1)),
        ]
        for kind, attempt in wrong:
            with pytest.raises(kind):
                attempt()
            assert session.pending == step
        assert session.resume(step, 5).value == 5
        with pytest.raises(NotPausedError):
            session.resume(step, 5)
        step2 = session.start("return await ask(2)")
        with pytest.raises(StaleStepError):
            session.resume(step, 5)
        session.resume(step2, 1)


def test_a_pause_that_is_ended_in_time_is_not():
    with inline(TOOLS, max_pause=30) as session:
        step = session.start("return await ask(1)")
        time.sleep(0.05)
        assert session.resume(step, "in time").value == "in time"


def test_time_paused_is_not_computing():
    with inline(TOOLS, timeout=0.2) as session:
        step = session.start("return await ask(1)")
        time.sleep(0.4)
        assert session.resume(step, 1).value == 1


# ── time and randomness ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_clock_begins_where_it_is_told_and_moves_with_timers_and_tools():
    with inline({"wait": lambda: time.sleep(0.05)}, clock=1_700_000_000) as session:
        assert session.run("return Date.now()") == 1_700_000_000_000
        assert session.run("let s = 0; for (let i = 0; i < 1e5; i++) s += i; return Date.now()") == 1_700_000_000_000
        assert session.run("await new Promise(r => setTimeout(r, 5000)); return Date.now()") == 1_700_000_005_000
        assert session.run("const a = Date.now(); await wait(); return Date.now() - a >= 45")
        step = session.start("const b = Date.now(); await wait(); return Date.now() - b")
        time.sleep(0.05)
        assert session.resume(step, None).value == 0


def test_a_frozen_clock_never_moves():
    with inline({"wait": lambda: time.sleep(0.01)}, clock="frozen") as session:
        code = "const a = Date.now(); await wait(); await new Promise(r => setTimeout(r, 5000)); return Date.now() - a"
        assert session.run(code) == 0


def test_the_same_seed_gives_the_same_numbers():
    code = "return [Math.random(), crypto.randomUUID(), [...crypto.getRandomValues(new Uint8Array(4))]]"
    with (
        inline(random_seed=1) as one,
        inline(random_seed=1) as two,
        inline(random_seed=2) as three,
        inline() as four,
        inline() as five,
    ):
        assert one.run(code) == two.run(code) != three.run(code)
        assert four.random_seed != five.random_seed


def test_an_answer_is_for_the_arguments_that_were_approved():
    """The numbers of calls begin anew with each session: a new one of the same name pauses at the same number of the same tool."""
    mail = {"mail": lambda *_: None}
    with inline(mail) as first, inline(mail) as second:
        approved = first.start("return await mail('ada', 10)")
        same, other = second.fork(), second
        step = other.start("return await mail('eve', 10_000)")
        assert (step.name, step.call_id) == (approved.name, approved.call_id)
        with pytest.raises(StaleStepError, match="other arguments"):
            other.resume(approved, "sent")
        assert other.resume(other.pending, "sent").value == "sent"
        with same:
            same.start("return await mail('ada', 10)")
            assert same.resume(approved, "sent").value == "sent"  # the control: as after a fork
        rebuilt = ToolCall(approved.name, approved.args, approved.call_id)
        assert first.resume(rebuilt, "sent").value == "sent"
