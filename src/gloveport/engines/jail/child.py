"""Starting a trusted Python process that will put itself into a jail."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from gloveport.errors import EngineUnavailableError

__all__ = ("HelperProcess", "unavailable")

_ENTRY: Final = (
    "import sys; n = int(sys.argv[2]); sys.path[:] = sys.argv[3:3 + n]; "
    "__import__(sys.argv[1], fromlist=['main']).main(sys.argv[3 + n:])"
)

_KEPT_ENVIRONMENT: Final = ("LD_LIBRARY_PATH", "HOME", "XDG_CACHE_HOME", "TMPDIR", "GLOVEPORT_CACHE")
"""What finding the interpreter's own libraries and the cache of compiled modules needs; erased before the jail is entered."""


def _search_path() -> list[str]:
    """This process's import path, made absolute, with this package on it however it was found (editable installs, import hooks)."""
    path = [os.path.abspath(entry) for entry in sys.path]
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    return path if here in path else [*path, here]


def unavailable(error: OSError, what: str) -> EngineUnavailableError:
    """That error of a system call, while `what` was made ready, with what to do about it."""
    text = f"{what} cannot be started: {error}"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return EngineUnavailableError(f"{text}. Close some descriptors, or raise their limit (ulimit -n)")
    if error.errno in (errno.EPERM, errno.ENOSYS):
        return EngineUnavailableError(
            f"{text}. Linux 5.3 has what is needed (pidfd_open, memfd_create): a surrounding sandbox has to permit it, as Docker's "
            "own seccomp profile does since 20.10.10"
        )
    return EngineUnavailableError(text)


class HelperProcess:
    """A child that runs `module.main([control, host, *fds, *arguments])` in this interpreter, apart from the site directory and the
    environment: the numbers of a socket (its other end is `control` here), of a descriptor of this process, and of `fds`.

    It inherits those and nothing else. Raises `EngineUnavailableError` when it cannot be started.
    """

    def __init__(self, module: str, arguments: Sequence[str] = (), fds: Sequence[int] = ()) -> None:
        self.control: socket.socket
        try:
            self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                try:
                    host = os.pidfd_open(os.getpid())
                    try:
                        given = [theirs.fileno(), host, *fds]
                        self._start(module, [*map(str, given), *arguments], given)
                    finally:
                        os.close(host)
                except BaseException:
                    self.control.close()
                    raise
        except OSError as error:
            raise unavailable(error, "a process for workers") from error

    def _start(self, module: str, arguments: Sequence[str], fds: Sequence[int]) -> None:
        if min(fds) < 3:
            raise EngineUnavailableError(
                "standard input, output or error of this process is closed: open it on /dev/null"
            )
        executable = sys.executable
        if not executable:
            raise EngineUnavailableError("sys.executable is not set: no Python process can be started for workers")
        path = _search_path()
        environment = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
        # A memory file takes what is said before the jail is up: a pipe would need a reader.
        self._said = os.memfd_create("gloveport-start", os.MFD_CLOEXEC)
        try:
            self._process = subprocess.Popen(
                # -I: no user site, no PYTHON* variables; -S: the import path comes from us.
                [executable, "-I", "-S", "-c", _ENTRY, module, str(len(path)), *path, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                pass_fds=fds,
                env=environment,
                cwd="/",
                start_new_session=True,  # a terminal's Ctrl-C is the host's to handle
            )
        except BaseException:
            os.close(self._said)
            raise

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def said(self) -> str:
        """The end of what it wrote to stderr before it was ready."""
        size = os.fstat(self._said).st_size
        return os.pread(self._said, 4000, max(0, size - 4000)).decode(errors="replace").strip()

    def reap(self, timeout: float | None = 5.0) -> int:
        """Waits for it, killing it after `timeout` seconds; gives its exit status."""
        try:
            status = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        self._close_said()
        return status

    def poll(self) -> int | None:
        """Its exit status, `None` while it runs."""
        return self._process.poll()

    def forget(self) -> None:
        """In a forked copy of the host, whose child it is not."""
        self._process.returncode = 0
        self._close_said()

    def _close_said(self) -> None:
        # The number first: a copy of this process, forked now, must not close what has it by then.
        said, self._said = self._said, -1
        if said >= 0:
            os.close(said)
