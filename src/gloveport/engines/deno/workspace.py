"""The directory that a worker of modules sees: read-only to it, writable for the application."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Final

from .folder import PrivateFolder

__all__ = ("INSIDE", "Workspace")

INSIDE: Final = "/workspace"
"""Where a jailed worker sees it."""
_folder: Final = PrivateFolder("gloveport-workspaces-")


class Workspace:
    """A temporary directory of this user's. `mounted`: its worker sees it under another path, so its own path may change."""

    def __init__(self, *, mounted: bool = True) -> None:
        self._mounted = mounted
        self.path: Path = _folder.unused()
        """The host's path."""
        os.mkdir(self.path)
        # The worker has another user id, so the directory is open to all; nobody but this user gets to it.
        os.chmod(self.path, 0o755)  # noqa: S103  (whatever the umask is)
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
