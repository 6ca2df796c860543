"""The gateway of all boxes of a user: `python -m gloveport.egress.gateway.daemon DIRECTORY [SECONDS]`.

It belongs to nobody who started it: it has a session and no terminal of its own, and ends when no box has needed it for a while (60 s).
When the command returns, a gateway listens, this one or another: of two, the second ends at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import os
import resource
import signal
import socket
import stat
import sys
from typing import Final

# TLS is 5 MiB, which asyncio would take for something that the gateway does without it, if at all (`boxes.streams`).
if "ssl" not in sys.modules:
    sys.modules["ssl"] = None  # type: ignore[assignment]  # pyright: ignore[reportArgumentType]
    importlib.import_module("asyncio")

    del sys.modules["ssl"]

from ..lookup import Resolver, system_resolver
from .boxes.commands import LOCK, SOCKET

__all__ = ("begin", "main", "serve")

IDLE: Final = 60.0
_KEPT_ENVIRONMENT: Final = frozenset({"HOME", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "TZ", "TMPDIR"})


def main(arguments: list[str], resolver: Resolver = system_resolver) -> None:
    """Starts the gateway for a directory of state, unless there is one. `arguments`: the directory, seconds without boxes."""
    begun = begin(arguments)
    if begun is not None:
        serve(*begun, resolver)


def begin(arguments: list[str]) -> tuple[str, socket.socket, float] | None:
    """Becomes the gateway: a process of its own, which listens. `None` where there is one."""
    root = os.path.abspath(arguments[0])
    idle = float(arguments[1]) if len(arguments) > 1 else IDLE
    _check(root)
    os.umask(0o077)
    os.closerange(3, 1 << 20)
    lock = _lock(root)
    if lock < 0:
        return None
    listener = _listen(root)
    if os.fork():
        os._exit(0)  # whoever started it knows by this that it listens
    _leave()
    return root, listener, idle


def serve(root: str, listener: socket.socket, idle: float, resolver: Resolver) -> None:
    """Serves until nobody needs it. Does not return."""
    import asyncio

    from .boxes.serving import Daemon

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 1 << 19), most))
    gc.collect()
    gc.freeze()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(Daemon(root, listener, idle, resolver).run())
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(root, SOCKET))
    os._exit(0)  # look-ups that hang have threads


def _check(root: str) -> None:
    found = os.lstat(root)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        sys.exit(f"{root} must be a directory of this user's, and nobody else's (0700)")


def _lock(root: str) -> int:
    descriptor = os.open(os.path.join(root, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return -1
    return descriptor


def _listen(root: str) -> socket.socket:
    directory = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(SOCKET, dir_fd=directory)
        listener.bind(f"/proc/self/fd/{directory}/{SOCKET}")
        listener.listen(256)
        listener.setblocking(False)
    finally:
        os.close(directory)
    return listener


def _leave() -> None:
    """Out of the session, off the terminal and the directory of whoever started it, and without what that one had in its environment."""
    os.setsid()
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    if nothing > 2:
        os.close(nothing)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    for name in list(os.environ):
        if name not in _KEPT_ENVIRONMENT:
            del os.environ[name]


if __name__ == "__main__":
    main(sys.argv[1:])
