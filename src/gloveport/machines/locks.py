"""One change of state at a time for each machine, across threads and processes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import struct
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final

from ..errors import ConflictError

__all__ = ("hold", "let_go", "transition")

_FLOCK: Final = struct.Struct("@hhqqi4x")
"""`struct flock` of 64-bit Linux."""
_FILE: Final = "transitions.lock"


def _range(kind: int, key: str) -> bytes:
    # A byte range of one file: nothing to clean up. 62 bits, so that two machines do not meet.
    at = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little") >> 2
    return _FLOCK.pack(kind, os.SEEK_SET, at, 1, 0)


def hold(root: Path, key: str) -> int | None:
    """Take this lock if it is free, until `let_go` of the descriptor that is given, or the process ends. `None`: somebody has it."""
    descriptor = os.open(root / _FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # Locks of the open file (Linux 3.15), not of the process: threads exclude each other, too.
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _range(fcntl.F_WRLCK, key))
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return None
        raise
    return descriptor


def let_go(descriptor: int, key: str) -> None:
    """Give it back by name: a child that was forked in between has the same open file."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _range(fcntl.F_UNLCK, key))
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def transition(root: Path, id: str, *, timeout: float = 60.0) -> Generator[None]:  # noqa: A002
    """Hold the lock of a machine. Raises `ConflictError` when another holds it for `timeout` seconds."""
    end, pause = time.monotonic() + timeout, 0.0005
    while (descriptor := hold(root, id)) is None:
        if time.monotonic() >= end:
            raise ConflictError(f"another process is changing the machine {id!r} and did not end within {timeout:g} s")
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    try:
        yield
    finally:
        let_go(descriptor, id)
