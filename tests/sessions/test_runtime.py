"""`IsolatedRuntime`: scripts, bound functions, limits, both ways of waiting."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from gloveport import (
    IsolatedRuntime,
    JavaScriptError,
    ResultTooLarge,
    RuntimeConfig,
    RuntimeTimeout,
    SessionBusyError,
    SessionClosedError,
)

from ..conftest import SETTINGS


@pytest.fixture
def make(setting):
    runtimes = []

    def make(*args, **options):
        runtimes.append(IsolatedRuntime(*args, **setting, **options))
        return runtimes[-1]

    yield make
    for runtime in runtimes:
        runtime.close()


@pytest.mark.parametrize(
    ("script", "value"),
    [
        ("1 + 1", 2),
        ("const a = 20; a + 1;", 21),
        ("a, a * 2", 40),
        ("({n: a})", {"n": 20}),
        ("'use strict'", None),
        ("'use strict'; a + 2", 22),
        ("if (a) 5", None),
        ("let b = 3", None),
        ("b // and a comment", 3),
        ("", None),
        ("return 7", 7),
        ("await Promise.resolve(8)", 8),
        ("const n: number = 9; n satisfies number", 9),
        ("enum E { A = 4 }\nE.A", 4),
        ("```js\n6 * 7\n```", 42),
        ("`${a}`\n", "20"),
        ("function f() { return 1 }\nf", None),
    ],
)
def test_the_value_of_a_script_is_that_of_its_last_expression(runtime, script, value):
    if script.endswith("\nf"):
        with pytest.raises(Exception, match="function"):
            runtime.eval(script)
    else:
        assert runtime.eval(script) == value


@pytest.fixture(scope="module", params=("inline", "v8"))
def runtime(request):
    with IsolatedRuntime(**SETTINGS[request.param]) as runtime:
        runtime.eval("const a = 20; let b = 3")
        yield runtime


def test_errors_have_the_scripts_own_line(runtime):
    with pytest.raises(JavaScriptError) as caught:
        runtime.eval("const x = 1;\n\nnull.y")
    assert (caught.value.name, caught.value.line) == ("TypeError", 3)
    result = runtime.execute("1 +")
    assert (result.status, result.error_type, result.line) == ("Failed", "SyntaxError", 1)


def test_state_stays_and_functions_are_called(make):
    runtime = make(functions={"add": lambda a, b: a + b})
    assert runtime.eval("let total = await add(1, 2); total") == 3
    assert runtime.eval("total += await add(total, 10)") == 16
    assert runtime.eval("total") == 16


def test_a_function_may_be_bound_at_any_time(make):
    runtime = make()
    runtime.bind_function("first", lambda: 1)
    assert runtime.eval("await first()") == 1

    async def second(x):
        await asyncio.sleep(0)
        return x * 2

    runtime.bind_function("second", second)
    assert runtime.eval("await second(await first())") == 2
    for name, kind in (("first", ValueError), ("JSON", ValueError), ("t", TypeError)):
        with pytest.raises(kind):
            runtime.bind_function(name, None if kind is TypeError else len)
    assert runtime.eval("typeof second") == "function"


def test_what_was_bound_survives_a_rollback(make):
    runtime = make(timeout=0.3)
    runtime.eval("globalThis.x = 1")
    runtime.bind_function("f", lambda: 5)
    with pytest.raises(RuntimeTimeout):
        runtime.eval("x = 2; await f(); for (;;);")
    assert runtime.eval("[x, await f()]") == [1, 5]


def test_console_is_captured_on_request_only(make):
    seen = []
    quiet = make(on_console=lambda stream, text: seen.append((stream, text)))
    assert quiet.execute("console.log(1); 2").to_dict()["stdout"] == ""
    assert seen == [("stdout", "1")]
    loud = make(capture_console=True, max_output_bytes=100)
    result = loud.execute("console.log('a'); console.error('b'); 2")
    assert (result.stdout, result.stderr, result.result) == ("a\n", "b\n", 2)
    assert loud.execute("for (let i = 0; i < 99; i++) console.log('xxxxx')").truncated
    assert not quiet.execute("for (let i = 0; i < 99; i++) console.log('xxxxx')").truncated


def test_limits(make):
    runtime = make(RuntimeConfig(timeout=0.3, bootstrap="globalThis.y = 3"), max_result_bytes=100, max_host_calls=2)
    assert runtime.eval("y") == 3
    assert runtime.execute("for (;;);").error_type == "RuntimeTimeout"
    with pytest.raises(ResultTooLarge):
        runtime.eval("'x'.repeat(1000)")
    runtime.bind_function("f", lambda: 1)
    assert runtime.execute("for (let i = 0; i < 3; i++) await f()").error_type == "ToolBudgetError"
    assert runtime.execute("for (let i = 0; i < 2; i++) await f()").ok
    assert (
        make(max_wait=0.2, functions={"nap": lambda: time.sleep(0.5)}).execute("await nap()").error_type
        == "RuntimeTimeout"
    )


def test_nothing_is_started_before_the_first_use(worker):
    with IsolatedRuntime(**worker) as runtime:
        assert runtime.worker_pid is None
        runtime.eval("1")
        assert runtime.worker_pid is not None


def test_misuse_is_told(make):
    runtime = make()
    with pytest.raises(TypeError, match="string"):
        runtime.eval(5)
    with pytest.raises(TypeError, match="unknown option"):
        IsolatedRuntime(jitless=True)
    runtime.close()
    runtime.close()
    with pytest.raises(SessionClosedError):
        runtime.eval("1")


@pytest.mark.anyio
async def test_both_ways_share_one_state(make):
    async def later(x):
        await asyncio.sleep(0.01)
        return asyncio.get_running_loop() is loop, x

    loop = asyncio.get_running_loop()
    async with make(functions={"later": later}) as runtime:
        assert await runtime.eval_async("let x = 1; await later(x)") == [True, 1]
        assert (await asyncio.to_thread(runtime.eval, "await later(++x)")) == [False, 2]
        assert (await runtime.execute_async("x")).result == 2
        both = await asyncio.gather(
            runtime.eval_async("await later(1)"), runtime.eval_async("2"), return_exceptions=True
        )
        assert isinstance(both[1], SessionBusyError)


@pytest.mark.anyio
async def test_a_cancelled_script_is_rolled_back(make):
    async with make(functions={"later": lambda: time.sleep(1)}) as runtime:
        await runtime.eval_async("globalThis.x = 1")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(runtime.eval_async("x = 2; await later()"), 0.1)
        assert runtime.eval("x") == 1


def test_close_ends_a_script_that_runs(worker):
    runtime = IsolatedRuntime(timeout=60, **worker)
    runtime.eval("1")
    threading.Timer(0.3, runtime.close).start()
    began = time.monotonic()
    assert runtime.execute("for (;;);").status == "Failed"
    assert time.monotonic() - began < 30
