"""The TypeScript compiler: which one, where it is kept, how it gets there."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

from gloveport.engines.toolbox.process import program as deno_program
from gloveport.engines.wasm.module import cache_directory
from gloveport.errors import EngineUnavailableError, TypeCheckUnavailableError

__all__ = ("COMMAND", "VERSION", "Compiler", "find", "folders", "install", "require")

COMMAND: Final = "gloveport install typecheck"
VERSION: Final = "7.0.2"
"""Of the npm package `typescript`, whose program for each platform is a package of its own."""
_INTEGRITY: Final = {
    "linux-x64": "sha512-EYdf2cNg7rgCWJnxCdJ+F3V39O8ihb37eHAu1LK8oAFizgTQbPOK7zHHXbPt8rX24COqODXeI3sIf0fCXG7H/A==",
    "linux-arm64": "sha512-Qh4eU4/y3yDjnfjjyPYihMj5/ODIlmt+Bzu17OI+fiSRDW57QmU5SiN63exPRNJPKUzcc1INa1NXdrJ+MqHjUQ==",
}
"""Of each package, as npm states it (Subresource Integrity). The client refuses another content."""
_MACHINES: Final = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}
_TIMEOUT: Final = 600.0
_NOTE: Final = "gloveport.json"
"""Says what was installed."""


class Compiler:
    """An installed compiler."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.library = folder / "lib"
        """The program and the declarations of the language, which is all that it reads."""
        self.program = self.library / "tsc"


def install(say: Callable[[str], None] = print) -> Compiler:
    """Fetch the compiler (10 MB, unpacked 27) with the `deno` package as npm client, unless it is here. Needs the registry once.

    The registry is the one that `.npmrc` names. Raises `TypeCheckUnavailableError` when it cannot be reached, gives another content,
    or this platform has no compiler.
    """
    found = find()
    if found is not None:
        return found
    target = _target()
    say(f"fetching TypeScript {VERSION} for {_platform()} (10 MB)")
    work = Path(tempfile.mkdtemp(prefix=".typecheck-", dir=target.parent))
    try:
        made = _fetch(work)
        (made / "lib" / "tsc").chmod(0o755)
        (made / _NOTE).write_text(json.dumps({"sha256": _digest(made / "lib" / "tsc")}))
        _let_read(made)
        shutil.rmtree(target, ignore_errors=True)
        made.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return require()


def require() -> Compiler:
    """The installed compiler. Raises `TypeCheckUnavailableError`."""
    found = find()
    if found is None:
        raise TypeCheckUnavailableError(
            f"type checking needs the TypeScript compiler, which is not installed: run `{COMMAND}`"
        )
    return found


def find() -> Compiler | None:
    """The installed compiler, if it is whole and certainly ours. Once it was found it is not looked at again."""
    try:
        return _verified(_target())
    except (OSError, ValueError, EngineUnavailableError, TypeCheckUnavailableError):
        return None


@functools.cache
def _verified(folder: Path) -> Compiler:
    """Raises `OSError` or `ValueError` (which is not cached) when it is not there, not ours alone, or was changed."""
    compiler = Compiler(folder)
    status = os.lstat(folder)
    if status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise ValueError("others may write there")
    with contextlib.suppress(OSError):  # who cannot change it may do without
        _let_read(folder)
    noted = cast("dict[str, Any]", json.loads((folder / _NOTE).read_bytes()))
    if not isinstance(noted, dict) or noted.get("sha256") != _digest(compiler.program):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError("the program is not the one that was installed")
    return compiler


def _let_read(folder: Path) -> None:
    """Let every user read what is in a folder of ours: the jail has a user of its own, and a umask may have kept it out."""
    for directory, _, names in os.walk(folder):
        for path in (directory, *(os.path.join(directory, name) for name in names)):
            status = os.lstat(path)
            wanted = 0o555 if status.st_mode & 0o111 else 0o444
            if not stat.S_ISLNK(status.st_mode) and status.st_mode & wanted != wanted:
                os.chmod(path, stat.S_IMODE(status.st_mode) | wanted)


def folders() -> list[Path]:
    """Every version that is kept, the one in use included."""
    return sorted(path for path in cache_directory().glob("typecheck-*") if path.is_dir())


def _target() -> Path:
    return cache_directory() / f"typecheck-{VERSION}-{_platform()}"


def _platform() -> str:
    name = f"{platform.system().lower()}-{_MACHINES.get(platform.machine().lower(), platform.machine())}"
    if name not in _INTEGRITY:
        raise TypeCheckUnavailableError(f"there is no type checking on {name}: only on {' and '.join(_INTEGRITY)}")
    return name


def _fetch(work: Path) -> Path:
    """The unpacked package in a folder below `work`."""
    name = f"@typescript/typescript-{_platform()}"
    specifier = f"npm:{name}@{VERSION}"
    lock = {
        "version": "5",
        "specifiers": {specifier: VERSION},
        "npm": {f"{name}@{VERSION}": {"integrity": _INTEGRITY[_platform()]}},
    }
    (work / "deno.lock").write_text(json.dumps(lock))
    environment = {**os.environ, "DENO_DIR": str(work), "DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1"}
    environment.setdefault("DENO_TLS_CA_STORE", "mozilla,system")
    command = [str(deno_program()), "cache", "--quiet", "--no-config", "--frozen", "--lock", "deno.lock", specifier]
    try:
        done = subprocess.run(
            command, cwd=work, env=environment, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise TypeCheckUnavailableError(f"{specifier} could not be fetched: no answer in {_TIMEOUT:g} s") from error
    made = sorted((work / "npm").glob(f"*/{name}/{VERSION}"))
    if done.returncode or not made:
        said = done.stderr.strip().partition("Stack backtrace")[0].strip()[-1000:]
        raise TypeCheckUnavailableError(f"{specifier} could not be fetched: {said or 'it is not in the registry'}")
    return made[0]


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
