"""Running one trusted program in a jail: `spawn_jailed`."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from gloveport.engines.jail import descriptors
from gloveport.engines.jail.child import HelperProcess, unavailable
from gloveport.engines.jail.libraries import libraries
from gloveport.engines.jail.network import SPARE_SOCKETS, NetworkSockets, resolver_libraries
from gloveport.engines.jail.verdict import Sandbox, judge
from gloveport.errors import EngineUnavailableError

__all__ = ("JailedProcess", "Sandbox", "spawn_jailed")

_START_TIMEOUT: Final = 30.0


class JailedProcess:
    """A running program. `stdin` and `stdout` are descriptors (the same one for `stdio="socket"`), closed by `close`."""

    def __init__(self, helper: HelperProcess, stdin: int, stdout: int) -> None:
        self._helper = helper
        self.control = helper.control
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self.stdin = stdin
        self.stdout = stdout
        self.pidfd = -1
        """A descriptor of the program; -1 after `close`."""
        self.pid = 0
        """Its process id as the host sees it."""
        self.network: NetworkSockets | None = None
        """With `network=True`: the sockets of its network, for the host to listen on. Whoever takes them sets this to `None`."""
        _processes.add(self)

    def said(self) -> str:
        """What it complained of before the program was executed."""
        return self._helper.said()

    def kill(self) -> None:
        """Ends it at once (SIGKILL)."""
        self.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        """Sends it a signal; nothing happens when it has ended."""
        with self._lock:
            if self.pidfd >= 0 and self._owner == os.getpid():
                try:
                    signal.pidfd_send_signal(self.pidfd, number)
                except ProcessLookupError:
                    pass

    def poll(self) -> int | None:
        """Its exit status (128 + n for signal n), `None` while it runs."""
        return self._helper.poll()

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end, at most `timeout` seconds, then kills it; gives its exit status (128 + n for signal n)."""
        return self._helper.reap(timeout)

    def close(self) -> None:
        """Kills it, waits for its end, and closes every descriptor. Idempotent."""
        self.kill()
        if self._owner == os.getpid():
            self.control.close()
            self._helper.reap(5.0)
        self._close()

    def forget(self) -> None:
        """In a forked copy of the host: closes what was inherited; the program is the parent's."""
        self._lock = threading.Lock()
        self._helper.forget()
        self._close()

    def _close(self) -> None:
        with self._lock:
            self.control.close()
            ours = {self.pidfd, self.stdin, self.stdout} - {-1}
            # The numbers first: a copy of this process, forked now, must not close what has them by then.
            self.pidfd = self.stdin = self.stdout = -1
            for fd in ours:
                os.close(fd)
            if self.network is not None:
                self.network.close()
                self.network = None

    def __del__(self) -> None:
        if getattr(self, "pidfd", -1) >= 0 and self._owner == os.getpid():
            self.close()


_processes: weakref.WeakSet[JailedProcess] = weakref.WeakSet()


def _after_fork() -> None:
    """A copy of the host that is forked while another thread starts a program has its descriptors too."""
    for process in list(_processes):
        process.forget()


os.register_at_fork(after_in_child=_after_fork)


def spawn_jailed(
    argv: Sequence[str | os.PathLike[str]],
    *,
    readable: Sequence[str | os.PathLike[str]] = (),
    mounts: Mapping[str, str] | None = None,
    writable: Mapping[str, str] | None = None,
    directory: str = "/",
    sandbox: Sandbox = "require",
    stdio: Literal["pipe", "socket"] = "pipe",
    environment: Mapping[str, str] | None = None,
    scratch_bytes: int = 16 * 1024 * 1024,
    memory_bytes: int | None = None,
    network: bool = False,
    warn: bool = True,
) -> JailedProcess:
    """Starts a trusted program in a jail and returns when it was executed.

    The program sees its own file, the shared libraries that it loads, the files and directories of `readable` (all read-only, under the
    paths given), `/dev/null`, `/dev/urandom`, and an empty `/.scratch` of `scratch_bytes` (0: none). It has threads and executable memory;
    no network, no other process, no second program, no environment but `environment` (default: empty). Its stderr is discarded.
    `mounts` shows files and directories, read-only, under other paths than their own (path in the jail → path here); words of `argv`
    that are such a path of here become the one in the jail. Where there is no mount namespace, what is mounted keeps its own path,
    and directories are not there. `writable` is the same for directories that the program may write. `directory` is where it starts.
    `memory_bytes` bounds its private writable memory. `stdio="socket"` puts one socket on stdin and stdout in place of two pipes.
    `network=True` gives it TCP and UDP sockets in a network that ends at the host's: `JailedProcess.network` are the sockets where
    its connections to any address, and its questions to a name server, arrive. Until the host listens they are refused. Without a
    network namespace (`sandbox="off"`, or one that is missing under `"auto"`) that is an `EngineUnavailableError`, never another network.
    `warn=False` keeps quiet about what `sandbox="auto"` leaves out: the caller has said so before.

    It dies with this process. Raises `SandboxUnavailableError` (under `sandbox="require"`) or `EngineUnavailableError`.
    """
    words = [_path(word) for word in argv]
    program = os.path.abspath(words[0])
    shown = [os.path.abspath(_path(path)) for path in readable]
    mounted = dict(mounts or {})
    written = dict(writable or {})
    for path in (program, *shown, *mounted.values(), *written.values()):
        if not os.path.exists(path):
            raise EngineUnavailableError(f"{path} does not exist")
    loader, needed = libraries(program)
    order: dict[str, Any] = {
        "argv": [program, *words[1:]],
        "readable": shown,
        "mounts": mounted,
        "writable": written,
        "directory": directory,
        "loader": loader,
        "libraries": [*needed, *(resolver_libraries(needed) if network else ())],
        "sandbox": sandbox,
        "environment": dict(environment or {}),
        "scratch_bytes": scratch_bytes,
        "memory_bytes": memory_bytes,
        "network": network,
        "watched": True,
        "host": os.getpid(),
    }
    process = _launch(stdio)
    try:
        _start(process, order, sandbox, warn=warn)
    except BaseException:
        process.close()
        raise
    return process


def _path(word: str | os.PathLike[str]) -> str:
    return word if isinstance(word, str) else os.fspath(word)


def _launch(stdio: Literal["pipe", "socket"]) -> JailedProcess:
    ours: list[int] = []
    theirs: list[int] = []
    try:
        if stdio == "socket":
            here, there = socket.socketpair()
            ours, theirs = [here.detach()] * 2, [there.detach()] * 2
        else:
            for reading in (True, False):
                ends = os.pipe()
                theirs.append(ends[not reading])
                ours.append(ends[reading])
        return JailedProcess(HelperProcess("gloveport.engines.jail.launcher", fds=theirs), *ours)
    except BaseException as error:
        for fd in set(ours):
            os.close(fd)
        if isinstance(error, OSError):
            raise unavailable(error, "a jail") from error
        raise
    finally:
        for fd in set(theirs):
            os.close(fd)


def _start(process: JailedProcess, order: Mapping[str, Any], sandbox: Sandbox, *, warn: bool) -> None:
    """Hears how the jail came out, judges it, and lets the program be executed."""
    program: str = order["argv"][0]
    control = process.control
    control.settimeout(_START_TIMEOUT)
    greeting: dict[str, Any] | None = None
    try:
        control.send(json.dumps(order).encode())
        while process.pidfd < 0 or greeting is None:
            packet, fds = descriptors.receive(control, 65536, SPARE_SOCKETS + 3)
            if packet.startswith(b"P") and len(fds) == 1:
                process.pid, process.pidfd = int(packet[1:]), fds[0]
            elif packet[:1] in (b"N", b"W"):
                process.network = _network(program, packet, fds)
            elif packet.startswith(b"H"):
                greeting = json.loads(packet[1:])
            else:
                said = process.said() or "it said nothing"
                raise EngineUnavailableError(f"the jail for {program} did not start: {said}")
        if warn or sandbox != "auto":
            judge(sandbox, os.path.basename(program), greeting)
        control.send(b"g")
        answer = control.recv(65536)  # its end of the socket closes with the execution
    except OSError as error:
        raise EngineUnavailableError(f"the jail for {program} did not start: {process.said() or error}") from error
    if answer:
        raise EngineUnavailableError(f"{program} cannot be executed in the jail: {answer[1:].decode(errors='replace')}")


def _network(program: str, packet: bytes, fds: list[int]) -> NetworkSockets:
    if len(fds) < 2:
        raise EngineUnavailableError(
            f"{os.path.basename(program)} cannot have a network: {packet[1:].decode(errors='replace')}. A jail's network needs its network "
            "namespace: see `gloveport doctor`"
        )
    return NetworkSockets.of(fds, watched=packet == b"W")
