"""The wasm guest: fetch QuickJS-ng, compile it with our glue, bake the initialised heap."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from . import bake, bundles, cache, fetch, patches

FORMAT = 1
"""Of the wire protocol and of images; a host refuses a guest of another format."""

NATIVE = cache.ROOT / "native" / "quickjs"
ENGINE_UNITS = ("libregexp.c", "libunicode.c", "dtoa.c")  # quickjs.c itself is included by guest.c
STACK_BYTES = 2 << 20  # of linear memory; the engine limits itself to less (STACK_LIMIT in entry.c)
FLAGS = (
    *("-target", "wasm32-wasi", "-mexec-model=reactor", "-mcpu=generic+bulk_memory+sign_ext+nontrapping_fptoint"),
    *("-O2", "-DNDEBUG", "-D_GNU_SOURCE", "-DQUICKJS_NG_BUILD", "-D_WASI_EMULATED_SIGNAL"),
    *("-fno-sanitize=all", "-g0", "-ffile-prefix-map={engine}=engine", "-ffile-prefix-map={native}=native"),
    *("-Wl,--export=__stack_pointer", f"-Wl,-z,stack-size={STACK_BYTES}", "-Wl,--strip-all"),
)


def build() -> None:
    """`_native/guest.wasm` and `guest.json`, from cache when nothing changed."""
    sources = sorted([*NATIVE.glob("*.c"), *NATIVE.glob("*.h")])
    zig = importlib.metadata.version("ziglang")
    compiled_key = cache.digest([fetch.QUICKJS.sha256, Path(patches.__file__), zig, *FLAGS, *ENGINE_UNITS, *sources])
    compiled = cache.once("compiled", compiled_key, _compile) / "guest.wasm"
    boot = bootstrap_files()
    baked_key = cache.digest([compiled_key, Path(bake.__file__), *boot])
    baked = cache.once("baked", baked_key, lambda work: _bake(compiled, boot, work)) / "guest.wasm"
    module = baked.read_bytes()
    description = {
        "format": FORMAT,
        "sha256": cache.hashlib.sha256(module).hexdigest(),
        "engine": f"{fetch.QUICKJS.project} {fetch.QUICKJS.version}",
    }
    cache.write(cache.OUTPUT / "guest.wasm", module)
    cache.write(cache.OUTPUT / "guest.json", json.dumps(description, indent=1).encode() + b"\n")
    _licences()


def bootstrap_files() -> list[Path]:
    """`native/quickjs/bootstrap/NN_name.js`, and what is made of `NN_name.bundle/` and `NN_name.data/` beside them, in name order."""
    folder = NATIVE / "bootstrap"
    files = [*folder.glob("*.js"), *(bundles.bootstrap(p) for p in sorted(folder.glob("*.bundle")))]
    files += [file for p in sorted(folder.glob("*.data")) for file in bundles.data(p)]
    return sorted(files, key=lambda path: path.name)


def _compile(work: Path) -> None:
    engine = work / "engine"
    shutil.copytree(fetch.sdist(fetch.QUICKJS) / "upstream-quickjs", engine)
    patches.apply(engine)
    cache.say("compiling the guest (half a minute)")
    flags = [flag.format(engine=engine, native=NATIVE) if "{" in flag else flag for flag in FLAGS]
    command = [sys.executable, "-m", "ziglang", "cc", *flags, f"-I{engine}", f"-I{NATIVE}", str(NATIVE / "guest.c")]
    command += [str(engine / unit) for unit in ENGINE_UNITS]
    done = subprocess.run([*command, "-o", str(work / "guest.wasm")], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the guest does not compile:\n{done.stderr[-4000:]}")
    shutil.rmtree(engine)


def _bake(compiled: Path, boot: list[Path], work: Path) -> None:
    cache.say("baking the guest's heap")
    (work / "guest.wasm").write_bytes(bake.bake(compiled.read_bytes(), boot))


def _licences() -> None:
    """The licences of everything that is inside of the module."""
    sdist = fetch.sdist(fetch.QUICKJS)
    header = re.match(r"/\*(.*?)\*/", (sdist / "upstream-quickjs" / "quickjs.h").read_text(), re.S)
    if header is None:
        raise RuntimeError("quickjs.h has no licence at its top any more")
    text = "\n".join(line.removeprefix(" *").removeprefix(" ") for line in header[1].splitlines()).strip() + "\n"
    cache.write(cache.OUTPUT / "licences" / "quickjs-ng.txt", text.encode())
    zig = Path(importlib.metadata.distribution("ziglang").locate_file("ziglang")).resolve()
    for name in ("LICENSE", "LICENSE-MIT"):
        cache.write(cache.OUTPUT / "licences" / f"wasi-libc-{name}.txt", (zig / "lib/libc/wasi" / name).read_bytes())
