"""Namespaces, the empty root and the unprivileged user of a jail."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from gloveport.engines.jail import syscalls

__all__ = (
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SYS_ADMIN",
    "FLAGS",
    "HOST_NAME",
    "Tree",
    "build_root",
    "clone_tree",
    "drop_capabilities",
    "effective_capability",
    "identity",
    "map_user",
    "unprivileged_id",
)

FLAGS: Final = {
    "user": 0x1000_0000,
    "mnt": 0x0002_0000,
    "pid": 0x2000_0000,
    "net": 0x4000_0000,
    "ipc": 0x0800_0000,
    "uts": 0x0400_0000,
    "cgroup": 0x0200_0000,
}
"""Name under `/proc/self/ns` → `CLONE_NEW*`, in the order in which they are entered."""

HOST_NAME: Final = "gloveport"
"""What a jailed process hears when it asks for the machine's name."""

_NOBODY: Final = 65534
_ID_BASE: Final = 0x7000_0000
CAP_KILL: Final = 5
CAP_SETGID: Final = 6
CAP_SETUID: Final = 7
CAP_SYS_ADMIN: Final = 21

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 1, 2, 4, 8, 32
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_MNT_DETACH: Final = 2
_AT_FDCWD: Final = -100
_AT_EMPTY_PATH: Final = 0x1000
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV, _ATTR_NOEXEC = 1, 2, 4, 8

_STAGES: Final = ("/proc", "/dev", "/sys", "/usr", "/var")
"""Directories that nearly every system has: the new root is mounted over the first one, out of sight of everything else."""


class Tree(NamedTuple):
    """A detached copy of one mount: `fd` from `clone_tree`, `target` the absolute path inside of the jail."""

    fd: int
    target: str
    directory: bool


def identity(name: str, proc: int | None = None) -> str:
    """What names this process's namespace of that kind. `proc` is a descriptor of `/proc`. Raises `OSError` without one."""
    return os.readlink(f"self/ns/{name}", dir_fd=proc) if proc is not None else os.readlink(f"/proc/self/ns/{name}")


def effective_capability(capability: int) -> bool:
    """Whether this process has that capability now."""
    with open("/proc/self/status", encoding="ascii") as status:
        effective = next((int(line.split()[1], 16) for line in status if line.startswith("CapEff:")), 0)
    return bool(effective >> capability & 1)


def unprivileged_id(proc: int, seed: int) -> int:
    """A user id for a jail that root starts: one of its own where the user namespace maps such ids, else that of nobody.

    An id of its own keeps apart per-user limits, and jails from other services that run as nobody.
    """
    wanted = _ID_BASE | (seed & 0x03FF_FFFF)
    return wanted if all(_maps(proc, f"self/{kind}_map", wanted) for kind in ("uid", "gid")) else _NOBODY


def _open(proc: int, path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, dir_fd=proc)


def _maps(proc: int, path: str, wanted: int) -> bool:
    with open(_open(proc, path, os.O_RDONLY), encoding="ascii") as lines:
        ranges = [tuple(map(int, line.split())) for line in lines]
    return any(first <= wanted < first + count for first, _, count in ranges)


def map_user(proc: int, uid: int, gid: int) -> None:
    """In a new user namespace: maps only this user and group, each to nobody. Raises `OSError`."""
    # Nobody rather than root: no code takes itself for root. setgroups must be refused before an ordinary user may map a group.
    for name, text in (("setgroups", "deny"), ("uid_map", f"{_NOBODY} {uid} 1"), ("gid_map", f"{_NOBODY} {gid} 1")):
        fd = _open(proc, f"self/{name}", os.O_WRONLY)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)


def drop_capabilities() -> None:
    """Empties every capability set, the bounding set included. Raises `OSError`."""
    for capability in range(64):
        if syscalls.attempt("prctl", 24, capability) < 0:
            break  # EINVAL: beyond the last one of this kernel
    syscalls.attempt("prctl", 47, 4)  # PR_CAP_AMBIENT_CLEAR_ALL
    header = struct.pack("=Ii", 0x2008_0522, 0)
    header_buffer = ctypes.create_string_buffer(header, len(header))
    syscalls.call("capset", header_buffer, ctypes.create_string_buffer(24))
    data = ctypes.create_string_buffer(b"\xff" * 24, 24)
    syscalls.call("capget", header_buffer, data)
    if any(data.raw):
        raise OSError(1, "capabilities are left after dropping all of them")


def clone_tree(path: str, *, writable: bool = False) -> Tree:
    """A detached copy of the mount at `path` (a file or a directory), read-only or without executables and devices, to be put into a
    new root. Raises `OSError`."""
    flags = 1 | os.O_CLOEXEC  # OPEN_TREE_CLONE
    fd = syscalls.call("open_tree", _AT_FDCWD, os.fsencode(path) + b"\0", flags)
    wanted = _ATTR_NOSUID | (_ATTR_NODEV | _ATTR_NOEXEC if writable else _ATTR_RDONLY)
    attributes = struct.pack("QQQQ", wanted, 0, 0, 0)
    syscalls.call("mount_setattr", fd, b"\0", _AT_EMPTY_PATH, ctypes.create_string_buffer(attributes, 32), 32)
    return Tree(fd, path, os.path.isdir(path))


def build_root(
    trees: Sequence[Tree],
    links: Sequence[tuple[str, str]],
    scratch: str,
    scratch_bytes: int,
    files: Sequence[tuple[str, bytes]] = (),
) -> None:
    """Moves this process, alone in its mount namespace, to a new root, and lets go of the old one. Raises `OSError`.

    The root holds `trees`, symbolic `links` (path, target), small `files` (path, content) and, with `scratch_bytes`, an empty
    writable directory of that size at `scratch`; it is read-only, and empty when nothing is asked for.
    """
    stage = next((s for s in _STAGES if os.path.isdir(s)), None)
    if stage is None:
        raise OSError(2, f"none of {', '.join(_STAGES)} exists to mount the jail's root on")
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    content = bool(trees or links or scratch_bytes or files)
    # Each path is a file or directory and the directories that lead to it.
    shown = [*(tree.target for tree in trees), *(path for path, _ in (*links, *files)), scratch]
    inodes = 64 + sum(path.count("/") for path in shown)
    options = f"size=256k,nr_inodes={inodes},mode=755" if content else "size=4k,nr_inodes=2,mode=555"
    _mount("tmpfs", stage, "tmpfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, options)
    for tree in trees:
        _attach(stage, tree)
    for path, text in files:
        os.makedirs(os.path.dirname(stage + path), mode=0o755, exist_ok=True)
        with open(os.open(stage + path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_WRONLY, 0o444), "wb") as file:
            file.write(text)
    for path, target in links:
        os.makedirs(os.path.dirname(stage + path), mode=0o755, exist_ok=True)
        os.symlink(target, stage + path)
    if scratch_bytes:
        os.makedirs(stage + scratch)
        flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
        # Open to every user: root makes it before it changes its user, and nobody else is in here.
        _mount("tmpfs", stage + scratch, "tmpfs", flags, f"size={scratch_bytes},nr_inodes=512,mode=777")
    os.chdir(stage)
    # pivot_root(".", ".") stacks the old root on the new one, from where it is unmounted: pivot_root(2).
    syscalls.call("pivot_root", b".\0", b".\0")
    syscalls.call("umount2", b".\0", _MNT_DETACH)
    os.chdir("/")
    _mount("none", "/", None, _MS_REMOUNT | _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)


def _attach(stage: str, tree: Tree) -> None:
    target = stage + tree.target
    os.makedirs(target if tree.directory else os.path.dirname(target), mode=0o755, exist_ok=True)
    if not tree.directory:
        os.close(os.open(target, os.O_CREAT | os.O_CLOEXEC | os.O_WRONLY, 0o444))
    syscalls.call("move_mount", tree.fd, b"\0", _AT_FDCWD, os.fsencode(target) + b"\0", 4)
    os.close(tree.fd)


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    words = [os.fsencode(w) + b"\0" if w is not None else None for w in (source, target, kind)]
    syscalls.call("mount", words[0], words[1], words[2], flags, options.encode() + b"\0")
