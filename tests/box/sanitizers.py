"""The program of machines with AddressSanitizer and UndefinedBehaviorSanitizer in it, made by a compiler of the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from buildsteps.box import SOURCES

FLAGS = (
    "-std=gnu11",
    "-g",
    "-O1",
    "-D_GNU_SOURCE",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-Wno-unknown-pragmas",
)
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=99",
    "UBSAN_OPTIONS": "print_stacktrace=1:exitcode=99",
}


def find_compiler(folder: Path) -> str:
    """Skips the test where there is none."""
    (folder / "x.c").write_text("int main(void) { return 0; }\n")
    for name in ("gcc", "clang"):
        if not shutil.which(name):
            continue
        done = subprocess.run([name, *FLAGS, "x.c", "-o", "x"], cwd=folder, capture_output=True, check=False)
        if done.returncode == 0 and subprocess.run([folder / "x"], check=False).returncode == 0:
            return name
    pytest.skip("no compiler with sanitizers")


def compile_with(compiler: str, *arguments: str | Path) -> None:
    done = subprocess.run([compiler, *FLAGS, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def compile_program(compiler: str, to: Path, *more: str | Path) -> None:
    compile_with(compiler, *more, *(path for path in SOURCES.glob("*.c") if path.name != "format.c"), "-o", to)


def run_with_options(*command: str | os.PathLike[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **OPTIONS}, check=False)


def complaint(log: Path) -> str:
    """The end of what sanitizers wrote there; empty: nothing."""
    said = log.read_text(errors="replace") if log.exists() else ""
    return said[-4000:] if "Sanitizer" in said or "runtime error" in said else ""
