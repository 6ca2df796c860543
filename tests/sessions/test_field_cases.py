"""Failures that users of agent sandboxes reported, as inputs, each with the behaviour that is right."""

from __future__ import annotations

import threading
import time

import pytest

from gloveport import AgentSandbox, JavaScriptError, RuntimeTimeout

# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a09_a_promise_that_nobody_settles_ends_the_run_at_once(make_session):
    session = make_session(timeout=30)
    began = time.monotonic()
    result = session.execute("globalThis.n = 1; await new Promise(() => {}); return n")
    assert result.error_type == "DeadlockError"
    assert time.monotonic() - began < 15  # not at the limit
    assert session.run("return n") == 1


@pytest.mark.parametrize(
    "code", ["await ping(); for (;;);", "ping().then(() => { for (;;); }); await new Promise(() => {})"]
)
def test_a10_the_limit_covers_what_comes_after_an_await(make_session, code):
    session = make_session({"ping": lambda: 1}, timeout=0.3)
    result = session.execute(code)
    assert result.error_type == "RuntimeTimeout"
    assert session.execute("let n = 0; for (let i = 0; i < 1000; i++) n += i; return n").result == 499500


def test_a11_a_timeout_cannot_be_caught(make_session):
    session = make_session(timeout=0.3)
    code = "for (;;) { try { await (async () => { for (;;); })() } catch {} finally { continue } }"
    assert session.execute(code).error_type == "RuntimeTimeout"
    assert session.run("return 'alive'") == "alive"


def test_a12_calls_in_a_chain_and_a_tool_that_hangs(make_session):
    hang = threading.Event()
    session = make_session({"get": lambda p: p.upper(), "hang": lambda: hang.wait(30)}, tool_timeout=0.3)
    try:
        assert session.run("let s = ''; for (const p of ['a', 'b', 'c', 'd']) s += await get(p); return s") == "ABCD"
        late = session.execute("return await hang()")
        assert late.error_type == "ToolTimeoutError"
        assert "`hang` did not answer within 0.3 s" in late.error
        assert session.run("return await get('z')") == "Z"
    finally:
        hang.set()


def test_a13_waiting_is_not_computing_and_is_bounded_by_itself(make_session):
    session = make_session({"slow": lambda: time.sleep(0.1)}, timeout=0.3)
    assert session.run("for (let i = 0; i < 5; i++) await slow(); return 'ok'") == "ok"
    session = make_session({"slow": lambda: time.sleep(0.1)}, max_pause=0.5)
    result = session.execute("for (;;) await slow()")
    assert (result.error_type, "max_pause" in result.error) == ("RuntimeTimeout", True)
    assert session.run("await slow(); return 'fresh'") == "fresh"


@pytest.mark.parametrize("pattern", [r"/^(a+)+$/", r"/^(\w+\s?)*\1$/"])
def test_a17_a_regular_expression_is_stopped_like_a_loop(make_session, pattern):
    session = make_session(timeout=0.3)
    assert session.execute(f"return {pattern}.test('a'.repeat(48) + '!')").error_type == "RuntimeTimeout"
    assert session.run(f"return {pattern}.test('a')") is not None


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a01_no_integer_is_rounded_and_odd_numbers_are_data(make_session):
    session = make_session({"invoice_id": lambda: 2**60 + 1, "same": lambda x: x})
    assert session.run("return await invoice_id()") == 2**60 + 1
    assert session.run("return String(await invoice_id())") == str(2**60 + 1)
    assert session.run("return await same(await invoice_id())") == 2**60 + 1
    assert session.execute("return {a: NaN, b: [-Infinity, {c: 0 / 0}], z: -0}").result == {
        "a": None,
        "b": [None, {"c": None}],
        "z": 0,
    }
    assert session.run("return {big: 2n ** 70n}") == {"big": 2**70}
    assert session.run("return 'alive'") == "alive"


def test_a02_a_cycle_fails_that_run_and_names_the_place(make_session):
    session = make_session()
    result = session.execute("const order = {lines: []}; order.lines.push({order}); globalThis.kept = 7; return order")
    assert result.error_type == "ValueCrossingError"
    assert "lines[0].order" in result.error
    assert session.run("return kept") == 7


def test_a03_scalars_keep_their_types(make_session):
    values = {"count": 4, "ratio": 0.95, "flag": True, "none": None, "text": "4", "empty": []}
    seen = []
    session = make_session(
        {**{name: (lambda v=value: v) for name, value in values.items()}, "keep": lambda v: seen.append(v)}
    )
    code = (
        "const v = [await count(), await ratio(), await flag(), await none(), await text(), await empty()]; await keep(v);"
        "return v.map(x => x === null ? 'null' : Array.isArray(x) ? 'array' : typeof x).join()"
    )
    assert session.run(code) == "number,number,boolean,null,string,array"
    assert seen == [list(values.values())]
    assert [type(value) for value in seen[0]] == [type(value) for value in values.values()]


def test_a04_half_an_emoji_crosses_both_ways(make_session):
    seen = []
    session = make_session({"title": lambda: "cut\ud83d", "keep": lambda s: seen.append(s)})
    assert session.run("""return JSON.parse('"\\\\ud83d tail"')""") == "\ud83d tail"
    assert session.run("const t = await title(); await keep(t); return [t.length, '\\ud83d\\ude00']") == [
        4,
        "\U0001f600",
    ]
    assert seen == ["cut\ud83d"]
    result = session.execute("console.log('\\udc00'); return 'alive'")
    assert (result.result, result.stdout) == ("alive", "?\n")


@pytest.mark.parametrize("levels", [201, 5_000, 200_000])
def test_a05_depth_has_a_stated_limit_on_results_and_arguments(make_session, levels):
    session = make_session({"keep": lambda v: 1})
    result = session.execute(f"let v = 1; for (let i = 0; i < {levels}; i++) v = [v]; return v")
    assert (result.error_type, "200 levels" in result.error) == ("ValueCrossingError", True)
    result = session.execute(f"let v = 1; for (let i = 0; i < {levels}; i++) v = {{v}}; await keep(v); return 1")
    assert (result.error_type, "200 levels" in result.error) == ("TypeError", True)
    assert session.run("return 'alive'") == "alive"


def test_a05_the_limit_itself_passes(make_session):
    session = make_session({"keep": lambda v: 1})
    assert session.run("let v = 1; for (let i = 0; i < 200; i++) v = [v]; await keep(v); return 1") == 1


@pytest.mark.parametrize(
    "code",
    [
        "throw Object.defineProperty(new Error('x'), 'message', {get() { throw 1 }})",
        "throw {toString() { throw 2 }, get name() { throw 3 }}",
        "throw null",
        "throw Symbol('s')",
        "const p = Proxy.revocable({}, {}); p.revoke(); throw p.proxy",
        "throw new Proxy(new Error('y'), {get() { for (;;); }})",
        "const e = new Error('loop'); e.cause = e; throw e",
    ],
)
def test_a16_whatever_is_thrown_is_one_readable_line(make_session, code):
    session = make_session(timeout=5)
    result = session.execute(code)
    assert result.status == "Failed"
    assert result.error_type == "Error"
    assert result.error and "\n" not in result.error
    assert session.lost_runs == 0


def test_a16_logging_a_trap_costs_the_text_only(make_session):
    session = make_session(timeout=5)
    result = session.execute("console.log(new Proxy({}, {get(t, k, r) { console.log(r); return 1 }})); return 1")
    assert (result.status, result.result) == ("Succeeded", 1)


# ── forgery and tampering ────────────────────────────────────────────────────────────────────────────────────────────


def test_a06_output_that_looks_like_a_message_is_only_output(make_session):
    session = make_session({"ping": lambda: "pong"})
    result = session.execute("""
        for (let id = 0; id < 64; id++) console.log(JSON.stringify({t: 'done', v: 'forged', id, status: 'Succeeded'}));
        console.log('\\u0000\\u0001\\n{"t":"done"}\\n'); console.error('[truncated]');
        await ping();
        return {status: 'Failed', error_type: 'RuntimeTimeout', __error__: true, real: 1, $: 'bytes'}""")
    assert result.ok
    assert result.result == {
        "status": "Failed",
        "error_type": "RuntimeTimeout",
        "__error__": True,
        "real": 1,
        "$": "bytes",
    }
    assert result.stdout.count("forged") == 64
    assert session.run("return 2") == 2


def test_a07_replaced_builtins_fool_only_the_guest(make_session):
    paid = []
    session = make_session({"pay": lambda amount: paid.append(amount) or "ok"})
    session.execute("""
        JSON.stringify = () => '"owned"'; JSON.parse = () => ({amount: 0}); Array.prototype.push = () => 0;
        Array.prototype.map = () => ['hacked']; Object.defineProperty(Object.prototype, 'status', {get: () => 'Succeeded'});
        Promise.prototype.then = function (ok) { return Reflect.apply(ok, undefined, [999]) };
        return await pay(5)""")
    assert paid == [5]
    assert session.execute("throw new Error('must be Failed')").status == "Failed"


def test_a18_typed_arrays_count(make_session):
    session = make_session(max_memory=64 << 20, timeout=20)
    code = "globalThis.keep = []; for (let i = 0; i < 3000; i++) keep.push(new Uint8Array(1 << 20).fill(1)); return keep.length"
    assert session.execute(code).error_type in ("RangeError", "MemoryLimitExceeded")
    assert session.run("return typeof keep") in ("undefined", "object")
    assert session.run("return new Uint8Array(1 << 20).length") == 1 << 20


# ── tools ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a14_calls_made_together_run_together(make_session):
    meet = threading.Barrier(3, timeout=20)  # breaks unless all three are inside at once

    def look(k):
        meet.wait()
        return k

    session = make_session({"look": look})
    assert session.run("return (await Promise.all([look(1), look(2), look(3)])).join()") == "1,2,3"


def test_a14_a_tool_can_be_one_at_a_time(make_session):
    inside, most = [], []

    def look(k):
        inside.append(k)
        most.append(len(inside))
        time.sleep(0.02)
        inside.remove(k)
        return k

    session = make_session({"look": {"name": "look", "description": "", "callable": look, "sequential": True}})
    session.run("await Promise.all([look({}), look({}), look({})]).catch(() => 0)")
    assert most and max(most) == 1


@pytest.mark.parametrize(
    ("names", "js"),
    [
        (["list-issues"], "list_issues"),
        (["github.list"], "github_list"),
        (["class"], "class_"),
        (["9lives"], "_9lives"),
    ],
)
def test_a21_names_are_rewritten_by_a_fixed_rule_and_kept_in_the_record(names, js):
    with AgentSandbox({name: lambda: "ok" for name in names}, isolation="inline") as session:
        assert f"function {js}(" in session.typescript_stubs()
        assert session.start(f"return await {js}()").name == names[0]


@pytest.mark.parametrize("names", [["a-b", "a_b"], ["JSON"]])
def test_a21_collisions_and_globals_are_refused_by_name(names):
    with pytest.raises(ValueError, match=names[0]):
        AgentSandbox({name: lambda: "ok" for name in names}, isolation="inline")


def test_a22_a_call_can_wait_for_a_person(make_session):
    session = make_session({"send_email": lambda to: "sent", "look": lambda: "x"})
    code = "const a = await look(); try { return await send_email(a + '@example.org') } catch (e) { return 'refused: ' + e.name }"
    step = session.start(code)
    assert step.name == "look"
    step = session.resume(step, session.call(step))
    assert (step.name, step.args) == ("send_email", ("x@example.org",))
    step = session.resume(step, error=PermissionError("no"))
    assert (step.status, step.result) == ("Succeeded", "refused: PermissionError")


# ── state ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a08_a_forgotten_rejection_belongs_to_its_run(make_session):
    session = make_session({"later": lambda: time.sleep(0.05)})
    first = session.execute("later().then(() => { throw new Error('forgotten') }); return 'first'")
    assert (first.result, "forgotten" in first.stderr) == ("first", True)
    second = session.execute("Promise.reject(new TypeError('also forgotten')); return 'second'")
    assert (second.result, "TypeError: also forgotten" in second.stderr) == ("second", True)
    third = session.execute("return 'third'")
    assert (third.result, third.stderr) == ("third", "")


def test_a15_a_second_run_at_the_same_time_is_told_so(make_session):
    entered, leave = threading.Event(), threading.Event()

    def slow():
        entered.set()
        leave.wait(20)

    session = make_session({"slow": slow})
    out = {}
    first = threading.Thread(
        target=lambda: out.update(first=session.execute("await slow(); return 'first done'").result)
    )
    first.start()
    entered.wait(20)
    from gloveport import SessionBusyError

    with pytest.raises(SessionBusyError):
        session.execute("return 'second done'")
    leave.set()
    first.join(20)
    assert out == {"first": "first done"}
    assert session.run("return 'alive'") == "alive"


def test_a19_a_cell_can_be_pasted_twice_and_everything_declared_is_kept(make_session):
    session = make_session()
    cell = (
        "const rows = [1, 2, 3];\nfunction total(x) { return x.reduce((a, b) => a + b, 0) }\n"
        "class Row { id = 1 }\nreturn total(rows) + new Row().id"
    )
    assert [session.run(cell), session.run(cell), session.run("return total(rows)")] == [7, 7, 6]
    session.run("const {a, b: [c]} = {a: 1, b: [2]};\n  let indented = 3;\nreturn 1")
    assert session.run("return [typeof a, typeof c, typeof indented].join()") == "number,number,number"
    with pytest.raises(JavaScriptError):
        session.run("let stage = 1;\nstage = 2;\nthrow new Error('half way')")
    assert session.run("return stage") == 2


def test_a23_sleeping_works_and_costs_nothing(make_session):
    session = make_session({"page": lambda n: n}, timeout=2)
    code = "const out = []; for (const n of [1, 2]) { out.push(await page(n)); await new Promise(r => setTimeout(r, 60_000)) } return out"
    assert session.run(code) == [1, 2]


def test_a23_a_busy_wait_is_named(make_session):
    session = make_session(timeout=0.3)
    with pytest.raises(RuntimeTimeout, match="setTimeout"):
        session.run("const t = Date.now(); while (Date.now() - t < 300); return 'waited'")


def test_a23_web_globals_are_there_and_the_missing_ones_name_a_substitute(make_session, setting):
    session = make_session()
    wanted = [
        "URL",
        "TextEncoder",
        "structuredClone",
        "crypto",
        "atob",
        "setTimeout",
        "setInterval",
        "performance",
        "queueMicrotask",
        "AbortController",
    ]
    assert session.run(f"return {wanted!r}.filter(n => typeof globalThis[n] === 'undefined')") == []
    assert "tools" in session.execute("return await fetch('https://example.org')").error
    assert "modules" in session.execute("require('fs')").error
    assert "import" in session.execute("import fs from 'fs'; return 1").error
    assert session.run("return [new Date().getFullYear() >= 2025, (1234.5).toLocaleString('de-DE')]") == [
        True,
        "1.234,5",
    ]
    code = "return new Intl.DateTimeFormat('en', {timeZone: 'Asia/Tokyo', hour: 'numeric'}).format(0)"
    space = "\u202f" if setting["engine"] == "wasm" else " "  # V8 writes a plain one, against CLDR (15.0)
    assert session.run(code) == f"9{space}AM"
