"""Messages and places of errors: always the model's own line and column, and nothing of the wrapper."""

from __future__ import annotations

import pytest
from compiling import reject
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gloveport.engines.toolbox import Toolbox

END = "Unexpected end of input"
MODULES = "import/export are not available in a session: call the declared tools"
JSX = "JSX is not available in a session: return data, or build strings"


@pytest.mark.parametrize(
    ("source", "line", "column", "message"),
    [
        ("let x: number = ;\nfoo", 1, 17, "Unexpected token ';'"),
        ("const a = 1\nconst b = {\n  c: 2,,\n}", 3, 8, "Unexpected token ','"),
        ("foo(;", 1, 5, "Unexpected token ';'"),
        ("let a: number = 1;\r\n\tlet b = ;", 2, 10, "Unexpected token ';'"),
        ("let a = 1\rlet b = ;", 2, 9, "Unexpected token ';'"),
        ("const s = '😀é'; let n: number = ; x", 1, 33, "Unexpected token ';'"),
        ("/* \u2028 */ let n = ;", 2, 13, "Unexpected token ';'"),
        ("let a = 1\nlet a: number = 2", 2, 5, "Identifier 'a' has already been declared"),
        ("let await = 1", 1, 5, "Cannot use 'await' as identifier inside an async function"),
        ("continue", 1, 1, "'continue' without a loop or label that it could mean"),
        ("return super.x", 1, 8, "'super' keyword outside a method"),
        ("a;\n/(/.test(a)", 2, 2, "Invalid regular expression: /(/: Unterminated group"),
        ("enum A {X}\n\nlet b = 1;\nlet b = 2", 4, 5, "Identifier 'b' has already been declared"),
        ("enum A {X}\nlet undefined = 1", 2, 5, "'undefined' cannot be declared at the top level"),
        ("enum A { X = }", 1, 14, "Unexpected token '}'"),
        ("let b: number = 1; var a = 010", 1, 28, "Legacy octal literals are not available when targeting ECMAScript 5 and higher"),
        ("let a: number = 1\n@d class A {}", 2, 1, "decorators are not supported: call the function yourself"),
        # the end
        ("if (x) {\n  foo()\n", 2, 8, END),
        ("foo(1,", 1, 7, END),
        ("const x = \n\n", 1, 10, END),
        ("let x: number = ", 1, 16, END),
        ("f(`${a", 1, 7, END),
        ("a\n`abc", 2, 2, "Unterminated template"),
        ("a\n/* abc", 2, 1, "Unterminated comment"),
        ("a\n'abc", 2, 1, "Unterminated string constant"),
        ("a;\n/abc", 2, 2, "Unterminated regular expression"),
        # modules
        ("import fs from 'fs';\nreturn 1", 1, 1, MODULES),
        ("const a: number = 1\nexport const b = 2", 2, 1, MODULES),
        ("const a = 1;\nexport default a", 2, 1, MODULES),
        ("if (x) { import 'y' }", 1, 10, MODULES),
        ("return await import('fs')", 1, 14, MODULES),
        ("return import.meta.url", 1, 8, MODULES),
        ("enum A {X}\nexport const b = 2", 2, 1, MODULES),
        # JSX
        ("const a = 1\nreturn <div>hi</div>", 2, 8, JSX),
        ("const C = () => <Foo a={1}>x</Foo>;", 1, 17, JSX),
        ("const a: number = 1; return <>x</>", 1, 29, JSX),
    ],
)  # fmt: skip
def test_places(toolbox: Toolbox, source: str, line: int, column: int, message: str) -> None:
    assert reject(toolbox, source) == (line, column, message)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@given(before=st.integers(0, 6), tabs=st.integers(0, 3), text=st.text("aé漢😀", max_size=5))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_place(toolbox: Toolbox, end: str, before: int, tabs: int, text: str) -> None:
    lines = [f"let v{index}: string = '{text}'" for index in range(before)]
    wrong = "\t" * tabs + f"g('{text}', ]"
    source = end.join([*lines, wrong, "return 1", ""])
    assert reject(toolbox, source) == (before + 1, len(wrong), "Unexpected token ']'")
    fenced = end.join(["Here it is:", "", "```ts", source + "```", "Done."])
    assert reject(toolbox, fenced) == (before + 4, len(wrong), "Unexpected token ']'")


@given(st.text("(){}[]`'\"/*\\;,.<>=-+!?:a1 \n$@#", max_size=12))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_error_has_a_place_in_the_source(toolbox: Toolbox, source: str) -> None:
    from gloveport.errors import CompileError

    try:
        toolbox.compile(source)
    except CompileError as error:
        lines = source.split("\n")
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1
        assert "gloveport" not in error.message and "stripTypeScript" not in error.message


def test_sources_that_are_too_large(toolbox: Toolbox) -> None:
    limit = 1024 * 1024
    comment = "// é"  # five bytes
    assert toolbox.compile(comment + "x" * (limit - 5)).names == ()
    assert reject(toolbox, comment + "x" * (limit - 4)) == (
        0, 0, f"the code has {limit + 1} bytes, more than the {limit} that are allowed: pass data through tools",
    )  # fmt: skip


def test_a_source_that_a_parser_chokes_on(toolbox: Toolbox) -> None:
    """Babel 8.1.3 fails with a TypeError of its own here."""
    source = ' namespace  export const  4 } r= namespace N { export const a = 4 } r= 4 } r)eturn N.a", 4),'
    assert reject(toolbox, source).line == 1
