"""Tools that come later, and tools of a catalog, on the v8 engine."""

from __future__ import annotations

import pytest

from gloveport import AgentSandbox, IsolatedRuntime

KEY = b"k" * 32
CATALOG = {"orders_of": lambda customer: [customer, 1], "stock": lambda item="any": 7}


@pytest.mark.parametrize("namespace", [None, "api"])
def test_a_catalogs_object_makes_a_call_of_any_name(v8, namespace):
    session = v8({"own": lambda: "mine"}, tools_catalog=CATALOG, namespace=namespace)
    found = session.run("return (await %ssearch_tools('orders')).length > 0" % (f"{namespace}." if namespace else ""))
    assert found is True
    at = namespace or "tools"
    assert session.run(f"return await {at}.orders_of({{customer: 'ada'}})") == ["ada", 1]
    code = f"""
    const o = {at}, odd = [];
    for (const key of ['then', 'toJSON', Symbol.iterator, 'hasOwnProperty', '__proto__']) odd.push(typeof o[key]);
    try {{ await o['no such\\ud800 tool']() }} catch (e) {{ odd.push(e instanceof Error, e.constructor.constructor === Function) }}
    odd.push(o.orders_of.name, o.orders_of.constructor === Function, await o === o);
    try {{ await o.orders_of(o) }} catch (e) {{ odd.push(e.message) }}
    return odd
    """
    expected = ["undefined", "undefined", "undefined", "function", "object", True, True, "orders_of", True, True]
    told = f"argument 1 of {at}.orders_of: a Proxy cannot leave the sandbox: pass plain data"
    assert session.run(code) == [*expected, told]


def test_what_was_found_is_found_after_a_load(v8):
    session = v8(tools_catalog=CATALOG)
    session.run("await search_tools('stock')")
    session.start("return await tools.stock()")
    with AgentSandbox.load(session.dump(KEY), KEY, {}, tools_catalog=CATALOG, engine="v8") as copy:
        assert copy.resume(copy.pending, 9).value == 9
        assert copy.run("return await tools.stock()") == 7


def test_a_function_that_is_bound_later_stays_after_a_rollback():
    with IsolatedRuntime(engine="v8", timeout=0.3) as runtime:
        assert runtime.eval("let a = 1; a + 1") == 2
        runtime.bind_function("late", lambda x: x * 2)
        assert runtime.eval("await late(a)") == 2
        assert runtime.execute("for (;;);").error_type == "RuntimeTimeout"
        assert runtime.eval("[a, await late(4)]") == [1, 8]
