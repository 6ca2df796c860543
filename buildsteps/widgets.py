"""The parts that make widgets: the builder with esbuild's WebAssembly, the worker that mounts, and what every page carries."""

from __future__ import annotations

import json
import re
from pathlib import Path

from . import bundles, cache


def build() -> None:
    """`guest/builder` and `guest/widget` into `_native/`: `builder.js`, `esbuild.wasm`, `mount.js` with `mount-program.js`, `react.js`."""
    builder, widget = (cache.ROOT / "guest" / name for name in ("builder", "widget"))
    shared = [*sorted((cache.ROOT / "guest" / "shared").glob("*.ts"))]
    shared += [cache.ROOT / "guest" / "toolbox" / name for name in ("fence.ts", "position.ts")]
    program = bundles.as_text(bundles.bundle(builder / "main.ts", platform="deno", also=shared))
    cache.write(cache.OUTPUT / "builder.js", program.encode())
    # Not minified: React then is the one for development, which warns, and stacks have names.
    program = bundles.bundle(widget / "check.ts", platform="deno", also=shared).read_text("utf-8")
    cache.write(cache.OUTPUT / "mount-program.js", _as_function(program).encode())
    _copy(bundles.bundle(widget / "load.ts", platform="deno"), "mount.js")
    page = bundles.bundle(widget / "browser.tsx", platform="browser", minify=True).read_text("utf-8")
    cache.write(cache.OUTPUT / "react.js", _for_a_page(page).encode())
    _copy(_esbuild(builder), "esbuild.wasm")


def _copy(made: Path, name: str) -> None:
    cache.write(cache.OUTPUT / name, made.read_bytes())


def _as_function(module: str) -> str:
    """A bundled module as the body of a function of `builtin`, which gives modules of Node.js."""
    done = re.sub(r'^import\s+([^;"]+?)\s+from\s+"(node:[\w/]+)";$', _binding, module, flags=re.MULTILINE)
    done = done.replace("__deno_internal_createRequire(import.meta.url)", "builtin")
    left = re.search(r"^(import|export|await)\b.*|.*\bimport\.meta\b.*", done, re.MULTILINE)
    if left:
        raise RuntimeError(f"the program that mounts widgets is still a module: {left[0][:200]}")
    return f'"use strict";\n{done}'  # as a module is


def _binding(found: re.Match[str]) -> str:
    names, module = found[1], found[2]
    names = re.sub(r"(\w+)\s+as\s+(\w+)", r"\1: \2", names) if names.startswith("{") else names.removeprefix("* as ")
    return f'const {names} = builtin("{module}");'


def _for_a_page(module: str) -> str:
    """A bundled module without exports as the content of a `<script>`: its names are its own, and nothing in it ends the element."""
    if "</script" in module.lower() or "<!--" in module:
        raise RuntimeError("the bundle of React has a text that cannot stand in a page")
    return f'(()=>{{"use strict";\n{module}\n}})();\n'


def _esbuild(folder: Path) -> Path:
    """`esbuild.wasm` of the npm package in deno's cache, which has checked it against the lock file."""
    package = next(name for name in json.loads((folder / "deno.lock").read_text())["npm"] if name.startswith("esbuild"))
    name, _, version = package.rpartition("@")

    def take(work: Path) -> None:
        bundles.fetch(folder, "main.ts")
        found = next(bundles.packages().glob(f"*/{name}/{version}/esbuild.wasm"))
        (work / "esbuild.wasm").write_bytes(found.read_bytes())

    return cache.once("esbuild", cache.digest([package, folder / "deno.lock"]), take) / "esbuild.wasm"
