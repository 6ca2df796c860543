"""Debian's packages as a layer."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gloveport.machines.images import debian
from gloveport.machines.images.layers import LayerStore
from gloveport.machines.images.owners import Owners

needs_apt = pytest.mark.skipif(
    shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None, reason="needs apt-get and dpkg-deb"
)
BASE = 1 << 24

LINES = """\
# deb http://commented.example stable main
deb [arch=amd64 signed-by=/keys/x.gpg] http://mirror.example/debian stable main contrib # ours
deb http://elsewhere.example/apt vendor main
deb-src http://mirror.example/debian stable main
"""
STANZAS = """\
Types: deb
URIs: http://mirror.example/debian-security
Suites: stable-security
Components: main

Types: deb
URIs: http://vendor.example
Suites: nodistro
Components: main
"""


def _apt(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text(LINES)
    (tmp_path / "sources.list.d" / "security.sources").write_text(STANZAS)
    (tmp_path / "os-release").write_text('ID=debian\nVERSION_CODENAME="stable"\n')
    return tmp_path, tmp_path / "os-release"


def test_sources_of_this_systems_own_release_only(tmp_path: Path) -> None:
    text = debian._own_sources(*_apt(tmp_path))
    assert "http://mirror.example/debian\nSuites: stable\nComponents: main contrib\nSigned-By: /keys/x.gpg" in text
    assert "debian-security" in text
    assert "elsewhere" not in text and "vendor" not in text and "commented" not in text and "deb-src" not in text


def test_a_system_without_sources_says_what_to_do(tmp_path: Path) -> None:
    folder, release = _apt(tmp_path)
    release.write_text("ID=other\n")
    with pytest.raises(RuntimeError, match="give `sources`"):
        debian._own_sources(folder, release)


@pytest.mark.parametrize("package", ["-o", "--help", "a b", "../x", "Upper", "x;y", ""])
def test_names_of_packages_are_no_options(tmp_path: Path, package: str) -> None:
    with pytest.raises(ValueError, match="no name of a Debian package"):
        debian.unpacked_layer(LayerStore(tmp_path, Owners(None)), [package], sources="x")


def test_without_apt_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="import a root file system"):
        debian.unpacked_layer(LayerStore(tmp_path, Owners(None)))


def _package(folder: Path, name: str, files: dict[str, str], control: str = "") -> None:
    tree = folder / name
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN" / "control").write_text(
        f"Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <nobody@example.invalid>\n{control}Description: test\n"
    )
    conffiles = [path for path in files if path.startswith("/etc/")]
    if conffiles:
        (tree / "DEBIAN" / "conffiles").write_text("".join(f"{path}\n" for path in conffiles))
    for path, content in files.items():
        target = tree / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "--build", str(tree), str(folder / f"{name}_1.0_all.deb")],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    shutil.rmtree(tree)


@needs_apt
@pytest.mark.parametrize(
    "owners", [Owners(None), pytest.param(Owners(BASE), marks=pytest.mark.root)], ids=["own", "shifted"]
)
def test_packages_of_a_repository(tmp_path: Path, owners: Owners) -> None:
    if owners.base is not None and os.geteuid() != 0:
        pytest.skip("needs root: only root gives files away")
    repository = tmp_path / "repository"
    repository.mkdir()
    _package(repository, "base-tools", {"/usr/bin/tool": "#!", "/etc/tool.conf": "a=1\n"}, "Essential: yes\n")
    _package(repository, "wanted", {"/lib/wanted/file": "x"}, "Depends: base-tools\n")
    _package(repository, "unwanted", {"/usr/bin/unwanted": "x"})
    _index(repository)
    layers = LayerStore(tmp_path / "layers", owners)
    sources = f"Types: deb\nURIs: copy:{repository}\nSuites: ./\nTrusted: yes\n"
    layer = debian.unpacked_layer(layers, ["wanted"], sources=sources)
    tree = layers.path(layer)
    assert (tree / "usr" / "bin" / "tool").is_file() and not (tree / "usr" / "bin" / "unwanted").exists()
    assert (tree / "lib").is_symlink() and (tree / "usr" / "lib" / "wanted" / "file").is_file()
    root = ["dpkg-query", f"--admindir={tree}/var/lib/dpkg"]
    listed = subprocess.run([*root, "-W", "-f", "${Package} ${Status}\n"], capture_output=True, text=True, check=True)
    assert listed.stdout.splitlines() == ["base-tools install ok unpacked", "wanted install ok unpacked"]
    files = subprocess.run([*root, "-L", "base-tools"], capture_output=True, text=True, check=True).stdout.split()
    assert "/usr/bin/tool" in files and "/etc/tool.conf" in files
    conffiles = subprocess.run(
        [*root, "-W", "-f", "${Conffiles}", "base-tools"], capture_output=True, text=True, check=True
    )
    assert f"/etc/tool.conf {hashlib.md5(b'a=1' + bytes([10])).hexdigest()}" in conffiles.stdout
    assert "user:x:1000:1000" in (tree / "etc" / "passwd").read_text()
    assert {path.lstat().st_uid for path in tree.rglob("*")} == {
        owners.base if owners.base is not None else os.getuid()
    }
    assert debian.unpacked_layer(layers, ["wanted"], sources=sources) == layer
    with pytest.raises(RuntimeError, match="no-such-package"):
        debian.unpacked_layer(layers, ["no-such-package"], sources=sources)


def _index(repository: Path) -> None:
    """The `Packages` file of a flat repository (what dpkg-scanpackages of dpkg-dev writes)."""
    stanzas: list[str] = []
    for path in sorted(repository.glob("*.deb")):
        control = subprocess.run(["dpkg-deb", "--field", str(path)], capture_output=True, text=True, check=True).stdout
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        stanzas.append(f"{control}Filename: ./{path.name}\nSize: {path.stat().st_size}\nSHA256: {digest}\n")
    (repository / "Packages").write_text("\n".join(stanzas))
