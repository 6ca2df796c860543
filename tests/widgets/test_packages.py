# ruff: noqa: E501, because sources of widgets and packages are long lines
"""Packages in widgets: npm, JSR and modules by their URLs, found as bundlers for browsers find them, and nothing beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from gloveport import TypeScriptSandboxSession, Widget
from gloveport.errors import WidgetError
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
def value(render: Render) -> Callable[..., Any]:
    """What a widget finds when it is mounted: the JSON value of an expression, after imports."""

    def of(imports: str, expression: str = "x", **options: Any) -> Any:
        source = f"{imports}\nconsole.warn('VALUE' + JSON.stringify({expression}));\nexport default () => <p>hi</p>"
        widget = render(source, **options)
        if isinstance(widget, WidgetError):
            raise widget
        said = next(text for text in widget.warnings if "VALUE" in text)
        return json.JSONDecoder().raw_decode(said.partition("VALUE")[2])[0]

    return of


# ── what is found ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("imports", "expression", "wanted"),
    [
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
    ],
)
def test_npm(value: Any, registry: Registry, imports: str, expression: str, wanted: Any):
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
    assert value(imports, expression) == wanted
