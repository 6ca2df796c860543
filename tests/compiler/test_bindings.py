"""Which names are kept, and that they are the variables themselves."""

from __future__ import annotations

import pytest
from compiling import V8, body_of, reject
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gloveport.engines.toolbox import Toolbox


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("", []),
        ("return 1", []),
        ("const a = 1; let b, c = 2; var d", ["a", "b", "c", "d"]),
        ("  function f() {}\nasync function g() {}\nfunction* h() {}\nasync function* i() {}", ["f", "g", "h", "i"]),
        ("class A {}\nclass B extends A { static x = 1 }", ["A", "B"]),
        ("const {a, b: [c, ...d], e: {f = 1, ...g} = {}, ['h']: i} = x", ["a", "c", "d", "f", "g", "i"]),
        ("const [, a, [b] = [1]] = x", ["a", "b"]),
        ("using a = f(); await using b = g()", ["a", "b"]),
        ("if (x) { var a } else var b", ["a", "b"]),
        ("for (var a = 0; ;) { var b } for (var c in x); for (var {d} of x) var e", ["a", "b", "c", "d", "e"]),
        ("for await (var a of x) { var b }", ["a", "b"]),
        ("while (x) var a; do { var b } while (x); with (x) var c", ["a", "b", "c"]),
        ("try { var a } catch (e) { var b } finally { var c }", ["a", "b", "c"]),
        ("switch (x) { case 1: var a; default: { var b } }", ["a", "b"]),
        ("one: two: for (;;) { var a; break one }", ["a"]),
        ("label: function f() {}", ["f"]),
        ("var a; var a; function a() {}", ["a"]),
        ("let α = 1, $ = 2, _ = 3, ünï = 4, \\u0061b = 5", ["α", "$", "_", "ünï", "ab"]),
        ("let yield = 1, async = 2, of = 3, get = 4, type = 5, as = 6", ["yield", "async", "of", "get", "type", "as"]),
        # not at the top level, not variables, or types only
        ("{ let a; const b = 1; class C {} function f() {} }", []),
        ("for (let a of x) {} for (const b in x) {} try {} catch ({c}) {} switch (x) { case 1: let d }", []),
        ("(function f() { var a })(); (() => { var b })(); new class C { static { var c } }", []),
        ("x = { m() { var a } }; label: x", []),
        ("type A = 1; interface B {} declare const c: number; declare function d(): void; let e: A", ["e"]),
        ("function f(a: string): void;\nfunction f(a: any) {}", ["f"]),
        ("enum A { X }\nnamespace N { export const a = 1 }\nconst enum B { Y }", ["A", "N", "B"]),
        ("import type { A } from 'x'; let b: A", ["b"]),
    ],
)
def test_names(toolbox: Toolbox, source: str, names: list[str]) -> None:
    assert sorted(toolbox.compile(source).names) == sorted(names)


def test_the_emitted_text(toolbox: Toolbox) -> None:
    compiled = toolbox.compile("let a: number = 1\nusing b = a\nreturn b // end")
    assert compiled.code == (
        "(async(__gloveport_publish)=>{__gloveport_publish({__proto__:null,"
        "a:[()=>a,__gloveport_value=>{a=__gloveport_value}],b:[()=>b]});__gloveport_publish=void 0;\n"
        "let a         = 1\nusing b = a\nreturn b // end\n})"
    )
    assert compiled.names == ("a", "b")
    assert compiled.source_map is None


def test_strict_mode_is_the_codes_choice(toolbox: Toolbox, v8: V8) -> None:
    sloppy, strict = "undeclared = 1; return this === undefined", "'use strict'; return (() => { undeclared2 = 1 })()"
    assert v8.run(toolbox.compile(sloppy).code)[0] is False
    assert v8.run(toolbox.compile(strict).code)[0] == "ReferenceError: undeclared2 is not defined"
    assert v8.run(toolbox.compile("let a; " + strict).code)[0] is None  # not first: no directive
    assert reject(toolbox, "'use strict'\nvar a = 010").line == 2


def test_later_code_sees_the_variable_itself(toolbox: Toolbox, v8: V8) -> None:
    code = toolbox.compile("let n = 1; const bump = () => ++n; var {deep: [d]} = {deep: [7]}; return 'ran'").code
    assert v8.run(code, "n", "bump()", "n", "(n = 10, bump())", "n", "d") == ["ran", 1, 2, 2, 11, 11, 7]


def test_constants_and_using_stay_constant(toolbox: Toolbox, v8: V8) -> None:
    code = toolbox.compile("const c = 1; using u = null; class K {}; function f() {}").code
    results = v8.run(code, "(c = 2)", "c", "(function () { 'use strict'; scope.u = 1 })()", "(K = 3, f = 4, K + f)")
    assert results[1:] == [
        "TypeError: Assignment to constant variable.",
        1,
        "TypeError: Cannot set property u of [object Object] which has only a getter",
        7,
    ]


def test_a_failed_run_keeps_what_it_reached(toolbox: Toolbox, v8: V8) -> None:
    code = toolbox.compile("let a = 1; a = 2;\nthrow new Error('half way')\nlet b = 1").code
    assert v8.run(code, "a", "typeof b") == [
        "Error: half way",
        2,
        "ReferenceError: Cannot access 'b' before initialization",
    ]


def test_the_publish_function_cannot_be_reached(toolbox: Toolbox, v8: V8) -> None:
    code = toolbox.compile("return typeof eval('__glove' + 'port_publish')").code
    assert v8.run(code) == ["undefined"]
    assert v8.run(code.replace("__gloveport_publish=void 0;", "")) == ["function"]  # the control


@pytest.mark.parametrize("name", ["arguments", "eval", "undefined", "NaN", "Infinity", "let"])
def test_names_that_would_change_the_language(toolbox: Toolbox, name: str) -> None:
    keyword = "var" if name == "let" else "let"
    assert reject(toolbox, f"\n{keyword} a, {name} = 1") == (2, 8, f"'{name}' cannot be declared at the top level")
    assert toolbox.compile(f"return {{ {name}: () => {{ var b = x.{name} }} }}").names == ()


@pytest.mark.parametrize(
    "source",
    [
        "let __gloveport_value",
        "__gloveport_publish({})",
        "f(__gloveport)",
        "\\u005f_gloveport_x()",
        "x.__gloveport_y = 1",
    ],
)
def test_reserved_names(toolbox: Toolbox, source: str) -> None:
    line, _, message = reject(toolbox, f"// __gloveport\n{source}")
    assert (line, message) == (2, "names that start with __gloveport are reserved")
    assert toolbox.compile(f"return {source!r}; // {source}").names == ()


def test_proto_is_a_name_like_others(toolbox: Toolbox, v8: V8) -> None:
    code = toolbox.compile("let __proto__ = 5; let constructor = 6; let toString = 7").code
    assert v8.run(code, "Object.getOwnPropertyNames(scope).join()", "scope['__proto__']") == [
        None,
        "__proto__,constructor,toString",
        5,
    ]


names = st.from_regex(r"[A-Za-z_$][A-Za-z0-9_$é]{0,6}", fullmatch=True).map(lambda name: f"v{name}")


@given(st.lists(names, min_size=1, max_size=8, unique=True), st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_declared_names(toolbox: Toolbox, declared: list[str], data: st.DataObject) -> None:
    forms = ["const {n} = 1", "let {n}", "var {n} = 2", "function {n}() {{}}", "class {n} {{}}", "const [{n}] = x",
             "const {{a: {{ {n} = 1 }}}} = x", "let {n}: Map<string, {n}_T>", "if (x) {{ var {n} }}"]  # fmt: skip
    parts = [data.draw(st.sampled_from(forms)).format(n=name) for name in declared]
    source = data.draw(st.sampled_from([";", "\n", ";\r\n\t"])).join(parts)
    assert toolbox.compile(source).names == tuple(declared)


@given(st.text(st.characters(codec=None, exclude_characters="`\\\r\n\u2028\u2029'"), max_size=30))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_body_is_verbatim(toolbox: Toolbox, text: str) -> None:
    source = f"  const a = '{text}';\r\n\treturn a + `{text.replace('$', '')}` // {text}\n\n"
    assert body_of(toolbox.compile(source)) == source
    assert body_of(toolbox.compile("let t: 'x' = 1;" + source)) == "let t      = 1;" + source
