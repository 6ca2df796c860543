"""File trees that a guest may have written: to copy, to digest, to measure, to remove.

Nothing here follows a link or opens anything but regular files and folders, and every step goes through the descriptor of the folder
that it is in: names that change meanwhile lead nowhere else.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import struct
from collections.abc import Callable, Iterator
from typing import Final

__all__ = (
    "OPAQUE",
    "copy_tree",
    "digest_tree",
    "give_tree",
    "make_whiteout",
    "measure_tree",
    "merge_tree",
    "open_folder",
    "remove_tree",
    "stack_tree",
)

OPAQUE: Final = "user.overlay.opaque"
"""Set to `y` on a folder that hides those of the layers below (Linux, Documentation/filesystems/overlayfs, with `userxattr`)."""
_KEPT_XATTRS: Final = "user.overlay."
_FICLONE: Final = 0x40049409
_CHUNK: Final = 1 << 20
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEPTH: Final = 400
"""Folders in folders. Each takes a descriptor while the tree is walked, of which a process has 1,024 by default."""


def open_folder(name: str | os.PathLike[str], at: int | None = None) -> int:
    """A descriptor of a folder, never of what a link leads to. One that may not be read is made readable, if it is ours."""
    try:
        return os.open(name, _FOLDER, dir_fd=at)
    except PermissionError:
        _make_ours(name, at)
        return os.open(name, _FOLDER, dir_fd=at)


def _make_ours(name: str | os.PathLike[str], at: int | None) -> None:
    """Lets the owner of a folder do everything with it; nothing that is no folder is touched."""
    path = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        os.chmod(f"/proc/self/fd/{path}", 0o700)
    finally:
        os.close(path)


def copy_tree(source: int, target: int) -> int:
    """Copies what is in the folder `source` to the empty folder `target`, both descriptors, and gives the bytes of its files.

    Owners (as root), modes, times, hard links, holes, whiteouts and opaque folders are kept; sockets are not. Data is shared with the
    original where the file system can (FICLONE).
    """
    return _Copy(os.geteuid() == 0).folder(source, target)


def merge_tree(source: int, target: int, owner: Callable[[int], int] = int) -> int:
    """Lays the layer `source` over the tree `target`, as overlayfs would show the two. `owner`: whose a file becomes, as root."""
    return _Merge(os.geteuid() == 0, owner).folder(source, target)


def stack_tree(source: int, target: int) -> int:
    """Lays the layer `source` over the layer `target`: one layer that shows, over any others, what the two have shown."""
    return _Stack(os.geteuid() == 0).folder(source, target)


class _Copy:
    def __init__(self, owners: bool, owner: Callable[[int], int] = int) -> None:
        self._owners = owners
        self._owner = owner
        self._links: dict[tuple[int, int], str] = {}
        self._root = -1
        self._bytes = 0

    def folder(self, source: int, target: int) -> int:
        self._root = target
        open_pairs: list[tuple[int, int]] = []
        try:
            for path, status, at, name in _walk(source, closing=lambda: self._leave(open_pairs)):
                into = open_pairs[-1][1] if open_pairs else target
                if stat.S_ISDIR(status.st_mode):
                    self._make_folder(name, at, into)
                    open_pairs.append((open_folder(name, at), open_folder(name, into)))
                else:
                    self._entry(at, into, name, status, os.fsdecode(path))
        finally:
            for pair in open_pairs:
                for descriptor in pair:
                    os.close(descriptor)
        self._settle_folder(source, target)
        return self._bytes

    def _make_folder(self, name: str, source: int, target: int) -> None:
        del source
        os.mkdir(name, 0o700, dir_fd=target)

    def _leave(self, open_pairs: list[tuple[int, int]]) -> None:
        """A folder is complete: only now may it become unwritable, and get its times."""
        inner, made = open_pairs.pop()
        try:
            self._settle_folder(inner, made)
        finally:
            os.close(inner)
            os.close(made)

    def _settle_folder(self, source: int, made: int) -> None:
        _copy_xattrs(source, made)
        self._settle(os.fstat(source), made)

    def _entry(self, source: int, target: int, name: str, status: os.stat_result, path: str) -> None:
        kind = stat.S_IFMT(status.st_mode)
        if status.st_nlink > 1 and kind == stat.S_IFREG:
            first = self._links.setdefault((status.st_dev, status.st_ino), path)
            if first != path:
                os.link(first, name, src_dir_fd=self._root, dst_dir_fd=target, follow_symlinks=False)
                return
        if kind == stat.S_IFREG:
            self._file(source, target, name, status)
        elif kind == stat.S_IFLNK:
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
            self._own(target, name, status)
        elif kind == stat.S_IFIFO:
            os.mkfifo(name, stat.S_IMODE(status.st_mode), dir_fd=target)
            self._own(target, name, status)
        elif kind == stat.S_IFCHR and status.st_rdev == 0:
            make_whiteout(name, target)

    def _file(self, source: int, target: int, name: str, status: os.stat_result) -> None:
        given = _open_file(name, source)
        try:
            made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=target)
            try:
                _copy_data(given, made, status.st_size)
                self._bytes += status.st_size
                _copy_xattrs(given, made)
                self._settle(status, made)
            finally:
                os.close(made)
        finally:
            os.close(given)

    def _own(self, folder: int, name: str, status: os.stat_result) -> None:
        if self._owners:
            ids = self._owner(status.st_uid), self._owner(status.st_gid)
            os.chown(name, *ids, dir_fd=folder, follow_symlinks=False)

    def _settle(self, status: os.stat_result, made: int) -> None:
        if self._owners:
            os.fchown(made, self._owner(status.st_uid), self._owner(status.st_gid))
        os.fchmod(made, stat.S_IMODE(status.st_mode))
        os.utime(made, ns=(status.st_atime_ns, status.st_mtime_ns))


class _Merge(_Copy):
    def _make_folder(self, name: str, source: int, target: int) -> None:
        try:
            super()._make_folder(name, source, target)
            return
        except FileExistsError:
            pass
        below = os.stat(name, dir_fd=target, follow_symlinks=False)
        inner = open_folder(name, source)
        try:
            hides = _is_opaque(inner)
        finally:
            os.close(inner)
        if hides or not stat.S_ISDIR(below.st_mode):
            remove_tree(name, target)
            super()._make_folder(name, source, target)
            return
        folder = open_folder(name, target)
        try:
            os.fchmod(folder, 0o700)  # until it is complete
        finally:
            os.close(folder)

    def _settle_folder(self, source: int, made: int) -> None:
        self._settle(os.fstat(source), made)  # without what is for layers only

    def _entry(self, source: int, target: int, name: str, status: os.stat_result, path: str) -> None:
        remove_tree(name, target)
        if not (stat.S_ISCHR(status.st_mode) and status.st_rdev == 0):
            super()._entry(source, target, name, status, path)


class _Stack(_Copy):
    def _make_folder(self, name: str, source: int, target: int) -> None:
        try:
            super()._make_folder(name, source, target)
            return
        except FileExistsError:
            pass
        inner = open_folder(name, source)
        try:
            hides = _is_opaque(inner)
        finally:
            os.close(inner)
        below = os.stat(name, dir_fd=target, follow_symlinks=False)
        if not hides and stat.S_ISDIR(below.st_mode):
            folder = open_folder(name, target)
        else:  # what is no folder, a whiteout among it, hides those of all layers below, and so has what comes in its place
            remove_tree(name, target)
            super()._make_folder(name, source, target)
            folder = open_folder(name, target)
            os.setxattr(folder, OPAQUE, b"y")
        try:
            os.fchmod(folder, 0o700)  # until it is complete
        finally:
            os.close(folder)

    def _entry(self, source: int, target: int, name: str, status: os.stat_result, path: str) -> None:
        remove_tree(name, target)
        super()._entry(source, target, name, status, path)
        if stat.S_ISSOCK(status.st_mode):  # is not copied; what it hid stays hidden
            make_whiteout(name, target)


def _is_opaque(folder: int) -> bool:
    try:
        return os.getxattr(folder, OPAQUE) == b"y"
    except OSError:
        return False


def make_whiteout(name: str, folder: int) -> None:
    """What hides `name` of the layers below. Any user may make one (Linux 5.8)."""
    os.mknod(name, stat.S_IFCHR, 0, dir_fd=folder)


def _open_file(name: str, folder: int) -> int:
    """A regular file; one that its owner may not read is made readable for the moment."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=folder)
    except PermissionError:
        path = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            mode = stat.S_IMODE(os.fstat(path).st_mode)
            link = f"/proc/self/fd/{path}"
            os.chmod(link, mode | stat.S_IRUSR)
            try:
                return os.open(link, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            finally:
                os.chmod(link, mode)
        finally:
            os.close(path)


def _copy_data(given: int, made: int, size: int) -> None:
    if size == 0:
        return
    try:
        fcntl.ioctl(made, _FICLONE, given)
        return
    except OSError:
        pass
    os.ftruncate(made, size)
    at = 0
    while at < size:
        try:
            at = os.lseek(given, at, os.SEEK_DATA)
        except OSError:
            return  # only a hole is left
        end = os.lseek(given, at, os.SEEK_HOLE)
        os.lseek(made, at, os.SEEK_SET)
        while at < end:
            done = os.copy_file_range(given, made, min(end - at, 1 << 30), at, at)
            if not done:
                return
            at += done


def _copy_xattrs(given: int, made: int) -> None:
    with contextlib.suppress(OSError):
        for name in os.listxattr(given):
            if name.startswith(_KEPT_XATTRS):
                os.setxattr(made, name, os.getxattr(given, name))


# ── what a tree is ───────────────────────────────────────────────────────────────────────────────────────────────────


def digest_tree(folder: int) -> str:
    """SHA-256 over names, kinds, modes, owners, contents and overlay attributes, in order; times do not count."""
    digest = hashlib.sha256()
    for path, status, at, name in _walk(folder):
        kind = stat.S_IFMT(status.st_mode)
        head = f"{stat.S_IMODE(status.st_mode):o} {status.st_uid} {status.st_gid}".encode()
        digest.update(struct.pack("<II", len(path), kind) + path + head)
        if kind == stat.S_IFREG:
            given = _open_file(name, at)
            try:
                digest.update(struct.pack("<Q", status.st_size))
                while chunk := os.read(given, _CHUNK):
                    digest.update(chunk)
            finally:
                os.close(given)
        elif kind == stat.S_IFLNK:
            digest.update(os.fsencode(os.readlink(name, dir_fd=at)))
        elif kind == stat.S_IFDIR:
            inner = open_folder(name, at)
            try:
                for attribute in sorted(n for n in _xattrs(inner) if n.startswith(_KEPT_XATTRS)):
                    digest.update(attribute.encode() + b"=" + os.getxattr(inner, attribute))
            finally:
                os.close(inner)
    return digest.hexdigest()


def give_tree(folder: int, owner: int) -> None:
    """Gives what is root's on this system to `owner` (user and group), the folder itself too."""
    os.fchown(folder, owner, owner)
    for _, status, at, name in _walk(folder):
        if status.st_uid == 0:
            os.chown(name, owner, owner, dir_fd=at, follow_symlinks=False)


def measure_tree(folder: int) -> tuple[int, int]:
    """Bytes on disk and the number of entries."""
    size = entries = 0
    for _, status, _, _ in _walk(folder):
        entries += 1
        size += status.st_blocks * 512 // (status.st_nlink if stat.S_ISREG(status.st_mode) else 1)
    return size, entries


def _xattrs(folder: int) -> list[str]:
    try:
        return os.listxattr(folder)
    except OSError:
        return []


def _walk(folder: int, closing: Callable[[], None] = lambda: None) -> Iterator[tuple[bytes, os.stat_result, int, str]]:
    """Everything below, parents first: its path, what it is, and the folder and name to reach it by. `closing` is called after the last
    entry of each folder but the first."""
    stack: list[tuple[int, bytes, Iterator[str]]] = [(folder, b"", iter(sorted(os.listdir(folder))))]
    try:
        while stack:
            at, prefix, names = stack[-1]
            name = next(names, None)
            if name is None:
                stack.pop()
                if stack:
                    os.close(at)
                    closing()
                continue
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
            path = prefix + os.fsencode(name)
            yield path, status, at, name
            if stat.S_ISDIR(status.st_mode):
                if len(stack) > _DEPTH:
                    raise OSError(errno.ELOOP, f"folders are nested more than {_DEPTH} deep", os.fsdecode(path[:200]))
                inner = open_folder(name, at)
                stack.append((inner, path + b"/", iter(sorted(os.listdir(inner)))))
    finally:
        for at, _, _ in stack[1:]:
            os.close(at)


# ── removing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def remove_tree(name: str | os.PathLike[str], at: int | None = None) -> None:
    """Removes a tree, also one with folders that nobody may read, and of any depth. What is not there is no error."""
    try:
        os.unlink(name, dir_fd=at)
        return
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        pass
    folder = open_folder(name, at)
    try:
        _empty(folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=at)


def _empty(folder: int) -> None:
    """Without recursion: a guest can make trees that are deeper than Python's stack. Folders too deep are lifted to the top first."""
    with contextlib.suppress(OSError):
        os.fchmod(folder, 0o700)
    pending = os.listdir(folder)
    lifted = 0
    while pending:
        name = pending.pop()
        try:
            os.unlink(name, dir_fd=folder)
            continue
        except FileNotFoundError:
            continue
        except (IsADirectoryError, PermissionError):
            pass
        inner = open_folder(name, folder)
        try:
            with contextlib.suppress(OSError):
                os.fchmod(inner, 0o700)
            for child in os.listdir(inner):
                try:
                    os.unlink(child, dir_fd=inner)
                except (IsADirectoryError, PermissionError):
                    _make_ours(child, inner)  # moving a folder writes its `..`
                    lifted += 1
                    place = f".gloveport-{lifted}"
                    os.rename(child, place, src_dir_fd=inner, dst_dir_fd=folder)
                    pending.append(place)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=folder)
