"""The program of machines: `native/box` as one static executable for this processor. `python -m buildsteps.box --all` makes all."""

from __future__ import annotations

import concurrent.futures
import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path

from . import cache

SOURCES = cache.ROOT / "native" / "box"
ARCHITECTURES = ("x86_64", "aarch64")
FLAGS = (
    *(
        "-std=c11",
        "-Os",
        "-D_GNU_SOURCE",
        "-DNDEBUG",
        "-g0",
        "-fno-sanitize=all",
        "-ffunction-sections",
        "-fdata-sections",
    ),
    *("-fno-asynchronous-unwind-tables", "-fno-unwind-tables"),
    *(
        "-Wall",
        "-Wextra",
        "-Wconversion",
        "-Wshadow",
        "-Wvla",
        "-Werror",
        "-fstack-protector-strong",
        "-ffile-prefix-map={sources}=box",
    ),
)
# The C library is compiled when it is linked, with these flags: its unwind tables would be 12 KB that nothing reads.
LINK = (
    "-fno-asynchronous-unwind-tables",
    "-fno-unwind-tables",
    "-static",
    "-s",
    "-Wl,--gc-sections",
    "-Wl,-z,noexecstack",
)


def sources() -> list[Path]:
    """Everything that is compiled, headers first."""
    return [*sorted(SOURCES.glob("*.h")), *sorted(SOURCES.glob("*.c"))]


def build(architecture: str | None = None) -> Path | None:
    """`_native/box-<arch>`, from cache when nothing changed; None on a system that is not Linux, or a processor we do not know."""
    architecture = architecture or platform.machine()
    if sys.platform != "linux" or architecture not in ARCHITECTURES:
        return None
    key = cache.digest([importlib.metadata.version("ziglang"), architecture, *FLAGS, *LINK, *sources()])
    made = cache.once("box", key, lambda work: _compile(work, architecture)) / "box"
    target = cache.OUTPUT / f"box-{architecture}"
    cache.write(target, made.read_bytes())
    target.chmod(0o755)
    return target


def _compile(work: Path, architecture: str) -> None:
    cache.say(f"compiling the program of machines for {architecture}")
    flags = [flag.format(sources=SOURCES) for flag in FLAGS]
    compiler = [sys.executable, "-m", "ziglang", "cc", "-target", f"{architecture}-linux-musl"]

    def unit(source: Path) -> Path:
        result = work / f"{source.stem}.o"
        _run([*compiler, *flags, "-c", str(source), "-o", str(result)])
        return result

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        objects = list(pool.map(unit, [path for path in sources() if path.suffix == ".c"]))
    _run([*compiler, *LINK, *map(str, objects), "-o", str(work / "box")])
    for path in objects:
        path.unlink()


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the program of machines does not compile:\n{done.stderr[-4000:]}")


if __name__ == "__main__":
    for name in ARCHITECTURES if "--all" in sys.argv[1:] else (None,):
        path = build(name)
        cache.say(f"{path} ({path.stat().st_size} bytes)" if path else "machines need Linux on x86_64 or aarch64")
