"""Source distributions from the Python package index, by pinned hash."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from . import cache


@dataclass(frozen=True, slots=True)
class Sdist:
    """A pinned source distribution. To update: new version, then `pip download --no-deps --no-binary :all:` and `pip hash`."""

    project: str
    version: str
    sha256: str


QUICKJS = Sdist("quickjs-ng", "0.17.0.2", "43d2e48272208721a7aaea8e3f02d4b9318f12ef20cc4f5421b59d9a470706ef")


def sdist(source: Sdist) -> Path:
    """The unpacked directory of `source`: downloaded once, checked by pip against the hash."""
    return cache.once("sdist", f"{source.sha256[:16]}-{source.project}", lambda work: _download(source, work))


def _download(source: Sdist, work: Path) -> None:
    cache.say(f"downloading {source.project} {source.version}")
    with cache.scratch() as folder:
        requirement = folder / "requirement.txt"
        requirement.write_text(f"{source.project}=={source.version} --hash=sha256:{source.sha256}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--no-binary", source.project, "--require-hashes", "-r", str(requirement), "-d", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        archives = list(folder.glob("*.tar.gz"))
        if done.returncode or len(archives) != 1:
            raise RuntimeError(f"could not download {source.project}=={source.version}:\n{done.stderr[-2000:]}")
        _unpack(archives[0], work)


def _unpack(archive: Path, work: Path) -> None:
    """The regular files of an sdist, without their common top folder. (`extractall(filter=)` came with Python 3.11.4.)"""
    with tarfile.open(archive) as members:
        for member in members:
            parts = PurePosixPath(member.name).parts[1:]
            content = members.extractfile(member) if member.isfile() and parts and ".." not in parts else None
            if content is not None:
                target = work.joinpath(*parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.read())
