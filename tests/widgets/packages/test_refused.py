# ruff: noqa: E501, because sources of widgets and packages are long lines
"""Packages in widgets: what is refused, and where; rules, versions and limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from gloveport import TypeScriptSandboxSession
from gloveport.engines.builder import Builder, client
from gloveport.errors import WidgetError
from gloveport.host.widgets import packages as widget_packages
from tests.packages.registry import Registry

from .conftest import Render
from .sources import SHOW


def test_refusals_have_the_line_of_the_widget_s_import(render: Render, registry: Registry):
    registry.npm("good", "1.0.0", "module.exports = 1")
    registry.npm("needs-node", "1.0.0", "import fs from 'fs'; export default fs", type="module")
    registry.npm(
        "outer", "1.0.0", "export { default } from 'needs-node'", type="module", dependencies={"needs-node": "1"}
    )
    registry.npm("phantom", "1.0.0", "export { default } from 'not-declared'", type="module")
    registry.npm("picture", "1.0.0", "", main="x.png", parts={"x.png": "no picture"})
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
        "fs": "a package of that name would be 'npm:fs'",
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
    registry.npm(
        "late", "1.0.0", "export default import('not-declared').catch(() => 1) instanceof Promise", type="module"
    )
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
        SHOW.format("outer"),
        "\n" + SHOW.format("inner"),
        SHOW.format("jsr:@std/sums"),
        allowed=packages(allow=["npm:*"], deny=["npm:inner"]),
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


def test_a_lock_that_cannot_be_read(render: Render, packages: Any, registry: Registry, tmp_path: Path):
    registry.npm("leaf", "1.0.0", "module.exports = 1")
    assert render(SHOW.format("leaf")).mounted
    lock = tmp_path / "cache" / "deno.lock"
    content = lock.read_bytes()
    lock.write_bytes(content[: len(content) // 2])
    broken = render(SHOW.format("leaf") + "//", allowed=packages(offline=True))
    assert isinstance(broken, WidgetError)
    lock.write_bytes(content)
    assert render(SHOW.format("leaf") + "//", allowed=packages(offline=True)).mounted


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
        registry.npm(f"has{count}", "1.0.0", code, parts=files)
    few, many = render(SHOW.format("has3"), SHOW.format("has9"))
    assert few.mounted
    assert "more than 6 imports" in str(many)
