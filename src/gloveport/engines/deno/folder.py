"""A directory that this process has for itself, below one that all share: nothing in it outlives the process for long."""

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

__all__ = ("PrivateFolder",)

_LOCK: Final = ".lock"


class PrivateFolder:
    """This process's `<base>/<prefix>…`, made when it is first wanted and again in a forked copy. Open to this user only; removed when the
    process ends, and by the next one of the same user when it was killed: a lock on a file in it tells that its process lives.

    `base`: default, the directory for temporary files.
    """

    def __init__(self, prefix: str, base: str | None = None) -> None:
        self._prefix = prefix
        self._base = base
        self._guard = threading.Lock()
        self._owner = 0
        self._path = Path()
        self._lock = -1
        atexit.register(self._remove)
        os.register_at_fork(after_in_child=self._after_fork)

    def unused(self) -> Path:
        """A path in it that does not exist, and that others cannot guess. Raises `OSError`."""
        with self._guard:
            if self._owner != os.getpid() or not self._path.is_dir():
                self._make()
            return self._path / secrets.token_hex(16)

    def _make(self) -> None:
        base = self._base or tempfile.gettempdir()
        if self._lock >= 0:  # the parent's, in a forked copy
            os.close(self._lock)
            self._lock = -1
        _sweep(base, self._prefix)
        while True:
            self._path = Path(tempfile.mkdtemp(prefix=self._prefix, dir=base))
            try:
                self._lock = os.open(self._path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                fcntl.flock(self._lock, fcntl.LOCK_EX)
                os.stat(self._path / _LOCK)
                break
            except FileNotFoundError:  # another process took it for one that was left behind: try again
                continue
        self._owner = os.getpid()
        if os.geteuid() == 0 and not effective_capability(CAP_SYS_ADMIN):
            # A jail then changes its user before it mounts. Others can pass, not look around, and names cannot be guessed.
            os.chmod(self._path, 0o711)  # noqa: S103

    def _remove(self) -> None:
        if self._owner == os.getpid():
            shutil.rmtree(self._path, ignore_errors=True)

    def _after_fork(self) -> None:
        self._guard = threading.Lock()


def _sweep(base: str, prefix: str) -> None:
    """Removes what processes of this user left behind that were killed."""
    for entry in Path(base).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            if entry.lstat().st_uid != os.geteuid():
                continue
            lock = os.open(entry / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(entry, ignore_errors=True)
            finally:
                os.close(lock)
