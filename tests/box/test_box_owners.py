"""Boxes of one identity in which a change of owner says that it happened, so that packages can be installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.box.client import Connection
from tests.box.places import Place

CALLS = {
    "os.chown('f',33,33)": "chown",
    "os.lchown('f',33,33)": "lchown",
    "os.fchown(os.open('f',os.O_RDONLY),33,33)": "fchown",
    "os.chown('f',33,33,dir_fd=os.open('.',os.O_RDONLY))": "fchownat",
    "os.setgroups([4])": "setgroups",
    "os.setgid(33)": "setgid",
    "os.setuid(33)": "setuid",
    "os.setresgid(33,33,33)": "setresgid",
    "os.setresuid(33,33,33)": "setresuid",
    "os.setreuid(33,33)": "setreuid",
}


@pytest.fixture
def owner(place: Place, fresh: Callable[..., Path]) -> Callable[..., Path]:
    if not place.uid:
        pytest.skip("a box of root has real owners")
    return lambda **keys: fresh(map_uid=0, uid=0, gid=0, **keys)


@pytest.mark.parametrize("call", CALLS)
def test_changes_of_owner_say_that_they_happened(owner: Callable[..., Path], call: str) -> None:
    script = (
        f"import os; open('f','w').close()\n{call}\ni=os.stat('f'); print(i.st_uid, i.st_gid, os.getuid(), os.getgid())"
    )
    with Connection(owner(fake_owners=1)) as client:
        assert client.run("python3", "-c", script)["stdout"] == b"0 0 0 0\n"
    with Connection(owner()) as client:
        assert b"Error" in client.run("python3", "-c", script)["stderr"]


def test_it_gives_no_power(owner: Callable[..., Path]) -> None:
    with Connection(owner(fake_owners=1)) as client:
        assert client.run("mount", "-t", "tmpfs", "x", "/tmp")["exit_code"] != 0
        assert client.run("sh", "-c", "echo x > /usr/bin/x")["exit_code"] != 0


def test_it_is_for_boxes_of_one_identity(place: Place) -> None:
    if place.uid:
        pytest.skip("root's")
    done = place.start(place.directory(fake_owners=1))
    assert done.returncode == 1 and "fake_owners" in done.stderr


PREPARE = """
set -e
mkdir -p /var/lib/dpkg/info /var/lib/dpkg/updates /var/lib/dpkg/triggers /var/log/apt /var/cache/apt/archives/partial
mkdir -p /var/lib/apt/lists/partial /etc/apt/apt.conf.d /etc/apt/preferences.d /etc/dpkg/dpkg.cfg.d
: > /var/lib/dpkg/status; : > /var/lib/dpkg/available; : > /etc/apt/sources.list
echo 'APT::Sandbox::User "root";' > /etc/apt/apt.conf.d/box
echo 'www:x:33:33::/var/www:/bin/sh' >> /etc/passwd
echo 'www:x:33:' >> /etc/group
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("dpkg-deb") or not shutil.which("apt-get"), reason="needs root, dpkg and apt"
)
@pytest.mark.parametrize(
    "command", ["dpkg -i /workspace/x.deb", "apt-get install -y --no-install-recommends /workspace/x.deb"]
)
def test_packages_can_be_installed(owner: Callable[..., Path], tmp_path: Path, command: str) -> None:
    tree = tmp_path / "x"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "opt/x").mkdir(parents=True)
    (tree / "opt/x/file").write_text("content\n")
    os.chown(tree / "opt/x/file", 33, 33)
    (tree / "DEBIAN/control").write_text(
        "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n"
    )
    (tree / "DEBIAN/postinst").write_text("#!/bin/sh\nset -e\nchown www:www /opt/x\ntouch /opt/x/configured\n")
    (tree / "DEBIAN/postinst").chmod(0o755)
    subprocess.run(["dpkg-deb", "-b", str(tree), str(tmp_path / "x.deb")], check=True, capture_output=True)
    for fake in (1, 0):
        with Connection(owner(fake_owners=fake)) as client:
            assert client.sh(PREPARE)["exit_code"] == 0
            client.write("/workspace/x.deb", (tmp_path / "x.deb").read_bytes())
            done = client.sh(
                f"{command} && cat /opt/x/file && ls /opt/x/configured && dpkg -s x | grep Status",
                env=["DEBIAN_FRONTEND=noninteractive"],
            )
            assert (done["exit_code"] == 0) == bool(fake), done
            assert not fake or b"content\n/opt/x/configured\nStatus: install ok installed\n" in done["stdout"]
