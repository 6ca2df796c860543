"""What the blocking and the async classes have in common: arguments are checked here and become conversations."""

from __future__ import annotations

import dataclasses
import functools
import signal as signals
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from ...errors import CommandFailedError, CommandTimeoutError, ValidationError
from ...machines import exec as running
from ...machines import filing
from ...machines.box import Box
from ...machines.exec import ExecRequest, Follower, Output
from ...machines.filing import FileInfo, checked_path
from ...machines.result import CommandResult
from ...machines.spec import checked_env
from ...machines.steps import Steps
from ...machines.wire import Ask, Fields, Tag
from .options import Unset, checked_seconds, checked_user

__all__ = ("DEFAULT_COMMAND_SECONDS", "DEFAULT_OUTPUT_BYTES", "CommandPlans", "FilePlans", "checked", "explained")

DEFAULT_COMMAND_SECONDS: Final = 30.0
DEFAULT_OUTPUT_BYTES: Final = 256 * 1024
"""Of each stream of a result."""
MAX_READ_BYTES: Final = 256 * 1024 * 1024
_KEEP_LEAST, _KEEP_MOST = 4096, 64 * 1024 * 1024
_PROTECTED: Final = ("/", "/workspace", "/home/user")

Bytes = bytes | bytearray | memoryview | str


@dataclasses.dataclass(frozen=True)
class CommandPlans:
    """Conversations about commands of one machine."""

    box: Box

    def request(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None,
        env: Mapping[str, str] | None,
        timeout_seconds: float | Unset | None,
        user: str | None,
        max_output_bytes: int,
        output_limit: int | None = None,
        **more: Any,
    ) -> ExecRequest:
        """The command. Raises `ValidationError`."""
        timeout = DEFAULT_COMMAND_SECONDS if isinstance(timeout_seconds, Unset) else timeout_seconds
        checked_seconds("timeout_seconds", timeout)
        if isinstance(max_output_bytes, bool) or not _KEEP_LEAST <= max_output_bytes <= _KEEP_MOST:
            raise ValidationError(f"`max_output_bytes` must be between {_KEEP_LEAST} and {_KEEP_MOST}")
        options = self.box.record.options
        return ExecRequest(
            argv=() if isinstance(command, str) else _argv(command),
            shell=_text("command", command) if isinstance(command, str) else None,
            cwd=None if cwd is None else checked_path(cwd, "cwd"),
            env={**options.get("env", {}), **checked_env("env", env)},
            user=checked_user(user) or options.get("user"),
            timeout_ms=0 if timeout is None else max(1, round(timeout * 1000)),
            keep_bytes=max_output_bytes,
            output_limit=checked_output_limit(output_limit),
            **more,
        )

    def kill(self, id: int, signal: int | str, *, tree: bool) -> Callable[[], Steps[Fields]]:  # noqa: A002
        """A signal."""
        return functools.partial(running.send_signal, id, signal_number(signal), tree=tree)


def checked_output_limit(limit: int | None) -> int:
    """Bytes, 0 for none. Raises `ValidationError`."""
    if limit is None:
        return 0
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit < 2**62:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValidationError(f"`output_limit` must be a number of bytes of at least 1, or None, not {limit!r}")
    return limit


def signal_number(signal: int | str) -> int:
    """By number or name, with or without `SIG`. Raises `ValidationError`."""
    if isinstance(signal, str):
        name = signal.upper()
        try:
            return signals.Signals[name if name.startswith("SIG") else f"SIG{name}"].value
        except KeyError:
            raise ValidationError(f"there is no signal {signal!r}") from None
    if not 0 <= signal <= 64:
        raise ValidationError(f"there is no signal {signal}")
    return int(signal)


def _argv(command: Sequence[str]) -> tuple[str, ...]:
    argv = tuple(command)
    if not argv or not argv[0]:
        raise ValidationError("`command` is empty")
    for argument in argv:
        _text("command", argument)
    return argv


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValidationError(f"`{what}` must be made of texts without NUL, not {value!r}")
    return value


def as_bytes(data: Bytes) -> bytes:
    """A text as UTF-8. Raises `ValidationError` for what is neither text nor bytes."""
    if isinstance(data, str):
        return data.encode("utf-8", "surrogateescape")
    if isinstance(data, (bytes, bytearray, memoryview)):  # pyright: ignore[reportUnnecessaryIsInstance]
        return bytes(data)
    raise ValidationError(f"data must be text or bytes, not {type(data).__name__}")


def explained(result: CommandResult, timeout_seconds: float | Unset | None) -> CommandResult:
    """With a sentence on what to do, after a timeout or a limit."""
    note = None
    if result.timed_out:
        if isinstance(timeout_seconds, Unset):
            note = (
                f"stopped after the default of {DEFAULT_COMMAND_SECONDS:g} s: pass `timeout_seconds` for longer commands, "
                "or start it in the background"
            )
        else:
            note = f"stopped after {timeout_seconds:g} s"
    elif result.limit is not None:
        note = f"ended by the machine's limit of {result.limit}"
    return result if note is None else dataclasses.replace(result, note=note)


def checked(result: CommandResult, command: Any) -> CommandResult:
    """The result of a command that ended well. Raises `CommandTimeoutError` and `CommandFailedError`."""
    shown = command if isinstance(command, str) else " ".join(map(str, command or ("the command",)))
    shown = shown if len(shown) <= 80 else shown[:77] + "…"
    if result.timed_out:
        raise CommandTimeoutError(f"{shown!r} took too long ({result.note})", result)
    if not result.ok:
        raise CommandFailedError(f"{shown!r} ended with {result.limit or result.exit_code}", result)
    return result


@dataclasses.dataclass(frozen=True)
class FilePlans:
    """Conversations about files of one machine, as its user."""

    box: Box

    def _user(self, user: str | None) -> tuple[int, str | None]:
        return (Tag.USER, checked_user(user) or self.box.record.options.get("user"))

    def read(self, path: str, offset: int, length: int | None, user: str | None) -> Callable[[], Steps[None]]:
        """A file's bytes, as a stream."""
        for name, value in (("offset", offset), ("length", length)):
            if value is not None and (isinstance(value, bool) or not 0 <= value < 2**62):
                raise ValidationError(f"`{name}` must be a whole number of bytes, not {value!r}")
        more = ((Tag.OFFSET, offset or None), (Tag.LENGTH, length), self._user(user))
        return functools.partial(filing.receive, Ask.READ, checked_path(path), *more)

    def read_all(
        self, path: str, offset: int, length: int | None, user: str | None, max_bytes: int
    ) -> Callable[[], Steps[bytes]]:
        """A file's bytes, at once."""
        read = self.read(path, offset, length, user)
        return lambda: filing.collect(read(), max_bytes, path)

    def write(
        self,
        path: str,
        data: Bytes | Iterator[bytes] | AsyncIterator[bytes],
        *,
        mode: int | None,
        append: bool,
        atomic: bool,
        user: str | None,
    ) -> Callable[[], Steps[int]]:
        """A file's new content. Parents are made."""
        source = as_bytes(data) if isinstance(data, (str, bytes, bytearray, memoryview)) else data
        if not isinstance(source, (bytes, Iterator, AsyncIterator)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValidationError(f"`data` must be text, bytes, or an iterator of bytes, not {type(data).__name__}")
        more = (
            (Tag.MODE, _mode(mode)),
            (Tag.APPEND, 1 if append else None),
            (Tag.ATOMIC, 1 if atomic and not append else None),
            (Tag.PARENTS, 1),
            self._user(user),
        )
        return functools.partial(filing.store, Ask.WRITE, checked_path(path), source, *more)

    def stat(self, path: str, follow: bool, user: str | None) -> Callable[[], Steps[FileInfo]]:
        """What is there."""
        return functools.partial(filing.stat, checked_path(path), follow=follow, user=self._user(user)[1])

    def listing(self, path: str, depth: int, user: str | None) -> Callable[[], Steps[list[FileInfo]]]:
        """What is in a directory."""
        if isinstance(depth, bool) or not 1 <= depth <= 1000:
            raise ValidationError(f"`depth` must be between 1 and 1000, not {depth!r}")
        return functools.partial(filing.entries, Ask.LISTDIR, checked_path(path), (Tag.DEPTH, depth), self._user(user))

    def glob(self, pattern: str, path: str, user: str | None) -> Callable[[], Steps[list[FileInfo]]]:
        """What fits a pattern."""
        if not pattern or "\0" in pattern or pattern.startswith("/") or ".." in pattern.split("/"):
            raise ValidationError(f"`pattern` must be relative to `path` and have no `..`, not {pattern!r}")
        more = ((Tag.PATTERN, pattern), self._user(user))
        return functools.partial(filing.entries, Ask.GLOB, checked_path(path), *more)

    def make_dir(self, path: str, parents: bool, mode: int | None, user: str | None) -> Callable[[], Steps[Fields]]:
        """A directory."""
        more = ((Tag.PARENTS, 1 if parents else None), (Tag.MODE, _mode(mode)), self._user(user))
        return functools.partial(filing.one, Ask.MKDIR, checked_path(path), *more)

    def remove(self, path: str, recursive: bool, user: str | None) -> Callable[[], Steps[Fields]]:
        """Gone. Never the root, the working directory or the user's home."""
        protect = [(Tag.PROTECT, place) for place in _PROTECTED]
        more = ((Tag.RECURSIVE, 1 if recursive else None), *protect, self._user(user))
        return functools.partial(filing.one, Ask.REMOVE, checked_path(path), *more)

    def two(
        self, kind: Ask, path: str, to: str, user: str | None, *more: tuple[int, Any], link: bool = False
    ) -> Callable[[], Steps[Fields]]:
        """From one path to another."""
        target = _text("to", to) if link else checked_path(to, "to")
        return functools.partial(filing.one, kind, checked_path(path), (Tag.TO, target), *more, self._user(user))

    def chmod(self, path: str, mode: int, recursive: bool, user: str | None) -> Callable[[], Steps[Fields]]:
        """Permission bits."""
        more = ((Tag.MODE, _mode(mode)), (Tag.RECURSIVE, 1 if recursive else None), self._user(user))
        return functools.partial(filing.one, Ask.CHMOD, checked_path(path), *more)

    def realpath(self, path: str, user: str | None) -> Callable[[], Steps[Fields]]:
        """Without links."""
        return functools.partial(filing.one, Ask.REALPATH, checked_path(path), self._user(user))

    def watch(self, path: str, recursive: bool, user: str | None) -> Callable[[], Steps[None]]:
        """Events."""
        return functools.partial(filing.watch, checked_path(path), recursive=recursive, user=self._user(user)[1])

    def tar_out(self, path: str, user: str | None) -> Callable[[], Steps[None]]:
        """A directory as a tar stream."""
        return functools.partial(filing.receive, Ask.TAR_OUT, checked_path(path), self._user(user))

    def tar_in(self, path: str, source: Iterator[bytes], user: str | None) -> Callable[[], Steps[int]]:
        """A tar stream into a directory."""
        return functools.partial(
            filing.store, Ask.TAR_IN, checked_path(path), source, (Tag.PARENTS, 1), self._user(user)
        )


def _mode(mode: int | None) -> int | None:
    if mode is not None and (isinstance(mode, bool) or not 0 <= mode <= 0o7777):
        raise ValidationError(f"`mode` must be permission bits such as 0o644, not {mode!r}")
    return mode


def follower(
    limit: int, on_stdout: Output | None = None, on_stderr: Output | None = None, *, give: bool = False
) -> Follower:
    """Of a command whose output is kept within this many bytes a stream."""
    return Follower(limit=limit, on_stdout=on_stdout, on_stderr=on_stderr, give=give)
