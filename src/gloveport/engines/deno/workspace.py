"""The directory that a worker of modules sees: read-only to it, writable for the application."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Final

__all__ = ("INSIDE", "Workspace")

INSIDE: Final = "/workspace"
"""Where a jailed worker sees it."""


class Workspace:
    """A temporary directory of this user's.

    The worker has another user id, so the directory itself is open to all; nobody but this user gets to it, because the one
    around it is closed.
    """

    def __init__(self) -> None:
        self._outer = tempfile.mkdtemp(prefix="gloveport-")  # 0700
        self.path: Path = Path(self._outer, "workspace")
        """The host's path."""
        self._owner = os.getpid()
        self._lock = threading.Lock()
        os.mkdir(self.path)
        os.chmod(self.path, 0o755)  # whatever the umask is  # noqa: S103

    def take_over(self, other: Workspace) -> None:
        """Takes the place of another one: its files, and its path. What is mounted in a jail follows, being the directory itself."""
        with self._lock, other._lock:
            if not other._outer or not self._outer:
                return
            for entry in os.listdir(other.path):
                os.rename(other.path / entry, self.path / entry)
            os.rmdir(other.path)
            os.rename(self.path, other.path)
            os.rmdir(self._outer)
            self._outer, self.path, other._outer = other._outer, other.path, ""

    def remove(self) -> None:
        """With everything in it. Idempotent."""
        with self._lock:
            outer, self._outer = self._outer, ""
        if outer and self._owner == os.getpid():
            shutil.rmtree(outer, ignore_errors=True)
