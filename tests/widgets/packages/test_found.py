# ruff: noqa: E501, because sources of widgets and packages are long lines
"""Packages in widgets: npm packages, found as bundlers for browsers find them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gloveport import Widget
from gloveport.errors import WidgetError
from tests.packages.registry import Registry

from .conftest import Render
from .sources import SHOW

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
        parts={
            "deep/part.js": "module.exports = 'part'",
            "deep/index.js": "module.exports = 'deep index'",
            "data.json": '{"a": 1}',
            "nested/package.json": '{"main": "lib/main"}',
            "nested/lib/main.js": "module.exports = 'nested main'",
        },
    )
    registry.npm("esm", "1.0.0", "export { a } from './a.js'", type="module", parts={"a.js": "export const a = 'esm'"})
    registry.npm("JSONStream", "1.0.0", "module.exports = 'capitals'")
    registry.npm("@scope/name", "1.0.0", "module.exports = 'scoped'", parts={"sub.js": "module.exports = 'scoped sub'"})
    registry.npm("env", "1.0.0", "module.exports = process.env.NODE_ENV")
    registry.npm("globals", "1.0.0", "module.exports = typeof global")
    registry.npm(
        "typed",
        "1.0.0",
        "",
        main="./src/index.ts",
        parts={
            "src/index.ts": "import { y } from './y.js'; export default y",
            "src/y.ts": "export const y: string = 'typed'",
        },
    )
    assert values(*(case[:2] for case in CASES)) == [case[2] for case in CASES]


EXPORTS: dict[str, Any] = {
    ".": {
        "node": "./node.js",
        "browser": {"require": "./browser.cjs", "import": "./browser.mjs"},
        "default": "./default.js",
    },
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
        parts={
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
    registry.npm("sugar", "1.0.0", "", exports="./only.js", parts={"only.js": "export default 'only'"})
    registry.npm("conditions", "1.0.0", "", exports={"import": "./esm.js"}, parts={"esm.js": "export default 'esm'"})
    registry.npm("calls", "1.0.0", "module.exports = require('mapped')", dependencies={"mapped": "1"})
    registry.npm(
        "itself",
        "1.0.0",
        "",
        type="module",
        exports={".": "./index.mjs", "./part": "./part.js"},
        parts={"index.mjs": "export { default } from 'itself/part'", "part.js": "export default 'itself'"},
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
    registry.npm("other", "1.0.0", 'module.exports = "other\'s"')
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
        parts={
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
        "builtin": (
            "module.exports = [require('fs'), require('node:path')]",
            {"browser": {"fs": False, "path": False}},
            [{}, {}],
        ),
        "other-package": ("module.exports = require('hash')", {"browser": {"hash": "./browser.js"}}, "browser"),
        "fields": ("", {"main": "./node.js", "module": "./node.js", "browser": "browser"}, "browser"),
    }
    for name, (code, more, _) in fields.items():
        registry.npm(name, "1.0.0", code, parts=files, **more)
    assert defaults(*fields) == {name: wanted for name, (_, _, wanted) in fields.items()}


def test_a_module_that_is_required_is_the_one_for_require(values: Any, registry: Registry):
    files = {"esm.js": "export default () => 'esm'", "cjs.js": "module.exports = () => 'cjs'"}
    registry.npm("dual", "1.0.0", "", main="./cjs.js", module="./esm.js", parts=files)
    registry.npm("user", "1.0.0", "module.exports = require('dual')()", dependencies={"dual": "1"})
    assert values(("import x from 'user'; import dual from 'dual'", "[x, dual()]")) == [["cjs", "esm"]]


def test_two_versions_of_one_package_are_two(values: Any, registry: Registry):
    registry.npm("leaf", "1.0.0", "module.exports = 'leaf 1'")
    registry.npm("leaf", "2.0.0", "module.exports = 'leaf 2'")
    registry.npm("old", "1.0.0", "module.exports = require('leaf')", dependencies={"leaf": "^1"})
    registry.npm("new", "1.0.0", "module.exports = require('leaf')", dependencies={"leaf": "^2"})
    registry.npm(
        "renamed", "1.0.0", "module.exports = require('other-leaf')", dependencies={"other-leaf": "npm:leaf@^1"}
    )
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
    files = {
        "used.js": "import './effect.js'; export const used = 'USED'",
        "unused.js": "globalThis.x = 'UNUSED'; export const unused = 1",
    }
    code = "export * from './used.js'; export * from './unused.js'"
    files |= {"effect.js": "globalThis.y = 'EFFECT'"}
    for name, more in {"says": {"sideEffects": ["./effect.js"]}, "never": {"sideEffects": False}, "silent": {}}.items():
        registry.npm(name, "1.0.0", code, parts=files, type="module", **more)
    source = "import {{ used }} from {!r};\nexport default () => <p>{{used}}</p>"
    found = render(*[source.format(name) for name in ("says", "never", "silent")])
    kept = [[mark for mark in ("USED", "UNUSED", "EFFECT") if f'"{mark}"' in widget.html] for widget in found]
    assert kept == [["USED", "EFFECT"], ["USED"], ["USED", "UNUSED", "EFFECT"]]


def test_text_of_a_package_does_not_end_the_page_s_script(render: Render, registry: Registry):
    registry.npm("texts", "1.0.0", "module.exports = ['</script><!--', `</script>${1}<!--`]")
    widget = render(
        "import x from 'texts';\nif (x.join() !== '<' + '/script><' + '!--,<' + '/script>1<' + '!--') throw new Error(x.join());\n"
        "export default () => <p>{x}</p>"
    )
    assert isinstance(widget, Widget), widget
    assert widget.html.count("</script>") == 2 and "<!--" not in widget.html


# ── React ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_react_is_always_the_page_s(render: Render, registry: Registry):
    registry.npm(
        "react",
        "18.0.0",
        "throw new Error('another React')",
        parts={"jsx-runtime.js": "throw new Error('another React')"},
    )
    registry.npm(
        "hooks",
        "1.0.0",
        "import * as React from 'react'; import { jsx } from 'react/jsx-runtime'; export const Field = () => { const [n] = React.useState(5); return jsx('b', { children: n }) }",
        type="module",
        peerDependencies={"react": "*"},
    )
    registry.npm("commonjs", "1.0.0", "module.exports = require('react')", peerDependencies={"react": ">=16"})
    registry.npm(
        "compiled",
        "1.0.0",
        "import { c } from 'react/compiler-runtime'; export const memo = () => c(1).length",
        type="module",
    )
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
        parts={
            "own.css": ".own { color: teal }",
            "dist/style.css": "@import 'base.css'; @import './more.css'; @import url('https://fonts.example/x.css'); .first { color: rebeccapurple; background: url(x.png) }",
            "dist/base.css": ".base { color: navy }",
            "dist/more.css": ".more { color: olive } </style>",
        },
    )
    widget = render(
        "import 'looks/dist/style.css'; import x from 'looks';\nexport default () => <p className='first'>{x}</p>"
    )
    assert isinstance(widget, Widget), widget
    style = re.search(r"<style>(.*?)</style>", widget.html, re.DOTALL)
    assert style is not None
    assert all(rule in style[1] for rule in (".own", ".first", ".base", ".more"))
    assert "default-src 'none'" in widget.html


def test_style_sheets_alone_and_with_tailwind(render: Render, registry: Registry):
    registry.npm("only-css", "1.0.0", "", main="theme.css", parts={"theme.css": ".theme { color: teal }"})
    widget = render(
        "import 'tailwindcss'; import 'only-css';\nexport default () => <p className='p-4 theme'>hi</p>",
        plugins=["npm:@tailwindcss/vite@latest"],
    )
    assert ".theme" in widget.html and ".p-4" in widget.html
    without = render("import 'tailwindcss';\nexport default () => <p/>")
    assert "plugins=" in str(without) and without.line == 1


def test_under_each_event_loop(backend: str, render: Render, registry: Registry):
    registry.npm("leaf", "1.0.0", "module.exports = 'leaf'")
    good, bad = render(SHOW.format("leaf"), SHOW.format("absent"), backend=backend)
    assert good.mounted and "absent" in str(bad)
