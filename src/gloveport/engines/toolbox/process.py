"""Starting the toolbox: which program, with which flags, how confined."""

from __future__ import annotations

import importlib.metadata
import os
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from gloveport.engines.jail.command import spawn_jailed
from gloveport.engines.toolbox.connection import PROTOCOL, Child, Connection, ToolboxDied, ToolboxTimeout
from gloveport.errors import EngineUnavailableError
from gloveport.policy import SandboxMode

Spawn: TypeAlias = Callable[[Sequence[str], Sequence[Path], SandboxMode], Child]
"""Starts a command with its stdin and stdout on descriptors. Takes the command, what it may read, and the sandbox mode."""

BUNDLE = Path(__file__).parents[2] / "_native" / "toolbox.js"
DECORATORS = BUNDLE.with_name("decorators.js")
"""The compiler of decorators, which the toolbox reads when a source has some."""
START_TIMEOUT = 30.0
"""Seconds until a started toolbox must have answered: it takes 0.1, but the machine may be busy."""
HEAP_MEGABYTES = 512
MEMORY_BYTES = 1536 * 1024 * 1024
"""Private writable memory of the process: the JavaScript heap, and that of the type stripper, which no V8 limit covers."""
ENVIRONMENT = {"DENO_DIR": "/dev/null/none", "NO_COLOR": "1"}
"""Without a DENO_DIR Deno writes caches to the home directory. It runs without one that can exist (seen with 2.9.8)."""


def command(bundle: Path = BUNDLE) -> tuple[list[str], list[Path]]:
    """The command line of the toolbox and the files it reads. Raises `EngineUnavailableError` when a part is missing."""
    deno = program()
    if not bundle.is_file():
        raise EngineUnavailableError(
            "the compiler of model code is not built: reinstall gloveport from its source or wheel"
        )
    flags = ["--no-prompt", "--no-remote", "--no-npm", "--cached-only", "--no-config", "--no-lock", "--quiet"]
    v8 = f"--v8-flags=--single-threaded,--max-old-space-size={HEAP_MEGABYTES}"
    if not DECORATORS.is_file():
        return [str(deno), "run", *flags, v8, str(bundle)], [deno, bundle]
    return (
        [str(deno), "run", *flags, v8, f"--allow-read={DECORATORS}", str(bundle), str(DECORATORS)],
        [deno, bundle, DECORATORS],
    )


def program() -> Path:
    """The program of the `deno` wheel, wherever that is installed: the wheel's own helper looks into the usual places only, and
    not into a folder on PYTHONPATH (seen with deno 2.9.8)."""
    try:
        files = importlib.metadata.files("deno") or ()
    except importlib.metadata.PackageNotFoundError as error:
        raise EngineUnavailableError("the package 'deno' is not installed: pip install deno") from error
    for file in files:
        if file.name == "deno" and (found := Path(str(file.locate())).resolve()).is_file():
            return found
    raise EngineUnavailableError("the package 'deno' has no program for this platform")


def start(spawn: Spawn, sandbox: SandboxMode, bundle: Path = BUNDLE) -> Connection:
    """Starts a toolbox and checks that it answers and speaks our protocol."""
    argv, readable = command(bundle)
    connection = Connection(spawn(argv, readable, sandbox))
    try:
        hello = connection.request("hello", "", START_TIMEOUT)
    except (ToolboxDied, ToolboxTimeout) as error:
        connection.close()
        what = "does not answer" if isinstance(error, ToolboxTimeout) else "ended at once"
        raise EngineUnavailableError(f"the compiler of model code was started and {what} ({argv[0]})") from error
    except BaseException:
        connection.close()
        raise
    if hello.get("ok") is not True or hello.get("protocol") != PROTOCOL:
        connection.close()
        raise EngineUnavailableError("the compiler of model code is of another version: reinstall gloveport")
    return connection


def spawn(argv: Sequence[str], readable: Sequence[Path], sandbox: SandboxMode) -> Child:
    """Starts the command in the jail that `sandbox` asks for. The process sees nothing but its program and `readable`."""
    if sandbox == "off":
        return spawn_plain(argv, readable, sandbox)
    jailed = spawn_jailed(
        argv, readable=readable, sandbox=sandbox, stdio="socket", environment=ENVIRONMENT, memory_bytes=MEMORY_BYTES
    )
    return Child(jailed.pid, jailed.stdout, jailed.stdin, jailed.kill, jailed.close, jailed.forget)


def popen_on_socket(
    argv: Sequence[str], environment: Mapping[str, str], what: str, directory: str = os.sep
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Starts a command, without a jail, whose stdin and stdout are a socket. Raises `EngineUnavailableError` naming `what`."""
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=directory,
            start_new_session=True,  # Ctrl-C is for the host
        )
    except OSError as error:
        ours.close()
        raise EngineUnavailableError(f"{what} cannot be started: {error}") from error
    finally:
        theirs.close()
    return process, ours


def spawn_plain(argv: Sequence[str], readable: Sequence[Path], sandbox: SandboxMode) -> Child:
    """Starts the command without a jail: it has this process's rights, less what Deno denies by itself.

    A socket pair is a third faster than two pipes. The process ends when its stdin does, which is when the host is gone.
    """
    process, ours = popen_on_socket(argv, ENVIRONMENT, "the compiler of model code")

    def close() -> None:
        process.kill()
        process.wait()
        ours.close()

    return Child(process.pid, ours.fileno(), ours.fileno(), process.kill, close, ours.close)
