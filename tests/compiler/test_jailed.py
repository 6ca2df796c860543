"""The compiler inside its jail gives what it gives outside: its type stripper needs things that a jail can take away."""

from __future__ import annotations

import pytest

from gloveport.engines.toolbox import Toolbox
from gloveport.errors import CompileError

SOURCES = [
    "if (1) { var a = 2 } else { var b = 3 }\nreturn a",
    "for (const x of [1]) { while (false) {} do {} while (false); switch (x) { case 1: break; default: } }",
    "try { throw 1 } catch { } finally { }",
    "const f = <T>(x: T): T => x; return f<number>(1)",
    "enum Color { Red = 'red' }\nreturn Color.Red",
    "namespace N { export const x = 1 }\nreturn N.x",
    "class P { constructor(private x: number) {} get y() { return this.x } }\nreturn new P(1).y",
    "interface A { x: number }\ntype B = A | null;\nconst v = { x: 1 } satisfies A as B;\nreturn v!.x",
    "label: for (;;) { if (true) break label }",
    "async function* g() { yield 1 }\nfor await (const v of g()) { if (v) continue }",
    "const {a = 1, ...rest} = {b: 2}; return `${a}${rest.b}`",
    "return a?.b ?? /x(?<n>y)/u.exec('xy')?.groups",
    "let x: unknown = 1; function assert(v: unknown): asserts v is number {}\nassert(x)",
    "```ts\nconst a: number = 1\nif (a) return a\n```",
    "const s = 'x'.repeat(3); if (s.length > 2 && s !== 'y') { return s } else if (!s) { return null }",
]


@pytest.fixture(scope="module")
def boxes():
    with Toolbox(sandbox="require") as jailed, Toolbox(sandbox="off") as free:
        yield jailed, free


@pytest.mark.parametrize("source", SOURCES)
def test_the_jail_changes_nothing(boxes, source):
    jailed, free = boxes
    pid = jailed.pid
    one, two = jailed.compile(source), free.compile(source)
    assert (one.code, one.names) == (two.code, two.names)
    assert jailed.pid == pid or pid is None, "the compiler died of it and was started again"


def test_errors_too(boxes):
    for box in boxes:
        with pytest.raises(CompileError, match="import"):
            box.compile("if (1) { }\nimport x from 'y'")
