"""The folder `run` that a machine shares with the host. Its root writes to it as it likes: no name in it is followed, and it is small."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import struct
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Final

__all__ = ("SharedFolder", "enter_namespaces", "make_read_only")

_CLONE_NEWNS: Final = 0x00020000
_CLONE_NEWUSER: Final = 0x10000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_MS_BIND, _MS_REC, _MS_SLAVE = 1 << 12, 1 << 14, 1 << 19
_SYS_MOUNT_SETATTR: Final = 442  # Linux 5.12; the same number on every architecture
_AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = -100, 0x8000, 1
_MOST_BYTES: Final = 16 * 1024 * 1024
_MOST_FILES: Final = 1024
_GO: Final = "agent.sock.go"
_FILL: Final = "fill"


def enter_namespaces() -> None:
    """Mounts of ours are seen by nobody else. An ordinary user becomes root of a user namespace of its own, with no other id: what
    `runsc` would have a set-uid program do otherwise (`newuidmap`), which is not everywhere. Raises `OSError`."""
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS | (_CLONE_NEWUSER if user else 0)):
        whose = "ordinary users make user namespaces" if user else "root make mount namespaces"
        raise OSError(ctypes.get_errno(), f"this host does not let {whose}")
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    if libc.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None):
        raise OSError(ctypes.get_errno(), "mounts cannot be kept apart from those of the host")


def make_read_only(places: Sequence[str]) -> None:
    """Nothing below these can be written to from here on, by whatever we start. gVisor alone refuses a machine's writes; its helper
    opens files for writing all the same, as whoever we are (20240729): a guest could keep programs of the host from being run.

    Raises `OSError`: without it nothing is started.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    attributes = struct.pack("<4Q", _MOUNT_ATTR_RDONLY, 0, 0, 0)
    for place in map(os.fsencode, places):
        failed = libc.mount(place, place, None, _MS_BIND | _MS_REC, None) or libc.syscall(
            ctypes.c_long(_SYS_MOUNT_SETATTR), _AT_FDCWD, place, _AT_RECURSIVE, attributes, ctypes.c_size_t(32)
        )
        if failed:
            number = ctypes.get_errno()
            raise OSError(number, f"cannot make {os.fsdecode(place)} read-only for a machine: {os.strerror(number)}")


class SharedFolder:
    """It, as the keeper sees it: in memory of its own, where the keeper may mount, so that it is full before it is large."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._limited = False

    def make(self, inside: bytes) -> None:
        """Empty but for the agent's `spec`."""
        self.path.mkdir(mode=0o700, exist_ok=True)
        options = f"size={_MOST_BYTES},nr_inodes={_MOST_FILES},mode=700".encode()
        flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
        done = ctypes.CDLL(None).mount(b"tmpfs", os.fsencode(self.path), b"tmpfs", flags, options)
        self._limited = done == 0
        for left in os.scandir(self.path):
            if left.is_dir(follow_symlinks=False):
                shutil.rmtree(left.path)
            else:
                os.unlink(left.path)
        (self.path / "spec").write_bytes(inside)

    def bring(self, files: Path) -> bool:
        """A copy of a tree, for the machine to take. Gives whether there is anything. Nothing of the machine's runs yet."""
        if not files.is_dir() or not any(files.iterdir()):
            return False
        shutil.copytree(files, self.path / _FILL)
        return True

    def forget_socket(self) -> None:
        """Of an earlier life."""
        with self._opened() as folder, contextlib.suppress(FileNotFoundError):
            os.unlink("agent.sock", dir_fd=folder)

    def wake_agent(self) -> None:
        """What the agent looks for. Made anew, so that it is no link of the machine's."""
        with self._opened() as folder:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(_GO, dir_fd=folder)
            os.close(
                os.open(_GO, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
            )

    def too_large(self) -> bool:
        """Whether it has more than it may; looked at only where nothing else limits it."""
        if self._limited:
            return False
        size = files = 0
        for _, folders, names, descriptor in os.fwalk(self.path, follow_symlinks=False):
            files += len(folders) + len(names)
            if files > _MOST_FILES:
                return True
            for name in names:
                with contextlib.suppress(OSError):
                    size += os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_blocks * 512
        return size > _MOST_BYTES

    @contextlib.contextmanager
    def _opened(self) -> Generator[int]:
        descriptor = os.open(self.path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
