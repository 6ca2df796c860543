"""Plain code that goes to the engine as it is means what it means when the compiler has seen it: results, stacks, places."""

from __future__ import annotations

import pytest

from gloveport import AgentSandbox, ToolCall

TOOLS = {"echo": lambda v=None: v, "fail": lambda: 1 / 0}
PLAIN = [
    "throw new Error('at once')",
    "await echo(1)\n\n  throw new TypeError('later')",
    "return [1, 2].map(x => {\n  if (x > 1) throw new RangeError('m' + x)\n  return x\n})",
    "return [1].map(() => new Error('in an arrow').stack)",
    "return (() => new Error('here').stack)()",
    "x = { method() { return new Error('in a method').stack } }; return x.method()",
    "return await fail()",
    "await echo(1);\nPromise.all([echo(2), fail()]).catch(e => console.log(e.stack)); await echo(3)",
    "Promise.reject(new Error('unhandled')); return 1",
    "console.trace('where'); console.error(new Error('shown'))",
    "setTimeout(() => { throw new Error('in a timer') }, 1); await echo(1); await echo(2)",
    "return [this === globalThis, typeof anonymous, typeof __proto__]",
    "return new Function('return new Error(1).stack')()",
    "return 1 //",
    "a = 1; return [a, delete globalThis.a, 010]",
    "",
    "return\n1",
]
NOT_PLAIN = [
    "return typeof arguments",
    "return new.target",
    "return eval('new Error(1).stack')",
    "}); globalThis.escaped = 1; (async () => {",
    "}, globalThis.escaped = 1, async () => {",
    "/*",
    "return `${1",
    "return 1 }",
    "yield 1",
    "super.x",
    "return await",
    "throw new Error('a')\n<!-- b",
    "'use strict'; return this",
    "throw new Error('x')\n//# sourceURL=mine",
    "#!x\nreturn 1",
]


def outcome(source, plain):
    with AgentSandbox(TOOLS, engine="v8", clock=1_700_000_000, random_seed=7) as session:
        session._core.plain_first = plain
        calls = []
        step = session.start(source)
        while isinstance(step, ToolCall):
            calls.append((step.name, step.args, step.call_id))
            step = (
                session.resume(step, error=ValueError("no")) if step.name == "fail" else session.resume(step, step.args)
            )
        stack = getattr(getattr(step, "error", None), "stack", "")
        return (
            calls,
            step.to_result().to_dict(),
            stack,
            getattr(step, "column", None),
            session.run("return typeof escaped"),
        )


@pytest.mark.parametrize("source", [*PLAIN, *NOT_PLAIN])
def test_who_compiles_cannot_be_told(source):
    assert outcome(source, True) == outcome(source, False)


@pytest.mark.parametrize("source", PLAIN)
def test_plain_code_is_spared_the_compiler(source, monkeypatch):
    from gloveport.engines.toolbox import Toolbox

    def refuse(*_, **__):
        raise AssertionError("the compiler was asked")

    monkeypatch.setattr(Toolbox, "compile", refuse)
    outcome(source, True)
