"""What package managers are served: files below a folder, made by hand."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
import zipfile

NAME, TEXT = "hello-box", "hello from a package"


def fill(folder):
    """Everything below `folder`: an index of Python packages, a registry of npm, a git repository, a Debian repository."""
    _python(folder)
    _npm(folder / "npm")
    _git(folder / "git")
    _debian(folder / "debian")


def _python(folder):
    wheel = "hello_box-1.0-py3-none-any.whl"
    files = {
        "hello_box.py": f"TEXT = {TEXT!r}\n",
        "hello_box-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: hello-box\nVersion: 1.0\n",
        "hello_box-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "hello_box-1.0.dist-info/RECORD"
    lines = [f"{name},sha256={_digest(text)},{len(text)}" for name, text in files.items()]
    (folder / "wheels").mkdir(parents=True)
    with zipfile.ZipFile(folder / "wheels" / wheel, "w") as made:
        for name, text in {**files, record: "\n".join([*lines, f"{record},,"]) + "\n"}.items():
            made.writestr(name, text)
    for place in ("simple", f"simple/{NAME}"):
        (folder / place).mkdir(parents=True)
    (folder / "simple/index.html").write_text(f'<a href="{NAME}/">{NAME}</a>')
    (folder / f"simple/{NAME}/index.html").write_text(f'<!DOCTYPE html><a href="../../wheels/{wheel}">{wheel}</a>')


def _digest(text):
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def _npm(folder):
    package = {"name": NAME, "version": "1.0.0", "main": "index.js"}
    data = _tar(
        {"package/package.json": json.dumps(package), "package/index.js": f"module.exports = {json.dumps(TEXT)};\n"}
    )
    (folder / "-").mkdir(parents=True)
    (folder / "-" / f"{NAME}-1.0.0.tgz").write_bytes(data)
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    for base in ("http://files.test:8000", "https://files.test:8001"):
        tarball = f"{base}/npm/-/{NAME}-1.0.0.tgz"
        version = {**package, "dist": {"tarball": tarball, "integrity": integrity}}
        told = {"name": NAME, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
        path = folder / ("tls" if base.startswith("https") else "plain") / NAME
        path.parent.mkdir()
        path.write_text(json.dumps(told))


def _git(folder):
    work = folder / "work"
    work.mkdir(parents=True)
    (work / "hello").write_text(TEXT)
    identity = ("-c", "user.name=t", "-c", "user.email=t@t.test")
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    for command in (
        ("init", "-q", "-b", "main"),
        ("add", "hello"),
        (*identity, "commit", "-qm", "hello"),
        ("clone", "-q", "--bare", ".", "../hello.git"),
        ("-C", "../hello.git", "update-server-info"),
    ):
        subprocess.run(["git", *command], cwd=work, env=environment, check=True)


def _debian(folder):
    folder.mkdir()
    control = f"Package: {NAME}\nVersion: 1.0\nArchitecture: all\nMaintainer: t <t@t.test>\nDescription: says hello\n"
    parts = {
        "debian-binary": b"2.0\n",
        "control.tar.gz": _tar({"./control": control}),
        "data.tar.gz": _tar({"./usr/share/hello-box/hello": TEXT}),
    }
    package = b"!<arch>\n"
    for name, data in parts.items():  # ar(5)
        package += (
            f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
        )
    (folder / f"{NAME}_1.0_all.deb").write_bytes(package)
    listed = f"{control}Filename: ./{NAME}_1.0_all.deb\nSize: {len(package)}\nSHA256: {hashlib.sha256(package).hexdigest()}\n".encode()
    (folder / "Packages").write_bytes(listed)
    (folder / "Packages.gz").write_bytes(gzip.compress(listed))
    sums = "".join(
        f" {hashlib.sha256((folder / name).read_bytes()).hexdigest()} {(folder / name).stat().st_size} {name}\n"
        for name in ("Packages", "Packages.gz")
    )
    (folder / "Release").write_text(f"Suite: stable\nDate: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n{sums}")


def _tar(files):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(text.encode()), 0o644
            archive.addfile(info, io.BytesIO(text.encode()))
    return made.getvalue()
