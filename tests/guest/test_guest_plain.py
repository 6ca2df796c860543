"""Op `P`: plain JavaScript that the guest compiles by itself, and what it leaves to the compiler."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from gloveport.engines.wasm.guest import OK, RequestError
from gloveport.wire.messages import NOT_PLAIN, plain_request

from .driver import Message, Session, answer, messages, options

NEW_NAMES = "return Object.getOwnPropertyNames(globalThis).filter(n => !before.includes(n))"


def plain(session: Session, source: str, number: int = 1) -> list[Message]:
    return session.step(plain_request(number, 65536, source))


def value(session: Session, source: str) -> Any:
    final = plain(session, source)[-1]
    assert final["t"] == "done", final
    return final.get("v")


def refused(session: Session, source: str) -> bool:
    plain(session, source)
    return session.last.status == OK and session.last.output == NOT_PLAIN


def test_it_runs_like_any_other(session: Session) -> None:
    said = plain(session, "let a = await tool(1);\nconsole.log(a);\nreturn [a, this === undefined]")
    assert [m["t"] for m in said] == ["call", "idle"]
    assert [m["t"] for m in session.step(answer(1, 5))] == ["log", "done"]
    assert value(session, "return a") == 5
    assert session.value("a += 1; return a") == 6


def test_lines_and_columns_are_those_of_the_source(session: Session) -> None:
    failed = plain(session, "let x = 1\n\n  x.y.z")[-1]
    assert (failed["kind"], failed["line"]) == ("throw", 3)
    assert plain(session, "throw new Error('first')")[-1]["line"] == 1
    assert value(session, "\nfunction f() { return new Error().stack }\nreturn f()").startswith("    at f (<run>:2:")


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("", []),
        ("const a = 1; let b, c = 2; var d", ["a", "b", "c", "d"]),
        ("  function f() {}\nasync function g() {}\nfunction* h() {}\nasync function* i() {}", ["f", "g", "h", "i"]),
        ("class A {}\nclass B extends A { static x = 1; #p = 2; m() { var no } static { var no2 } }", ["A", "B"]),
        ("const {a, b: [c, ...d], e: {f = 1, ...g} = {}, ['h']: i} = {b: [], e: {}}", ["a", "c", "d", "f", "g", "i"]),
        ("if (0) { var a } else var b", ["a", "b"]),
        ("for (var a = 0; a < 0;) { var b } for (var c in {}); for (var {d} of []) var e", ["a", "b", "c", "d", "e"]),
        ("while (0) var a; do { var b } while (0); with ({}) var c", ["a", "b", "c"]),
        ("try { var a } catch (e) { var b } finally { var c }", ["a", "b", "c"]),
        ("switch (0) { case 1: var a; default: { var b } }", ["a", "b"]),
        ("var a; var a; function a() {}", ["a"]),
        ("let α = 1, $ = 2, _ = 3, ünï = 4, \\u0061b = 5, 𝒳 = 6", ["α", "$", "_", "ünï", "ab", "𝒳"]),
        ("let yield = 1, async = 2, of = 3, get = 4, type = 5, as = 6", ["yield", "async", "of", "get", "type", "as"]),
        ("var __proto__ = 5; let constructor = 6", ["__proto__", "constructor"]),
        # not at the top level
        ("{ let a; const b = 1; class C {} }", []),
        ("for (let a of []) {} for (const b in {}) ; try {} catch ({c}) {} switch (0) { case 1: let d }", []),
        ("(function f() { var a; { function g() {} } })(); (() => { var b })(); return eval('var c; 1')", []),
        # what the session has by that name stays what it is
        ("let console = 1, tool = 2, before2 = 3", ["before2"]),
    ],
)
def test_top_level_names_are_kept_in_their_order(session: Session, source: str, names: list[str]) -> None:
    value(session, "const before = [...Object.getOwnPropertyNames(globalThis), 'before']")
    assert value(session, source) is None or "eval" in source
    assert value(session, NEW_NAMES) == names


def test_names_are_the_variables_themselves(session: Session) -> None:
    value(session, "let n = 1; const bump = () => ++n; const c = 1; var __proto__ = 7")
    assert value(session, "n += 5; bump(); return [n, bump(), globalThis['__proto__']]") == [7, 8, 7]
    assert plain(session, "(() => { c = 2 })()")[-1]["name"] == "TypeError"
    plain(session, "let late = 1; throw 1; let never = 2")
    assert value(session, "return late") == 1
    assert plain(session, "return never")[-1]["name"] == "ReferenceError"


def test_the_publish_function_is_gone_before_the_code_starts(session: Session) -> None:
    source = "return [typeof eval('__glove' + 'port_publish'), f()]; function f() { return typeof __gloveport_publish }"
    assert value(session, source) == ["undefined", "undefined"]


REFUSED = [
    # no JavaScript, or not in a function
    "return (", "let a: number = 1", "import x from 'y'", "export {}", "new.target", "super.x", "break", "let a; let a", "`",
    "/*", "'", "{",
    # it leaves its function
    "}); evil(); (async()=>{", "}, async () => {", "})(); (async()=>{", "}) || (() => {", "}\n}", "return\n}", "}); {(async()=>{}",
    "*/", "}, async(__gloveport_publish)=>{", "});(async(__gloveport_publish)=>{", "}),(async()=>{", "}));((async()=>{",
    "}), ({", "}), evil(), ({", "}).x, ({", "}); evil(); ({", "})(evil()); ({", "})\n;[evil()].x = ({", "}) ? evil() : ({",
    # names that would change the language, or are ours
    "let arguments", "var eval = 1", "let undefined", "let NaN", "function Infinity() {}", "var let", "let __gloveport_value",
    "var __gloveport_x", "function __gloveport_publish() {}", "function \\u005f_gloveport_publish() {}", "let \\u005f_gloveport_publish",
    # what only the compiler does as it should be
    "'use strict'", "'a'; 'use strict'; b", "using a = null", "await using a = null", "{ function f() {} }", "if (1) function f() {}",
    "label: function f() {}", "{ function f() {} } var f", "switch (0) { case 0: function f() {} }",
]  # fmt: skip


@pytest.mark.parametrize("source", REFUSED)
def test_refused(session: Session, source: str) -> None:
    assert refused(session, source)
    assert [m["t"] for m in plain(session, "const a = await tool()")] == ["call", "idle"]
    assert session.step(answer(1))[-1] == {"t": "done", "f": 0}


ACCEPTED = [
    "return 1 //", "return 1 /* */", "return\n", "let i = 3; while (i --> 0);", "{ }", "(async()=>{})", "({}), async () => {}",
    "'use  strict'", "a: for (;;) break a", "({ arguments: 1, eval: 2 })", "(() => { let eval, NaN })", "(function () { 'use strict' })",
    "{ let f } (() => { { function f() {} } })", "{ async function f() {} }", "`${`}`}`", "/}/.x",
]  # fmt: skip


@pytest.mark.parametrize("source", ACCEPTED)
def test_not_refused(session: Session, source: str) -> None:
    assert plain(session, source)[-1]["t"] == "done"


def test_a_refusal_changes_nothing(session: Session) -> None:
    body = "return [Math.random(), Date.now(), performance.now(), await tool()]"
    outputs: list[bytes] = []
    for refusals in (0, 3):
        session.guest.reset()
        session.step(options())
        for source in REFUSED[:refusals]:
            assert refused(session, source)
        plain(session, body)
        outputs.append(session.last.output)
    assert outputs[0] == outputs[1]
    assert [m["t"] for m in messages(outputs[0])] == ["call", "idle"]


def test_a_refusal_runs_no_code_of_the_guest(session: Session) -> None:
    trap = "Error.prepareStackTrace = () => { n++; tool() }; Error.stackTraceLimit = { valueOf() { n++; return 5 } }"
    value(session, f"let n = 0; {trap}")
    assert refused(session, "return (")
    assert value(session, "return n") == 0
    # the control: elsewhere such an error does run it
    said = plain(session, "try { eval('(') } catch {} return n")
    for call in said[:-1]:
        said = session.step(answer(call["id"]))
    assert said[-1]["v"] > 0


DEEP = {
    "arrays": lambda n: f"x={'[' * n}{']' * n}",
    "functions": lambda n: f"{'(function(){' * n}{'})' * n}",
    "templates": lambda n: f"x={'`${' * n}1{'}`' * n}",
    "patterns": lambda n: f"var {'[' * n}a{']' * n}=[]",
    "arrows": lambda n: f"x={'x=>' * n}1",
    "classes": lambda n: f"{'class A{m(){' * n}{'}}' * n}",
}


@pytest.mark.parametrize("form", DEEP)
def test_nesting_is_refused_where_the_parser_would_trap(session: Session, form: str) -> None:
    """The heap is unusable after a trap: the session would lose its run, for a source that is only too deep."""
    for depth in (700, 1000, 1500, 2000, 3000, 5000, 10000):
        plain(session, "if (0) {" + DEEP[form](depth) + "}")
        assert session.last.status == OK
    assert refused(session, "if (0) {" + DEEP[form](10000) + "}")
    assert not refused(session, "if (0) {" + DEEP[form](100) + "}")


def test_code_goes_as_deep_as_elsewhere(session: Session) -> None:
    body = "let n = 0; const f = () => { n++; f() }; try { f() } catch {} return n"
    assert value(session, body) == session.value(body) > 1000


def test_it_needs_a_session_without_a_run() -> None:
    with Session() as session:
        plain(session, "await tool()")
        with pytest.raises(RequestError):
            plain(session, "return 1")
        session.guest.reset()
        with pytest.raises(RequestError):
            plain(session, "return 1")
        session.step(options())
        with pytest.raises(RequestError):
            session.step(b"P" + struct.pack("<III", 1, 65536, 9) + b"return 1")
        assert value(session, "return 1") == 1


def test_no_memory_for_compiling_is_a_refusal() -> None:
    source = "x = [" + "[1]," * 200_000 + "]"
    with Session(memory=12 << 20) as session:
        assert refused(session, source)
        assert value(session, "return 1") == 1
    with Session(memory=256 << 20) as session:
        assert not refused(session, source)
