"""Machines of Debian, made by root and by an ordinary user of the host, that install packages."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gloveport import Sandbox

HERE = Path(__file__).parent
USER = "54322"  # an id that nothing else has
PYTHON = "/usr/bin/python3"
POSTINST = """#!/bin/sh
set -e
adduser() { grep -q ^greeter: /etc/passwd || echo greeter:x:640:640::/nonexistent:/usr/sbin/nologin >> /etc/passwd; }
adduser
id -un > /var/lib/greeter
chown greeter:root /var/lib/greeter
chmod 640 /var/lib/greeter
"""


@pytest.fixture
def repository(tmp_path):
    """With a package whose script makes a user, and gives it a file."""
    tree, folder = tmp_path / "greeter", tmp_path / "repository"
    for part in ("DEBIAN", "usr/bin"):
        (tree / part).mkdir(parents=True)
    folder.mkdir()
    (tree / "DEBIAN/control").write_text(
        "Package: greeter\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <nobody@example.invalid>\nDescription: test\n"
    )
    (tree / "DEBIAN/postinst").write_text(POSTINST)
    (tree / "usr/bin/greet").write_text("#!/bin/sh\necho hello\n")
    for name in ("DEBIAN/postinst", "usr/bin/greet"):
        (tree / name).chmod(0o755)
    package = folder / "greeter.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, package], check=True, stdout=subprocess.DEVNULL)
    control = (tree / "DEBIAN/control").read_text()
    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    (folder / "Packages").write_text(
        f"{control}Filename: ./{package.name}\nSize: {package.stat().st_size}\nSHA256: {digest}\n"
    )
    return folder


def check(said, owner):
    if said["found"]["net"] != "rules":
        pytest.skip("machines have no network on this host")
    assert said["plain"].split() == ["1000", "user", "user"]
    assert said["refused"] != 0
    assert said["installed"][0] == 0, said["installed"][1]
    assert said["log"] == ["allowed", "blocked"]
    shown = f"hello\ninstall ok installed {owner}\nroot\n"
    assert (said["before"], said["after"], said["twin"]) == (shown, shown, shown)
    assert said["template"] == "1000\nhello\n"
    assert said["left"] == []


@pytest.fixture(autouse=True)
def needs(state):
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip("needs apt-get and dpkg-deb")
    if Sandbox.capabilities().net != "rules":
        pytest.skip("machines have no network on this host")


@pytest.mark.registry
@pytest.mark.timeout(900)
@pytest.mark.root
def test_of_root(state, repository, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs to be root")
    Sandbox.create(image="debian").kill()  # in the state directory of all tests, where it may be already
    shutil.copytree(state / "images", tmp_path / "state" / "images")
    (tmp_path / "state").chmod(0o700)
    (tmp_path / "state" / "layers").mkdir()
    for layer in os.listdir(state / "layers"):  # machines do not change them
        if not layer.startswith("."):
            (tmp_path / "state" / "layers" / layer).mkdir()
            subprocess.run(["cp", "-al", f"{state}/layers/{layer}", f"{tmp_path}/state/layers/"], check=True)
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")}
    steps = [sys.executable, HERE / "debian_steps.py", tmp_path / "state", repository]
    done = subprocess.run(steps, capture_output=True, text=True, env=environment, timeout=800, check=False)
    assert done.returncode == 0, done.stderr
    check(json.loads(done.stdout), "greeter")


@pytest.mark.registry
@pytest.mark.timeout(900)
def test_of_an_ordinary_user(repository):
    """All of its files are that user's: what gives one away is told that it did."""
    if os.geteuid() != 0:
        pytest.skip("becomes another user")
    version = subprocess.run(
        [PYTHON, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=False
    )
    if version.stdout.split() != [str(number) for number in sys.version_info[:2]]:
        pytest.skip("needs a Python that everybody may run, of this version")
    folder = Path(tempfile.mkdtemp(prefix="gloveport-test-"))
    try:
        library = folder / "library"
        shutil.copytree(
            HERE.parents[1] / "src/gloveport", library / "gloveport", ignore=shutil.ignore_patterns("*.wasm")
        )
        for name in ("msgspec", "h11", "anyio", "idna", "typing_extensions"):
            found = Path(importlib.util.find_spec(name).origin)
            if found.name == "__init__.py":
                shutil.copytree(found.parent, library / name)
            else:
                shutil.copy(found, library)
        shutil.copy(HERE / "debian_steps.py", library)
        shutil.copytree(repository, folder / "repository")
        (folder / "own").mkdir()
        subprocess.run(["chown", f"{USER}:{USER}", folder / "own"], check=True)
        subprocess.run(["chmod", "-R", "go+rX", folder], check=True)
        become = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", PYTHON, "-s"]
        proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
        environment = {
            **proxies,
            "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
            "PYTHONPATH": str(library),
            "HOME": str(folder / "own"),
        }
        steps = [*become, library / "debian_steps.py", folder / "own/state", folder / "repository"]
        done = subprocess.run(steps, capture_output=True, text=True, env=environment, cwd="/", timeout=800, check=False)
        assert done.returncode == 0, done.stderr
        check(json.loads(done.stdout), "root")
    finally:
        subprocess.run(["rm", "-rf", folder], check=True)
