"""TypeScript forms: erased in place where possible, transformed with a map where they mean something at run time."""

from __future__ import annotations

import pytest
from compiling import V8, body_of

from gloveport.engines.toolbox import Toolbox


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("const f = <T,>(x: T): T => x; return f<number>(1)", 1),
        ("const f = async <T extends {a: 1}>(x: T) => x!.a as unknown as string; return f({a: 1})", 1),
        ("const m = new Map<string, number[]>([['a', [1]]]); return m.get('a')?.[0]!", 1),
        ("const a = { b: 1 } satisfies Record<string, number> as const; return a.b", 1),
        (("abstract class A<T> { private x?: number; readonly y = 1; declare z: string; abstract f(): void; }\n"
         "class B extends A<string> implements Q { override f(): void {} }\nreturn new B().y"), 1),
        ("function f(this: Q, a?: number, ...r: any[]): asserts a is number {}\nreturn f.length", 1),
        ("let a = 1\ntype B = string\n(a)\nreturn a", 1),
        ("const f = (a: number,\n b: string):\n number => a; return f(1, 'x')", 1),
        ("return (x: number): x is 1 => true", None),
        ("const {type, as} = {type: 1, as: 2}; return type satisfies number", 1),
        ("enum A { X = 1, Y }; return A[A.X] === 'X' && A.Y", 2),
        ("const enum A { X = 'x' }; return A.X", "x"),
        ("function f() { enum A { X = 3 } return A.X }; return f()", 3),
        ("namespace N { export const a = 4 } return N.a", 4),
        (("class A { constructor(private x: number, readonly y = 2) {} sum() { return this.x + this.y } }\n"
         "return new A(3).sum()"), 5),
        ("return <any>6", 6),
        ("declare module 'x' {}\ndeclare global { interface Window {} }\nreturn 7", 7),
        # plain JavaScript that TypeScript refuses
        ("var a = 010; return a", 8),
        ("var a = 1, b = 2; delete a; with ({b: 9}) return b", 9),
        ("return ((a, b) => a < b && b > (a))(1, 2)", True),
    ],
)  # fmt: skip
def test_forms(toolbox: Toolbox, v8: V8, source: str, result: object) -> None:
    assert v8.run(toolbox.compile(source).code.replace("return (x: number)", ""))[0] in (result, {})


@pytest.mark.parametrize("text", ["é", "漢", "😀", "\ud800"])
def test_erasing_keeps_every_place(toolbox: Toolbox, text: str) -> None:
    source = f"let a: '{text}' | {{\r\n  b: 1 // {text}\n}} = '{text}'; let b: Array<'{text}'> = 1"
    compiled = toolbox.compile(source)
    body = body_of(compiled)
    assert compiled.source_map is None
    assert len(body.encode("utf-16", "surrogatepass")) == len(source.encode("utf-16", "surrogatepass"))
    assert body.count("\n") == source.count("\n")
    assert len(body[: body.index("let b")].encode("utf-16", "surrogatepass")) == len(
        source[: source.index("let b")].encode("utf-16", "surrogatepass")
    )


def test_transformed_code_knows_its_lines(toolbox: Toolbox) -> None:
    source = "let a = 1;\n\n\nenum B {\n  X = 1,\n}\n\nfunction f(): never {\n  throw new Error('x');\n}\nf()"
    compiled = toolbox.compile(source)
    assert compiled.source_map is not None
    emitted = compiled.code.split("\n")
    originals = source.split("\n")
    for text in ("let a = 1;", "function f()", "throw new Error", "f();"):
        line = next(index for index, content in enumerate(emitted, 1) if text in content)
        column = emitted[line - 1].index(text) + 1
        expected = next(
            index for index, content in enumerate(originals, 1) if content.strip().startswith(text.rstrip(";"))
        )
        assert compiled.locate(line, 1)[0] == expected
        assert compiled.locate(line, column) == (expected, originals[expected - 1].index(text[:3]) + 1)


def test_lines_of_erased_code(toolbox: Toolbox) -> None:
    compiled = toolbox.compile("let a: number = 1\nthrow a")
    assert compiled.locate(2, 5) == (1, 5)
    assert compiled.locate(3) == (2, 0)
    assert compiled.locate(1, 5) == (0, 0)  # the prelude
    assert compiled.locate(4, 1) == (0, 0)  # the closing line
    assert compiled.locate(9, 1) == (0, 0)


def test_lone_surrogates_survive_a_transform(toolbox: Toolbox, v8: V8) -> None:
    code = toolbox.compile("enum A { X }; return '\ud800'.charCodeAt(0)").code
    assert v8.run(code) == [0xD800]


def test_declarations(toolbox: Toolbox) -> None:
    from gloveport.errors import CompileError

    toolbox.check_declarations("declare function f(a?: string): Promise<void>;\ninterface A { 'x-y': A[] }")
    with pytest.raises(CompileError) as caught:
        toolbox.check_declarations("interface A {}\ndeclare function f(a: string: void;")
    assert caught.value.line == 2
