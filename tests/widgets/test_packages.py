# ruff: noqa: E501, because sources of widgets and packages are long lines
"""Packages in widgets: npm, JSR and modules by their URLs, found as bundlers for browsers find them, and nothing beside them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from gloveport import TypeScriptSandboxSession, Widget
from gloveport.engines.builder import Builder, client
from gloveport.errors import WidgetError
from gloveport.host.packages.files import CacheFiles
from gloveport.host.widgets import packages as widget_packages
from gloveport.permissions import Packages
from tests.packages.registry import Registry

Render = Callable[..., Any]
SHOW = "import x from {!r};\nexport default () => <p>{{JSON.stringify(x)}}</p>"


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    yield made
    made.close()


@pytest.fixture
def packages(registry: Registry, tmp_path: Path) -> Callable[..., Packages]:
    """Rules for that registry, and a cache in `tmp_path`."""

    def make(**options: Any) -> Packages:
        tmp_path.chmod(0o755)
        defaults: dict[str, Any] = {
            "allow": ("npm:*", "jsr:*", f"{registry.url}/mods/"),
            "npm_registry": f"{registry.url}/npm/",
            "jsr_registry": f"{registry.url}/jsr/",
            "cache": str(tmp_path / "cache"),
        }
        return Packages(**{**defaults, **options})

    return make


@pytest.fixture
def render(packages: Callable[..., Packages]) -> Render:
    """Renders sources one after another in one session: a `Widget` or a `WidgetError` for each."""

    def go(*sources: str, allowed: Packages | None = None, **options: Any) -> Any:
        async def main() -> list[Widget | WidgetError]:
            found: list[Widget | WidgetError] = []
            rules = allowed or packages()
            async with TypeScriptSandboxSession(
                allow_package_imports=rules, enable_rendering=True, **options
            ) as session:
                for source in sources:
                    try:
                        found.append(await session.render(source))
                    except WidgetError as error:
                        found.append(error)
            return found

        found = anyio.run(main)
        return found[0] if len(found) == 1 else found

    return go


@pytest.fixture
def values(render: Render) -> Callable[..., list[Any]]:
    """What widgets find when they are mounted, one for each of (imports, expression): JSON values, or texts of errors."""

    def found(widget: Widget | WidgetError) -> Any:
        if isinstance(widget, WidgetError):
            return str(widget)
        said = next(text for text in widget.warnings if "VALUE" in text)
        return json.JSONDecoder().raw_decode(said.partition("VALUE")[2])[0]

    def of(*cases: tuple[str, str], **options: Any) -> list[Any]:
        shown = "{}\nconsole.warn('VALUE' + JSON.stringify({}));\nexport default () => <p>hi</p>"
        widgets = render(*(shown.format(*case) for case in cases), **options)
        return [found(widget) for widget in (widgets if isinstance(widgets, list) else [widgets])]

    return of


@pytest.fixture
def defaults(values: Callable[..., list[Any]]) -> Callable[..., dict[str, Any]]:
    """The default exports of modules, by their specifiers."""

    def of(*specifiers: str) -> dict[str, Any]:
        return dict(zip(specifiers, values(*((f"import x from {each!r}", "x") for each in specifiers)), strict=True))

    return of


# ── what is found ─────────────────────────────────────────────────────────────────────────────────────────────────────


CASES = [
    ("import x from 'plain'", "x", "cjs"),
    ("import x from 'npm:plain@1'", "x", "cjs"),
    ("import x from 'npm:plain@1.0.0'", "x", "cjs"),
    ("import x from 'plain@~1.0'", "x", "cjs"),
    ("import x from 'plain@1.x'", "x", "cjs"),
    ("import x from 'plain@latest'", "x", "cjs"),
    ("import x from 'plain/deep/part'", "x", "part"),
    ("import x from 'plain/deep'", "x", "deep index"),
    ("import x from 'plain/data.json'", "x.a", 1),
    ("import x from 'plain/nested'", "x", "nested main"),
    ("import { a } from 'esm'", "a", "esm"),
    ("import x from 'JSONStream'", "x", "capitals"),
    ("import x from '@scope/name'", "x", "scoped"),
    ("import x from '@scope/name/sub.js'", "x", "scoped sub"),
    ("const x = require('plain')", "x", "cjs"),
    ("import x from 'env'", "x", "production"),
    ("import x from 'globals'", "x", "object"),
    ("import x from 'typed'", "x", "typed"),
]


def test_npm(values: Any, registry: Registry):
    registry.npm(
        "plain",
        "1.0.0",
        "module.exports = 'cjs'",
        files={
            "deep/part.js": "module.exports = 'part'",
            "deep/index.js": "module.exports = 'deep index'",
            "data.json": '{"a": 1}',
            "nested/package.json": '{"main": "lib/main"}',
            "nested/lib/main.js": "module.exports = 'nested main'",
        },
    )
    registry.npm("esm", "1.0.0", "export { a } from './a.js'", type="module", files={"a.js": "export const a = 'esm'"})
    registry.npm("JSONStream", "1.0.0", "module.exports = 'capitals'")
    registry.npm("@scope/name", "1.0.0", "module.exports = 'scoped'", files={"sub.js": "module.exports = 'scoped sub'"})
    registry.npm("env", "1.0.0", "module.exports = process.env.NODE_ENV")
    registry.npm("globals", "1.0.0", "module.exports = typeof global")
    registry.npm(
        "typed", "1.0.0", "", main="./src/index.ts", files={"src/index.ts": "import { y } from './y.js'; export default y", "src/y.ts": "export const y: string = 'typed'"}
    )
    assert values(*(case[:2] for case in CASES)) == [case[2] for case in CASES]


EXPORTS: dict[str, Any] = {
    ".": {"node": "./node.js", "browser": {"require": "./browser.cjs", "import": "./browser.mjs"}, "default": "./default.js"},
    "./array": [{"node": "./node.js"}, "./array.js"],
    "./null": None,
    "./nested-null": {"browser": {"import": None}, "default": "./default.js"},
    "./features/*": "./src/*/index.js",
    "./features/private/*": None,
    "./files/*.js": "./src/*.js",
    "./old/": "./src/",
    "./module": {"module": "./module.js", "import": "./default.js"},
    "./node-only": {"node": "./node.js"},
    "./out": "./../../outside.js",
    "./encoded": "./%2e%2e/outside.js",
    "./absent": "./absent.js",
    "./hidden": "./node_modules/x.js",
}


@pytest.fixture
def mapped(registry: Registry) -> None:
    registry.npm(
        "mapped",
        "1.0.0",
        "module.exports = 'main'",
        exports=EXPORTS,
        files={
            "browser.mjs": "export default 'browser import'",
            "browser.cjs": "module.exports = 'browser require'",
            "default.js": "export default 'default'",
            "node.js": "throw new Error('for Node.js')",
            "array.js": "export default 'array'",
            "module.js": "export default 'module'",
            "src/a/index.js": "export default 'feature a'",
            "src/private/b/index.js": "export default 'private'",
            "src/file.js": "export default 'file'",
            "node_modules/x.js": "export default 'hidden'",
        },
    )
    registry.npm("sugar", "1.0.0", "", exports="./only.js", files={"only.js": "export default 'only'"})
    registry.npm("conditions", "1.0.0", "", exports={"import": "./esm.js"}, files={"esm.js": "export default 'esm'"})
    registry.npm("calls", "1.0.0", "module.exports = require('mapped')", dependencies={"mapped": "1"})
    registry.npm(
        "itself",
        "1.0.0",
        "",
        type="module",
        exports={".": "./index.mjs", "./part": "./part.js"},
        files={"index.mjs": "export { default } from 'itself/part'", "part.js": "export default 'itself'"},
    )


@pytest.mark.usefixtures("mapped")
def test_exports(defaults: Any):
    wanted = {
        "mapped": "browser import",
        "calls": "browser require",
        "mapped/array": "array",
        "mapped/features/a": "feature a",
        "mapped/files/file.js": "file",
        "mapped/old/file.js": "file",
        "mapped/module": "module",
        "sugar": "only",
        "conditions": "esm",
        "itself": "itself",
    }
    assert defaults(*wanted) == wanted


@pytest.mark.usefixtures("mapped")
def test_what_is_not_exported_is_refused(render: Render):
    names = [
        *("null", "nested-null", "features/private/b", "node-only", "nothing", "src/file.js", "package.json"),
        *("out", "encoded", "absent", "hidden", "features/"),
    ]
    control, *refused = render(SHOW.format("mapped/array"), *[SHOW.format(f"mapped/{name}") for name in names])
    assert control.mounted
    for name, error in zip(names, refused, strict=True):
        assert isinstance(error, WidgetError), name
        assert (error.line, error.stage) == (1, "build") and "mapped" in str(error) or "path" in str(error), name


def test_imports_of_a_package(defaults: Any, registry: Registry):
    registry.npm("other", "1.0.0", "module.exports = \"other's\"")
    registry.npm(
        "private",
        "1.0.0",
        "export { default } from '#inner'",
        dependencies={"other": "1"},
        imports={
            "#inner": "./src/inner.js",
            "#deep/*": "./src/deep/*.js",
            "#other": "other",
            "#env": {"node": "./src/node.js", "default": "./src/browser.js"},
        },
        files={
            "src/inner.js": "export default 'inner'",
            "deep.js": "export { default } from '#deep/a'",
            "src/deep/a.js": "export default 'deep'",
            "other.js": "export { default } from '#other'",
            "conditional.js": "export { default } from '#env'",
            "src/browser.js": "export default 'for browsers'",
        },
    )
    wanted = {
        "private": "inner",
        "private/deep": "deep",
        "private/other": "other's",
        "private/conditional": "for browsers",
    }
    assert defaults(*wanted) == wanted


def test_the_browser_field(defaults: Any, registry: Registry):
    files = {"node.js": "module.exports = 'node'", "browser.js": "module.exports = 'browser'"}
    fields: dict[str, tuple[str, dict[str, Any], Any]] = {
        "text": ("", {"main": "./node.js", "browser": "./browser.js"}, "browser"),
        "object": ("", {"main": "./node.js", "browser": {"./node.js": "./browser.js"}}, "browser"),
        "module-field": ("", {"main": "./node.js", "module": "./browser.js"}, "browser"),
        "relative": ("module.exports = require('./node.js')", {"browser": {"./node.js": "./browser.js"}}, "browser"),
        "without-end": ("module.exports = require('./node')", {"browser": {"./node": "./browser"}}, "browser"),
        "false": ("module.exports = require('./node')", {"browser": {"./node.js": False}}, {}),
        "builtin": ("module.exports = [require('fs'), require('node:path')]", {"browser": {"fs": False, "path": False}}, [{}, {}]),
        "other-package": ("module.exports = require('hash')", {"browser": {"hash": "./browser.js"}}, "browser"),
        "fields": ("", {"main": "./node.js", "module": "./node.js", "browser": "browser"}, "browser"),
    }
    for name, (code, more, _) in fields.items():
        registry.npm(name, "1.0.0", code, files=files, **more)
    assert defaults(*fields) == {name: wanted for name, (_, _, wanted) in fields.items()}


def test_a_module_that_is_required_is_the_one_for_require(values: Any, registry: Registry):
    files = {"esm.js": "export default () => 'esm'", "cjs.js": "module.exports = () => 'cjs'"}
    registry.npm("dual", "1.0.0", "", main="./cjs.js", module="./esm.js", files=files)
    registry.npm("user", "1.0.0", "module.exports = require('dual')()", dependencies={"dual": "1"})
    assert values(("import x from 'user'; import dual from 'dual'", "[x, dual()]")) == [["cjs", "esm"]]


def test_two_versions_of_one_package_are_two(values: Any, registry: Registry):
    registry.npm("leaf", "1.0.0", "module.exports = 'leaf 1'")
    registry.npm("leaf", "2.0.0", "module.exports = 'leaf 2'")
    registry.npm("old", "1.0.0", "module.exports = require('leaf')", dependencies={"leaf": "^1"})
    registry.npm("new", "1.0.0", "module.exports = require('leaf')", dependencies={"leaf": "^2"})
    registry.npm("renamed", "1.0.0", "module.exports = require('other-leaf')", dependencies={"other-leaf": "npm:leaf@^1"})
    imports = "import a from 'old'; import b from 'new'; import c from 'renamed'; import d from 'leaf@1'"
    assert values((imports, "[a, b, c, d]")) == [["leaf 1", "leaf 2", "leaf 1", "leaf 1"]]


def test_what_is_imported_often_is_there_once(render: Render, registry: Registry):
    registry.npm("leaf", "1.0.0", "module.exports = { mark: 'ONLY-ONCE' }")
    for name in ("a", "b", "c"):
        registry.npm(name, "1.0.0", "module.exports = require('leaf')", dependencies={"leaf": "1"})
    widget = render(
        "import a from 'a'; import b from 'b'; import c from 'c'; import l from 'leaf';\n"
        "if (a !== b || b !== c || c !== l) throw new Error('not the same');\nexport default () => <p>{l.mark}</p>"
    )
    assert widget.html.count("ONLY-ONCE") == 1


def test_what_is_not_used_is_not_there(render: Render, registry: Registry):
    files = {"used.js": "import './effect.js'; export const used = 'USED'", "unused.js": "globalThis.x = 'UNUSED'; export const unused = 1"}
    code = "export * from './used.js'; export * from './unused.js'"
    files |= {"effect.js": "globalThis.y = 'EFFECT'"}
    for name, more in {"says": {"sideEffects": ["./effect.js"]}, "never": {"sideEffects": False}, "silent": {}}.items():
        registry.npm(name, "1.0.0", code, files=files, type="module", **more)
    source = "import {{ used }} from {!r};\nexport default () => <p>{{used}}</p>"
    found = render(*[source.format(name) for name in ("says", "never", "silent")])
    kept = [[mark for mark in ("USED", "UNUSED", "EFFECT") if f'"{mark}"' in widget.html] for widget in found]
    assert kept == [["USED", "EFFECT"], ["USED"], ["USED", "UNUSED", "EFFECT"]]


# ── React ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_react_is_always_the_page_s(render: Render, registry: Registry):
    registry.npm("react", "18.0.0", "throw new Error('another React')", files={"jsx-runtime.js": "throw new Error('another React')"})
    registry.npm(
        "hooks",
        "1.0.0",
        "import * as React from 'react'; import { jsx } from 'react/jsx-runtime'; export const Field = () => { const [n] = React.useState(5); return jsx('b', { children: n }) }",
        type="module",
        peerDependencies={"react": "*"},
    )
    registry.npm("commonjs", "1.0.0", "module.exports = require('react')", peerDependencies={"react": ">=16"})
    registry.npm("compiled", "1.0.0", "import { c } from 'react/compiler-runtime'; export const memo = () => c(1).length", type="module")
    widget = render(
        "import React from 'react'; import other from 'commonjs'; import third from 'npm:react@18';\n"
        "import { memo } from 'compiled'; import { useState } from 'npm:react'; import { Field } from 'hooks';\n"
        "if (other !== React && other.useState !== React.useState) throw new Error('two');\n"
        "if (third.useState !== useState || useState !== React.useState) throw new Error('three');\n"
        "export default () => <p><Field/>{memo()}</p>"
    )
    assert isinstance(widget, Widget), widget
    assert widget.warnings == () and "another React" not in widget.html


def test_other_parts_of_react_are_refused(render: Render, registry: Registry):
    registry.npm("server", "1.0.0", "export { renderToString } from 'react-dom/server'", type="module")
    direct, inside, control = render(
        SHOW.format("npm:react-dom/server"), "\n" + SHOW.format("server"), SHOW.format("react-dom")
    )
    assert "react-dom/server" in str(direct) and direct.line == 1
    assert "react-dom/server" in str(inside) and "react-dom/client" in str(inside) and inside.line == 2
    assert control.mounted


# ── styles and data ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_style_sheets_come_into_the_page(render: Render, registry: Registry):
    registry.npm(
        "looks",
        "1.0.0",
        "import './own.css'; export default 1",
        sideEffects=False,
        files={
            "own.css": ".own { color: teal }",
            "dist/style.css": "@import 'base.css'; @import './more.css'; @import url('https://fonts.example/x.css'); .first { color: rebeccapurple; background: url(x.png) }",
            "dist/base.css": ".base { color: navy }",
            "dist/more.css": ".more { color: olive } </style>",
        },
    )
    widget = render("import 'looks/dist/style.css'; import x from 'looks';\nexport default () => <p className='first'>{x}</p>")
    assert isinstance(widget, Widget), widget
    style = re.search(r"<style>(.*?)</style>", widget.html, re.DOTALL)
    assert style is not None
    assert all(rule in style[1] for rule in (".own", ".first", ".base", ".more"))
    assert "default-src 'none'" in widget.html


def test_style_sheets_alone_and_with_tailwind(render: Render, registry: Registry):
    registry.npm("only-css", "1.0.0", "", main="theme.css", files={"theme.css": ".theme { color: teal }"})
    widget = render(
        "import 'tailwindcss'; import 'only-css';\nexport default () => <p className='p-4 theme'>hi</p>",
        plugins=["npm:@tailwindcss/vite@latest"],
    )
    assert ".theme" in widget.html and ".p-4" in widget.html
    without = render("import 'tailwindcss';\nexport default () => <p/>")
    assert "plugins=" in str(without) and without.line == 1


# ── JSR and URLs ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def remote(registry: Registry) -> Registry:
    registry.npm("leaf", "1.0.0", "module.exports = 'leaf'")
    registry.npm("react", "18.0.0", "throw new Error('another React')")
    registry.jsr("@std/base", "0.1.0", "export const base: number = 40;")
    registry.jsr(
        "@std/sums",
        "0.3.1",
        "import { two } from './two.ts'; import { base } from 'jsr:@std/base@^0.1.0'; export const sum = (): number => base + two;",
        files={"two.ts": "export const two: number = 2;"},
    )
    registry.files["/mods/a.ts"] = b"import { b } from './b.ts'; import l from 'npm:leaf@1'; export default [b as number, l];"
    registry.files["/mods/b.ts"] = b"import d from './d.json' with { type: 'json' }; export const b = d.n;"
    registry.files["/mods/d.json"] = b'{"n": 7}'
    registry.redirects["/mods/old.ts"] = f"{registry.url}/mods/a.ts"
    registry.files["/mods/node.ts"] = b"import fs from 'node:fs'; export default fs;"
    registry.files["/mods/react.ts"] = b"import React from 'npm:react@18'; export default React.version;"
    return registry


def test_jsr_packages_and_modules_by_their_urls(values: Any, remote: Registry):
    url = remote.url
    found = values(
        ("import { sum } from 'jsr:@std/sums'", "sum()"),
        ("import { sum } from 'jsr:@std/sums@0.3'", "sum()"),
        (f"import x from '{url}/mods/a.ts'", "x"),
        (f"import x from '{url}/mods/old.ts'", "x"),
        (f"import x from '{url}/mods/react.ts'; import React from 'react'", "x === React.version"),
    )
    assert found == [42, 42, [7, "leaf"], [7, "leaf"], True]


def test_what_these_cannot_import_is_refused(render: Render, remote: Registry):
    node, absent, outside = render(
        "\n" + SHOW.format(f"{remote.url}/mods/node.ts"),
        SHOW.format("jsr:@std/sums/absent"),
        SHOW.format("https://127.0.0.1/x.ts"),
    )
    assert "node:fs" in str(node) and node.line == 2
    assert "absent" in str(absent) and absent.line == 1
    assert "no rule allows it" in str(outside) and outside.line == 1


@pytest.mark.parametrize("what", ["module", "jsr", "version"])
def test_a_module_that_was_tampered_with_is_refused(
    render: Render, packages: Any, remote: Registry, tmp_path: Path, what: str
):
    url = f"{remote.url}/mods/a.ts"
    place, source = {
        "module": ("/mods/b.ts", SHOW.format(url)),
        "jsr": ("/jsr/@std/sums/0.3.1/two.ts", "import { sum } from 'jsr:@std/sums';\nexport default () => <p>{sum()}</p>"),
        "version": ("/jsr/@std/sums/0.3.1_meta.json", "import { sum } from 'jsr:@std/sums';\nexport default () => <p>{sum()}</p>"),
    }[what]
    assert render(source).mounted
    name = hashlib.sha256(place.encode()).hexdigest()
    (file,) = (tmp_path / "cache" / "remote").rglob(name)
    data = file.read_bytes()
    file.write_bytes(data.replace(b"./", b".//", 1) if what == "version" else b" " + data)
    refused = render(source + "// again", allowed=packages(offline=True))
    assert "is not what the lock file of packages says" in str(refused)
    file.write_bytes(data)
    assert render(source + "// restored", allowed=packages(offline=True)).mounted


# ── refusals ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_refusals_have_the_line_of_the_widget_s_import(render: Render, registry: Registry):
    registry.npm("good", "1.0.0", "module.exports = 1")
    registry.npm("needs-node", "1.0.0", "import fs from 'fs'; export default fs", type="module")
    registry.npm("outer", "1.0.0", "export { default } from 'needs-node'", type="module", dependencies={"needs-node": "1"})
    registry.npm("phantom", "1.0.0", "export { default } from 'not-declared'", type="module")
    registry.npm("picture", "1.0.0", "", main="x.png", files={"x.png": "no picture"})
    cases = {
        "nothing-there": "nothing-there",
        "good@^7": "good",
        "good/absent": "no file for 'good/absent'",
        "good/../x": "no npm package",
        "needs-node": "the package needs-node needs 'fs' of Node.js",
        "outer": "the package needs-node needs 'fs' of Node.js",
        "phantom": "the package phantom imports 'not-declared'",
        "picture": "of no kind that can be imported",
        "node:fs": "a widget runs in a browser",
        "fs": "a widget runs in a browser",
        "./x": "a widget is one module",
        "file:///etc/passwd": "a widget is one module",
        "/etc/passwd": "a widget is one module",
        "data:text/javascript,1": "a widget is one module",
        "": "a widget is one module",
        "x" * 2001: "too long",
    }
    found = render(*(f"import g from 'good';\n{SHOW.format(name)}// {{g}}" for name in cases), SHOW.format("good"))
    for (name, text), error in zip(cases.items(), found[:-1], strict=True):
        assert isinstance(error, WidgetError), name
        assert text in str(error) and (error.line, error.stage) == (2, "build"), (name, str(error), error.line)
        assert len(str(error)) < 1000
    assert found[-1].mounted


def test_what_is_only_tried_is_not_missed(values: Any, registry: Registry):
    """`require` where it may fail, and `import()`, are for whoever wrote them to handle. Not so in the widget itself."""
    code = "let found = 'nothing'; try { found = require('optional') } catch (e) { found = e.code } module.exports = found;"
    registry.npm("tries", "1.0.0", code)
    registry.npm("lazy", "1.0.0", "module.exports = () => require('fs')")
    registry.npm("eager", "1.0.0", "module.exports = require('fs')")
    registry.npm("late", "1.0.0", "export default import('not-declared').catch(() => 1) instanceof Promise", type="module")
    tries, lazy, late, eager, own = values(
        ("import x from 'tries'", "x"),
        ("import x from 'lazy'", "typeof x"),
        ("import x from 'late'", "x"),
        ("import x from 'eager'", "x"),
        ("let x; try { x = require('nothing-there') } catch {}", "x"),
    )
    assert (tries, lazy, late) == ("MODULE_NOT_FOUND", "function", True)
    assert "the package eager needs 'fs' of Node.js" in eager and "nothing-there" in own


def test_rules(render: Render, packages: Any, registry: Registry):
    registry.npm("inner", "1.0.0", "module.exports = 1")
    registry.npm("outer", "1.0.0", "module.exports = require('inner')", dependencies={"inner": "1"})
    allowed, denied, other = render(
        SHOW.format("outer"), "\n" + SHOW.format("inner"), SHOW.format("jsr:@std/sums"), allowed=packages(allow=["npm:*"], deny=["npm:inner"])
    )
    assert allowed.mounted
    assert "npm:inner is not among the packages that may be imported" in str(denied) and denied.line == 2
    assert "may be imported" in str(other)


def test_without_the_option_nothing_is_fetched(registry: Registry):
    async def main() -> None:
        async with TypeScriptSandboxSession(enable_rendering=True) as session:
            with pytest.raises(WidgetError, match="allow_package_imports"):
                await session.render(SHOW.format("plain"))

    anyio.run(main)
    assert registry.asked == []


def test_offline(render: Render, packages: Any, registry: Registry):
    registry.npm("leaf", "1.0.0", "module.exports = 1")
    registry.npm("other", "1.0.0", "module.exports = 1")
    render(SHOW.format("leaf"))
    registry.close()
    there, absent = render(SHOW.format("leaf") + "//", SHOW.format("other"), allowed=packages(offline=True))
    assert there.mounted
    assert "cache" in str(absent) and absent.line == 1


def test_a_lock_of_the_application(render: Render, packages: Any, registry: Registry, tmp_path: Path):
    registry.npm("leaf", "1.0.0", "module.exports = 'version 1'")
    render(SHOW.format("leaf"), allowed=packages(cache=str(tmp_path / "one")))
    lock = tmp_path / "deno.lock"
    lock.write_bytes((tmp_path / "one" / "deno.lock").read_bytes())
    registry.npm("leaf", "1.1.0", "module.exports = 'version 1.1'")
    locked = packages(lock=str(lock), cache=str(tmp_path / "two"))
    widget, unknown = render(SHOW.format("leaf"), SHOW.format("other"), allowed=locked)
    assert "version 1" in widget.html and "version 1.1" not in widget.html
    assert isinstance(unknown, WidgetError)


def test_a_page_is_kept_for_the_versions_that_it_was_made_of(
    render: Render, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    built: list[str] = []
    build = Builder.build

    async def counted(self: Builder, source: str, **options: Any) -> Any:
        built.append(source)
        return await build(self, source, **options)

    monkeypatch.setattr(Builder, "build", counted)
    registry.npm("inner", "1.0.0", "module.exports = 'inner 1.0'")
    registry.npm("outer", "1.0.0", "module.exports = require('inner')", dependencies={"inner": "1"})
    source = SHOW.format("outer")
    first, again = render(source, source)
    assert first.html == again.html and len(built) == 1
    registry.npm("inner", "1.1.0", "module.exports = 'inner 1.1'")
    assert render(source).html == first.html and len(built) == 1
    for noted in [tmp_path / "cache" / "deno.lock", *(tmp_path / "cache").rglob("registry.json")]:
        noted.unlink()
    assert "inner 1.1" in render(source).html and len(built) == 2
    # What the compiler does not see beforehand is in no name that a page could have.
    hidden = "const x = require('outer');\nexport default () => <p>{x}</p>"
    assert all("inner 1.1" in widget.html for widget in render(hidden, hidden))
    assert len(built) == 4


# ── limits ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_file_has_a_limit(render: Render, registry: Registry):
    most = widget_packages.FILE_BYTES
    for name, size in {"fits": most, "large": most + 1}.items():
        head = "module.exports = 1 //"
        registry.npm(name, "1.0.0", head + "x" * (size - len(head)))
    fits, large = render(SHOW.format("fits"), SHOW.format("large"))
    assert fits.mounted
    assert f"more than the {most} bytes" in str(large) and large.line == 1


def test_all_files_have_a_limit(render: Render, registry: Registry, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(widget_packages, "TOTAL_BYTES", 10_000)
    for name in ("a", "b"):
        registry.npm(name, "1.0.0", f"module.exports = 1 //{'x' * 6000}")
    registry.npm("tries", "1.0.0", "try { require('a'); require('b') } catch {}", dependencies={"a": "1", "b": "1"})
    one, often, both, tried = render(
        SHOW.format("a"),
        "import 'a'; import y from 'a@1'; import z from 'a/index.js';\nexport default () => <p>{y}{z}</p>",
        "import y from 'a';\nimport z from 'b';\nexport default () => <p>{y}{z}</p>",
        SHOW.format("tries"),
    )
    assert one.mounted and often.mounted
    assert "more than the 10000 bytes" in str(both) and both.line == 2
    assert "more than the 10000 bytes" in str(tried)


def test_questions_have_a_limit(render: Render, registry: Registry, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(client, "MAX_QUESTIONS", 6)
    for count in (3, 9):
        files = {f"f{number}.js": "module.exports = 1" for number in range(count)}
        code = "".join(f"require('./{name}');" for name in files)
        registry.npm(f"has{count}", "1.0.0", code, files=files)
    few, many = render(SHOW.format("has3"), SHOW.format("has9"))
    assert few.mounted
    assert "more than 6 imports" in str(many)


# ── what cannot be read ───────────────────────────────────────────────────────────────────────────────────────────────

SECRET = "a-secret-of-the-host-77c3"
UP = "../" * 6
"""From the folder of a package to the one around the cache."""
WAYS: dict[str, dict[str, Any]] = {
    "main": {"main": f"{UP}secret.js"},
    "module": {"module": f"./{UP}secret.js"},
    "browser": {"browser": f"{UP}secret.js"},
    "browser of a file": {"browser": {"./index.js": f"./{UP}secret.js"}},
    "browser of a package": {"code": "import x from 'x'; export default x", "browser": {"x": f"./{UP}secret.js"}},
    "exports": {"exports": f"./{UP}secret.js"},
    "exports, encoded": {"exports": f"./{UP.replace('..', '%2e%2e')}secret.js"},
    "exports, absolute": {"exports": "{folder}/secret.js"},
    "exports with a pattern": {"exports": {"./*": "./*", ".": "./index.js"}, "code": f"import x from 'evil/{UP}secret.js'; export default x"},
    "imports": {"imports": {"#x": f"./{UP}secret.js"}, "code": "import x from '#x'; export default x"},
    "imports of a file": {"imports": {"#x": "file://{folder}/secret.js"}, "code": "import x from '#x'; export default x"},
    "relative": {"code": f"import x from './{UP}secret.js'; export default x"},
    "required": {"code": f"module.exports = require('./{UP}secret.js')"},
    "data": {"code": f"import x from '{UP}secret.json'; export default x.a"},
    "encoded": {"code": f"import x from './{UP.replace('..', '%2e%2e')}secret.js'; export default x"},
    "backslashes": {"code": "import x from '.{up}secret.js'; export default x".replace("{up}", "\\\\..\\\\.." * 4 + "\\\\")},
    "absolute": {"code": "import x from '{folder}/secret.js'; export default x"},
    "absolute, twice": {"code": "import x from '/{folder}/secret.js'; export default x"},
    "file:": {"code": "import x from 'file://{folder}/secret.js'; export default x"},
    "a process's files": {"code": "import x from '/proc/self/cwd/secret.js'; export default x"},
    "through a dependency": {"code": f"import x from 'evil/../{UP}secret.js'; export default x"},
    "a style sheet": {"main": "x.css", "files": {"x.css": f"@import './{UP}secret.css'; .x {{ color: red }}"}},
    "a style sheet, bare": {"main": "x.css", "files": {"x.css": f"@import '{UP}secret.css'; .x {{ color: red }}"}},
    "a folder": {"code": f"import x from './{UP}'; export default x"},
    "the lock": {"code": f"import x from './{'../' * 5}deno.json'; export default x"},
}


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    folder = tmp_path / "open"
    folder.mkdir()
    for name, text in {
        "secret.js": f"export default {SECRET!r}",
        "secret.json": f'{{"a": "{SECRET}"}}',
        "secret.css": f".a {{ content: '{SECRET}' }}",
        "index.js": f"export default {SECRET!r}",
        "package.json": '{"main": "secret.js"}',
    }.items():
        (folder / name).write_text(text)
    return folder


def _with(text: Any, folder: Path) -> Any:
    return json.loads(json.dumps(text).replace("{folder}", str(folder)))


def test_no_package_names_a_file_outside_of_it(render: Render, packages: Any, registry: Registry, secrets: Path):
    """What it says in its package.json and in its imports, all of it one after another."""
    for number, way in enumerate(WAYS.values()):
        fields = _with(way, secrets)
        code, files = fields.pop("code", "export default 'own'"), fields.pop("files", {})
        code = code.replace("'evil/", f"'evil{number}/")
        registry.npm(f"evil{number}", "1.0.0", code, files=files, **fields)
    allowed = packages(cache=str(secrets / "cache"))
    sources = [SHOW.format(f"evil{number}") for number in range(len(WAYS))]
    registry.npm("honest", "1.0.0", "export { default } from './lib/../own.js'", files={"own.js": "export default 'own'"})
    *found, control = render(*sources, SHOW.format("honest"), allowed=allowed)
    assert control.mounted
    for way, widget in zip(WAYS, found, strict=True):
        text = str(widget) if isinstance(widget, WidgetError) else widget.html
        assert SECRET not in text, way
        assert isinstance(widget, WidgetError), way


def test_the_ways_lead_there(secrets: Path, render: Render, packages: Any, registry: Registry):
    """The control of the test above: these paths are right, so that only what reads them stands between."""
    registry.npm("plain", "1.0.0", "module.exports = 1")
    render(SHOW.format("plain"), allowed=packages(cache=str(secrets / "cache")))
    (package,) = (secrets / "cache").rglob("plain/1.0.0")
    assert SECRET in (package / UP / "secret.js").read_text()


@pytest.mark.parametrize("kind", ["file", "folder", "package", "registry", "npm", "manifest"])
def test_links_are_not_followed(
    render: Render, packages: Any, registry: Registry, secrets: Path, tmp_path: Path, kind: str
):
    """Packages have none when they come. Whoever puts one there does not reach anything with it."""
    registry.npm("linked", "1.0.0", "export { default } from './lib/a.js'", files={"lib/a.js": f"export default {SECRET!r}"})
    source = SHOW.format("linked")
    assert SECRET in render(source).html
    (package,) = (tmp_path / "cache").rglob("linked/1.0.0")
    target = {
        "file": package / "lib" / "a.js",
        "folder": package / "lib",
        "package": package,
        "registry": package.parents[2],
        "npm": tmp_path / "cache" / "npm",
        "manifest": package / "package.json",
    }[kind]
    moved = target.rename(secrets / "moved")
    target.symlink_to(moved)
    offline = packages(offline=True)
    refused = render(source + "// linked", allowed=offline)
    assert isinstance(refused, WidgetError)
    assert SECRET not in str(refused)
    target.unlink()
    moved.rename(target)
    assert SECRET in render(source + "// restored", allowed=offline).html


def test_only_regular_files_are_read(render: Render, packages: Any, registry: Registry, tmp_path: Path):
    registry.npm("pipe", "1.0.0", "export { default } from './a.js'", files={"a.js": "export default 1"})
    assert render(SHOW.format("pipe")).mounted
    (package,) = (tmp_path / "cache").rglob("pipe/1.0.0")
    (package / "a.js").unlink()
    os.mkfifo(package / "a.js")
    assert "no file for './a.js'" in str(render(SHOW.format("pipe") + "//", allowed=packages(offline=True)))


@pytest.mark.parametrize(
    ("name", "version"),
    [("..", "1.0.0"), ("plain", ".."), ("plain", "../../../../open"), ("../../../open", "1.0.0"), ("@x/..", "1.0.0")],
)
def test_a_hostile_lock_leads_nowhere(
    render: Render, packages: Any, registry: Registry, secrets: Path, tmp_path: Path, name: str, version: str
):
    registry.npm("plain", "1.0.0", "export { default } from 'dep'", type="module", dependencies={"dep": "1"})
    registry.npm("dep", "1.0.0", "module.exports = 1")
    assert render(SHOW.format("plain")).mounted
    lock = tmp_path / "cache" / "deno.lock"
    content = json.loads(lock.read_bytes())
    content["npm"][f"{name}@{version}"] = content["npm"]["dep@1.0.0"]
    content["npm"]["plain@1.0.0"]["dependencies"] = [f"dep@npm:{name}@{version}"]
    lock.write_text(json.dumps(content))
    refused = render(SHOW.format("plain") + "//", allowed=packages(offline=True))
    assert "the lock file of packages has no entry" in str(refused)


@pytest.mark.parametrize(
    "parts",
    [
        *(("..", "secret.js"), ("npm", "..", "..", "secret.js"), ("npm", "../..", "secret.js"), ("gen", "x.js"), ("npm",)),
        *(("npm", ""), ("npm", "."), ("", "secret.js"), ("npm", "a\0b"), ("npm", "x.js", "y.js")),
    ],
)
def test_files_of_the_cache_alone(secrets: Path, parts: tuple[str, ...]):
    for folder in ("npm", "gen"):
        (secrets / folder).mkdir()
        (secrets / folder / "x.js").write_text("there")
    files = CacheFiles(secrets)
    assert files.read("npm", "x.js", most=5) == b"there"
    assert files.read(*parts, most=1000) is None
    assert not files.is_file(*parts) and (parts in [("npm", "."), ("npm", "")] or not files.is_directory(*parts))


# ── the real registry ─────────────────────────────────────────────────────────────────────────────────────────────────

CHART = """
import { Line, LineChart, XAxis, YAxis } from "recharts@2.15.4";
import { nanoid } from "nanoid";

const data = [{ month: "May", sales: 3 }, { month: "June", sales: 8 }];

export default function Sales() {
  return (
    <LineChart width={400} height={200} data={data} id={nanoid(4)}>
      <XAxis dataKey="month" />
      <YAxis />
      <Line dataKey="sales" isAnimationActive={false} />
    </LineChart>
  );
}
"""


@pytest.mark.registry
def test_a_real_chart(render: Render, tmp_path: Path):
    tmp_path.chmod(0o755)
    address = socket.gethostbyname("registry.npmjs.org")
    allowed = Packages(cache=str(tmp_path / "cache"), private=[address])
    shown = CHART.replace("import { nanoid }", "import { useEffect } from 'react';\nimport { nanoid }")
    shown = shown.replace(
        "  return (\n",
        "  useEffect(() => { console.warn('DRAWN ' + document.querySelectorAll('svg path.recharts-line-curve').length) });\n  return (\n",
    )
    widget = render(shown, allowed=allowed)
    assert isinstance(widget, Widget), widget
    assert any("DRAWN 1" in warning for warning in widget.warnings)
    assert widget.bytes < 1_200_000
