"""The kit for drivers, run for gVisor: as whoever runs the tests, and as an ordinary user with Debian's Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import gloveport
from gloveport.machines.gvisor.driver import GvisorDriver
from gloveport.machines.home import state_root
from gloveport.machines.images.host import host_image
from gloveport.machines.images.trees import remove_tree
from gloveport.testing import DriverSuite

from .conftest import keepers_alive

ORDINARY = 64_322
PYTHON = "/usr/bin/python3"


class TestGvisorDriver(DriverSuite):
    @pytest.fixture
    def driver(self):
        return GvisorDriver()

    @pytest.fixture
    def root(self, tmp_path):
        root = state_root(tmp_path / "state")
        yield root
        assert keepers_alive(root) == []
        remove_tree(root)

    @pytest.fixture
    def image(self, root):
        return host_image(root)


def test_as_an_ordinary_user(runsc):
    if os.geteuid() != 0:
        pytest.skip("the tests run as an ordinary user already")
    if not os.path.exists(PYTHON) or shutil.which("setpriv") is None:
        pytest.skip("needs setpriv and a system Python")
    home = Path(tempfile.mkdtemp(prefix="gloveport-user-"))
    try:
        shutil.copytree(
            Path(gloveport.__file__).parent,
            home / "gloveport",
            ignore=shutil.ignore_patterns("__pycache__", "*.wasm", "*.js"),
        )
        shutil.copy(runsc, home / "runsc")
        shutil.copy(Path(__file__).with_name("suite_ordinary.py"), home)
        subprocess.run(["chmod", "-R", "a+rX", home], check=True)
        (home / "own").mkdir()
        os.chown(home / "own", ORDINARY, ORDINARY)
        # Debian's Python finds no other packages: those of this one are for another release, but for those without C.
        site = [path for path in sys.path if path.endswith("site-packages")]
        for name in ("anyio", "idna", "sniffio", "typing_extensions.py", "msgspec"):
            for place in site:
                if (Path(place) / name).is_dir():
                    shutil.copytree(Path(place) / name, home / name, dirs_exist_ok=True)
                elif (Path(place) / name).is_file():
                    shutil.copy(Path(place) / name, home)
        subprocess.run(["chmod", "-R", "a+rX", home], check=True)
        done = subprocess.run(
            [
                "setpriv",
                f"--reuid={ORDINARY}",
                f"--regid={ORDINARY}",
                "--clear-groups",
                PYTHON,
                "suite_ordinary.py",
                home / "own" / "state",
            ],
            cwd=home,
            env={
                "PATH": "/usr/bin:/bin",
                "PYTHONPATH": str(home),
                "GLOVEPORT_RUNSC": str(home / "runsc"),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            capture_output=True,
            text=True,
            timeout=110,
        )
        if "No module named" in done.stderr and "msgspec" in done.stderr:
            pytest.skip("this system's Python cannot load msgspec of the tests' one")
        assert done.returncode == 0, done.stderr[-2000:]
        told = json.loads(done.stdout)
        assert told["wrong"] == {}, "\n".join(told["wrong"].values())
        assert told["left"] == [] and keepers_alive(home) == []
        assert (told["found"]["memory_pause"], told["found"]["fork"]) == ("disk", "memory")
    finally:
        remove_tree(home)
