"""TypeScript and npm packages into single files, with `deno bundle` and a frozen lock file beside the entry."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from . import cache


def toolbox() -> None:
    """`guest/toolbox/main.ts` into `_native/toolbox.js`, when it is there."""
    entry = cache.ROOT / "guest" / "toolbox" / "main.ts"
    if entry.exists():
        made = bundle(entry, platform="deno", minify=True)
        cache.write(cache.OUTPUT / "toolbox.js", as_text(made).encode())


def decorators() -> None:
    """`guest/decorators` into `_native/decorators.js`: an expression whose call gives the compiler of decorators."""
    made = bundle(cache.ROOT / "guest" / "decorators" / "main.ts", platform="browser", minify=True)
    cache.write(cache.OUTPUT / "decorators.js", _as_expression(made.read_text("utf-8"), "", "return ").encode())


def v8(bootstrap_files: list[Path]) -> None:
    """`guest/v8` into `_native/v8.js`: the worker's program, and as texts in it those that it evaluates inside of a session's realm:
    `realm/main.ts`, and the guest's bootstrap files but those for `Intl`, which V8 has."""
    folder = cache.ROOT / "guest" / "v8"
    realm = bundle(folder / "realm" / "main.ts", platform="browser", minify=True, root=folder).read_text("utf-8")
    sources = [("realm", _as_expression(realm, "given", "return "))]
    sources += [(path.stem, path.read_text("utf-8")) for path in bootstrap_files if path.name < "50"]
    program = bundle(folder / "main.ts", platform="deno", minify=True, root=folder).read_text("utf-8")
    cache.write(cache.OUTPUT / "v8.js", f"const SOURCES = {json.dumps(sources)};\n{program}".encode())


def module() -> None:
    """`guest/module` into `_native/module.js`: the program of the workers that run modules."""
    folder = cache.ROOT / "guest" / "module"
    program = bundle(folder / "main.ts", platform="deno", minify=True, root=folder).read_text("utf-8")
    entry = cache.ROOT / "guest" / "react" / "worker.ts"
    react = bundle(entry, platform="browser", minify=True).read_text("utf-8")
    parts = re.findall(r'^  "(react[^"]*)":', entry.read_text("utf-8"), re.MULTILINE)
    cache.write(cache.OUTPUT / "module.js", f"const REACT = {json.dumps([react, parts])};\n{program}".encode())


def bootstrap(folder: Path) -> Path:
    """`NN_name.bundle/main.ts` (with deno.json and deno.lock) as one bootstrap file `NN_name.js`.

    The entry's default export is the `(native, primordials) => {...}` of a bootstrap file.
    """
    made = bundle(folder / "main.ts", platform="browser", minify=True)
    text = _as_expression(made.read_text(), "native, primordials")
    name = folder.name.removesuffix(".bundle") + ".js"

    def write(work: Path) -> None:
        (work / name).write_text(text)

    return cache.once("bootstrap", cache.digest([name, text]), write) / name


def data(folder: Path) -> list[Path]:
    """`NN_name.data/main.ts` run once. Each line that it prints is a JSON array, of keys and then a value, and becomes a bootstrap
    file that sets `primordials.name.key.key = value`: one by one, so that the guest's memory need not be large for it."""
    word = folder.name.removesuffix(".data").partition("_")[2]

    def make(work: Path) -> None:
        cache.say(f"collecting {word}")
        with cache.scratch(work) as home:  # some 300 MB unpacked, of which one is used
            lines = _deno(folder, ["run", "--quiet", "--no-prompt", "--frozen", "main.ts"], home).splitlines()
            _collect_licences(folder, work / "licences", home)
        for i, line in enumerate(lines):
            *path, last, value = (json.dumps(part, ensure_ascii=False) for part in json.loads(line))
            target = "".join(f"at = at[{key}] ??= {{}}; " for key in path)
            body = f"let at = primordials.{word} ??= {{}}; {target}at[{last}] = {value};"
            (work / f"{folder.stem}_{i:03}.js").write_text(f"(native, primordials) => {{ {body} }}\n")

    made = cache.once("data", _key(folder), make)
    files = sorted(made.glob("*.js"))
    _write_licences(files[0])
    return files


def _as_expression(module: str, parameters: str, give: str = "") -> str:
    """A bundled module with `export { x as default };` at its end, as a function that calls its default export."""
    head, _, tail = module.rstrip().rpartition("export")
    local = tail.strip().strip("{};").split(" as default")[0].strip()
    if " as default" not in tail or not local.replace("$", "_").isidentifier():
        raise RuntimeError("the bundle of a bootstrap file must have one export: its default")
    return f"({parameters}) => {{\n'use strict';\n{head}\n{give}{local}({parameters});\n}}\n"


def as_text(made: Path) -> str:
    """A bundled program without imports as a module that has it as a text: Deno reads every module with a parser of its own before V8
    does, which takes longer than all the rest (Deno 2.9.8; it keeps what it found in a cache, which jailed programs do not have)."""
    module = made.read_text("utf-8")
    left = re.search(r"(?:^|[;}])(?:import|export)\b[^;]{0,200}|\bfrom ?\"node:[^;]*", module, re.MULTILINE)
    if left:
        raise RuntimeError(f"{made} is still a module: {left[0][:200]}")
    text = json.dumps('"use strict";\n' + module.replace("import.meta.url", "here"))  # strict, as a module is
    return f"await new (async () => {{}}).constructor('here', {text})(import.meta.url);\n"


def bundle(
    entry: Path, *, platform: str, minify: bool = False, root: Path | None = None, also: Sequence[Path] = ()
) -> Path:
    """The bundle of `entry`; its folder (or `root`) holds `deno.json` (pinned npm versions) and `deno.lock` (frozen, with hashes).
    `also`: files of other folders that it imports."""
    folder = root or entry.parent
    key = cache.digest([_key(folder), str(entry.relative_to(folder)), platform, str(minify), *also])
    made = cache.once("bundle", key, lambda work: _bundle(entry, folder, platform, minify, work)) / "bundle.js"
    _write_licences(made)
    return made


def _key(folder: Path) -> str:
    shared = cache.ROOT / "guest" / "shared"
    files = (p for start in (folder, shared) for p in start.rglob("*"))
    inputs = sorted(p for p in files if p.is_file() and "node_modules" not in p.parts)
    deno = importlib.metadata.version("deno")
    return cache.digest([Path(__file__), deno, *(os.path.relpath(p, folder) for p in inputs), *inputs])


def _bundle(entry: Path, folder: Path, platform: str, minify: bool, work: Path) -> None:
    cache.say(f"bundling {folder.name}")
    command = ["bundle", "--quiet", "--frozen", "--platform", platform, "-o", str(work / "bundle.js")]
    command += ["--minify"] if minify else []
    _deno(folder, [*command, str(entry.relative_to(folder))])
    _collect_licences(folder, work / "licences", _home())


def fetch(folder: Path, entry: str) -> None:
    """Downloads what `entry` needs, checked against the lock file of its folder."""
    _deno(folder, ["cache", "--quiet", "--frozen", entry])


def packages() -> Path:
    """Where deno keeps npm packages: `<registry>/<name>/<version>` in it."""
    return _home() / "npm"


def _home() -> Path:
    return cache.directory() / "deno"


def _deno(folder: Path, arguments: list[str], home: Path | None = None) -> str:
    """What deno prints in `folder`, whose lock file it must not change. `home` is where it keeps what it downloads."""
    if not (folder / "deno.lock").exists():
        raise RuntimeError(f"{folder} needs a deno.lock: run `deno install` there once and commit it")
    environment = {**os.environ, "DENO_DIR": str(home or _home()), "DENO_NO_UPDATE_CHECK": "1"}
    environment.setdefault("DENO_TLS_CA_STORE", "mozilla,system")
    command = [str(deno_program()), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise RuntimeError(f"deno {arguments[0]} in {folder} failed:\n{done.stderr[-3000:]}")
    return done.stdout


def _collect_licences(folder: Path, target: Path, home: Path) -> None:
    """The licence of every npm package of the lock file, from deno's cache of packages (`npm/<registry>/<name>/<version>`)."""
    packages = home / "npm"
    for package in json.loads((folder / "deno.lock").read_text()).get("npm", {}):
        name, _, version = package.partition("_")[0].rpartition("@")  # "_..." names its peers
        found = sorted(
            f for f in packages.glob(f"*/{name}/{version}/*") if f.name.upper().startswith(("LICEN", "COPYING"))
        )
        if not found:
            raise RuntimeError(f"the npm package {name} {version} has no licence file: it cannot be bundled")
        target.mkdir(exist_ok=True)
        text = "\n".join(f.read_text(errors="replace").strip() for f in found)
        (target / f"{name.removeprefix('@').replace('/', '-')}.txt").write_text(f"{name} {version}\n\n{text}\n")


def _write_licences(made: Path) -> None:
    for file in sorted((made.parent / "licences").glob("*.txt")):
        cache.write(cache.OUTPUT / "licences" / file.name, file.read_bytes())


def deno_program() -> Path:
    """The program of the `deno` wheel, wherever that is installed. (The wheel's own helper does not look into the isolated
    environments that pip builds in; seen with deno 2.9.8.)"""
    for file in importlib.metadata.files("deno") or ():
        if file.name in ("deno", "deno.exe") and (found := Path(str(file.locate())).resolve()).is_file():
            return found
    raise RuntimeError("the package 'deno' is not installed, or has no program for this platform")
