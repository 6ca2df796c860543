"""Tools: how they are called, what they may return, what the guest learns of their errors, and what is charged."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import datetime as dt
import threading

import pytest

from gloveport import AgentSandbox, SchemaTool, SessionBusyError, ToolBudgetError, WorkerCrashed

from ..conftest import SETTINGS

OPTIONS: dict = {}
"""Of the engine under test."""

WASM_ONLY: set = set()


def pytest_generate_tests(metafunc):
    """Both engines, unless a test makes its sessions otherwise or is about what one of them has."""
    other = {"make_session", "setting"} & set(metafunc.fixturenames)
    one = other or metafunc.function.__name__ in WASM_ONLY
    metafunc.parametrize("each_engine", ["inline"] if one else ["inline", "v8"], indirect=True)


@pytest.fixture(autouse=True)
def each_engine(request):
    OPTIONS.clear()
    OPTIONS.update(SETTINGS[request.param])


def inline(tools, **options):
    return AgentSandbox(tools, **{**OPTIONS, **options})


def boom():
    raise ValueError("the password is hunter2")


def test_errors_are_redacted_but_for_their_class():
    with inline({"boom": boom}) as session:
        assert session.run("try { await boom() } catch (e) { return [e.name, e.message, e instanceof Error] }") == [
            "ValueError",
            "host function failed",
            True,
        ]
        result = session.execute("await boom()")
        assert (result.error_type, "hunter2" in result.error) == ("ValueError", False)


def test_redaction_can_be_lifted_for_all_or_for_classes():
    with inline({"boom": boom}, redact_host_errors=False) as session:
        assert "hunter2" in session.execute("await boom()").error
    with inline({"boom": boom}, expose_host_errors=(ValueError,)) as session:
        assert "hunter2" in session.execute("await boom()").error
    with inline({"boom": boom}, expose_host_errors=(KeyError,)) as session:
        assert "hunter2" not in session.execute("await boom()").error


def test_sync_async_and_mixed_tools():
    async def later(x):
        await asyncio.sleep(0)
        return x + 1

    with inline({"now": lambda x: x * 2, "later": later, "lazy": lambda x: later(x)}) as session:
        assert session.run("return [await now(2), await later(2), await lazy(3)]") == [4, 3, 4]


@dataclasses.dataclass
class Row:
    id: int
    when: dt.datetime


@pytest.mark.parametrize(
    ("value", "code", "seen"),
    [
        (
            Row(1, dt.datetime(2026, 1, 1)),
            "const r = await get(); return [r.id, r.when instanceof Date, r.when.getTime()]",
            [1, True, 1767225600000],
        ),
        (b"\x00\xff", "const b = await get(); return [b instanceof Uint8Array, b.length, b[1]]", [True, 2, 255]),
        ({1, 2}, "const s = await get(); return [s instanceof Set, s.size]", [True, 2]),
        (dt.date(2026, 2, 3), "return await get()", "2026-02-03"),
        (float("inf"), "return String(await get())", "Infinity"),
        (-0.0, "return Object.is(await get(), -0)", True),
        (2**53, "return typeof await get()", "bigint"),
        (2**53 - 1, "return typeof await get()", "number"),
        ({(1, 2): 3}, "return (await get()) instanceof Map", True),
        ({"$": 1, "a": {"$": "bytes", "v": "x"}}, "const o = await get(); return [o.$, o.a.$]", [1, "bytes"]),
    ],
)
def test_results_of_any_common_type_cross(value, code, seen):
    with inline({"get": lambda: value}) as session:
        assert session.run(code) == seen


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("keep(null)", (None,)),
        ("keep({a: null, b: undefined})", ({"a": None},)),
        ("keep([undefined, null])", ([None, None],)),
        ("keep(new Date(1000))", (dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.timezone.utc),)),
        ("keep(new Uint8Array([1, 255]))", (b"\x01\xff",)),
        ("keep(new Map([[1, 'a']]))", ({1: "a"},)),
        ("keep(new Set(['a']))", ({"a"},)),
        ("keep(2n ** 64n)", (2**64,)),
        ("keep(1, 2.5, 'x', true)", (1, 2.5, "x", True)),
        ("keep({$: 'date', v: 0})", ({"$": "date", "v": 0},)),
    ],
)
def test_arguments_arrive_as_python_data(code, seen):
    got = []
    with inline({"keep": lambda *args: got.append(args)}) as session:
        session.run(f"await {code}")
    assert got == [seen]
    assert [type(a) for a in got[0]] == [type(a) for a in seen]


@pytest.mark.parametrize(
    "value", ["() => 1", "Symbol('x')", "Promise.resolve(1)", "new Proxy({}, {})", "new WeakMap()"]
)
def test_an_argument_that_cannot_cross_is_an_error_of_the_guest_and_no_call(value):
    got = []
    with inline({"keep": got.append}) as session:
        result = session.execute(f"await keep({{handler: {value}}})")
        assert (result.error_type, "handler" in result.error, got) == ("TypeError", True, [])
        assert session.calls_made == 0


def test_undefined_takes_the_default_and_a_wrong_arity_says_how_to_call():
    def search(query: str, limit: int = 10, offset: int = 0):
        return [query, limit, offset]

    with inline({"search": search}) as session:
        assert session.run("return await search('x')") == ["x", 10, 0]
        assert session.run("return await search('x', undefined, 5)") == ["x", 10, 5]
        result = session.execute("await search()")
        assert result.error_type == "TypeError"
        assert "search(query: string" in result.error
        assert session.execute("await search(1, 2, 3, 4)").error_type == "TypeError"


def test_a_result_that_cannot_cross_is_a_type_error_in_the_guest():
    with inline({"bad": lambda: {"a": [object()]}}) as session:
        result = session.execute("await bad()")
        assert result.error_type == "TypeError"
        assert "`bad`" in result.error and "a[0]" in result.error


WEATHER = SchemaTool(
    name="get_weather",
    description="Current weather for a city.",
    input_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    output_schema={"type": "object", "properties": {"temp": {"type": "number"}}},
    callable=lambda args: {"city": args.get("city"), "temp": 21.5, "keys": sorted(args)},
)


def test_schema_tools_take_one_object():
    mapping = {
        "name": "now",
        "description": "The time.",
        "inputSchema": {"type": "object"},
        "callable": lambda args: args,
    }
    with inline([WEATHER, mapping]) as session:
        assert session.run("return (await get_weather({city: 'Paris', units: undefined})).keys") == ["city"]
        assert session.run("return await now()") == {}
        for call in ("get_weather('Paris')", "get_weather({}, {})", "get_weather(null)", "get_weather([])"):
            result = session.execute(f"await {call}")
            assert (result.error_type, "get_weather({" in result.error) == ("TypeError", True), call
        assert (
            "declare function get_weather(args: {\n  city: string;\n}): Promise<{\n  temp?: number;\n}>;"
            in session.typescript_stubs()
        )


def test_a_namespace():
    with inline({"JSON": lambda: 1, "fetch": lambda: 2}, namespace="tools") as session:
        assert session.run("return [await tools.JSON(), await tools.fetch(), typeof JSON.parse]") == [1, 2, "function"]
        assert "tools.JSON(" in session.describe_tools()


@pytest.mark.parametrize(
    ("tools", "options", "text"),
    [
        ({"JSON": boom}, {}, "JSON"),
        ({"globalThis": boom}, {}, "globalThis"),
        ({"__gloveport_x": boom}, {}, "__gloveport"),
        ({"constructor": boom}, {}, "constructor"),
        ({"x": 1}, {}, "x"),
        ({boom}, {}, "set"),
        ({"x": lambda *, key: 1}, {}, "key"),
        ({"x": boom}, {"namespace": "Math"}, "Math"),
        ({"x": boom}, {"timeout": float("nan")}, "timeout"),
        ({"x": boom}, {"timeout": True}, "timeout"),
        ({"x": boom}, {"max_tool_calls": -1}, "max_tool_calls"),
        ({"x": boom}, {"tool_budgets": {"y": 1}}, "y"),
        ({"x": boom}, {"isolation": "vm"}, "isolation"),
        ({"x": boom}, {"sandbox": "yes"}, "sandbox"),
        ({"x": boom}, {"nonsense": 1}, "nonsense"),
        ({"x": boom}, {"clock": "noon"}, "clock"),
        ({"x": boom}, {"random_seed": -1}, "random_seed"),
    ],
)
def test_bad_construction_is_refused_by_name(tools, options, text):
    with pytest.raises((TypeError, ValueError), match=text):
        inline(tools, **options)


def test_web_names_are_legal_for_tools():
    with inline({"fetch": lambda url: url, "URL": lambda: 1}) as session:
        assert session.run("return await fetch('x')") == "x"


# ── budgets ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_budget_covers_runs_pauses_and_loads():
    with inline({"t": lambda: 1}, max_tool_calls=4) as session:
        session.run("await t()")
        step = session.start("await t(); await t(); return 'end'")
        step = session.resume(step, 1)
        assert (session.calls_made, session.calls_remaining) == (3, 1)
        blob = session.dump(b"k" * 16)
        session.resume(step, 1)
    loaded = AgentSandbox.load(blob, b"k" * 16, {"t": lambda: 1}, **OPTIONS)
    with loaded:
        assert loaded.calls_remaining == 1
        loaded.resume(loaded.pending, 1)
        result = loaded.execute("await t(); await t()")
        assert result.error_type == "ToolBudgetError"
        assert "4 in total" in result.error
        assert loaded.calls_made == 4


def test_a_budget_per_tool_survives_and_says_what_is_left():
    with inline({"mail": lambda: 1, "look": lambda: 2}, tool_budgets={"mail": 1}, max_tool_calls=10) as session:
        code = "await mail(); try { await mail() } catch (e) { return [e.name, e.message, await look()] }"
        name, message, look = session.run(code)
        assert (name, look) == ("ToolBudgetError", 2)
        assert "`mail` may be called once" in message and "9 calls" in message


def test_calls_of_a_lost_run_stay_charged():
    with inline({"t": lambda: 1}, max_tool_calls=5, timeout=0.2) as session:
        session.execute("await t(); await t(); for (;;);")
        assert (session.calls_made, session.lost_runs) == (2, 1)
        loaded = AgentSandbox.load(session.dump(b"k" * 16), b"k" * 16, {"t": lambda: 1}, **OPTIONS)
        assert (loaded.calls_made, loaded.lost_runs) == (2, 1)
        loaded.close()


def test_a_run_can_have_a_budget_of_its_own():
    with inline({"t": lambda: 1}, max_host_calls=2) as session:
        assert session.execute("await t(); await t(); await t()").error_type == "ToolBudgetError"
        assert session.execute("await t(); await t(); return 1").ok


def test_a_tools_own_budget_error_reaches_the_guest_by_name():
    def mail():
        raise ToolBudgetError("three mails at most")

    with inline({"mail": mail}) as session:
        assert session.execute("await mail()").error_type == "ToolBudgetError"


# ── calls in flight ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_calls_beyond_the_window_wait_in_order():
    seen = []
    most = [0]
    inside = [0]
    lock = threading.Lock()

    def t(i):
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            seen.append(i)
        with lock:
            inside[0] -= 1
        return i

    with inline({"t": t}, max_inflight_host_calls=5) as session:
        assert session.run("return (await Promise.all(Array.from({length: 300}, (_, i) => t(i)))).length") == 300
    assert most[0] <= 4
    assert sorted(seen) == list(range(300))


def test_answers_that_need_several_messages_are_given_one_after_the_other():
    meet = threading.Barrier(8, timeout=20)

    def big(n):
        meet.wait()
        return "x" * n

    code = "return (await Promise.all(Array.from({length: 8}, (_, i) => big(%d + i)))).map(text => text.length)"
    with inline({"big": big}, max_journal_bytes=1 << 26, timeout=5) as session:
        for size in (1_000_000, 3_000_000):
            assert session.run("globalThis.last = 1; " + code % size) == [size + i for i in range(8)]
        assert session.lost_runs == 0
        session.start("await big(5)")
        blob = session.dump(b"k" * 16)
    with AgentSandbox.load(blob, b"k" * 16, {"big": len}, max_journal_bytes=1 << 26, timeout=0.5, **OPTIONS) as copy:
        assert copy.resume(copy.pending, 1).status == "Succeeded"
        assert copy.execute("last = 2; for (;;);").error_type == "RuntimeTimeout"
        assert copy.run("return last") == 1


def test_refusals_that_need_several_messages_are_given_one_after_the_other():
    code = "return (await Promise.allSettled(Array.from({length: 3000}, () => t()))).filter(r => r.reason?.name).length"
    with inline({"t": lambda: 1}, max_tool_calls=1) as session:
        assert session.run(code) == 2999
        assert session.run(code) == 3000
        assert (session.calls_made, session.lost_runs) == (1, 0)


def test_race_any_and_a_timer_are_right():
    release = threading.Event()

    def slow():
        release.wait(20)
        return "slow"

    async def quick():
        return "quick"

    with inline({"slow": slow, "quick": quick}) as session:

        def later():
            release.set()

        threading.Timer(0.3, later).start()
        assert session.run("return await Promise.race([slow(), quick()])") == "quick"
        release.clear()
        threading.Timer(0.5, later).start()
        code = "return await Promise.race([slow(), new Promise(r => setTimeout(() => r('timer'), 50))])"
        assert session.run(code) == "timer"


def test_a_call_that_is_not_awaited_is_answered_before_the_run_ends():
    done = []
    with inline({"t": lambda: done.append(1)}) as session:
        assert session.run("t(); return 'x'") == "x"
        assert done == [1]
        session.execute("t(); throw new Error('x')")
        assert done == [1, 1]


def test_a_tool_cannot_use_its_own_session():
    holder = {}

    def again():
        with pytest.raises(SessionBusyError):
            holder["session"].run("return 1")
        return "refused"

    with inline({"again": again}) as session:
        holder["session"] = session
        assert session.run("return await again()") == "refused"


def test_context_variables_reach_the_tools():
    who = contextvars.ContextVar("who", default="nobody")
    who.set("ada")

    async def who_async():
        return who.get()

    with inline({"who": who.get, "who_async": who_async}) as session:
        assert session.run("return [await who(), await who_async()]") == ["ada", "ada"]


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_what_is_not_an_answer_stops_the_run_like_a_crash(kind):
    def bad():
        raise kind

    with inline({"bad": bad}) as session:
        session.run("globalThis.x = 1")
        with pytest.raises(WorkerCrashed, match=f"{kind.__name__}, which is not an answer"):
            session.run("x = 2; await bad()")
        assert (session.run("return x"), session.lost_runs, session.calls_made) == (1, 1, 1)


def test_asked_tools_are_handed_out_and_the_rest_is_answered():
    from gloveport import PauseRequested

    def maybe(x):
        if x > 1:
            raise PauseRequested
        return x

    with inline({"look": lambda: "l", "mail": lambda: "m", "maybe": maybe}) as session:
        step = session.start(
            "const a = await Promise.all([look(), mail(), maybe(1), maybe(2)]); return a", ask=["mail"]
        )
        assert (step.name, session.pending) == ("mail", step)
        step = session.resume(step, "sent")
        assert (step.name, step.args) == ("maybe", (2,))
        assert session.resume(step, "later").value == ["l", "sent", 1, "later"]
        with pytest.raises(ValueError, match="nobody"):
            session.start("1", ask=["nobody"])
        assert session.execute("await maybe(2)").error_type == "PauseRequested"
