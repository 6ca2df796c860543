"""The directory that a worker of modules sees: read-only to it, writable for the application."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Final

from ..jail.namespaces import CAP_SYS_ADMIN, effective_capability

__all__ = ("INSIDE", "Workspace")

INSIDE: Final = "/workspace"
"""Where a jailed worker sees it."""
_PREFIX: Final = "gloveport-workspaces-"
_LOCK: Final = ".lock"


class _Root:
    """This process's directory for workspaces, open to this user only. A lock on a file in it tells that the process lives."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        _sweep()
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
            try:
                self._lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                fcntl.flock(self._lock, fcntl.LOCK_EX)
                os.stat(self.path / _LOCK)
                break
            except FileNotFoundError:  # another process took it for one that was left behind: try again
                continue
        if os.geteuid() == 0 and not effective_capability(CAP_SYS_ADMIN):
            # A jail then changes its user before it mounts. Others can pass, not look around, and names cannot be guessed.
            os.chmod(self.path, 0o711)  # noqa: S103

    def new(self) -> Path:
        path = self.path / secrets.token_hex(16)
        os.mkdir(path)
        # The worker has another user id, so the directory is open to all; nobody but this user gets to it.
        os.chmod(path, 0o755)  # noqa: S103  (whatever the umask is)
        return path

    def remove(self) -> None:
        if self.owner == os.getpid():
            shutil.rmtree(self.path, ignore_errors=True)


def _sweep() -> None:
    """Removes what processes of this user left behind that were killed."""
    for entry in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if entry.lstat().st_uid != os.geteuid():
                continue
            lock = os.open(entry / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(entry, ignore_errors=True)
            finally:
                os.close(lock)


_guard = threading.Lock()
_current: _Root | None = None


def _root() -> _Root:
    global _current
    with _guard:
        if _current is None or _current.owner != os.getpid() or not _current.path.is_dir():
            _current = _Root()
        return _current


class Workspace:
    """A temporary directory of this user's. `mounted`: its worker sees it under another path, so its own path may change."""

    def __init__(self, *, mounted: bool = True) -> None:
        self._mounted = mounted
        self.path: Path = _root().new()
        """The host's path."""
        self._owner = os.getpid()
        self._gone = False
        self._lock = threading.Lock()

    def take_over(self, other: Workspace) -> None:
        """Takes the files of another one, and its path: what is mounted in a jail follows, being the directory itself. Without a jail
        the path stays, because the worker knows it."""
        with self._lock, other._lock:
            if self._gone or other._gone:
                return
            for entry in os.listdir(other.path):
                os.rename(other.path / entry, self.path / entry)
            os.rmdir(other.path)
            other._gone = True
            if self._mounted:
                os.rename(self.path, other.path)
                self.path = other.path

    def remove(self) -> None:
        """With everything in it. Idempotent."""
        with self._lock:
            gone, self._gone = self._gone, True
        if not gone and self._owner == os.getpid():
            shutil.rmtree(self.path, ignore_errors=True)


@atexit.register
def _at_exit() -> None:
    if _current is not None:
        _current.remove()


def _after_fork() -> None:
    global _guard
    _guard = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
