"""What a module may be: the languages, the exports, plain scripts, imports."""

from __future__ import annotations

import pytest

VALUES = {
    "default function": ("export default function () { return 1 }", 1),
    "named default": ("export default function run(): number { return 1 }", 1),
    "arrow": ("export default () => 1", 1),
    "async arrow": ("export default async () => 1", 1),
    "named run": ("export function run() { return 1 }", 1),
    "const run": ("export const run = async (): Promise<number> => 1;", 1),
    "default wins": ("export const run = () => 2; export default () => 1;", 1),
    "export list": ("const f = () => 1; export { f as default };", 1),
    "export list run": ("function run() { return 1 } export { run };", 1),
    "no arguments": ("export default function () { return arguments.length }", 0),
    "thenable": ("export default () => ({ then(done: (x: number) => void) { done(1) } })", 1),
    "top-level await": ("const x = await Promise.resolve(1); export default () => x", 1),
    "types": ("type A = { x: number };\ninterface B extends A {}\nexport default (): B['x'] => ({ x: 1 } as B).x!", 1),
    "types are not checked": ("const x: number = 'text'; export default () => x", "text"),
    "satisfies": ("export default () => (1 satisfies number)", 1),
    "enum": ("enum E { A = 1, B }\nexport default () => [E.A, E[2]]", [1, "B"]),
    "const enum": ("const enum E { A = 1 }\nexport default () => E.A", 1),
    "namespace": ("namespace N { export const x = 1 }\nexport default () => N.x", 1),
    "parameter property": ("class C { constructor(public x: number) {} }\nexport default () => new C(1).x", 1),
    "generics": ("const id = <T,>(x: T): T => x;\nexport default () => id<number>(1)", 1),
    "abstract class": (
        "abstract class A { abstract x(): number }\nclass B extends A { x() { return 1 } }\nexport default () => new B().x()",
        1,
    ),
    "using": (
        "let n = 0;\nfunction f() { using a = { [Symbol.dispose]() { n = 1 } }; }\nexport default () => (f(), n)",
        1,
    ),
    "decorators": (
        "const log = (f: any, _: any) => function (this: any, ...a: any[]) { return f.apply(this, a) + 1 };\n"
        "class A {\n  @log\n  add(x: number) { return x }\n}\nexport default () => new A().add(0)",
        1,
    ),
    "decorators and JSX": (
        "const tag = (c: any, _: any) => { c.element = <b>x</b> };\n@tag\nclass A {}\nexport default () => (A as any).element.type",
        "b",
    ),
    "type imports vanish": ("import type { X } from './nowhere.ts';\nexport default (): X => 1", 1),
    "byte order mark": ("\ufeffexport default () => 1", 1),
    "hashbang": ("#!/usr/bin/env -S deno run\nexport default () => 1", 1),
    "fence": ("Here it is:\n```typescript\nexport default (): number => 1\n```\nDone.", 1),
    "fence in a template": ("export default () => `\n\\`\\`\\`js\n`.length", 7),
    "script": ("1", 1),
    "script with a statement": ("const a: number = 1;\na;", 1),
    "script with parentheses": ("const a = 2\n;(a, 1)", 1),
    "script with a comment at its end": ("1 // one", 1),
    "script with return": ("return 1", 1),
    "script with await": ("await Promise.resolve(1)", 1),
    "script that declares last": ("const a = 1", None),
    "script with run": ("function run() { return 1 }", 1),
    "script with main": ("async function main() { return 1 }", 1),
    "script that calls main itself": ("let n = 0; function main() { return ++n }\nmain()", 1),
    "script with import": ("import { join } from 'node:path';\njoin('a', 'b')", "a/b"),
    "script of one text": ("'one'", "one"),
    "empty": ("", None),
    "only a comment": ("// nothing", None),
    "crlf": ("const a = 1;\r\nexport default () => a", 1),
    "eval": ("eval('1')", 1),
    "wasm": (
        "(await WebAssembly.instantiate(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]))).module !== undefined",
        True,
    ),
    "worker": (
        "await new Promise(done => { const w = new Worker('data:text/javascript,postMessage(1)', { type: 'module' });"
        " w.onmessage = e => { w.terminate(); done(e.data) } })",
        1,
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_module_gives_its_value(module, name):
    source, expected = VALUES[name]
    result = module(source)
    assert (result.ok, result.value) == (True, expected), result.error
    assert result.exit_reason == "returned"


WRONG = {
    "no export": ("export const x = 1", "NoExport", "default function"),
    "default is no function": ("export default 5", "NoExport", "a number"),
    "syntax": ("export default () => {\n  const = 1\n}", "SyntaxError", "line 2"),
    "syntax of types": ("const x: = 1;\nexport default () => x", "SyntaxError", "line 1"),
    "unclosed": ("export default () => {", "SyntaxError", "line 1"),
    "return in a module": ("export const run = () => 1;\nreturn 2", "SyntaxError", "line 2"),
    "two fences": ("```js\n1\n```\n```js\n2\n```", "SyntaxError", "one block"),
    "decorators of parameters": ("class A { m(@d x: number) {} }\nexport default () => 1", "SyntaxError", "line 1"),
    "a decorator that does not parse": ("@d(\nclass A {}\nexport default () => 1", "SyntaxError", "line 3"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_run_is_refused_with_a_reason(module, name):
    source, error_type, words = WRONG[name]
    result = module.fails(source)
    assert (result.error_type, result.exit_reason) == (error_type, "refused")
    assert words in result.error


TSX = """
import { renderToStaticMarkup } from "react-dom/server";
import { useState } from "react";

function List({ n }: { n: number }) {
  const [x] = useState(n);
  return <ul className="a">{[1, 2].map((i) => <li key={i}>{i * x} &amp;</li>)}<></></ul>;
}

export default () => renderToStaticMarkup(<List n={3} />);
"""


def test_tsx_runs_offline(module):
    assert module.value(TSX) == '<ul class="a"><li>3 &amp;</li><li>6 &amp;</li></ul>'


@pytest.mark.parametrize(
    "specifier",
    ["react", "react/jsx-runtime", "react/jsx-dev-runtime", "react-dom", "react-dom/client", "react-dom/server"],
)
def test_each_part_of_react_is_there(module, specifier):
    assert module.value(f"Object.keys(await import('{specifier}')).length > 1") is True


def test_there_is_one_react(module):
    source = "import a from 'react'; import * as b from 'npm:react@19'; import { version } from 'react-dom';\n"
    assert module.value(source + "[a.useState === b.useState, a.version === version]") == [True, True]


def test_jsx_without_an_import_and_with_a_pragma(module):
    assert module.value("export default () => (<b>x</b>).props.children") == "x"
    classic = (
        "/** @jsx h */\nconst h = (t: string, p: object, ...c: unknown[]) => ({ t, c });\nexport default () => <a>y</a>"
    )
    assert module.value(classic) == {"t": "a", "c": ["y"]}


def test_a_react_element_is_no_value_and_says_what_to_do(module):
    assert "renderToStaticMarkup" in module.fails("export default () => <b/>").error


def test_lines_and_columns_are_the_models(module):
    plain = module.fails("const a: number = 1;\n\nexport default () => {\n  throw new RangeError('no');\n};")
    assert (plain.error_type, plain.line, plain.column) == ("RangeError", 4, 9)
    assert "line 4" in plain.error
    transformed = module.fails("enum E {\n  A,\n  B,\n}\nexport default () => {\n  null!.x;\n};")
    assert (transformed.error_type, transformed.line) == ("TypeError", 6)
    tsx = module.fails(
        "function App() {\n  throw new Error('boom');\n}\nconst x = <App />;\nexport default () => {\n  return x.type();\n}"
    )
    assert tsx.line == 2
    assert "at Object.App [as type] (line 2)\n    at default (line 6)" in tsx.error
    script = module.fails("const a = 1;\nconst b = null;\nb.x")
    assert (script.line, script.column) == (3, 3)


def test_lines_of_decorated_code_are_the_models(module):
    source = (
        "const d = (c: any, _: any) => c;\n@d\nclass A {\n  m(): void {\n    throw new Error('here');\n  }\n}\n"
        "export default () => new A().m()"
    )
    result = module.fails(source)
    assert (result.line, result.error_type) == (5, "Error")


def test_stacks_show_only_the_models_frames(module):
    stack = module.value("export default function f() { return new Error('x').stack }")
    assert "module.js" not in stack
    assert "f (" in stack


def test_habits_of_node_are_answered_with_what_to_do(module):
    assert "import fs from" in module.fails("const fs = require('fs'); fs.readFileSync('x')").error
    assert "export default" in module.fails("module.exports = () => 1").error


def test_import_meta_and_dynamic_import(module):
    url, main, other = module.value(
        "[import.meta.url, import.meta.dirname, (await import('node:path')).basename(import.meta.filename)]"
    )
    assert url.startswith("file:///workspace/module-")
    assert main == "/workspace"
    assert other.endswith(".ts")


def test_data_and_workspace_files_can_be_imported(fresh):
    workspace = fresh.session.workspace
    (workspace / "data.json").write_text('{"a": [1]}')
    (workspace / "more.ts").write_text("export const twice = (n: number): number => n * 2;")
    source = (
        "import data from './data.json' with { type: 'json' };\nimport { twice } from './more.ts';\n"
        "import { three } from 'data:text/javascript,export const three = 3';\nexport default () => [data, twice(2), three]"
    )
    assert fresh.value(source) == [{"a": [1]}, 4, 3]
    assert fresh.value("Deno.readTextFileSync('data.json')") == '{"a": [1]}'
    assert fresh.fails("Deno.writeTextFileSync('data.json', '')").error_type == "NotCapable"


def test_modules_are_not_kept_but_what_they_export_works(module):
    assert module.value("globalThis.f = () => 5; export default () => 1") == 1
    assert module.value("f()") == 5
    module.value("delete globalThis.f")
