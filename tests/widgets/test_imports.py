# ruff: noqa: E501, because sources of widgets are long lines
"""What a widget may import, and that nothing of any file or network comes into a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from gloveport.engines.builder import Answer
from gloveport.engines.builder.client import NATIVE
from gloveport.errors import WidgetError

SECRET = "a-secret-of-the-host-5f1e"
USE = "import x from {!r};\nexport default () => <p>{{JSON.stringify(x)}}</p>"


@pytest.fixture
def secrets(tmp_path):
    """Files of the host that everybody may read, in every form that a builder knows, and a link to each."""
    folder = tmp_path / "open"
    folder.mkdir()
    for name, text in {
        "s.json": f'{{"a": "{SECRET}"}}',
        "s.js": f"export default {SECRET!r}",
        "s.css": f".a {{ content: {SECRET!r} }}",
        "s.svg": f"<svg><title>{SECRET}</title></svg>",
        "s.txt": SECRET,
        "package.json": f'{{"main": "s.js", "name": "{SECRET}"}}',
    }.items():
        (folder / name).write_text(text)
        (folder / f"link-{name}").symlink_to(folder / name)
    return folder


FORMS = [
    "{path}/s.json",
    "{path}/s.js",
    "{path}/s",
    "{path}/s.css",
    "{path}/s.svg",
    "{path}/s.txt",
    "{path}",
    "{path}/package.json",
    "{path}/link-s.json",
    "{path}/s.txt?raw",
    "{path}/s.js?url",
    "{path}/s.js#x",
    "file://{path}/s.json",
    "file:{path}/s.js",
    "/{path}/s.json",
    "{up}{path}/s.json",
    "./{up}{path}/s.js",
    "%2e%2e/%2e%2e/{up}{path}/s.js",
    "file://{encoded}/s.json",
    "{path}/./../open/s.json",
    "/proc/self/root{path}/s.json",
    "/proc/self/environ",
    "/etc/passwd",
    "{native}/react.js",
    "{native}/builder.js",
    "./builder.js",
    "./widget.tsx",
    "<stdin>",
    "",
    ".",
    "..",
]


@pytest.mark.parametrize("form", FORMS)
def test_no_file_of_the_host_can_be_imported(render, secrets, form):
    path = str(secrets)
    encoded = "".join(f"%{byte:02x}" if chr(byte) != "/" else "/" for byte in path.encode())
    specifier = form.format(path=path, up="../" * 20, encoded=encoded, native=NATIVE)
    with pytest.raises(WidgetError, match="cannot be imported") as caught:
        render(USE.format(specifier))
    assert (caught.value.line, caught.value.stage) == (1, "build")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        "import {path!r};\nexport default () => <p/>",
        "export * from {path!r};\nexport default () => <p/>",
        "const x = require({path!r});\nexport default () => <p>{{x.a}}</p>",
        "const x = require.resolve({path!r});\nexport default () => <p>{{x}}</p>",
        "const x = import({path!r});\nexport default () => <p>{{String(x)}}</p>",
        "import x from {path!r} with {{ type: 'json' }};\nexport default () => <p>{{x.a}}</p>",
        "import x from {path!r} with {{ type: 'text' }};\nexport default () => <p>{{x}}</p>",
        "import x = require({path!r});\nexport default () => <p>{{x.a}}</p>",
    ],
)
def test_in_no_kind_of_import(render, secrets, source):
    with pytest.raises(WidgetError, match="cannot be imported") as caught:
        render(source.format(path=f"{secrets}/s.json"))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        "export default () => <p>{{String(new URL({path!r}, 'file:///'))}}</p>",
        "export default () => <p style={{{{ background: 'url({path})' }}}}/>",
        "export default () => <style>{{'@import url({path}); p {{ background: url({path}) }}'}}</style>",
        "//# sourceMappingURL={path}\nexport default () => <p/>",
        "/// <reference path={path!r} />\nexport default () => <p/>",
        "/** @jsxImportSource react */\nexport default () => <p/>",
    ],
)
def test_text_that_names_a_file_stays_text(render, secrets, source):
    widget = render(source.format(path=f"{secrets}/s.css"))
    assert SECRET not in widget.html


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("const n = {path!r};\nexport default () => <p>{{require(n).a}}</p>", "not part of"),
        (
            "const n = {path!r};\nexport default () => {{ (globalThis as any).Deno.readTextFileSync(n) }}",
            "Deno is not|undefined",
        ),
        ("/** @jsxImportSource {path} */\nexport default () => <p/>", "cannot be imported"),
    ],
)
def test_nor_when_it_runs(render, secrets, source, text):
    with pytest.raises(WidgetError, match=text) as caught:
        render(source.format(path=f"{secrets}/s.json"))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("specifier", "text"),
    [
        ("recharts", "allow_package_imports"),
        ("@scope/name/deep", "allow_package_imports"),
        ("npm:lodash@4", "allow_package_imports"),
        ("jsr:@std/assert", "allow_package_imports"),
        ("http://127.0.0.1:8099/x.js?leak=1", "allow_package_imports"),
        ("https://esm.sh/lodash", "allow_package_imports"),
        ("https://esm.sh/lodash.css", "allow_package_imports"),
        ("node:fs", "Node.js"),
        ("fs", "allow_package_imports"),
        ("react/package.json", "allow_package_imports"),
        ("react-dom/server", "allow_package_imports"),
        ("data:text/javascript,export default 5", "one module"),
        ("data:application/json,{}", "one module"),
        ("data:text/css,p{color:red}", "one module"),
        ("blob:null/1", "one module"),
        ("tailwindcss", "@tailwindcss/vite"),
        ("x" * 5000, "cannot be imported"),
    ],
)
def test_what_is_refused_says_why(render, specifier, text):
    with pytest.raises(WidgetError, match=text) as caught:
        render(USE.format(specifier))
    assert caught.value.line == 1
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "specifier", ["react", "react-dom", "react-dom/client", "react/jsx-runtime", "react/jsx-dev-runtime"]
)
def test_react_is_there(render, specifier):
    assert render(f"import * as x from {specifier!r};\nexport default () => <p>{{Object.keys(x).length}}</p>").mounted


def test_the_application_can_give_modules(render):
    asked = []
    modules = {
        "greeting": Answer(
            name="greeting@1/index.ts",
            code="import { name } from './name.json';\nexport const text: string = `hi ${name}`",
            loader="ts",
        ),
        "./name.json": Answer(name="greeting@1/name.json", code='{"name": "you"}', loader="json"),
        "looks": Answer(name="looks@2/style.css", code=".greeting { color: rebeccapurple }", loader="css"),
    }

    async def resolve(specifier, importer, kind):
        asked.append((specifier, importer))
        if specifier not in modules:
            raise WidgetError(f"{specifier} is on no list")
        return modules[specifier]

    source = "import { text } from 'greeting';\nimport 'looks';\nexport default () => { if (text !== 'hi you') throw new Error(text); return <p>{text}</p> }"
    widget = render(source, packages_hook=resolve)
    assert sorted(asked) == [("./name.json", "greeting@1/index.ts"), ("greeting", ""), ("looks", "")]
    assert ".greeting" in widget.html
    with pytest.raises(WidgetError, match="lodash is on no list") as caught:
        render(
            "import { text } from 'greeting';\nimport x from 'lodash';\nexport default () => <p>{text}{x}</p>",
            packages_hook=resolve,
        )
    assert caught.value.line == 2


def test_an_error_in_a_module_of_the_application_has_the_line_of_its_use(render):
    async def resolve(specifier, importer, kind):
        return Answer(name="bad", code="export function fail() {\n\n\n  throw new Error('inside')\n}")

    source = "import { fail } from 'bad';\n\nexport default function W() {\n  fail();\n}"
    with pytest.raises(WidgetError, match="inside") as caught:
        render(source, packages_hook=resolve)
    assert (caught.value.line, caught.value.column) == (4, 3)


def test_the_secrets_can_be_read_here(secrets):
    """The control: only because nothing reads files does nothing of them come into a page."""
    assert all(SECRET in path.read_text() for path in secrets.iterdir())
    assert all(path.stat().st_mode & 0o044 for path in secrets.iterdir())
    assert Path(NATIVE / "react.js").exists()
