# ruff: noqa: E501, because sources of widgets and packages are long lines
"""Packages in widgets: JSR packages, and modules by their URLs."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.packages.registry import Registry

from .conftest import Render
from .sources import SHOW


@pytest.fixture
def remote(registry: Registry) -> Registry:
    registry.npm("leaf", "1.0.0", "module.exports = 'leaf'")
    registry.npm("react", "18.0.0", "throw new Error('another React')")
    registry.jsr("@std/base", "0.1.0", "export const base: number = 40;")
    registry.jsr(
        "@std/sums",
        "0.3.1",
        "import { two } from './two.ts'; import { base } from 'jsr:@std/base@^0.1.0'; export const sum = (): number => base + two;",
        parts={"two.ts": "export const two: number = 2;"},
    )
    registry.files["/mods/a.ts"] = (
        b"import { b } from './b.ts'; import l from 'npm:leaf@1'; export default [b as number, l];"
    )
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
        "jsr": (
            "/jsr/@std/sums/0.3.1/two.ts",
            "import { sum } from 'jsr:@std/sums';\nexport default () => <p>{sum()}</p>",
        ),
        "version": (
            "/jsr/@std/sums/0.3.1_meta.json",
            "import { sum } from 'jsr:@std/sums';\nexport default () => <p>{sum()}</p>",
        ),
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
