# ruff: noqa: E501, because sources of widgets and packages are long lines
"""Packages in widgets: whatever a package, a lock or a link says, no file but those of packages is read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gloveport.errors import WidgetError
from gloveport.host.packages.files import CacheFiles
from tests.packages.registry import Registry

from .conftest import Render
from .sources import SHOW

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
    "exports with a pattern": {
        "exports": {"./*": "./*", ".": "./index.js"},
        "code": f"import x from 'evil/{UP}secret.js'; export default x",
    },
    "imports": {"imports": {"#x": f"./{UP}secret.js"}, "code": "import x from '#x'; export default x"},
    "imports of a file": {
        "imports": {"#x": "file://{folder}/secret.js"},
        "code": "import x from '#x'; export default x",
    },
    "relative": {"code": f"import x from './{UP}secret.js'; export default x"},
    "required": {"code": f"module.exports = require('./{UP}secret.js')"},
    "data": {"code": f"import x from '{UP}secret.json'; export default x.a"},
    "encoded": {"code": f"import x from './{UP.replace('..', '%2e%2e')}secret.js'; export default x"},
    "backslashes": {
        "code": "import x from '.{up}secret.js'; export default x".replace("{up}", "\\\\..\\\\.." * 4 + "\\\\")
    },
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
        registry.npm(f"evil{number}", "1.0.0", code, parts=files, **fields)
    allowed = packages(cache=str(secrets / "cache"))
    sources = [SHOW.format(f"evil{number}") for number in range(len(WAYS))]
    registry.npm(
        "honest", "1.0.0", "export { default } from './lib/../own.js'", parts={"own.js": "export default 'own'"}
    )
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
    registry.npm(
        "linked", "1.0.0", "export { default } from './lib/a.js'", parts={"lib/a.js": f"export default {SECRET!r}"}
    )
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
    registry.npm("pipe", "1.0.0", "export { default } from './a.js'", parts={"a.js": "export default 1"})
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
        *(
            ("..", "secret.js"),
            ("npm", "..", "..", "secret.js"),
            ("npm", "../..", "secret.js"),
            ("gen", "x.js"),
            ("npm",),
        ),
        *(("npm", ""), ("npm", "."), ("", "secret.js"), ("npm", "a\0b"), ("npm", "x.js", "y.js")),
    ],
)
def test_files_of_the_cache_alone(secrets: Path, parts: tuple[str, ...]):
    for folder in ("npm", "gen"):
        (secrets / folder).mkdir()
        (secrets / folder / "x.js").write_text("there")
    (secrets / "npm" / "link.js").symlink_to("x.js")
    (secrets / "npm" / "link").symlink_to(".")
    files = CacheFiles(secrets)
    assert files.is_file("npm", "x.js") and not files.is_file("npm", "link.js")
    assert files.is_directory("npm") is False and not files.is_directory("npm", "link")
    assert files.read("npm", "link.js", most=5) is None
    assert files.read("npm", "x.js", most=5) == b"there"
    assert files.read(*parts, most=1000) is None
    assert not files.is_file(*parts) and (parts in [("npm", "."), ("npm", "")] or not files.is_directory(*parts))
