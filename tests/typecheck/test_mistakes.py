"""Mistakes are found where they are; what is legal, or a matter of style, is not told."""

from __future__ import annotations

import pytest

from gloveport.engines.checker import Question

from .conftest import STUBS

MISTAKES = {
    "unknown tool": ("await opn_orders('x')", ["1:7 TS2552"]),
    "unknown name": ("return nothing", ["1:8 TS2304"]),
    "argument of another type": ("await open_orders(5)", ["1:19 TS2345"]),
    "property of an argument": ("await send_email({to: 5, subject: 'a'})", ["1:19 TS2322"]),
    "property that an argument lacks": ("await send_email({to: 'a'})", ["1:18 TS2741"]),
    "property that an argument has not": ("await send_email({to: 'a', subject: 'b', cc: 'c'})", ["1:42 TS2353"]),
    "too few arguments": ("await open_orders()", ["1:7 TS2554"]),
    "too many arguments": ("await open_orders('a', 1, 2)", ["1:27 TS2554"]),
    "misspelt property": ("const [o] = await open_orders('x')\nreturn o.totl", ["2:10 TS2551"]),
    "property of a promise": ("const o = open_orders('x')\n  return o.length", ["2:12 TS2339"]),
    "promise in arithmetic": ("const o = open_orders('x'); return o * 2", ["1:36 TS2362"]),
    "promise in a sum": ("const o = open_orders('x'); return o + 1", ["1:36 TS2365"]),
    "promise as an argument": ("const to = open_orders('x'); await open_orders(to)", ["1:48 TS2345"]),
    "no network": ("return fetch('x')", ["1:8 TS2304"]),
    "no Node": ("return process.env", ["1:8 TS2591"]),
    "no browser": ("return document.body", ["1:8 TS2584"]),
    "a method of the guest's URL": ("return new URL('http://a').hots", ["1:28 TS2339"]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(check, name):
    code, expected = MISTAKES[name]
    assert check(code) == expected
    assert check(f"const typed: number = 1;\n{code}") == [_a_line_down(place) for place in expected]


def _a_line_down(place):
    line, _, rest = place.partition(":")
    return f"{int(line) + 1}:{rest}"


LEGAL = [
    "const o = {}; o.a = 1; const p = {q: 1}; p.r = 2; return o.a + p.r",
    "class C { constructor() { this.x = 1 } get() { return this.x } } return new C().get()",
    "let x = null; x = 5; let y = ''; y = 5; y = await open_orders('x'); return [x, y]",
    "const e = {list: []}; e.list.push(1); const a = []; a.push('x'); return [e, a]",
    "function f(a, b) { return a } return f(1)",
    "await new Promise(resolve => resolve()); await new Promise((r) => setTimeout(r, 5))",
    "return [1].reduce((all, one) => { all[one] = 1; return all }, {})",
    "return new Date() - new Date('x') + ('5' * 2) + (true - false) + ((1 > 0) - (0 > 1))",
    "const [o] = await open_orders('x'); return Date.now() - o.placed + (o.placed - o.placed)",
    "const m = new Map(); if (!m.has('a')) m.set('a', []); m.get('a').push(1); return [...m]",
    "try { await open_orders('x') } catch (e) { return e.message + e.code }",
    "const found = (await open_orders('x')).find(o => o.id === 1); return found.total.toFixed(2)",
    "return [isNaN('x'), parseInt(5.5), parseFloat(1), isFinite('1'), atob(btoa('x'))]",
    "globalThis.kept = 1; return kept + globalThis.kept",
    "/** @param {Unknown} x */\nfunction f(x) { return x } return f(1)",
    "for (const key in {a: 1}) console.log(key, {a: 1}[key]); let unused; return; unused()",
    "return [Object.groupBy([1], String), [1].values().map(String).toArray(), new Set([1]).union(new Set()), Promise.try(() => 1)]",
    "return [structuredClone({}), crypto.randomUUID(), new Intl.NumberFormat('en').format(1), Uint8Array.fromBase64('AA==')]",
    "using d = { [Symbol.dispose]() {} }; return 1",
    "if (await open_orders('x')) return 1",
    "const o = await open_orders('x'); var o2 = o; return o2.map(({id, total}) => ({id, total}))",
]


@pytest.mark.parametrize("code", LEGAL)
def test_legal_javascript_is_not_complained_of(check, code):
    assert check(code) == []


@pytest.mark.parametrize("code", [LEGAL[0], LEGAL[1], LEGAL[2], LEGAL[4], LEGAL[5]])
def test_nor_in_a_session_with_typescript(check, code):
    assert check(code, "const earlier: number = 1") == []


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("const a: string = 5", ["1:7 TS2322"]),
        ("interface A { x: number }\nconst a: A = { x: 1, y: 2 }", ["2:22 TS2353"]),
        ("enum E { A }\nreturn E.B", ["2:10 TS2339"]),
        ("const o: Order[] = await open_orders('x')\nreturn o", []),
        ("return ({ a: 1 }) satisfies { a: string }", ["1:11 TS2322"]),
    ],
)
def test_typescript(check, code, expected):
    assert check(code) == expected


def test_columns_are_characters_and_lines_those_that_were_sent(check):
    assert check("Here:\n```ts\nopen_orders('é😀').then(x => x); opn_orders('a')\n```\n") == ["3:33 TS2552"]
    assert check("\r\nconst text = '\u2028'\r\nreturn nothing") == ["3:8 TS2304"]


def test_what_does_not_compile_is_one_problem(check):
    assert check("return (") == ["1:9 SyntaxError"]
    assert check("import x from 'y'") == ["1:1 SyntaxError"]


def test_a_hint_and_no_advice_for_editors(checker):
    (promise,) = checker.check(Question("const o = open_orders('x'); return o.length", STUBS))
    assert promise.message.endswith("Did you forget to use 'await'?")
    (node,) = checker.check(Question("return process.env", STUBS))
    assert node.message == "Cannot find name 'process'."


def test_problems_and_messages_are_bounded(checker):
    found = checker.check(Question("nothing()\n" * 500, STUBS), most=7)
    assert [problem.line for problem in found] == [1, 2, 3, 4, 5, 6, 7]
    wide = (
        "const a = {" + ", ".join(f"property_number_{i}: '{'x' * 30}'" for i in range(300)) + "}; await open_orders(a)"
    )
    (problem,) = checker.check(Question(wide, STUBS))
    assert len(problem.message) <= 400


def test_v8_has_more(check):
    assert check("return Temporal.Now.instant()") == ["1:8 TS2304"]
    assert check("return Temporal.Now.instant()", extras=frozenset({"Temporal"})) == []
