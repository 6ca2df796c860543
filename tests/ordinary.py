"""Tests that a test runs again as an ordinary user: with the interpreter and the packages of this run, bound to where such a user can
read them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest

import gloveport

__all__ = ("home_of_ordinary", "run_tests_as_ordinary")

ORDINARY = 64_323
PROJECT = Path(__file__).parents[1]
BIND_AND_BECOME = """
set -e
while [ "$1" != -- ]; do mkdir "$2"; mount --bind "$1" "$2"; shift 2; done
shift
exec "$@"
"""


@contextlib.contextmanager
def home_of_ordinary() -> Iterator[Path]:
    """A folder that everybody can look into, with `own`, which is the user's. Skips where nobody can become one."""
    if os.geteuid() != 0:
        pytest.skip("the tests run as an ordinary user already")
    for program in ("setpriv", "unshare", "mount"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    folder = Path(tempfile.mkdtemp(prefix="gloveport-ordinary-"))
    try:
        folder.chmod(0o755)
        (folder / "own").mkdir()
        os.chown(folder / "own", ORDINARY, ORDINARY)
        yield folder
    finally:
        subprocess.run(["rm", "-rf", "--one-file-system", folder], check=True)


def run_tests_as_ordinary(home: Path, *tests: str, timeout: float = 600, **environment: str) -> dict[str, str]:
    """What became of each of `tests` (paths below the project): `passed`, or what was said of it."""
    packages = Path(pytest.__file__).parents[1]
    bound = {
        Path(sys.base_prefix): home / "python",
        packages: home / "packages",
        Path(gloveport.__file__).parents[1]: home / "source",
        PROJECT: home / "project",
    }
    interpreter = home / "python" / Path(sys.executable).resolve().relative_to(Path(sys.base_prefix).resolve())
    report = home / "own" / "report.xml"
    done = subprocess.run(
        [
            *("unshare", "-m", "sh", "-c", BIND_AND_BECOME, "sh"),
            *(str(part) for pair in bound.items() for part in pair),
            *("--", "setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups"),
            *(interpreter, "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={report}"),
            *(f"--basetemp={home}/own/tests", *(str(home / "project" / test) for test in tests)),
        ],
        cwd=home / "own",
        env={
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": f"{home}/source:{home}/packages",
            "PYTHONDONTWRITEBYTECODE": "1",
            "LD_LIBRARY_PATH": f"{home}/python/lib",  # of an interpreter that is a shared library, not the system's of that name
            "HOME": f"{home}/own",
            "TMPDIR": f"{home}/own",
            **environment,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert report.exists(), done.stdout[-4000:]
    return {
        f"{case.get('classname')}::{case.get('name')}": f"{case[0].tag}: {case[0].text}" if len(case) else "passed"
        for case in xml.etree.ElementTree.parse(report).iter("testcase")
    }
