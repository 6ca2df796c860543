"""Runs, tool calls, timers, virtual time, what a finished run leaves behind."""

from __future__ import annotations

import pytest

from gloveport.engines.wasm.guest import OK, RequestError

from .driver import Session, advance, answer, options, run, text

NOW = 1_700_000_000_000


def test_calls_count_up_and_are_never_reused(session: Session) -> None:
    said = session.run("const a = tool(1), b = other(2, 'x'); return [await a, await b]")
    assert said == [
        {"t": "call", "f": 0, "n": "tool", "a": [1], "id": 1},
        {"t": "call", "f": 0, "n": "other", "a": [2, "x"], "id": 2},
        {"t": "idle", "f": 0, "calls": 2, "timer": None, "now": NOW},
    ]
    assert session.step(answer(2, "second"))[-1]["calls"] == 1
    assert session.step(answer(1, "first"))[-1]["v"] == ["first", "second"]
    assert session.run("await tool()")[0]["id"] == 3


def test_a_run_ends_only_when_its_calls_are_settled(session: Session) -> None:
    assert session.run("tool().catch(() => 0); return 'early'")[-1]["t"] == "idle"
    assert session.step(answer(1, 0))[-1]["v"] == "early"


def test_race_is_right(session: Session) -> None:
    body = "return await Promise.race([tool(), new Promise(r => setTimeout(r, 50, 'late'))])"
    assert session.run(body)[-1]["timer"] == 50
    assert session.step(answer(1, "in time", ms=49))[-1]["v"] == "in time"
    session.run(body)
    assert session.step(answer(2, "too late", ms=51))[-1]["v"] == "late"


def test_host_errors_have_name_message_and_the_position_of_the_call(session: Session) -> None:
    session.run("\n  await tool()")
    failed = session.step(answer(1, {"name": "ToolBudgetError", "message": "spent"}, error=True))[-1]
    assert (failed["name"], failed["message"], failed["line"], failed["col"]) == ("ToolBudgetError", "spent", 2, 9)
    session.run(
        "try { await tool() } catch (e) { return [e instanceof Error, e.name, e.message, Object.keys(e), e.stack] }"
    )
    seen = session.step(answer(2, {"name": "N", "message": "m"}, error=True))[-1]["v"]
    assert seen[:4] == [True, "N", "m", []]
    assert seen[4].startswith("    at tool (<run>:1:")


def test_refused_arguments_make_no_call(session: Session) -> None:
    said = session.run("try { await tool(1, {a: [() => 1]}) } catch (e) { return e.name + ': ' + e.message }")
    assert said == [
        {
            "t": "done",
            "f": 0,
            "v": "TypeError: argument 2 of tool: a function at `a[0]` cannot leave the sandbox: pass plain data",
        }
    ]
    assert session.run("await tool()")[0]["id"] == 1


def test_namespace() -> None:
    with Session(namespace="tools", tools=["save", "load"]) as session:
        assert session.run("await tools.save(1)")[0]["n"] == "save"
        session.step(answer(1))
        assert session.value("return Object.keys(tools)") == ["save", "load"]
        assert session.value("tools.save = () => 5; return tools.save()") == 5


def test_a_tool_may_be_named_like_a_builtin() -> None:
    with Session(tools=["structuredClone", "atob"]) as session:
        assert session.run("await atob('x')")[0]["n"] == "atob"


def test_bindings_are_live_and_redeclarable(session: Session) -> None:
    publish = "$({__proto__: null, x: [() => x, v => x = v], f: [() => f, v => f = v]});"
    session.value("let x = 1; function f() { return x }", prelude=publish)
    assert session.value("x += 1; return [x, f(), Object.keys(globalThis).includes('x')]") == [2, 2, False]
    again = "$({__proto__: null, x: [() => x, v => x = v]});"
    assert session.value("const x = 'new'; return [x, f()]", prelude=again) == ["new", 2]
    assert session.value("return x") == "new"


@pytest.mark.parametrize("name", ["JSON", "Promise", "console", "setTimeout", "tool"])
def test_builtins_and_tools_are_not_published(session: Session, name: str) -> None:
    publish = f"$({{__proto__: null, {name}: [() => {name}, v => 0]}});"
    assert session.value(f"let {name} = 5; return {name}", prelude=publish) == 5
    assert session.value(f"return typeof {name}") in ("object", "function")


def test_lines_are_those_of_the_guest(session: Session) -> None:
    failed = session.failure("const a = 1\n\n  null.x", prelude="/* the compiler's line */")
    assert (failed["line"], failed["col"]) == (3, 3)
    assert "<run>:3:3" in failed["stack"]


def test_source_that_does_not_parse(session: Session) -> None:
    failed = session.failure("let = = 1")
    assert (failed["kind"], failed["name"], failed["line"]) == ("throw", "SyntaxError", 1)
    assert session.value("return 1") == 1


def test_stuck(session: Session) -> None:
    failed = session.failure("await new Promise(() => 0)")
    assert failed["kind"] == "stuck"
    assert "nothing can settle" in failed["message"]
    assert session.value("return 1") == 1


# ── time ──


def test_time_jumps_to_the_next_timer(session: Session) -> None:
    body = """const t = performance.now(), seen = []
      setTimeout(() => seen.push('c'), 30); setTimeout(() => seen.push('a'), 10); setTimeout(() => seen.push('b'), 10)
      await new Promise(r => setTimeout(r, 1e6)); return [seen.join(''), performance.now() - t, Date.now()]"""
    assert session.value(body) == ["abc", 1e6, NOW + 1_000_000]


def test_answers_and_time_advance_the_clock(session: Session) -> None:
    session.run(
        "const a = Date.now(); await tool(); const b = Date.now(); await tool(); return [b - a, performance.now()]"
    )
    session.step(answer(1, ms=12.5))
    assert session.step(advance(100))[-1] == {"t": "idle", "f": 0, "calls": 1, "timer": None, "now": NOW + 112.5}
    assert session.step(answer(2))[-1]["v"] == [12, 112.5]


def test_a_frozen_clock_stands_still_and_timers_keep_their_order() -> None:
    with Session(frozen=True) as session:
        body = """const seen = [], t = Date.now(); setTimeout(() => seen.push(2), 20); setTimeout(() => seen.push(1), 10)
          await new Promise(r => setTimeout(r, 50)); return [seen, Date.now() - t, performance.now()]"""
        assert session.value(body) == [[1, 2], 0, 0]


def test_polling_with_timeouts_makes_time_pass(session: Session) -> None:
    assert (
        session.value(
            "const t = Date.now(); while (Date.now() - t < 20) await new Promise(r => setTimeout(r)); return 1"
        )
        == 1
    )


@pytest.mark.parametrize(
    ("delay", "passed"),
    [
        ("-5", 1),
        ("NaN", 1),
        ("'20'", 20),
        ("2.9", 2),
        ("2**32 + 7", 7),
        ("undefined", 1),
        ("{valueOf() { return 9 }}", 9),
    ],
)
def test_delays(session: Session, delay: str, passed: int) -> None:
    assert session.value(f"await new Promise(r => setTimeout(r, {delay})); return performance.now()") == passed


def test_intervals_and_clearing(session: Session) -> None:
    body = """let n = 0; const at = []
      const i = setInterval((a) => { at.push(performance.now() + a); if (++n === 3) clearInterval(i) }, 10, 0.5)
      const t = setTimeout(() => at.push('no'), 5); clearTimeout(t); clearTimeout(t); clearTimeout(NaN); clearTimeout({})
      setImmediate(() => at.push('now')); await new Promise(r => setTimeout(r, 100)); return at"""
    assert session.value(body) == ["now", 10.5, 20.5, 30.5]


def test_many_timers_in_order(session: Session) -> None:
    body = """const seen = [], ids = []
      for (let i = 0; i < 3000; i++) ids.push(setTimeout(() => seen.push((i * 7919) % 1000), (i * 7919) % 1000 + 1))
      for (let i = 0; i < 3000; i += 3) clearTimeout(ids[i])
      await new Promise(r => setTimeout(r, 2000)); return [seen.length, seen.every((v, i) => !i || seen[i - 1] <= v)]"""
    assert session.value(body) == [2000, True]


def test_the_time_zone_is_utc(session: Session) -> None:
    assert session.value(
        "return [new Date(0).getHours(), new Date(2020, 0, 1).toISOString(), new Date().getTimezoneOffset()]"
    ) == [
        0,
        "2020-01-01T00:00:00.000Z",
        0,
    ]


def test_clock_reads_are_counted_from_the_start_of_the_run(session: Session) -> None:
    session.value("Date.now(); new Date(); performance.now()")
    assert session.last.clock_reads == 3
    session.value("return 1")
    assert session.last.clock_reads == 0


# ── what is left behind ──


def test_timers_are_cancelled_at_the_end(session: Session) -> None:
    said = session.run("setTimeout(() => console.log('never'), 5); setInterval(() => 0, 1); return 1")
    assert [m["m"] for m in said[:-1]] == ["2 timers were still set when the run ended and were cancelled"]
    assert said[0]["s"] == 2
    assert session.run("await new Promise(r => setTimeout(r, 100)); return 1")[-1] == {"t": "done", "f": 0, "v": 1}


def test_unhandled_rejections_are_reported_and_do_not_fail(session: Session) -> None:
    body = "Promise.reject(new RangeError('lost')); const p = Promise.reject(1); await 0; p.catch(() => 0); return 1"
    assert session.logs(body, stream=2) == ["Uncaught (in promise) RangeError: lost"]
    assert session.logs("return 1") == []


def test_uncaught_errors_of_timers_and_microtasks_are_reported(session: Session) -> None:
    body = "setTimeout(() => { throw new TypeError('t') }); queueMicrotask(() => null.x); await new Promise(r => setTimeout(r, 9))"
    assert session.logs(body) == ["Uncaught TypeError: cannot read property 'x' of null", "Uncaught TypeError: t"]


def test_jobs_left_by_a_getter_of_the_result(session: Session) -> None:
    said = session.run(
        "return {get a() { queueMicrotask(() => console.log('late')); setTimeout(() => 0, 1); return 1 }}"
    )
    assert [m.get("m", m.get("v")) for m in said] == [
        "late",
        "1 timer was still set when the run ended and was cancelled",
        {"a": 1},
    ]


def test_tools_cannot_be_called_between_runs(session: Session) -> None:
    failed = session.failure("return {get a() { tool() }}")
    assert "only while a run is going on" in failed["message"]


def test_a_rejected_result_promise_is_not_unhandled(session: Session) -> None:
    assert [m["t"] for m in session.run("throw 1")] == ["fail"]


# ── requests ──


def test_bootstrap_script() -> None:
    with Session(bootstrap="globalThis.helper = (x) => x * 2; const hidden = 5") as session:
        assert session.last.status == OK
        assert session.value("return [helper(4), hidden]") == [8, 5]


def test_failing_bootstrap() -> None:
    with Session(bootstrap="\nthrow new TypeError('setup')") as session:
        assert b'"name":"TypeError","message":"setup"' in session.last.output


def test_bootstrap_cannot_call_tools() -> None:
    with Session(bootstrap="tool()") as session:
        assert b"only while a run is going on" in session.last.output


@pytest.mark.parametrize(
    "request_",
    [
        b"",
        b"X",
        b"G\0",
        b"A",
        answer(7),
        advance(1),
        options(),
        run("return 1")[:-1],
        run("return 1") + b"x",
        b"R\0\0",
        b"O" + text("[]"),
        b"T" + b"\xff" * 8,
    ],
    ids=range(12),
)
def test_malformed_requests_change_nothing(session: Session, request_: bytes) -> None:
    with pytest.raises(RequestError):
        session.guest.step(request_)
    assert session.value("return 1") == 1


def test_a_second_run_needs_the_first_to_end(session: Session) -> None:
    session.run("await tool()")
    with pytest.raises(RequestError):
        session.guest.step(run("return 2"))
    with pytest.raises(RequestError):
        session.guest.step(answer(2))
    assert session.step(answer(1))[-1]["t"] == "done"


def test_a_batch_is_the_same_as_its_requests_one_by_one() -> None:
    requests = [run("globalThis.s = 0; for (let i = 0; i < 3; i++) s += await tool(i, Math.random()); return s")]
    requests += [answer(i, i * 10, ms=5) for i in (1, 2, 3)]
    requests += [b"G"]
    with Session() as one, Session() as other:
        outputs = [one.guest.step(r).output for r in requests]
        reply = other.guest.batch(requests)
        assert (reply.status, reply.output) == (OK, b"".join(outputs))
        assert other.guest.dump() == one.guest.dump()


def test_requests_larger_than_the_input_buffer(session: Session) -> None:
    assert session.value(f"return '{'x' * 500_000}'.length") == 500_000
    session.run("return (await tool()).length")
    assert session.step(answer(1, "y" * 3_000_000))[-1]["v"] == 3_000_000


def test_nothing_outside_of_the_language_is_reachable(session: Session) -> None:
    names = [
        "SharedArrayBuffer",
        "Atomics",
        "WebAssembly",
        "process",
        "require",
        "Deno",
        "std",
        "os",
        "native",
        "primordials",
    ]
    assert session.value(f"return {names}.filter(k => k in globalThis)") == []
    assert "import is not available here" in session.failure("await import('std')")["message"]
    assert session.value("return new Function('return 6 * 7')()") == 42


def test_bootstrap_functions_keep_no_source(session: Session) -> None:
    assert "native code" in session.value("return console.table.toString()")
