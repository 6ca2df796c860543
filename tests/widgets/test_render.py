# ruff: noqa: E501, because sources of widgets are long lines
"""From a model's module to a page."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest

from gloveport.engines.builder import Builder
from gloveport.engines.builder.client import NATIVE
from gloveport.engines.defaults import builder
from gloveport.errors import GloveportError, TypeScriptSandboxTimeoutError, WidgetError

HELLO = "export default function Widget() {\n  return <main>Hello from a widget</main>;\n}\n"


def test_a_component_becomes_a_page(render, backend):
    widget = render(HELLO + f"// {backend}", backend=backend)
    assert widget.html.startswith("<!doctype html>")
    assert widget.html.count("<!doctype") == 1
    assert "Hello from a widget" in widget.html
    assert widget.bytes == len(widget.html.encode()) < 300_000
    assert (widget.mounted, widget.warnings, widget.title) == (True, (), "Widget")


def test_the_same_source_is_the_same_artifact_and_another_one_is_not(render):
    first, again, other = render(HELLO), render(HELLO), render(HELLO.replace("Hello", "Goodbye"))
    assert first.artifact_id == again.artifact_id != other.artifact_id
    assert again.html == first.html


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("export default () => <p>hi</p>", id="arrow"),
        pytest.param("const W = () => <p>hi</p>;\nexport { W as default }", id="export-list"),
        pytest.param(
            "import React from 'react';\nexport default class W extends React.Component { render() { return <p>hi</p> } }",
            id="class",
        ),
        pytest.param("import { memo } from 'react';\nexport default memo(() => <p>hi</p>)", id="memo"),
        pytest.param("import * as R from 'react';\nexport default R.forwardRef(() => <p>hi</p>)", id="forward-ref"),
        pytest.param(
            "import { createElement } from 'react';\nexport default () => createElement('p', null, 'hi')",
            id="javascript",
        ),
        pytest.param("module.exports = () => <p>hi</p>", id="commonjs"),
        pytest.param(
            "enum E { A = 'hi' }\ninterface P { x: number }\nexport default function W(_: P) { return <p>{E.A satisfies string}</p> }",
            id="typescript",
        ),
        pytest.param("Sure:\n```tsx\nexport default () => <p>hi</p>\n```\nThat is all.", id="fenced"),
        pytest.param("// ```tsx\n// <Nothing/>\n// ```\nexport default () => <p>hi</p>", id="fence-in-a-comment"),
        pytest.param("\ufeffexport default () => <p>hi</p>", id="byte-order-mark"),
        pytest.param("export default () => <p>{'\ud800'.length}hi</p>", id="lone-surrogate"),
        pytest.param(
            "import { createPortal } from 'react-dom';\nexport default () => <>{createPortal(<p>hi</p>, document.body)}hi</>",
            id="portal",
        ),
        pytest.param(
            "import { use, Suspense } from 'react';\nconst p = new Promise<string>((r) => setTimeout(r, 5, 'hi'));\n"
            "const C = () => <b>{use(p)}</b>;\nexport default () => <Suspense fallback='...'><C /></Suspense>",
            id="suspense",
        ),
        pytest.param(
            "import { useEffect, useState } from 'react';\nexport default function W() { const [w, set] = useState(0);\n"
            "requestAnimationFrame(() => {}); useEffect(() => { requestAnimationFrame(() => set(1)); const f = () => set(window.innerWidth); window.addEventListener('resize', f); f();\n"
            "return () => window.removeEventListener('resize', f) }, []);\nreturn <p>{w}{String(matchMedia('(min-width: 1px)').matches)}</p> }",
            id="browser-apis",
        ),
        pytest.param(
            "import { useEffect, useRef } from 'react';\nexport default function Chart() { const c = useRef<HTMLCanvasElement>(null);\n"
            "useEffect(() => { const x = c.current!.getContext('2d')!; x.fillStyle = 'red'; x.fillRect(0, 0, x.measureText('hi').width, 5);\n"
            "const g = x.createLinearGradient(0, 0, 1, 1); g.addColorStop(0, 'red'); x.putImageData(x.getImageData(0, 0, 2, 2), 0, 0);\n"
            "x.stroke(new Path2D('M0 0')); requestIdleCallback(() => {}); void document.fonts.ready.then(() => x.fillText('x', 0, 0)) }, []);\n"
            "return <canvas ref={c} width={10} height={10} /> }",
            id="canvas",
        ),
    ],
)
def test_what_a_widget_may_look_like(render, source):
    widget = render(source)
    assert (widget.mounted, widget.warnings) == (True, ())


@pytest.mark.parametrize(
    ("source", "stage", "text", "line", "column"),
    [
        ("export default function W() {\n  const x: number = ;\n}", "build", "Unexpected", 2, 21),
        ("export default () => {\n  const é𝑥 = 'é𝑥' + ;\n}", "build", "Unexpected", 2, 21),
        ("Look:\n\n```tsx\nexport default () => (\n  <p>\n)\n```", "build", "closing", 7, 1),
        ("const x = await fetch('/');\nexport default () => <p/>", "build", "top level", 1, 11),
        ("\nthrow new Error('at the top');\nexport default () => <p/>", "module", "Error: at the top", 2, 7),
        ("export const a = 1;", "export", "there is none", 0, 0),
        ("export default <p/>;", "export", "it is an element", 0, 0),
        ("export default 'text';", "export", "type string", 0, 0),
        (
            "export default function W() {\n  // é\n  const 𝑥 = 1; throw new Error('boom ' + 𝑥);\n}",
            "render",
            "Error: boom 1",
            3,
            22,
        ),
        (
            "import { useEffect } from 'react';\nexport default function W() {\n  useEffect(() => {\n    null.x;\n  }, []);\n  return <p/>;\n}",
            "render",
            "TypeError: Cannot read properties of null (reading 'x')",
            4,
            10,
        ),
        (
            "import { useLayoutEffect } from 'react';\nexport default function W() {\n  useLayoutEffect(() => { throw new Error('laid out') });\n  return <p/>;\n}",
            "render",
            "Error: laid out",
            3,
            33,
        ),
        (
            "const f = () => f() + 1;\nexport default () => <p>{f()}</p>",
            "render",
            "RangeError: Maximum call stack",
            1,
            11,
        ),
        ("import { useFoo } from 'react';\nexport default function W() {\n  useFoo();\n}", "render", "useFoo", 3, 3),
        (
            "const Foo: any = undefined;\nexport default function W() {\n  return <p>\n    <Foo/></p>;\n}",
            "render",
            "Element type is invalid",
            4,
            6,
        ),
        (
            "export default () => <canvas ref={(c) => {\n  c?.getContext('2d').fillCircle(1) }}/>",
            "render",
            "fillCircle is not a function",
            2,
            23,
        ),
        ("export default function W() { throw 'a text' }", "render", "no error was thrown: a text", 0, 0),
        ("export default () => <p>{eval('1 + 1')}</p>", "render", "EvalError", 1, 26),
        (
            "import { useState } from 'react';\nexport default function W() {\n  const [n, set] = useState(0);\n  set(n + 1);\n  return <p/>;\n}",
            "render",
            "Too many re-renders",
            3,
            20,
        ),
    ],
)
def test_a_widget_that_fails_is_an_error_with_the_models_line(render, source, stage, text, line, column):
    with pytest.raises(WidgetError) as caught:
        render(source)
    error = caught.value
    assert text in error.message
    assert error.stage == stage
    assert error.line == line
    assert abs(error.column - column) <= 4, error.column  # an engine names the token, or the expression around it
    assert "widget.js" not in str(error)


@pytest.mark.parametrize(
    ("body", "warning"),
    [
        ("return <>{[1, 2].map((i) => <li>{i}</li>)}</>", 'unique "key" prop'),
        ("return <p><div>x</div></p>", "cannot be a descendant of <p>"),
        ("return null", "shows nothing"),
        ("Promise.reject(new Error('later')); return <p/>", "Error: later (line 3"),
        ("console.warn('mind %s', 'the gap'); return <p/>", "mind the gap"),
        ("useEffect(() => { void fetch('https://example.com/') }, []); return <p/>", "a widget has no network"),
        (
            "const r = useRef<any>(null); useEffect(() => r.current.click(), []);\nreturn <p ref={r} onClick={() => { throw new Error('clicked') }}/>",
            "Error: clicked (line 4",
        ),
        (
            "useEffect(() => { setTimeout(() => { throw new Error('ticked') }) }, []); return <p/>",
            "Error: ticked (line 3",
        ),
        ("const n = 'node:fs'; void import(n); return <p/>", "dynamic import"),
    ],
)
def test_what_react_and_the_widget_complain_of_are_warnings(render, body, warning):
    widget = render(f"import {{ useEffect, useRef }} from 'react';\nexport default function W() {{\n{body} }}")
    assert widget.mounted
    assert len(widget.warnings) == 1
    assert warning in widget.warnings[0]


def test_effects_and_handlers_run(render):
    source = """import { useEffect, useRef, useState } from 'react';
export default function Widget() {
  const [n, set] = useState(0);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => { button.current!.click() }, []);
  if (n === 1) throw new Error('clicked');
  return <button ref={button} onClick={() => set(n + %d)}>{n}</button>;
}"""
    with pytest.raises(WidgetError, match=r"Error: clicked \(line 6"):
        render(source % 1)
    assert render(source % 2).warnings == ()


@pytest.mark.parametrize(
    "body",
    ["for (;;);", "const w: any[] = []; for (;;) w.push(0), w.pop();", "/(a+)+b/.test('a'.repeat(50)); return <p/>"],
)
@pytest.mark.parametrize("where", ["module", "render", "effect"])
def test_an_endless_loop_ends_at_the_timeout_and_the_next_widget_renders(render, where, body):
    source = {
        "module": "(() => {{ {} }})();\nexport default () => <p/>",
        "render": "export default function W() {{ {} }}",
        "effect": "import {{ useEffect }} from 'react';\nexport default function W() {{ useEffect(() => {{ {} }}); return <p/> }}",
    }[where].format(body.replace("return <p/>", "return null") if where != "render" else body)
    with pytest.raises(TypeScriptSandboxTimeoutError, match="endless loop"):
        render(source, timeout=0.6)
    assert render(HELLO).mounted


@pytest.mark.parametrize(
    "body",
    [
        "const a: any[] = []; for (;;) a.push({ x: [1, 2, 3] });",
        "const a: any[] = []; for (let i = 0; i < 64; i++) a.push(new Uint8Array(64 << 20).fill(1)); return <p>{a.length}</p>",
        "const m = new WebAssembly.Memory({ initial: 1 }); m.grow(32000); new Uint8Array(m.buffer).fill(1); return <p/>",
    ],
)
def test_memory_is_limited(render, body):
    with pytest.raises(WidgetError, match="memory|allocation failed|unable to grow|crash") as caught:
        render(f"export default function W() {{ {body} }}")
    assert caught.value.stage in ("memory", "render")
    assert render("export default () => <p>{new Uint8Array(64 << 20).fill(1).length}</p>").mounted


@pytest.mark.parametrize(
    "source",
    [
        "export default function W() { throw new Proxy({}, { get() { throw 1 }, getPrototypeOf() { throw 2 } }) }",
        "export default function W() { throw Object.assign(new Error(), { get message() { throw 1 }, stack: 5 }) }",
        "export default function W() { throw null }",
        "export default function W() { const e = new Error('x'); Object.defineProperty(e, 'stack', { get() { throw e } }); throw e }",
        "Error.prepareStackTrace = () => { throw 1 };\nexport default function W() { throw new Error('x') }",
        "globalThis.JSON.stringify = () => 'null';\nexport default () => <p/>",
        "Array.prototype.push = Map.prototype.get = String.prototype.matchAll = () => { throw 1 };\nexport default () => <p/>",
        "globalThis.performance = globalThis.setTimeout = globalThis.document = null;\nexport default () => <p/>",
        "Object.prototype.toJSON = () => ({ mounted: 5, warnings: 'x' });\nexport default () => <p/>",
        "const W = () => <p/>; W.displayName = { toString() { throw 1 } };\nexport default W",
        "export default new Proxy(function () {}, { get() { throw 1 }, has() { throw 2 }, apply() { throw 3 } })",
        "TextEncoder.prototype.encode = () => new Uint8Array(1 << 28);\nexport default () => <p/>",
    ],
)
def test_a_widget_that_breaks_what_checks_it_harms_nobody(render, source):
    """It gets some typed error, or is believed: what it says concerns nobody but its author."""
    try:
        assert len(json.dumps(render(source, timeout=5.0).summary())) < 400
    except GloveportError as error:
        assert len(str(error)) < 1200
    assert render(HELLO).mounted


REACHING = """
const reached: string[] = [];
function look(value: any, way: string) {
  try { if (typeof value?.readFileSync === 'function' || value?.core?.ops || typeof value?.getBuiltinModule === 'function') reached.push(way) } catch {}
  try { if (typeof value?.('node:fs')?.readFileSync === 'function') reached.push(way + '()') } catch {}
}
function walk() {
  Error.prepareStackTrace = (_, sites) => sites;
  const sites = new Error().stack as any;
  Error.prepareStackTrace = undefined;
  for (const site of sites) for (const way of ['getThis', 'getFunction']) {
    const found = site[way]();
    look(found, way);
    for (const name of ['arguments', 'caller']) try { for (const one of [found[name], ...Array.from(found[name])]) look(one, way + '.' + name) } catch {}
  }
  for (const name of Object.getOwnPropertyNames(globalThis)) try { look((globalThis as any)[name], 'globalThis.' + name) } catch {}
}
walk();
%s
export default function W() { walk(); throw new Error('reached: ' + reached.join(' ')) }
"""


def test_a_widget_is_strict_as_modules_are(render):
    for body, error in (
        ("undeclared = 1", "undeclared is not defined"),
        ("(function () { this.x })()", "Cannot read properties of undefined"),
    ):
        with pytest.raises(WidgetError, match=error):
            render(f"export default function W() {{ {body}; return <p/> }}")


def test_a_widget_does_not_come_upon_its_hosts_modules(render):
    """A tidy border inside of the worker, which the jail does not depend on."""
    with pytest.raises(WidgetError) as caught:
        render(REACHING % "")
    assert caught.value.message.strip() == "Error: reached:"
    planted = "function sloppy(builtin) { walk() }\n(globalThis as any).planted = { readFileSync() {} }; walk();"
    with pytest.raises(WidgetError, match="globalThis.planted"):  # the control: it would be seen
        render(REACHING % planted)


def test_what_a_widget_says_is_bounded_and_printable(render):
    source = "export default function W() { %s }"
    shout = (
        "for (let i = 0; i < 1000; i++) console.error(i + '\\u001b[31m\\n\\u0007' + 'x'.repeat(100000)); return <p/>"
    )
    widget = render(source % shout)
    assert 0 < len(widget.warnings) <= 20
    assert all(len(text) < 1100 and text.isprintable() for text in widget.warnings)
    with pytest.raises(WidgetError) as caught:
        render(source % "throw new Error('\\u001b[31m' + 'y'.repeat(1e6))")
    assert len(str(caught.value)) < 1200
    assert str(caught.value).isprintable()


DISGUISE = "\u202egnp\u2066\u200b\u3164\ufe0f\U000e0041\x07\x85"
"""What turns, hides and drives: overrides of direction, spaces without width, fillers, tags, controls."""


def test_what_a_widget_says_disguises_nothing(render):
    text = json.dumps(DISGUISE)
    widget = render(
        f"export default function W() {{ console.error({text} + '.'); return <p/> }}\nW.displayName = {text} + '.';"
    )
    for said in (widget.title, *widget.warnings):
        assert said.strip("'").startswith("?gnp?"), ascii(said)
        assert not set(DISGUISE) & set(said) - set("gnp"), ascii(said)
    assert f"<title>{widget.title}</title>" in widget.html
    filler = "\u3164\u3164"  # letters of which nothing is seen
    sources = (f"import '{DISGUISE[:6]}x'", f"let {filler}; let {filler}")
    for source in sources:
        with pytest.raises(WidgetError) as caught:
            render(f"{source}\nexport default () => <p/>")
        assert not set(DISGUISE) & set(str(caught.value)) - set("gnp"), ascii(str(caught.value))


def test_an_error_of_building_is_bounded(render):
    name = "a" * 300_000
    with pytest.raises(WidgetError, match="has already been declared|The symbol") as caught:
        render(f"let {name};\nlet {name};\nexport default () => <p/>")
    assert len(str(caught.value)) < 1200
    assert (caught.value.stage, caught.value.line) == ("build", 2)


def test_a_text_that_is_cut_in_the_middle_of_a_character_is_no_crash(render):
    """A note has 1,000 UTF-16 units, a name 80; half a character has no form in UTF-8."""
    widget = render(
        "export default function W() { console.error('x'.repeat(999) + '😀😀'); return <p/> }\nW.displayName = 'y'.repeat(79) + '😀';"
    )
    assert widget.mounted
    (warning,) = widget.warnings
    assert warning.startswith("x" * 990)
    assert widget.title.startswith("y" * 79)


def test_a_stack_names_no_directory_of_the_host(render):
    source = """Error.stackTraceLimit = 100;
console.warn(new Error("here").stack!.replaceAll("\\n", " | "));
export default function W() { console.error(new Error("there").stack!.replaceAll("\\n", " | ")); return <p/> }"""
    warnings = render(source).warnings
    assert len(warnings) == 2
    assert "/gloveport/mount.js" in warnings[0]  # the control: it goes as far as to the worker's program
    for warning in warnings:
        assert str(NATIVE.parent) not in warning
        assert set(re.findall(r"/[\w./-]*\.js", warning)) <= {"///gloveport/mount.js", "/gloveport/mount.js"}


def test_what_a_builder_made_is_not_given_again_once_it_was_replaced(render, monkeypatch):
    """Had it been taken over, whoever did so would otherwise have pages in store for others."""
    count = 0
    build = Builder.build

    async def counted(*arguments, **options):
        nonlocal count
        count += 1
        return await build(*arguments, **options)

    monkeypatch.setattr(Builder, "build", counted)
    source = f"{HELLO}// replaced"
    render(source)
    render(source)
    assert count == 1
    os.kill(builder("require").pid, signal.SIGKILL)
    render(f"{source} now")
    assert count == 2
    render(source)
    assert count == 3
    render(source)
    assert count == 3


@pytest.mark.parametrize(
    "body", ["return <p>hi</p>", "for (let i = 0; i < 50; i++) console.error(i + 'é\"\\\\'.repeat(200)); return <p/>"]
)
def test_a_model_is_told_less_than_300_bytes(render, body):
    widget = render(f"export default function W() {{ {body} }}")
    for ensure_ascii in (True, False):
        told = json.dumps(widget.summary(), separators=(",", ":"), ensure_ascii=ensure_ascii)
        assert len(told.encode()) < 300
    assert widget.summary()["artifact_id"] == widget.artifact_id
    assert re.fullmatch(
        "widget_[0-9a-f]{32}", widget.artifact_id
    )  # of 128 bits: pages of strangers are told apart by it
    assert bool(widget.summary()["warnings"]) == bool(widget.warnings)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"source": b"x"}, TypeError),
        ({"source": HELLO, "timeout": 0}, ValueError),
        ({"source": HELLO, "timeout": "1"}, TypeError),
        ({"source": HELLO, "plugins": "npm:@tailwindcss/vite"}, TypeError),
        ({"source": "//" + "é" * (1 << 20)}, WidgetError),
    ],
)
def test_misuse_is_refused(render, arguments, error):
    with pytest.raises(error):
        render(arguments.pop("source"), **arguments)


def test_a_title_of_the_application_or_the_components_name(render):
    source = "export default function Sales() { return <p/> }"
    assert "<title>Sales</title>" in render(source).html
    assert "<title>A &lt;b&gt;</title>" in render(source, title="A <b>").html
    nasty = "const W = () => <p/>; W.displayName = '</title><script>alert(1)</script>';\nexport default W"
    assert "<title>&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;</title>" in render(nasty).html
