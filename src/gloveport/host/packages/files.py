"""Reading a cache of packages: its `npm` and `remote` folders, and nothing else, whatever names are asked for."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Generator
from pathlib import Path
from typing import Final

from ...errors import PackageError

__all__ = ("CacheFiles",)

_FOLDERS: Final = ("npm", "remote")
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class CacheFiles:
    """Files by the parts of their path below the cache. No link is followed: every part is opened from the one before it."""

    def __init__(self, directory: Path) -> None:
        self._directory: Final = directory

    def is_file(self, *parts: str) -> bool:
        """Whether there is a regular file."""
        return stat.S_ISREG(self._mode(parts))

    def is_directory(self, *parts: str) -> bool:
        """Whether there is a directory."""
        return stat.S_ISDIR(self._mode(parts))

    def read(self, *parts: str, most: int) -> bytes | None:
        """The bytes of a regular file; `None`: there is none. Raises `PackageError` when it has more than `most`."""
        with self._parent(parts) as folder:
            if folder is None:
                return None
            try:
                number = os.open(parts[-1], _FILE, dir_fd=folder)
            except OSError:  # also of a link
                return None
            with open(number, "rb") as file:
                if not stat.S_ISREG(os.fstat(number).st_mode):
                    return None
                data = file.read(most + 1)
        if len(data) > most:
            raise PackageError(f"{parts[-1]!r} has more than the {most} bytes that one file of a package may have")
        return data

    def _mode(self, parts: tuple[str, ...]) -> int:
        with self._parent(parts) as folder:
            if folder is None:
                return 0
            try:
                return os.stat(parts[-1], dir_fd=folder, follow_symlinks=False).st_mode
            except OSError:
                return 0

    @contextlib.contextmanager
    def _parent(self, parts: tuple[str, ...]) -> Generator[int | None]:
        """The directory of the last part, opened; `None`: there is none that may be read."""
        if parts[0] not in _FOLDERS or len(parts) < 2 or not all(map(_is_plain, parts)):
            yield None
            return
        try:
            folder = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            yield None
            return
        try:
            for part in parts[:-1]:
                deeper = os.open(part, _DIRECTORY, dir_fd=folder)
                os.close(folder)
                folder = deeper
        except OSError:
            os.close(folder)
            yield None
            return
        try:
            yield folder
        finally:
            os.close(folder)


def _is_plain(part: str) -> bool:
    """A name in a directory, and not a way to another one."""
    return part not in ("", ".", "..") and "/" not in part and "\0" not in part and part.isprintable()
