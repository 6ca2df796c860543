"""Trees of files that a machine has made: removed and copied without following its links and without minding its permissions."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Final

__all__ = ("copy_tree", "remove_tree", "tree_bytes")

_CHUNK: Final = 64 * 1024 * 1024
_UNSUPPORTED: Final = frozenset({errno.ENOTSUP, errno.EPERM, errno.EACCES})
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: Path) -> None:
    """Remove it, whatever modes its folders have. Nothing happens when it is not there.

    By descriptors and without recursion: a machine can nest folders deeper than a path or a stack can be.
    """
    try:
        parent = os.open(path.parent, _OPEN)
    except FileNotFoundError:
        return
    try:
        _remove(parent, path.name)
    finally:
        os.close(parent)


def _remove(parent: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        try:
            os.unlink(name, dir_fd=parent)
            return
        except (IsADirectoryError, PermissionError):  # POSIX allows EPERM for a folder
            pass
        folder = _enter(parent, name)
        try:
            _empty(folder)
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=parent)


def _enter(parent: int, name: str) -> int:
    try:
        folder = os.open(name, _OPEN, dir_fd=parent)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=parent)  # a link would have been unlinked
        folder = os.open(name, _OPEN, dir_fd=parent)
    if stat.S_IMODE(os.fstat(folder).st_mode) & 0o700 != 0o700:
        os.fchmod(folder, 0o700)
    return folder


def _empty(top: int) -> None:
    """Everything below an open folder. Folders that are deeper than one level are first moved up, so that depth costs nothing."""
    while True:
        deeper = False
        for name in os.listdir(top):
            try:
                os.unlink(name, dir_fd=top)
                continue
            except (IsADirectoryError, PermissionError):
                pass
            folder = _enter(top, name)
            try:
                deeper |= _flatten(folder, top)
            finally:
                os.close(folder)
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(name, dir_fd=top)
        if not deeper and not os.listdir(top):
            return


def _flatten(folder: int, top: int) -> bool:
    moved = False
    for name in os.listdir(folder):
        try:
            os.unlink(name, dir_fd=folder)
        except (IsADirectoryError, PermissionError):
            os.close(_enter(folder, name))
            os.rename(name, f".gloveport-{os.urandom(8).hex()}", src_dir_fd=folder, dst_dir_fd=top)
            moved = True
    return moved


def tree_bytes(path: Path) -> int:
    """Bytes on disk of what is below it."""
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
    return total


def copy_tree(source: Path, target: Path) -> None:
    """A copy with owners, modes, times, extended attributes (which the overlay keeps its marks in), hard links and special files.

    Data is shared where the file system can do that (`copy_file_range` clones on btrfs and XFS).
    """
    links: dict[tuple[int, int], Path] = {}
    stack = [(source, target)]
    folders: list[tuple[Path, os.stat_result]] = []
    while stack:
        here, there = stack.pop()
        info = os.lstat(here)
        if stat.S_ISDIR(info.st_mode):
            os.mkdir(there, 0o700)
            folders.append((there, info))
            with _readable(here, info), os.scandir(here) as found:
                stack += [(Path(entry.path), there / entry.name) for entry in found]
            _attributes(here, there)
            continue
        key = (info.st_dev, info.st_ino)
        if info.st_nlink > 1 and key in links:
            os.link(links[key], there, follow_symlinks=False)
            continue
        links[key] = there
        _copy_one(here, there, info)
    for folder, info in reversed(folders):
        _status(folder, info)


@contextlib.contextmanager
def _readable(folder: Path, info: os.stat_result):
    """A folder of one's own that its maker has shut is opened for the moment."""
    shut = os.geteuid() != 0 and info.st_mode & 0o500 != 0o500
    if shut:
        folder.chmod(0o700)
    try:
        yield
    finally:
        if shut:
            folder.chmod(stat.S_IMODE(info.st_mode))


def _copy_one(here: Path, there: Path, info: os.stat_result) -> None:
    if stat.S_ISLNK(info.st_mode):
        os.symlink(os.readlink(here), there)
    elif stat.S_ISREG(info.st_mode):
        _copy_data(here, there, info)
        _attributes(here, there)
    else:
        os.mknod(there, info.st_mode, info.st_rdev)  # pipes, sockets; the overlay's marks for what was deleted
    _status(there, info)


def _copy_data(here: Path, there: Path, info: os.stat_result) -> None:
    shut = os.geteuid() != 0 and not info.st_mode & 0o400
    if shut:
        here.chmod(0o600)
    try:
        read = os.open(here, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    finally:
        if shut:
            here.chmod(stat.S_IMODE(info.st_mode))
    try:
        write = os.open(there, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _ranges(read, write, info.st_size)
        finally:
            os.close(write)
    finally:
        os.close(read)


def _ranges(read: int, write: int, size: int) -> None:
    at = 0
    while at < size:  # holes stay holes
        try:
            at = os.lseek(read, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                break
            raise
        end = os.lseek(read, at, os.SEEK_HOLE)
        while at < end:
            done = os.copy_file_range(read, write, min(_CHUNK, end - at), at, at)
            if not done:
                break
            at += done
    os.truncate(write, size)


def _attributes(here: Path, there: Path) -> None:
    try:
        names = os.listxattr(here, follow_symlinks=False)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return
        raise
    for name in names:
        if name.startswith(("user.", "trusted.overlay.")):
            os.setxattr(there, name, os.getxattr(here, name, follow_symlinks=False), follow_symlinks=False)


def _status(path: Path, info: os.stat_result) -> None:
    if os.geteuid() == 0:
        os.chown(path, info.st_uid, info.st_gid, follow_symlinks=False)
    if not stat.S_ISLNK(info.st_mode):
        os.chmod(path, stat.S_IMODE(info.st_mode))
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns), follow_symlinks=False)
