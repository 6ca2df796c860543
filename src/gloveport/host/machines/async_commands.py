"""Commands of a machine, for asyncio and trio. See `Commands` for what each does."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import anyio

from ...errors import CommandNotFoundError, SandboxError
from ...machines import exec as running
from ...machines.box import Box
from ...machines.exec import CommandInfo, DataOutput, Follower, Output
from ...machines.result import CommandResult
from .commands import detached
from .options import UNSET, Unset
from .plans import DEFAULT_OUTPUT_BYTES, Bytes, CommandPlans, as_bytes, checked, explained

__all__ = ("AsyncCommand", "AsyncCommands", "AsyncStdin")


class AsyncStdin:
    """The input of a command."""

    def __init__(self, box: Box, id: int) -> None:  # noqa: A002
        self._box, self._id = box, id

    async def write(self, data: Bytes) -> bool:
        """Write all of it. Gives `False` when the command reads no more."""
        return await self._box.channel.run_async(lambda: running.put(self._id, as_bytes(data)))

    async def close(self) -> None:
        """The end of the input."""
        await self._box.channel.run_async(lambda: running.put(self._id, b"", eof=True))


class AsyncCommand:
    """A command that runs by itself. Its `id` finds it again from any process: `commands.attach(id)`."""

    def __init__(self, box: Box, id: int, pid: int, command: Any, limit: int) -> None:  # noqa: A002
        self.id, self.pid = id, pid
        self.stdin = AsyncStdin(box, id)
        self._box, self._command, self._limit = box, command, limit
        self._result: CommandResult | None = None

    def __repr__(self) -> str:
        return f"<AsyncCommand {self.id} of {self._box.id}>"

    async def wait(self, timeout_seconds: float | None = None, *, check: bool = False) -> CommandResult:
        """Until it has ended. Raises `TimeoutError` after `timeout_seconds`, and it goes on."""
        if self._result is None:
            with anyio.fail_after(timeout_seconds):
                self._result = await self._box.channel.run_async(lambda: Follower(limit=self._limit).attach(self.id))
        return checked(self._result, self._command) if check else self._result

    async def output(self) -> AsyncGenerator[tuple[str, str], None]:
        """`("stdout" or "stderr", text)` as it comes, from the beginning of what the machine keeps, until the command ends."""
        ended = list[CommandResult]()
        walk = self._box.channel.stream_async(Follower(limit=self._limit, give=True).attach(self.id), ended)
        async with contextlib.aclosing(walk):
            async for item in walk:
                yield item
        self._result = ended[0]

    async def kill(self, signal: int | str = "KILL", *, tree: bool = True) -> None:
        """A signal to all that it has started in its session, or to its process group only. No error when it has ended."""
        with contextlib.suppress(LookupError, ProcessLookupError):
            await self._box.channel.run_async(CommandPlans(self._box).kill(self.id, signal, tree=tree))

    async def resize(self, rows: int, cols: int) -> None:
        """The size of its terminal."""
        await self._box.channel.run_async(lambda: running.resize(self.id, rows, cols))


class AsyncCommands:
    """`sandbox.commands`. Callbacks may be coroutine functions."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._plans = CommandPlans(box)

    async def run(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_seconds: float | Unset | None = UNSET,
        user: str | None = None,
        stdin: Bytes | None = None,
        on_stdout: Output | None = None,
        on_stderr: Output | None = None,
        on_data: DataOutput | None = None,
        check: bool = False,
        max_output_bytes: int = DEFAULT_OUTPUT_BYTES,
        output_limit: int | None = None,
    ) -> CommandResult:
        """Run a command and wait for it. When this is cancelled, all that the command started in its session is killed."""
        request = self._plans.request(
            command,
            cwd=cwd,
            env=env,
            timeout_seconds=timeout_seconds,
            user=user,
            max_output_bytes=max_output_bytes,
            output_limit=output_limit,
        )
        data = None if stdin is None else as_bytes(stdin)
        follow = Follower(limit=max_output_bytes, on_stdout=on_stdout, on_stderr=on_stderr, on_data=on_data)
        try:
            result = await self._box.channel.run_async(lambda: follow.run(request, data))
        except BaseException:
            await self._abandon(follow)
            raise
        result = explained(result, timeout_seconds)
        return checked(result, command) if check else result

    async def _abandon(self, follow: Follower) -> None:
        if follow.id is not None and not follow.done:
            with contextlib.suppress(SandboxError, OSError), anyio.move_on_after(2, shield=True):
                await self._box.channel.run_async(self._plans.kill(follow.id, 9, tree=True))

    async def start(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
        user: str | None = None,
        stdin: bool = False,
        pty: bool | tuple[int, int] = False,
        label: str | None = None,
        max_output_bytes: int = DEFAULT_OUTPUT_BYTES,
        output_limit: int | None = None,
    ) -> AsyncCommand:
        """Start a command and go on. When this is cancelled, there is none."""
        request = self._plans.request(
            command,
            cwd=cwd,
            env=env,
            timeout_seconds=timeout_seconds,
            user=user,
            max_output_bytes=max_output_bytes,
            output_limit=output_limit,
            **detached(stdin=stdin, pty=pty, label=label),
        )
        follow = Follower(limit=0)
        try:
            id = await self._box.channel.run_async(lambda: follow.start(request))  # noqa: A001
        except BaseException:
            await self._abandon(follow)
            raise
        return AsyncCommand(self._box, id, follow.pid, command, max_output_bytes)

    spawn = start

    async def list(self) -> list[CommandInfo]:
        """The commands that the machine knows, whoever started them."""
        return await self._box.channel.run_async(running.listing)

    async def attach(self, id: int, *, max_output_bytes: int = DEFAULT_OUTPUT_BYTES) -> AsyncCommand:  # noqa: A002
        """A command by its id. Raises `CommandNotFoundError`."""
        for info in await self.list():
            if info.id == id:
                return AsyncCommand(self._box, id, info.pid, info.command, max_output_bytes)
        raise CommandNotFoundError(f"the machine has no command {id!r}")
