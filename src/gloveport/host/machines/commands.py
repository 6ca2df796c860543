"""Commands of a machine, for blocking code."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...errors import SandboxError
from ...machines import exec as running
from ...machines.box import Box
from ...machines.exec import CommandInfo, DataOutput, Follower, Output
from ...machines.result import CommandResult
from .options import UNSET, Unset
from .plans import DEFAULT_OUTPUT_BYTES, Bytes, CommandPlans, as_bytes, checked, explained

__all__ = ("Command", "Commands", "Stdin")


class Stdin:
    """The input of a command."""

    def __init__(self, box: Box, id: int) -> None:  # noqa: A002
        self._box, self._id = box, id

    def write(self, data: Bytes) -> bool:
        """Write all of it. Gives `False` when the command reads no more."""
        return self._box.channel.run(lambda: running.put(self._id, as_bytes(data)))

    def close(self) -> None:
        """The end of the input."""
        self._box.channel.run(lambda: running.put(self._id, b"", eof=True))


class Command:
    """A command that runs by itself. Its `id` finds it again from any process: `commands.attach(id)`."""

    def __init__(self, box: Box, id: int, pid: int, command: Any, limit: int) -> None:  # noqa: A002
        self.id, self.pid = id, pid
        self.stdin = Stdin(box, id)
        self._box, self._command, self._limit = box, command, limit
        self._result: CommandResult | None = None

    def __repr__(self) -> str:
        return f"<Command {self.id} of {self._box.id}>"

    def wait(
        self, timeout_seconds: float | None = None, *, check: bool = False, on_data: DataOutput | None = None
    ) -> CommandResult:
        """Until it has ended. `on_data` gets all that the machine still has of its output, as in `run`. Raises `TimeoutError` after
        `timeout_seconds`, and it goes on."""
        if self._result is None:
            follow = Follower(limit=self._limit, on_data=on_data)
            self._result = self._box.channel.run(
                functools.partial(_from_start, follow, self.id), timeout=timeout_seconds
            )
        return checked(self._result, self._command) if check else self._result

    def output(self) -> Iterator[tuple[str, str]]:
        """`("stdout" or "stderr", text)` as it comes, from the beginning of what the machine keeps, until the command ends."""
        follow = Follower(limit=self._limit, give=True)
        walk = self._box.channel.stream(follow.attach(self.id))
        self._result = yield from walk

    def kill(self, signal: int | str = "KILL", *, tree: bool = True) -> None:
        """A signal to all that it has started in its session, or to its process group only. No error when it has ended."""
        with contextlib.suppress(LookupError, ProcessLookupError):
            self._box.channel.run(CommandPlans(self._box).kill(self.id, signal, tree=tree))

    def resize(self, rows: int, cols: int) -> None:
        """The size of its terminal."""
        self._box.channel.run(lambda: running.resize(self.id, rows, cols))


def _from_start(follow: Follower, id: int) -> Any:  # noqa: A002
    return follow.attach(id)


class Commands:
    """`sandbox.commands`."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._plans = CommandPlans(box)

    def run(
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
        """Run a command and wait for it.

        A text is run by `/bin/sh -c`, a list as it is. What the command does is never an error: see the result; `check=True` raises
        `CommandFailedError` and `CommandTimeoutError`. It ends when the command itself has ended; what that left in the background
        goes on. After `timeout_seconds` of the machine's active time (default 30, `None`: never) all that it started in its session
        is killed, and so it is when this call is interrupted. `stdin` is what it reads; without it the input is empty. `on_stdout`
        and `on_stderr` get text as it comes, `on_data` a pair of 1 (output) or 2 (errors) and the bytes. Of each stream the result
        keeps `max_output_bytes`, beginning and end. A command that writes more than `output_limit` bytes (both streams; default: no
        limit) is killed as after a timeout: `limit == "output"`.
        """
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
            result = self._box.channel.run(lambda: follow.run(request, data))
        except BaseException:
            self._abandon(follow)
            raise
        result = explained(result, timeout_seconds)
        return checked(result, command) if check else result

    def _abandon(self, follow: Follower) -> None:
        """The caller was interrupted: the command must not go on unseen."""
        if follow.id is not None and not follow.done:
            with contextlib.suppress(SandboxError, OSError):
                self._box.channel.run(self._plans.kill(follow.id, 9, tree=True), timeout=2.0)

    def start(
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
    ) -> Command:
        """Start a command and go on. It lives until it ends, is killed, or the machine is: not only as long as this process. When this
        call is interrupted, there is none.

        `stdin=True` keeps its input open for `Command.stdin`; `pty` gives it a terminal (of these rows and columns, or 24 by 80).
        """
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
            id = self._box.channel.run(lambda: follow.start(request))  # noqa: A001
        except BaseException:
            self._abandon(follow)
            raise
        return Command(self._box, id, follow.pid, command, max_output_bytes)

    spawn = start

    def list(self) -> list[CommandInfo]:
        """The commands that the machine knows, whoever started them."""
        return self._box.channel.run(running.listing)

    def attach(self, id: int, *, max_output_bytes: int = DEFAULT_OUTPUT_BYTES) -> Command:  # noqa: A002
        """A command by its id. Raises `CommandNotFoundError`."""
        from ...errors import CommandNotFoundError

        for info in self.list():
            if info.id == id:
                return Command(self._box, id, info.pid, info.command, max_output_bytes)
        raise CommandNotFoundError(f"the machine has no command {id!r}")


def detached(*, stdin: bool, pty: bool | tuple[int, int], label: str | None) -> dict[str, Any]:
    """Options of a command that runs by itself."""
    size = (24, 80) if pty is True else pty or None
    return {"stdin": stdin or size is not None, "pty": size, "label": label, "detach": True, "follow": False}
