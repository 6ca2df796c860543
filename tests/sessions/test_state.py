"""What a session keeps between runs, and what it does not."""

from __future__ import annotations

import pytest

from gloveport import JavaScriptError


@pytest.fixture
def session(make_either):
    return make_either({"t": lambda x: x})


@pytest.mark.parametrize(
    ("first", "then", "value"),
    [
        ("let a = 1, b = 2", "return [a, b]", [1, 2]),
        ("var größe = 3; const $ = 4, _ = 5", "return [größe, $, _]", [3, 4, 5]),
        ("const {a, ...rest} = {a: 1, b: 2}; const [x, , y = 9] = [1, 2]", "return [a, rest, x, y]", [1, {"b": 2}, 1, 9]),
        ("  let indented = 1\n\tconst tab = 2", "return [indented, tab]", [1, 2]),
        ("async function f() { return 1 }; function* g() { yield 2 }", "return [await f(), ...g()]", [1, 2]),
        ("class P { #n = 1; get n() { return this.#n } static s = 2 }", "return [new P().n, P.s]", [1, 2]),
        ("enum E { A = 7 }; interface I { n: number }; const i: I = {n: 1}", "return [E.A, i.n]", [7, 1]),
        ("{ let inner = 1; var outer = 2 }", "return [typeof inner, outer]", ["undefined", 2]),
        ("for (let k = 0; k < 1; k++);", "return typeof k", "undefined"),
        ("const text = `\nlet notMine = 1\n` // let norThis = 2", "return [typeof notMine, typeof norThis]", ["undefined"] * 2),
        ("if (false) { var never = 1 }", "return typeof never", "undefined"),
    ],
)  # fmt: skip
def test_every_declaration_at_the_top_is_kept_and_no_other_one(session, first, then, value):
    session.run(first)
    assert session.run(then) == value


def test_closures_and_later_runs_see_the_same_variable(session):
    session.run("let count = 0; function inc() { return ++count }; inc(); inc()")
    assert session.run("const seen = inc(); return [seen, count]") == [3, 3]
    session.run("count = 10")
    assert session.run("return [inc(), count]") == [11, 11]


def test_what_was_declared_before_a_throw_stays(session):
    with pytest.raises(JavaScriptError):
        session.run("const a = 1; let b = await t(2); function f() { return a + b }; null.x; var c = 4")
    assert session.run("return [a, b, f(), typeof c]") == [1, 2, 3, "undefined"]
    assert session.lost_runs == 0


def test_a_declaration_may_be_made_anew_with_another_kind(session):
    for declaration, value in (("const v = 1", 1), ("let v = 2", 2), ("var v = 3", 3), ("const [v] = [4]", 4)):
        session.run(declaration)
        assert session.run("return v") == value
    session.run("function v() { return 5 }")
    assert session.run("return v()") == 5


def test_a_constant_stays_one_within_its_run_and_is_the_sessions_afterwards(session):
    assert session.execute("const c = 1; c = 2").error_type == "TypeError"
    assert session.run("return c") == 1


@pytest.mark.parametrize("name", ["JSON", "Promise", "Object", "console", "t"])
def test_a_name_of_the_language_or_of_a_tool_is_shadowed_in_its_run_only(session, name):
    assert session.run(f"const {name} = 5; return {name}") == 5
    assert session.run(f"return [typeof {name}, await t({{a: [1]}})]") in (
        ["function", {"a": [1]}],
        ["object", {"a": [1]}],
    )


@pytest.mark.parametrize("code", ["return 1 +", "let let = 1", "const x = ;", "}{", "await await", "for (;;"])
def test_a_syntax_error_leaves_the_session_as_it_was(session, code):
    session.run("let kept = [1]")
    assert session.execute("kept.push(2); " + code).error_type == "SyntaxError"
    assert (session.run("return kept"), session.lost_runs) == ([1], 0)


def test_code_is_the_body_of_an_async_function(session):
    assert session.run("1 + 1") is None
    assert session.run("await null; return 2") == 2
    assert session.run("if (await t(true)) return 'early'; return 'late'") == "early"
    assert session.run("return t('a promise that is returned')") == "a promise that is returned"


@pytest.mark.parametrize(
    "code",
    [
        "return await import('node:fs')",
        "return require('fs')",
        "return Deno.readTextFileSync('/etc/passwd')",
        "return process.env",
        "return new Worker('data:text/javascript,1')",
        "return new WebSocket('ws://127.0.0.1')",
        "return new XMLHttpRequest()",
    ],
)
def test_there_is_no_way_out_but_the_tools(session, code):
    assert session.execute(code).status == "Failed"
    assert session.run("return await t('a tool')") == "a tool"


def test_two_sessions_share_nothing(make_either):
    one, two = make_either(), make_either()
    one.run("globalThis.mine = 1; Array.prototype.mine = 2; Object.prototype.mine = 3; var declared = 4")
    assert two.run("return [typeof mine, [].mine ?? null, typeof declared]") == ["undefined", None, "undefined"]
    assert one.run("return [mine, [].mine, declared]") == [1, 2, 4]
