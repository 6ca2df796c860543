"""No import reaches what it may not: a service on loopback that hears of nothing, and files that stay where they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from .registry import Registry

SECRET = "only-for-the-service"
IN_DATA = "data:text/javascript,"
URL_OF = f"{json.dumps(IN_DATA)} + encodeURIComponent"


@pytest.fixture
def service() -> Iterator[Registry]:
    """Something internal, with nothing to protect it but that it is on loopback."""
    made = Registry()
    for path in ("/x.js", "/x.js?leak=1", "/x.ts", "/x.tgz", "/x.css", "/x.wasm"):
        made.files[path] = f"export default '{SECRET}'".encode()
    made.files["/x.json"] = json.dumps({"secret": SECRET}).encode()
    yield made
    made.close()


def _number(host: str) -> str:
    return f"http://{host}:%P/x.js"


CASES: dict[str, str] = {
    "static": "import x from '%S/x.js'; x",
    "static with a query": "import x from '%S/x.js?leak=1'; x",
    "dynamic": "(await import('%S/x.js')).default",
    "dynamic, put together": "const u = ['%S', 'x.js'].join('/'); (await import(u)).default",
    "json": "import x from '%S/x.json' with { type: 'json' }; x",
    "json, dynamic": "(await import('%S/x.json', { with: { type: 'json' } })).default",
    "text": "(await import('%S/x.css', { with: { type: 'text' } })).default",
    "bytes": "(await import('%S/x.css', { with: { type: 'bytes' } })).default.length",
    "css": "import x from '%S/x.css' with { type: 'css' }; x",
    "wasm": "import * as x from '%S/x.wasm'; Object.keys(x)",
    "wasm, streamed": "await WebAssembly.compileStreaming(fetch('%S/x.wasm'))",
    "export from": "export { default as run } from '%S/x.js'",
    "export all": "export * from '%S/x.js'; export default () => 1",
    "in data:": f"(await import({json.dumps(IN_DATA)} + encodeURIComponent(\"export {{default}} from '%S/x.js'\"))).default",
    "dynamic in data:": f"(await import({json.dumps(IN_DATA)} + encodeURIComponent(\"export default await import('%S/x.js')\"))).default",
    "in blob:": "const u = URL.createObjectURL(new Blob([\"export {default} from '%S/x.js'\"], {type: 'text/javascript'}));"
    " (await import(u)).default",
    "import.meta.resolve": "(await import(import.meta.resolve('%S/x.js'))).default",
    "jsx import source": "/** @jsxImportSource %S */ export default () => JSON.stringify(<b/>)",
    "worker": "await new Promise((done) => { const w = new Worker('%S/x.js', {type: 'module'}); w.onerror = (e) => {"
    " e.preventDefault(); done(1) }; setTimeout(done, 500) })",
    "worker of data:": f"await new Promise((done) => {{ const w = new Worker({URL_OF}(\"import '%S/x.js'\"),"
    " {type: 'module'}); w.onerror = (e) => { e.preventDefault(); done(1) }; setTimeout(done, 500) })",
    "node worker": "const { Worker } = await import('node:worker_threads'); await new Promise((done) => {"
    " const w = new Worker(\"import('%S/x.js').catch(() => 0)\", {eval: true}); w.on('error', done); setTimeout(done, 500) })",
    "createRequire": "const { createRequire } = await import('node:module'); createRequire(import.meta.url)('%S/x.js')",
    "module.register": "const m = await import('node:module'); m.register('%S/x.js', import.meta.url); (await import('%S/x.js')).default",
    "vm module": "const vm = await import('node:vm'); const m = new vm.SourceTextModule(\"export {default} from '%S/x.js'\");"
    " await m.link((s) => import(s)); await m.evaluate(); m.namespace.default",
    "indirect eval": "await (0, eval)(\"import('%S/x.js')\")",
    "Function": "await new Function(\"return import('%S/x.js')\")()",
    "localhost": "import x from 'http://localhost:%P/x.js'; x",
    "localhost with a dot": "import x from 'http://localhost.:%P/x.js'; x",
    "mapped address": "import x from 'http://[::ffff:127.0.0.1]:%P/x.js'; x",
    "loopback, IPv6": "import x from 'http://[::1]:%P/x.js'; x",
    "decimal": f"import x from '{_number('2130706433')}'; x",
    "hexadecimal": f"import x from '{_number('0x7f000001')}'; x",
    "octal": f"import x from '{_number('0177.0.0.1')}'; x",
    "short": f"import x from '{_number('127.1')}'; x",
    "any address": f"import x from '{_number('0.0.0.0')}'; x",
    "user name": "import x from 'http://registry@127.0.0.1:%P/x.js'; x",
    "https": "import x from 'https://127.0.0.1:%P/x.js'; x",
    "metadata": "import x from 'http://169.254.169.254/latest/meta-data/'; x",
    "redirect": "import x from '%R/mods/away.ts'; x",
    "a module that imports it": "import x from '%R/mods/evil.ts'; x",
    "a package that imports it": "import x from 'evil'; await x",
    "a package that has it as a file": "import x from 'elsewhere'; x",
    "a dependency that is a URL": "import x from 'urldep'; x",
    "a jsr package that imports it": "import x from 'jsr:@std/evil'; await x()",
    "npm with a URL for a version": "import x from 'npm:hello@%S/x.tgz'; x",
    "file:": "import x from 'file:///etc/passwd' with { type: 'text' }; x",
    "file: dynamic": "(await import('file:///etc/hostname', { with: { type: 'text' } })).default",
    "relative": "import x from '../../../etc/passwd' with { type: 'text' }; x",
    "percent-encoded": "import x from './%2e%2e/%2e%2e/etc/passwd' with { type: 'text' }; x",
    "require of a file": "const { createRequire } = await import('node:module'); createRequire('file:///workspace/x')('/etc/passwd')",
}


@pytest.fixture
def hostile(registry: Registry, service: Registry) -> Registry:
    registry.redirects["/mods/away.ts"] = f"{service.url}/x.ts"
    registry.files["/mods/evil.ts"] = f"export {{default}} from '{service.url}/x.ts'".encode()
    registry.npm("evil", "1.0.0", f"module.exports = import('{service.url}/x.js')")
    registry.npm("elsewhere", "1.0.0", "module.exports = 1")
    packument = json.loads(registry.files["/npm/elsewhere"])
    packument["versions"]["1.0.0"]["dist"]["tarball"] = f"{service.url}/x.tgz"
    registry.files["/npm/elsewhere"] = json.dumps(packument).encode()
    registry.npm("urldep", "1.0.0", "module.exports = require('x')", dependencies={"x": f"{service.url}/x.tgz"})
    registry.jsr("@std/evil", "1.0.0", f"export default () => import('{service.url}/x.js');")
    return registry


@pytest.mark.parametrize("name", CASES)
def test_nothing_gets_out(run: Any, packages: Any, hostile: Registry, service: Registry, name: str):
    port = service.url.rpartition(":")[2]
    source = CASES[name].replace("%S", service.url).replace("%P", port).replace("%R", hostile.url)
    result, control = run(packages(), source, "import h from 'hello'; h.version")
    assert service.asked == []
    assert SECRET not in f"{result.value} {result.stdout}" and "root:" not in f"{result.value}"
    if not name.startswith(("worker", "node worker", "jsx")):
        assert not result.ok, result.value
    assert control.value == "1.2.0", control.error


@pytest.mark.parametrize(
    "name", ["static", "dynamic", "dynamic, put together", "in data:", "worker of data:", "a package that imports it"]
)
def test_a_network_gives_no_imports(run: Any, packages: Any, hostile: Registry, service: Registry, name: str):
    """A module that may connect to the service gets nothing from there by an import."""
    host = service.url.removeprefix("http://")
    source = CASES[name].replace("%S", service.url)
    result, control = run(
        packages(), source, f"await (await fetch('{service.url}/x.json')).json()", allow_network=[host]
    )
    assert SECRET not in f"{result.value} {result.stdout}"
    assert control.value == {"secret": SECRET}, control.error
    assert service.asked == ["/x.json"]


def test_the_service_is_there(run: Any, packages: Any, service: Registry):
    """What the cases try works where a rule names it."""
    allowed = packages(allow=[f"{service.url}/"])
    (result,) = run(allowed, f"import x from '{service.url}/x.ts'; x")
    assert result.value == SECRET, result.error
    assert service.asked == ["/x.ts"]


def test_one_application_does_not_see_what_another_one_fetched(
    run: Any, packages: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
):
    """Rules that differ have caches that differ; a computed specifier finds what its own rules let in."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    wide, narrow = packages(cache=None), packages(cache=None, allow=["npm:hello"])
    source = "const n = 'npm:' + '@team/greet'; (await import('data:text/javascript,export * from ' + JSON.stringify(n))).greet(1)"
    control, got = run(wide, "import { greet } from '@team/greet'; greet(1)", source)
    assert (control.value, got.value) == ("greet 1", "greet 1")
    (refused,) = run(narrow, source)
    assert not refused.ok
