"""Archives that strangers have made, into trees: `unpack`.

Names in an archive are resolved inside of the tree, as if it were the root (`openat2` with `RESOLVE_IN_ROOT`): links in it, absolute
ones and `..` lead nowhere else. Device nodes and sockets are left out: a machine has its own `/dev`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import posixpath
import stat
import struct
import tarfile
from typing import IO, Final

from .owners import Owners
from .trees import OPAQUE, make_whiteout, open_folder, remove_tree

__all__ = ("ArchiveTooLargeError", "unpack")

MAX_BYTES: Final = 32 << 30
MAX_ENTRIES: Final = 5_000_000
_WHITEOUT: Final = ".wh."
_OPAQUE_MARK: Final = ".wh..wh..opq"
_OPENAT2: Final = 437
_RESOLVE_IN_ROOT: Final = 0x10
_CHUNK: Final = 1 << 20
_libc = ctypes.CDLL(None, use_errno=True)


class ArchiveTooLargeError(ValueError):
    """More bytes or entries than a layer may have."""


def unpack(
    archive: IO[bytes],
    tree: str | os.PathLike[str],
    owners: Owners,
    *,
    whiteouts: bool = False,
    max_bytes: int = MAX_BYTES,
) -> None:
    """Writes a tar archive (plain, gzip, bzip2, xz; read as a stream) into the folder `tree`, over what is there.

    `whiteouts`: files named `.wh.NAME` hide NAME of the layers below, and `.wh..wh..opq` all of them (OCI image specification, layer
    filesystem changeset). Raises `ValueError` for what is no such archive and `ArchiveTooLargeError`.
    """
    root = open_folder(tree)
    try:
        with tarfile.open(fileobj=archive, mode="r|*") as opened:
            _Unpacking(root, owners, whiteouts, max_bytes).all(opened)
    except (tarfile.TarError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise ValueError(f"this is no tar archive that can be read: {error}") from error
    finally:
        os.close(root)


class _Unpacking:
    def __init__(self, root: int, owners: Owners, whiteouts: bool, max_bytes: int) -> None:
        self._root = root
        self._owners = owners
        self._whiteouts = whiteouts
        self._left = max_bytes
        self._entries = MAX_ENTRIES
        self._folders: list[tuple[str, tarfile.TarInfo]] = []

    def all(self, archive: tarfile.TarFile) -> None:
        for member in archive:
            self._entries -= 1
            self._left -= max(member.size, 0) if member.isreg() else 0
            if self._entries < 0 or self._left < 0:
                raise ArchiveTooLargeError("the archive has more bytes or entries than a layer may have")
            path = posixpath.normpath("/" + member.name)
            if path == "/":
                if member.isdir():
                    self._folders.append((path, member))
                continue
            self._member(archive, member, path)
        # Last, so that folders which nobody may write can be filled; the deepest first, so that their times stay.
        for path, member in sorted(self._folders, key=lambda item: -item[0].count("/")):
            folder = self._resolved(path)
            try:
                self._settle(folder, member)
            finally:
                os.close(folder)

    def _member(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
        parent_path, name = posixpath.split(path)
        parent = self._parents(parent_path)
        try:
            if self._whiteouts and name.startswith(_WHITEOUT):
                self._hide(parent, name)
            elif member.isdir():
                self._make_folder(parent, name)
                self._folders.append((path, member))
            else:
                remove_tree(name, parent)
                self._leaf(archive, member, parent, name)
        finally:
            os.close(parent)

    def _leaf(self, archive: tarfile.TarFile, member: tarfile.TarInfo, parent: int, name: str) -> None:
        if member.isreg():
            made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent)
            try:
                given = archive.extractfile(member)
                while given and (chunk := given.read(_CHUNK)):
                    _write(made, chunk)
                self._settle(made, member)
            finally:
                os.close(made)
        elif member.islnk():
            self._link(member, parent, name)
        elif member.issym():
            os.symlink(member.linkname, name, dir_fd=parent)
            self._own(parent, name, member)
        elif member.isfifo():
            os.mkfifo(name, member.mode & 0o7777, dir_fd=parent)
            self._own(parent, name, member)

    def _link(self, member: tarfile.TarInfo, parent: int, name: str) -> None:
        other, last = posixpath.split(posixpath.normpath("/" + member.linkname))
        folder = self._resolved(other)
        try:
            os.link(last, name, src_dir_fd=folder, dst_dir_fd=parent, follow_symlinks=False)
        finally:
            os.close(folder)

    def _hide(self, parent: int, name: str) -> None:
        if name == _OPAQUE_MARK:
            os.setxattr(parent, OPAQUE, b"y")
            return
        hidden = name.removeprefix(_WHITEOUT)
        if hidden in ("", ".", ".."):
            raise ValueError(f"{name!r} hides nothing")
        remove_tree(hidden, parent)
        make_whiteout(hidden, parent)

    def _make_folder(self, parent: int, name: str) -> None:
        try:
            os.mkdir(name, 0o700, dir_fd=parent)
        except FileExistsError:
            # A link to a folder stays one: trees with `/bin -> usr/bin` are unpacked over by archives that have `bin/`.
            if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode) and not self._leads(
                parent, name
            ):
                remove_tree(name, parent)
                os.mkdir(name, 0o700, dir_fd=parent)

    def _leads(self, parent: int, name: str) -> bool:
        """Whether a link leads to a folder of the tree."""
        try:
            os.close(self._resolved(f"{self._path(parent)}/{name}"))
        except OSError:
            return False
        return True

    def _path(self, folder: int) -> str:
        root, here = os.readlink(f"/proc/self/fd/{self._root}"), os.readlink(f"/proc/self/fd/{folder}")
        return here.removeprefix(root)

    def _parents(self, path: str) -> int:
        """The folder of a name, made with those above it where they are missing."""
        try:
            return self._resolved(path)
        except FileNotFoundError:
            above, name = posixpath.split(path)
            parent = self._parents(above)
            try:
                os.mkdir(name, 0o755, dir_fd=parent)
                if self._owners.base is not None:
                    os.chown(name, self._owners.base, self._owners.base, dir_fd=parent, follow_symlinks=False)
            finally:
                os.close(parent)
            return self._resolved(path)

    def _resolved(self, path: str) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        how = struct.pack("QQQ", flags, 0, _RESOLVE_IN_ROOT)
        found = _libc.syscall(_OPENAT2, self._root, os.fsencode(path), how, len(how))
        if found < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
        return found

    def _settle(self, made: int, member: tarfile.TarInfo) -> None:
        if self._owners.base is not None:
            os.fchown(made, self._owners.outside(member.uid), self._owners.outside(member.gid))
        os.fchmod(made, member.mode & 0o7777)
        os.utime(made, (member.mtime, member.mtime))

    def _own(self, parent: int, name: str, member: tarfile.TarInfo) -> None:
        if self._owners.base is not None:
            os.chown(
                name,
                self._owners.outside(member.uid),
                self._owners.outside(member.gid),
                dir_fd=parent,
                follow_symlinks=False,
            )


def _write(made: int, chunk: bytes) -> None:
    while chunk:
        chunk = chunk[os.write(made, chunk) :]
