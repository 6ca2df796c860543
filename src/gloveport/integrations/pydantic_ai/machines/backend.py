"""`MachineBackend`: a machine as the workspace of an agent run."""

from __future__ import annotations

import contextlib
import errno
import math
import posixpath
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, Final

import anyio
from pydantic_ai.workspaces import (
    CommandResult,
    FileEntry,
    SupportsCommands,
    SupportsFilesystem,
    SupportsRealpath,
    WorkspaceBackend,
    WorkspaceCommand,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)

from ....errors import LimitExceededError, OtherHostError, SandboxGoneError, SandboxNotFoundError
from ....host.machines.sandbox import AsyncSandbox
from ....machines.filing import FileInfo
from .refs import Signer

__all__ = ("OUTPUT_LIMIT", "MachineBackend")

OUTPUT_LIMIT: Final = 10 * 1024 * 1024
"""Bytes of stdout and stderr together that a command may write."""


class MachineBackend(WorkspaceBackend, SupportsCommands, SupportsFilesystem, SupportsRealpath):
    """A machine as a workspace: made by the first operation, or found by its reference; it is never deleted from here.

    Args:
        signer: makes and checks references.
        create: makes a machine.
        ref: the machine to attach to; `None`: a new one.
        working_dir: where commands start. It is made.
    """

    def __init__(
        self,
        signer: Signer,
        create: Callable[[], Awaitable[AsyncSandbox]],
        *,
        ref: WorkspaceRef | None = None,
        working_dir: str = "/workspace",
    ) -> None:
        self._signer, self._create, self._ref, self._wanted = signer, create, ref, working_dir
        self._sandbox: AsyncSandbox | None = None
        self._working_dir: str | None = None
        self._lock = anyio.Lock()

    @property
    def ref(self) -> WorkspaceRef | None:
        """Which machine; `None` before the first operation of a new one."""
        return self._ref

    async def sandbox(self) -> AsyncSandbox:
        """The machine itself, for what a workspace has no words for: pausing, forking, snapshots, rules.

        Raises `WorkspaceUnavailableError` when it is gone.
        """
        async with self._lock:
            if self._sandbox is None:
                with self._unavailable():
                    self._sandbox = await self._found_or_made()
                    self._working_dir = None
            return self._sandbox

    async def _found_or_made(self) -> AsyncSandbox:
        if self._ref is not None:
            return await AsyncSandbox.connect(self._signer.id_of(self._ref))
        made = await self._create()
        self._ref = self._signer.ref(made.id)
        return made

    @contextlib.contextmanager
    def _unavailable(self) -> Generator[None]:
        """What means that there is no such machine any more, in the words of workspaces. The rest is for whoever may retry."""
        try:
            yield
        except (SandboxGoneError, SandboxNotFoundError, OtherHostError) as error:
            self._sandbox = None  # if its files are kept, the next operation starts it again
            raise WorkspaceUnavailableError(str(error)) from error
        except LimitExceededError as error:
            number = errno.EDQUOT if error.limit == "disk" else errno.EFBIG
            raise OSError(number, str(error)) from error

    # ── commands ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def working_dir(self) -> str:
        """Where commands start, without links."""
        sandbox = await self.sandbox()
        if self._working_dir is None:
            with self._unavailable():
                await sandbox.files.make_dir(self._wanted)
                self._working_dir = await sandbox.files.realpath(self._wanted)
        return self._working_dir

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        """Run a command to its end. Raises `WorkspaceOutputLimitError` above 10 MiB of output, and `WorkspaceTimeoutError`."""
        if isinstance(command, str) is not shell:
            raise TypeError("a text needs `shell=True`, and a list of arguments does without it")
        if timeout is not None and (
            isinstance(timeout, bool)
            or not isinstance(timeout, (int, float))  # pyright: ignore[reportUnnecessaryIsInstance]
            or not math.isfinite(timeout)
            or timeout <= 0
        ):
            raise ValueError(f"`timeout` must be a positive number of seconds or None, not {timeout!r}")
        directory = await self.working_dir()
        sandbox = await self.sandbox()
        with self._unavailable():
            result = await sandbox.commands.run(
                command,
                cwd=directory,
                env=env,
                timeout_seconds=timeout,
                max_output_bytes=2 * OUTPUT_LIMIT,  # keeps one half of it at each end
                output_limit=OUTPUT_LIMIT,
            )
        if result.timed_out:
            raise WorkspaceTimeoutError(
                f"the command took longer than {timeout:g} s and was stopped",
                stdout=result.stdout,
                stderr=result.stderr,
            )
        if result.limit == "output" or result.truncated:
            raise WorkspaceOutputLimitError(
                f"the command wrote more than {OUTPUT_LIMIT >> 20} MiB and was stopped: write to a file instead",
                limit=OUTPUT_LIMIT,
                stdout=result.stdout,
                stderr=result.stderr,
            )
        note = f"\n[{result.note}]" if result.limit is not None else ""
        return CommandResult(exit_code=result.exit_code, stdout=result.stdout, stderr=result.stderr + note)

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def read_bytes(self, path: str) -> bytes:
        """The bytes of a file."""
        return await self._ask(lambda sandbox, at: sandbox.files.read(at), path)

    async def write_bytes(self, path: str, data: bytes) -> None:
        """A file's new content; a link leads to the file that is written."""
        await self._ask(lambda sandbox, at: sandbox.files.write(at, data), path)

    async def stat(self, path: str) -> FileEntry:
        """What is there, behind links."""
        info = await self._ask(lambda sandbox, at: sandbox.files.stat(at), path)
        return _entry(posixpath.basename(path.rstrip("/")) or "/", path, info)

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        """What is in a directory."""
        found = await self._ask(lambda sandbox, at: sandbox.files.list(at), path)
        entries = list[FileEntry]()
        for info in found:
            at = posixpath.join(path, info.name)
            # A link that leads nowhere, or to itself, is an entry too.
            behind = await self._behind(at) if info.type == "link" else info
            entries.append(_entry(info.name, at, behind))
        return entries

    async def _behind(self, path: str) -> FileInfo | None:
        try:
            return await self._ask(lambda sandbox, at: sandbox.files.stat(at), path)
        except OSError:
            return None

    async def make_dir(self, path: str) -> None:
        """A directory and those above it."""
        await self._ask(lambda sandbox, at: sandbox.files.make_dir(at), path)

    async def remove(self, path: str) -> None:
        """Remove a file, a link, or a directory with all that is in it. Raises `ValueError` for the working directory and those
        above it."""
        working_dir = await self.working_dir()
        info = await self._ask(lambda sandbox, at: sandbox.files.stat(at, follow=False), path)
        if info.type != "link":
            real = await self.realpath(path)
            if working_dir == real or working_dir.startswith(real.rstrip("/") + "/"):
                raise ValueError(f"{path!r} is the working directory or above it, and is not removed")
        await self._ask(lambda sandbox, at: sandbox.files.remove(at, recursive=True), path)

    async def exists(self, path: str) -> bool:
        """Whether a file or a directory is there, behind links."""
        try:
            await self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            if error.errno == errno.ELOOP:
                return False
            raise
        return True

    async def realpath(self, path: str) -> str:
        """The path without links; what does not exist stays as it is written. `..` climbs from where a link leads."""
        if ".." not in path.split("/"):
            with contextlib.suppress(OSError):
                return await self._whole(path)
        real = "/"
        for part in path.split("/"):
            if part == "..":
                real = posixpath.dirname(real)
            elif part not in ("", "."):
                real = await self._step(posixpath.join(real, part))
        return real

    async def _whole(self, path: str) -> str:
        sandbox = await self.sandbox()
        with self._unavailable():
            return await sandbox.files.realpath(path)

    async def _step(self, path: str) -> str:
        """One more component below a path without links. It may be missing, a link to what is missing, or a link to itself."""
        try:
            return await self._whole(path)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            if error.errno == errno.ELOOP:
                return path
            raise
        sandbox = await self.sandbox()
        with self._unavailable():
            try:
                info = await sandbox.files.stat(path, follow=False)
            except (FileNotFoundError, NotADirectoryError):
                return path
        if info.target is None:
            return path
        return await self.realpath(posixpath.join(posixpath.dirname(path), info.target))

    async def _ask(self, call: Callable[[AsyncSandbox, str], Awaitable[Any]], path: str) -> Any:
        if ".." in path.split("/"):
            path = await self.realpath(path)  # machines take no path with `..`
        sandbox = await self.sandbox()
        if self._working_dir is None:
            await self.working_dir()
        with self._unavailable():
            return await call(sandbox, path)


def _entry(name: str, path: str, info: FileInfo | None) -> FileEntry:
    is_file = info is not None and info.type == "file"
    return FileEntry(
        name=name, path=path, is_dir=info is not None and info.is_dir, size=info.size if info and is_file else None
    )
