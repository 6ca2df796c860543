"""Attacks on machines, of `boxes/`: with both drivers, as whoever runs the tests and as an ordinary user; from root and from a user in it.

A driver and a user of the host are one run of `boxes/runner.py`, as a program, whose answers the tests compare with what each case says.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import gloveport
from gloveport.machines.images.trees import remove_tree

from ..gvisor.conftest import fetched
from .boxes import runner

FOLDER = Path(__file__).parent / "boxes"
ORDINARY = 64_323
PYTHON = "/usr/bin/python3"
FIELDS = {"expect", "works", "outside", "other", "users", "drivers", "limits", "as", "machine", "where", "needs"}
NATIVE = shutil.ignore_patterns("__pycache__", "*.wasm", "*.js", "guest*", "licences")
WORLDS = [(driver, who) for driver in ("namespace", "gvisor") for who in ("tests", "ordinary")]
CASES = [
    pytest.param(driver, who, user, name, id=f"{driver}-{who}-{user}-{name}")
    for driver, who in WORLDS
    for name, (head, _) in runner.CASES.items()
    for user in ("user", "root")
    if runner.meant(head, driver, user) and (who, head.get("where")) != ("ordinary", "root")
]


def provided(home):
    """A copy of the package where an ordinary user may read it, with what it imports."""
    shutil.copytree(Path(gloveport.__file__).parent, home / "gloveport", ignore=NATIVE)
    shutil.copytree(FOLDER, home / "boxes", ignore=NATIVE)
    for name in ("anyio", "idna", "sniffio", "typing_extensions.py", "msgspec"):
        for place in (path for path in sys.path if path.endswith("site-packages")):
            found = Path(place) / name
            if found.is_dir():
                shutil.copytree(found, home / name, dirs_exist_ok=True)
            elif found.is_file():
                shutil.copy(found, home)
    subprocess.run(["chmod", "-R", "a+rX", home], check=True)


@functools.cache
def world(driver, who):
    """What was said, in one run of all of them."""
    if not sys.platform.startswith("linux"):
        return {"skipped": "machines need Linux"}
    if who == "ordinary" and (os.geteuid() != 0 or not os.path.exists(PYTHON) or shutil.which("setpriv") is None):
        return {"skipped": "needs to be root, setpriv and a system Python to be somebody else"}
    home = Path(tempfile.mkdtemp(prefix="gloveport-boxes-"))
    try:
        home.chmod(0o755)
        own = home / "own"
        own.mkdir(0o700)
        environment = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(own)}
        if driver == "gvisor":
            found = os.environ.get("GLOVEPORT_RUNSC") or shutil.which("runsc") or fetched()
            environment["GLOVEPORT_RUNSC"] = str(shutil.copy(found, home / "runsc"))
        if who == "ordinary":
            provided(home)
            os.chown(own, ORDINARY, ORDINARY)
            switch = ("setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups")
            program, environment["PYTHONPATH"] = (*switch, PYTHON, str(home / "boxes/runner.py")), str(home)
        else:
            path = os.pathsep.join((str(Path(gloveport.__file__).parents[1]), *filter(None, sys.path)))
            program, environment["PYTHONPATH"] = (sys.executable, str(FOLDER / "runner.py")), path
        done = subprocess.run(
            [*program, driver, str(own)],
            env=environment,
            cwd=own,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        if "No module named" in done.stderr and "msgspec" in done.stderr:
            return {"skipped": "this system's Python cannot load msgspec of the tests' one"}
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout) | {"processes": left(home)}
    finally:
        remove_tree(home)


def left(folder):
    """Processes that name this folder."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                line = Path(entry.path, "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(folder) in line:
                found.append(line.replace(b"\0", b" ").decode(errors="replace"))
    return found


def said(driver, who):
    told = world(driver, who)
    if "skipped" in told:
        pytest.skip(told["skipped"])
    return told


def wanted(expect, driver, user):
    """What a case says of a driver and a user, or of either."""
    if isinstance(expect, str):
        return expect
    return next(expect[key] for key in (f"{driver}/{user}", driver, user) if key in expect)


@pytest.mark.timeout(420)
@pytest.mark.parametrize(("driver", "who", "user", "name"), CASES)
def test_attack(driver, who, user, name):
    told = said(driver, who)
    head, found = runner.CASES[name][0], told[user]["said"].get(name, {})
    if told["capabilities"]["limits"].get(head.get("needs")) in ("none", "per_process"):
        pytest.skip("nobody counts it here, which the capabilities say")
    as_ordinary = who == "ordinary" or os.geteuid() != 0
    expect = head["expect"]
    if as_ordinary and isinstance(expect, dict) and f"{driver}/ordinary" in expect:
        expect = expect[f"{driver}/ordinary"]
    assert found.get("attack") == wanted(expect, driver, user), found
    for field, key in (("works", "control"), ("other", "other")):
        if field in head:
            assert found.get(key) == head[field], found
    assert found.get("well", True)
    outside = head.get("outside")
    if isinstance(outside, dict):
        outside = outside.get(driver)
    if outside is not None and not (as_ordinary and head.get("as") == "root"):
        assert told["outside"][name] in ([outside] if isinstance(outside, str) else outside)


@pytest.mark.parametrize(("driver", "who"), WORLDS)
def test_what_was_attacked_is_unharmed(driver, who):
    told = said(driver, who)
    for user in ("user", "root"):
        assert told[user]["well"] == {"own": True, "other": True, "host": True}
        assert (told[user]["came"], told[user]["leaked"], told[user]["stderr"]) == (0, False, "")
    assert (told["left"], told["processes"]) == ([], [])


def test_each_has_a_control():
    assert len(runner.CASES) >= 90
    for name, (head, code) in runner.CASES.items():
        assert set(head) <= FIELDS, name
        assert head.keys() & {"works", "outside", "other"}, name
        assert ("works" in head) == ("def control(" in code) and ("other" in head) == ("def other(" in code), name
