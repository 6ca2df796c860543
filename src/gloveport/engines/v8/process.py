"""Starting a worker: which program, with which flags, how confined, with how much memory."""

from __future__ import annotations

import os
import resource
import secrets
import select
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...errors import EngineUnavailableError
from ...policy import MIB, SandboxMode
from ..jail.command import spawn_jailed
from ..toolbox.process import popen_on_socket, program
from .build import BUNDLE

__all__ = ("Process", "start")

START_TIMEOUT: Final = 30.0
"""Seconds until a started worker must have said that it is ready: it takes about 0.1, but the machine may be busy."""
ENVIRONMENT: Final = {"DENO_DIR": "/dev/null/none", "NO_COLOR": "1", "TZ": "UTC"}
"""No DENO_DIR that can exist: what Deno keeps there (caches, `localStorage`) one session could leave for another (Deno 2.9.8 runs
without one). The time zone is the sessions'."""
_FLAGS: Final = ("--no-prompt", "--no-remote", "--no-npm", "--cached-only", "--no-config", "--no-lock", "--quiet")
_BASE_HEAP: Final = 16 * MIB
"""Of V8's heap: what the program itself takes."""
_READY: Final = b"\x01\x00\x00\x00r"
_ROOM: Final = 48 * MIB
"""Of private memory beyond the session's: V8's young generation, code, and what a collection needs for a moment."""


@dataclass(frozen=True, slots=True)
class Process:
    """A started worker, apart from how it was started."""

    pid: int
    sock: socket.socket
    kill: Callable[[], None]
    poll: Callable[[], int | None]
    """Its exit status (128 + n for signal n), `None` while it runs."""
    wait: Callable[[float], int]
    close: Callable[[], None]
    """Kills it, waits for its end, closes every descriptor."""
    forget: Callable[[], None]
    """In a forked copy of the host: closes the descriptors only."""


def command(max_memory: int, bundle: Path = BUNDLE) -> list[str]:
    """The command line of a worker with that much memory. Raises `EngineUnavailableError` when a part is missing."""
    deno = program()
    if not bundle.is_file():
        raise EngineUnavailableError("the v8 guest is not built: reinstall gloveport from its source or wheel")
    v8 = (
        f"--max-old-space-size={(max_memory + _BASE_HEAP) // MIB}",
        "--disallow-code-generation-from-strings",  # of the program's own realm; a session's has its own setting
    )
    # What the engine seeds by itself is out of a session's reach; V8 also places its code by it, so every worker has another.
    seed = f"--seed={secrets.randbits(32)}"
    return [str(deno), "run", *_FLAGS, seed, f"--v8-flags={','.join(v8)}", str(bundle)]


def start(max_memory: int, sandbox: SandboxMode, *, warn: bool) -> Process:
    """A worker that is ready for its first request. Raises `SandboxUnavailableError` or `EngineUnavailableError`."""
    argv = command(max_memory)
    own = None if sandbox == "off" else _own_memory
    process = _started(argv, sandbox, None if own is None else own + max_memory + _ROOM, warn=warn)
    try:
        if own is None and not _limit_memory(process.pid, max_memory):
            own = _measured(process.pid)
            process.close()  # that one has no limit: another one, which starts with it
            process = _started(argv, sandbox, own + max_memory + _ROOM, warn=False)
        _check_memory(process.pid, max_memory)
    except BaseException:
        process.close()
        raise
    return process


def _started(argv: list[str], sandbox: SandboxMode, memory_bytes: int | None, *, warn: bool) -> Process:
    process = _plain(argv) if sandbox == "off" else _jailed(argv, sandbox, memory_bytes, warn=warn)
    try:
        _await_ready(process)
    except BaseException:
        process.close()
        raise
    return process


def _jailed(argv: list[str], sandbox: SandboxMode, memory_bytes: int | None, *, warn: bool) -> Process:
    jailed = spawn_jailed(
        argv,
        readable=[argv[0], argv[-1]],
        sandbox=sandbox,
        stdio="socket",
        environment=ENVIRONMENT,
        scratch_bytes=0,
        memory_bytes=memory_bytes,
        warn=warn,
    )
    sock = socket.socket(fileno=os.dup(jailed.stdin))

    def close() -> None:
        sock.close()
        jailed.close()

    def forget() -> None:
        sock.close()
        jailed.forget()

    return Process(jailed.pid, sock, jailed.kill, jailed.poll, jailed.wait, close, forget)


def _plain(argv: list[str]) -> Process:
    """Without a jail: it has this process's rights, less what Deno denies by itself. It ends when its stdin does."""
    child, ours = popen_on_socket(argv, ENVIRONMENT, "a v8 worker")

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

    def forget() -> None:
        child.returncode = 0
        ours.close()

    return Process(child.pid, ours, child.kill, poll, wait, close, forget)


def _await_ready(process: Process) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    said = b""
    poll = select.poll()
    poll.register(process.sock, select.POLLIN)
    while len(said) < len(_READY):
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise EngineUnavailableError(f"a v8 worker was not ready within {START_TIMEOUT:g} seconds")
        part = process.sock.recv(len(_READY) - len(said))
        if not part:
            raise EngineUnavailableError("a v8 worker ended before it was ready (this release needs deno>=2.9,<3)")
        said += part
    if said != _READY:
        raise EngineUnavailableError("a v8 worker is of another version: reinstall gloveport")


# V8's own limit does not count buffers: RLIMIT_DATA bounds them with everything else. It has to leave what the program maps for
# itself (0.5 GiB, most of it never used), which is known only when it runs. Setting it then from outside takes CAP_SYS_RESOURCE
# where the worker is another user; without that, the first worker is measured and given up, and all others start with the limit.

_own_memory: int | None = None


def _limit_memory(pid: int, max_memory: int) -> bool:
    """Sets the limit of a running worker; false when that is not permitted."""
    limit = _private_memory(pid) + max_memory + _ROOM
    try:
        resource.prlimit(pid, resource.RLIMIT_DATA, (limit, limit))
    except PermissionError:
        return False
    return True


def _measured(pid: int) -> int:
    global _own_memory
    _own_memory = _private_memory(pid)
    return _own_memory


def _private_memory(pid: int) -> int:
    return next(int(words[1]) * 1024 for words in _lines(pid, "status") if words[:1] == ["VmData:"])


def _check_memory(pid: int, max_memory: int) -> None:
    """Raises unless the limit is there and is not far above what it should be."""
    words = next(words for words in _lines(pid, "limits") if words[:3] == ["Max", "data", "size"])
    most = _private_memory(pid) + max_memory + 2 * _ROOM
    if words[4] == "unlimited" or int(words[4]) > most:
        raise EngineUnavailableError(
            f"the memory of a v8 worker is not limited: it has {words[4]} bytes, not at most {most}"
        )


def _lines(pid: int, file: str) -> list[list[str]]:
    try:
        with open(f"/proc/{pid}/{file}", encoding="utf-8", errors="replace") as lines:
            return [line.split() for line in lines]
    except OSError as error:
        raise EngineUnavailableError("a v8 worker ended before it was ready") from error
