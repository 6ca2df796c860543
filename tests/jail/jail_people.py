"""Whose processes a test starts: root's, an ordinary user's, or those of a machine that forbids namespaces."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[2] / "src"
TESTS = Path(__file__).parents[1]
ORDINARY_PYTHON = "/usr/bin/python3"
"""The virtual environment may lie where an ordinary user cannot read."""

_ORDINARY = ("setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", "--inh-caps=-all")
_NO_SYS_ADMIN = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-all")
_NO_NAMESPACES = (
    *("unshare", "-U", "-r", "sh", "-c"),
    # The limit belongs to the new user namespace; an empty bounding set takes its root's powers away.
    'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all "$@"',
    "sh",
)
_OWN_MOUNTS = ("unshare", "-m")


class Person:
    """Runs Python files with the package importable, as someone in particular."""

    def __init__(self, name: str, tree: Path) -> None:
        self.name = name
        self.tree = tree
        python = ORDINARY_PYTHON if name == "ordinary" else sys.executable
        prefix = {
            "root": (),
            "ordinary": _ORDINARY,
            "root without CAP_SYS_ADMIN": _NO_SYS_ADMIN,
            "nobody may make namespaces": _NO_NAMESPACES,
        }[name]
        self.command = [*prefix, python]

    def popen(self, script: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        path = [str(self.tree / p) for p in ("src", "tests/jail", "tests/workers")]
        environment = {
            "PYTHONPATH": os.pathsep.join([*path, *_dependencies(self.name)]),
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        }
        prefix = list(_OWN_MOUNTS) if options.pop("own_mounts", False) and os.geteuid() == 0 else []
        command = [*prefix, *self.command, str(self.tree / "tests" / script), *arguments]
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
        )

    def run(self, script: str, *arguments: str, **options: Any) -> Any:
        """The JSON that the script prints."""
        process = self.popen(script, *arguments, stderr=subprocess.PIPE, **options)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, f"{process.returncode}: {err}"
        return json.loads(out)


def _dependencies(name: str) -> list[str]:
    return [] if name == "ordinary" else [p for p in sys.path if p.endswith("site-packages")]


def readable_copy(target: Path) -> Path:
    """The package and the tests where every user can read them."""
    for name, origin in (("src", SOURCE), ("tests", TESTS)):
        shutil.copytree(origin, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["chmod", "-R", "a+rX", str(target)], check=True)
    return target


def people(*names: str) -> list[Any]:
    """Parameters for a test: those of `names` that this run can be."""
    root = os.geteuid() == 0
    if not root:  # then whoever runs the tests is the ordinary user
        return [n for n in names if n in ("root", "nobody may make namespaces")]
    missing = [n for n in ("ordinary",) if not (os.path.exists(ORDINARY_PYTHON) and shutil.which("setpriv"))]
    return [
        pytest.param(n, marks=pytest.mark.skip("needs setpriv and a system Python") if n in missing else ())
        for n in names
    ]
