"""The same for an ordinary user, who is nobody's root."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
USER = "54321"  # an id that nothing else has
PYTHON = "/usr/bin/python3"


@pytest.fixture
def place():
    """A directory of that user's, with what it needs: it cannot read the home of root."""
    folder = Path(tempfile.mkdtemp(prefix="gloveport-test-"))
    library = folder / "library"
    shutil.copytree(
        HERE.parents[2] / "src/gloveport", library / "gloveport", ignore=shutil.ignore_patterns("__pycache__", "*.wasm")
    )
    for name in ("msgspec", "h11", "anyio", "idna"):
        shutil.copytree(Path(importlib.util.find_spec(name).origin).parent, library / name)
    for path in (HERE / "box_ordinary.py", HERE.parents[1] / "box/client.py"):
        shutil.copy(path, library)
    (folder / "own").mkdir()
    subprocess.run(["chown", f"{USER}:{USER}", str(folder / "own")], check=True)
    subprocess.run(["chmod", "-R", "go+rX", str(folder)], check=True)
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_network_of_an_ordinary_user(place):
    version = subprocess.run(
        [PYTHON, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=False
    )
    if version.stdout.split() != [str(number) for number in sys.version_info[:2]]:
        pytest.skip("needs a Python that everybody may run, of this version")
    become = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(place / "library"), "HOME": str(place / "own")}
    command = [*become, PYTHON, "-s", str(place / "library/box_ordinary.py"), str(place / "own/state")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/", timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    if "problem" in said:
        pytest.skip(said["problem"])
    assert said["allowed"][:2] == [0, "hello"]
    assert said["refused"][1].startswith("blocked by policy: ")
    assert said["port"][0] == 7
    assert said["after"][:2] == [0, "hello"]
    assert [verdict for verdict, _ in said["rows"]] == ["allowed", "blocked", "blocked", "allowed"]
