"""Tests that others made, with the oldest Pydantic AI that is supported, each in an environment of its own.

Their packages bring plugins of pytest along, and one of them wants exactly that version: none of that belongs into the environment of
the other tests.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import gloveport

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PACKAGES = [
    "pydantic-ai-harness==0.62.0",  # wants pydantic-ai-slim 2.62.0
    "deepagents==0.6.12",  # the last one that langchain-tests 1.1.9 has the rules of
    "langchain-tests==1.1.9",
    "pytest-asyncio==1.5.0",
    "trio>=0.27,<1",
]


@pytest.fixture(scope="module")
def environment():
    """A Python that has those packages, kept between runs."""
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    wanted = [*PACKAGES, *needed]
    key = hashlib.sha256("\n".join([*wanted, sys.version]).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "gloveport", "tests")
    folder = cache / f"elsewhere-{key}"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "-q", *wanted], check=True)
        (folder / "ready").touch()
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A folder to import gloveport from, and nothing else."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "gloveport").symlink_to(Path(gloveport.__file__).parent)
    return folder


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("suite", "passed"),
    [
        ("elsewhere/suite_deepagents.py", 87),
        ("elsewhere/suite_harness.py", 2),
        ("test_workspace_backend.py", 180),
        ("test_machine_tools.py", 30),
    ],
)
def test_suite(environment, package, state, tmp_path, suite, passed):
    """`passed` is how many tests pass at least: none is lost in silence."""
    mode = "auto" if "deepagents" in suite else "strict"  # `auto` takes tests from anyio
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nasyncio_mode = {mode}\n")
    done = subprocess.run(
        [environment, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", tmp_path / "pytest.ini", "--rootdir", ROOT,
         "--confcutdir", HERE, HERE / suite],
        env={**os.environ, "PYTHONPATH": str(package), "GLOVEPORT_STATE": str(state)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=590,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    counted = re.search(r"(\d+) passed", done.stdout)
    assert counted is not None and int(counted[1]) >= passed, done.stdout[-500:]
    assert "failed" not in done.stdout.splitlines()[-1]
