"""Starting a worker: which program, with which flags, how confined, with how much memory."""

from __future__ import annotations

import os
import resource
import select
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ...errors import EngineUnavailableError
from ...policy import MIB, SandboxMode
from ..jail.command import spawn_jailed
from ..jail.network import NetworkSockets
from ..toolbox.process import popen_on_socket
from . import bell as bells
from .bell import Bell
from .workspace import INSIDE, Workspace

__all__ = ("ENVIRONMENT", "OFFLINE", "Process", "Program", "start")

START_TIMEOUT: Final = 30.0
"""Seconds until a started worker must have said that it is ready: it takes about 0.1, but the machine may be busy."""
ENVIRONMENT: Final = {"DENO_DIR": "/dev/null/none", "NO_COLOR": "1", "TZ": "UTC"}
"""No DENO_DIR that can exist: what Deno keeps there (caches, `localStorage`) one session could leave for another (Deno 2.9.8 runs
without one). The time zone is the sessions'."""
OFFLINE: Final = ("--no-prompt", "--no-remote", "--no-npm", "--cached-only", "--no-config", "--no-lock", "--quiet")
"""Flags of a worker that loads nothing but its own program."""
BASE_HEAP: Final = 16 * MIB
"""Of V8's heap: what a program itself takes."""
_READY: Final = b"\x01\x00\x00\x00r"
_ROOM: Final = 48 * MIB
"""Of private memory beyond the session's: V8's young generation, code, and what a collection needs for a moment."""


@dataclass(frozen=True, slots=True)
class Program:
    """What one kind of worker is."""

    what: str
    """For messages, with an article."""
    argv: tuple[str, ...]
    """Files in it are read by it: its first word, and those of `readable` and `mounts`."""
    memory: int
    """Bytes of private memory beyond what the program takes by itself."""
    environment: Mapping[str, str] = field(default_factory=lambda: ENVIRONMENT)
    workspace: bool = False
    """It has a directory of its own, read-only, where it starts."""
    bell: bool = False
    """It looks for a `Bell`, and goes without where there is none."""
    mounts: tuple[tuple[str, str], ...] = ()
    """What it sees under a neutral path: that path, and the one here."""
    writable: tuple[tuple[str, str], ...] = ()
    """The same for directories that it may write."""
    readable: tuple[str, ...] = ()
    """Further files and directories that it sees, under their own paths."""
    network: bool = False
    """It has a network that ends at sockets of the host (`Process.network`); it needs a jail for that."""


@dataclass(frozen=True, slots=True)
class Process:
    """A started worker, apart from how it was started."""

    pid: int
    sock: socket.socket
    kill: Callable[[], None]
    signal: Callable[[int], None]
    """Sends a signal; nothing happens when it has ended."""
    poll: Callable[[], int | None]
    """Its exit status (128 + n for signal n), `None` while it runs."""
    wait: Callable[[float], int]
    close: Callable[[], None]
    """Kills it, waits for its end, closes every descriptor, removes its workspace and its bell."""
    forget: Callable[[], None]
    """In a forked copy of the host: closes the descriptors only."""
    workspace: Workspace | None = None
    bell: Bell | None = None
    network: Callable[[], NetworkSockets | None] = lambda: None
    """Gives the sockets of its network away, once."""


def start(program: Program, sandbox: SandboxMode, *, warn: bool) -> Process:
    """A worker that is ready for its first request. Raises `SandboxUnavailableError` or `EngineUnavailableError`."""
    own = None if sandbox == "off" else _own_memory.get(program.what)
    process = _started(program, sandbox, None if own is None else own + program.memory + _ROOM, warn=warn)
    try:
        if own is None and not _limit_memory(program, process.pid):
            own = _own_memory[program.what] = _private_memory(program, process.pid)
            process.close()  # that one has no limit: another one, which starts with it
            process = _started(program, sandbox, own + program.memory + _ROOM, warn=False)
        _check_memory(program, process.pid)
    except BaseException:
        process.close()
        raise
    return process


def _started(program: Program, sandbox: SandboxMode, memory_bytes: int | None, *, warn: bool) -> Process:
    jailed = sandbox != "off"
    workspace = Workspace(mounted=jailed) if program.workspace else None
    bell = Bell.hung() if program.bell and jailed else None  # Deno opens no file below /dev, where it is without a jail
    try:
        process = (
            _jailed(program, workspace, bell, sandbox, memory_bytes, warn=warn)
            if jailed
            else _plain(program, workspace)
        )
    except BaseException:
        if workspace is not None:
            workspace.remove()
        if bell is not None:
            bell.close()
        raise
    try:
        _await_ready(program, process)
    except BaseException:
        process.close()
        raise
    if bell is not None:
        bell.take_down()
    return process


def _jailed(
    program: Program,
    workspace: Workspace | None,
    bell: Bell | None,
    sandbox: SandboxMode,
    memory_bytes: int | None,
    *,
    warn: bool,
) -> Process:
    argv = program.argv
    mounts = dict(program.mounts)
    if workspace is not None:
        mounts[INSIDE] = str(workspace.path)
    if bell is not None:
        mounts[bells.INSIDE] = bell.path
    jailed = spawn_jailed(
        argv,
        readable=program.readable,
        mounts=mounts,
        writable=dict(program.writable),
        directory="/" if workspace is None else INSIDE,
        sandbox=sandbox,
        stdio="socket",
        environment=program.environment,
        scratch_bytes=0,
        memory_bytes=memory_bytes,
        network=program.network,
        warn=warn,
    )
    sock = socket.socket(fileno=os.dup(jailed.stdin))

    def close() -> None:
        sock.close()
        jailed.close()
        if workspace is not None:
            workspace.remove()
        if bell is not None:
            bell.close()

    def forget() -> None:
        sock.close()
        jailed.forget()
        if bell is not None:
            bell.close()

    def network() -> NetworkSockets | None:
        sockets, jailed.network = jailed.network, None
        return sockets

    signal = jailed.signal
    return Process(
        jailed.pid, sock, jailed.kill, signal, jailed.poll, jailed.wait, close, forget, workspace, bell, network
    )


def _plain(program: Program, workspace: Workspace | None) -> Process:
    """Without a jail: it has this process's rights, less what Deno denies by itself. It ends when its stdin does."""
    if program.network:
        raise EngineUnavailableError(f'{program.what} has a network only in a jail: sandbox="off" leaves none to guard')
    where = os.sep if workspace is None else str(workspace.path)
    argv = [word.replace(f"={INSIDE}", f"={where}") for word in program.argv]
    child, ours = popen_on_socket(argv, program.environment, program.what, where)

    def status(code: int) -> int:
        return code if code >= 0 else 128 - code

    def poll() -> int | None:
        code = child.poll()
        return None if code is None else status(code)

    def wait(timeout: float) -> int:
        try:
            return status(child.wait(timeout))
        except subprocess.TimeoutExpired:
            child.kill()
            return status(child.wait())

    def close() -> None:
        child.kill()
        child.wait()
        ours.close()
        if workspace is not None:
            workspace.remove()

    def forget() -> None:
        child.returncode = 0
        ours.close()

    return Process(child.pid, ours, child.kill, child.send_signal, poll, wait, close, forget, workspace)


def _await_ready(program: Program, process: Process) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    said = b""
    poll = select.poll()
    poll.register(process.sock, select.POLLIN)
    while len(said) < len(_READY):
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise EngineUnavailableError(f"{program.what} was not ready within {START_TIMEOUT:g} seconds")
        part = process.sock.recv(len(_READY) - len(said))
        if not part:
            raise EngineUnavailableError(f"{program.what} ended before it was ready (this release needs deno>=2.9,<3)")
        said += part
    if said != _READY:
        raise EngineUnavailableError(f"{program.what} is of another version: reinstall gloveport")


# V8's own limit does not count buffers: RLIMIT_DATA bounds them with everything else. It has to leave what the program maps for
# itself (0.5 GiB, most of it never used), which is known only when it runs. Setting it then from outside takes CAP_SYS_RESOURCE
# where the worker is another user; without that, the first worker is measured and given up, and all others start with the limit.

_own_memory: dict[str, int] = {}


def _limit_memory(program: Program, pid: int) -> bool:
    """Sets the limit of a running worker; false when that is not permitted."""
    limit = _private_memory(program, pid) + program.memory + _ROOM
    try:
        resource.prlimit(pid, resource.RLIMIT_DATA, (limit, limit))
    except PermissionError:
        return False
    return True


def _private_memory(program: Program, pid: int) -> int:
    return next(int(words[1]) * 1024 for words in _lines(program, pid, "status") if words[:1] == ["VmData:"])


def _check_memory(program: Program, pid: int) -> None:
    """Raises unless the limit is there and is not far above what it should be."""
    words = next(words for words in _lines(program, pid, "limits") if words[:3] == ["Max", "data", "size"])
    most = _private_memory(program, pid) + program.memory + 2 * _ROOM
    if words[4] == "unlimited" or int(words[4]) > most:
        raise EngineUnavailableError(
            f"the memory of {program.what} is not limited: it has {words[4]} bytes, not at most {most}"
        )


def _lines(program: Program, pid: int, file: str) -> list[list[str]]:
    try:
        with open(f"/proc/{pid}/{file}", encoding="utf-8", errors="replace") as lines:
            return [line.split() for line in lines]
    except OSError as error:
        raise EngineUnavailableError(f"{program.what} ended before it was ready") from error
