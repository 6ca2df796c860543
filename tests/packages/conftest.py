from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from gloveport import TypeScriptSandboxSession
from gloveport.host.modules.result import ModuleResult
from gloveport.permissions import Packages

from .registry import Registry

Run = Callable[..., list[ModuleResult]]


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    made.npm("hello", "1.0.0", "module.exports = {hello: (n) => `hello ${n}`, version: '1.0.0'}")
    made.npm("hello", "1.2.0", "module.exports = {hello: (n) => `hello ${n}`, version: '1.2.0'}")
    made.npm("@team/greet", "2.0.0", "export const greet = (n) => `greet ${n}`", type="module")
    made.npm("outer", "1.0.0", "module.exports = require('hello').hello('outer')", dependencies={"hello": "^1.0.0"})
    made.jsr("@std/sums", "0.3.1", "export const sum = (...n: number[]): number => n.reduce((a, b) => a + b, 0);")
    made.files["/mods/a.ts"] = b"import { b } from './b.ts'; export const a: number = b + 1;"
    made.files["/mods/b.ts"] = b"export const b: number = 1;"
    made.files["/mods/data.json"] = b'{"secret": 1}'
    yield made
    made.close()


@pytest.fixture
def packages(registry: Registry, tmp_path: Path) -> Callable[..., Packages]:
    """Rules for those registries and a cache of its own; `http://` URLs of the registry's files are allowed unless told otherwise."""

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
def run() -> Run:
    """Runs sources one after another in one session."""

    def go(allowed: bool | Packages, *sources: str, **options: Any) -> list[ModuleResult]:
        async def main() -> list[ModuleResult]:
            async with TypeScriptSandboxSession(allow_package_imports=allowed, **options) as session:
                return [await session.run_module(source) for source in sources]

        return anyio.run(main)

    return go
