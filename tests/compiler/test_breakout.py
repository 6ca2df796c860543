"""Code cannot leave the function that it is the body of."""

from __future__ import annotations

import pytest
from compiling import V8, body_of, reject
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gloveport.engines.toolbox import Toolbox
from gloveport.errors import CompileError

HTML = "HTML-like comments (<!-- and -->) are not supported: write // instead"


@pytest.mark.parametrize(
    ("source", "line", "column", "message"),
    [
        ("}); evil(); (async()=>{", 1, 1, "Unexpected token '}'"),
        ("a\n}, async evil=>{", 2, 1, "Unexpected token '}'"),
        ("})(); (async()=>{", 1, 1, "Unexpected token '}'"),
        ("}) || (() => {", 1, 1, "Unexpected token '}'"),
        ("}\n}", 1, 1, "Unexpected token '}'"),
        ("return\n}", 2, 1, "Unexpected token '}'"),
        ("if (a) { b }} c", 1, 13, "Unexpected token '}'"),
        ("let a: number = 1 }", 1, 19, "Unexpected token '}'"),
        ("enum A {X} }); evil(); (async()=>{", 1, 12, "Expression expected"),
        ("*/", 1, 1, "Unexpected token '*'"),
        ("x <!-- y", 1, 3, HTML),
        ("a\n--> b", 2, 1, HTML),
        ("a /*\n*/ --> }); evil(); (async()=>{", 2, 4, HTML),
    ],
)
def test_known_attempts(toolbox: Toolbox, source: str, line: int, column: int, message: str) -> None:
    assert reject(toolbox, source) == (line, column, message)


@pytest.mark.parametrize(
    "source", ["return 1 //", "return 1 /* */", "let i = 3; while (i --> 0);", "a = b < !--c", "'<!--'"]
)
def test_harmless_look_alikes(toolbox: Toolbox, source: str) -> None:
    assert body_of(toolbox.compile(source)) == source


FRAGMENTS = [
    "}", "{", "(", ")", "})", "}\n}", "});", "(async()=>{", ",", ";", "=>", "async x=>{", "/*", "*/", "//", "\n", "`", "${", "'", '"',
    "\\", "/", "[", "]", "<!--", "-->", "a", "1", "return", "await", "function f(){", "class A{", "=", "?", ":", "@", "#x", "x:", "\u2028",
    "<T>", "enum E{", "namespace N{", "as any", "if(1)", "for(;;)", "'use strict'", "\r", "\ufeff", "import", "export", "yield", "static{",
]  # fmt: skip


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=10).map("".join))
@example("}); evil(); (async()=>{")
@example("`${`}`")
@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_compiles_is_a_function_body_for_the_language(toolbox: Toolbox, v8: V8, source: str) -> None:
    """The language itself demands of `AsyncFunction(text)` that the text alone is a whole body."""
    try:
        body = body_of(toolbox.compile(source))
    except CompileError:
        return
    assert v8.is_function_body(body)


@pytest.mark.parametrize(("body", "verdict"), [("return await 1", True), ("}); evil(); (async()=>{", False)])
def test_the_second_opinion_can_say_no(v8: V8, body: str, verdict: bool) -> None:
    assert v8.is_function_body(body) is verdict
