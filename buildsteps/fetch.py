"""Source distributions from the Python package index, by pinned hash."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

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
        with tarfile.open(archives[0]) as archive:
            archive.extractall(folder / "unpacked", filter="data")
        (top,) = (folder / "unpacked").iterdir()
        for item in top.iterdir():
            item.rename(work / item.name)
