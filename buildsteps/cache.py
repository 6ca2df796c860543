"""Where a build keeps what it has downloaded and compiled, by content."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "src" / "gloveport" / "_native"


def say(text: str) -> None:
    """One progress line on stderr."""
    print(f"gloveport build: {text}", file=sys.stderr, flush=True)


def directory() -> Path:
    """`$GLOVEPORT_BUILD_CACHE`, else `gloveport-build` in the user's cache directory; a temporary one as a last resort."""
    named = os.environ.get("GLOVEPORT_BUILD_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = Path(named) if named else Path(base) / "gloveport-build"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError:
        path = Path(tempfile.mkdtemp(prefix="gloveport-build-"))
    return path


def digest(parts: Iterable[bytes | str | Path]) -> str:
    """One hash over strings, bytes and the content (and name) of files."""
    total = hashlib.sha256()
    for part in parts:
        data = part.name.encode() + b"\0" + part.read_bytes() if isinstance(part, Path) else part
        data = data.encode() if isinstance(data, str) else data
        total.update(len(data).to_bytes(8, "little") + data)
    return total.hexdigest()


def once(kind: str, key: str, make: Callable[[Path], None]) -> Path:
    """The directory `<cache>/<kind>/<key>`; `make` fills it when it is not there yet. Concurrent builds do not collide."""
    target = directory() / kind / key[:32]
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with scratch(target.parent) as work:
        make(work)
        try:
            work.rename(target)
        except OSError:
            if not target.is_dir():  # not merely another build that was first
                raise
    return target


@contextlib.contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix=".tmp-", dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def write(path: Path, data: bytes) -> None:
    """Write atomically, and only when it differs (an unchanged file keeps its time)."""
    if path.exists() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(data)
    temporary.replace(path)
