"""Errors of machines. Each names what to do next in `hint`, in words that may be shown to a model."""

from __future__ import annotations

import errno as numbers
from typing import Any, ClassVar

from .base import GloveportError

__all__ = (
    "CapabilityError",
    "CommandError",
    "CommandFailedError",
    "CommandNotFoundError",
    "CommandTimeoutError",
    "ConflictError",
    "FileExistsInSandboxError",
    "FileNotFoundInSandboxError",
    "IsDirectoryInSandboxError",
    "LimitExceededError",
    "NotDirectoryInSandboxError",
    "NotFoundError",
    "OtherHostError",
    "PermissionInSandboxError",
    "RemoteUnsupportedError",
    "SandboxError",
    "SandboxFileError",
    "SandboxGoneError",
    "SandboxImageError",
    "SandboxNotFoundError",
    "SandboxPausedError",
    "SnapshotNotFoundError",
    "TemplateBuildError",
    "TemplateNotFoundError",
    "UnreachableError",
    "ValidationError",
    "file_error",
)


class SandboxError(GloveportError, RuntimeError):
    """A machine, or something in it, cannot do what was asked. Base of the rest."""

    code = "sandbox"
    hint: str = ""
    """What to do about it, in one sentence; part of the text."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if hint is not None:
            self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}: {self.hint}" if self.hint else self.message


class ValidationError(SandboxError, ValueError):
    """An argument cannot mean anything; nothing was done."""

    code = "validation"


class NotFoundError(SandboxError, LookupError):
    """There is no such thing. Base of the kinds of things below."""

    code = "not_found"


class SandboxNotFoundError(NotFoundError):
    """No machine has this id: it never existed, or it was deleted."""

    code = "sandbox_not_found"
    hint = "`Sandbox.list()` gives the ids that exist"


class SnapshotNotFoundError(NotFoundError):
    """No snapshot has this id or name."""

    code = "snapshot_not_found"


class TemplateNotFoundError(NotFoundError):
    """No template or image has this name."""

    code = "template_not_found"


class SandboxImageError(SandboxError):
    """An image cannot be read or made."""

    code = "sandbox_image"


class CommandNotFoundError(NotFoundError):
    """The machine has no command with this id: it ended and was forgotten, or the machine was started anew."""

    code = "command_not_found"
    hint = "`commands.list()` gives the ids that exist"


class SandboxFileError(SandboxError, OSError):
    """A file operation failed in the machine. `errno` is that of the machine's own system call.

    Subclasses that are also `FileNotFoundError`, `FileExistsError`, `PermissionError`, `IsADirectoryError` and `NotADirectoryError`
    are raised where they apply, so that code written for local files catches them.
    """

    code = "file"

    def __init__(self, message: str, *, number: int = 0, path: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.errno = number
        self.filename = path


class FileNotFoundInSandboxError(NotFoundError, SandboxFileError, FileNotFoundError):
    """The machine has no such file or directory. The machine itself is well: see `SandboxGoneError` for when it is not."""

    code = "file_not_found"


class FileExistsInSandboxError(SandboxFileError, FileExistsError):
    """It exists already."""

    code = "file_exists"


class PermissionInSandboxError(SandboxFileError, PermissionError):
    """The machine's user may not do this to that path."""

    code = "file_permission"


class IsDirectoryInSandboxError(SandboxFileError, IsADirectoryError):
    """A directory where a file was asked for."""

    code = "is_directory"


class NotDirectoryInSandboxError(SandboxFileError, NotADirectoryError):
    """A file where a directory was asked for."""

    code = "not_directory"


_FILE_ERRORS: dict[int, type[SandboxFileError]] = {
    numbers.ENOENT: FileNotFoundInSandboxError,
    numbers.EEXIST: FileExistsInSandboxError,
    numbers.EACCES: PermissionInSandboxError,
    numbers.EPERM: PermissionInSandboxError,
    numbers.EROFS: PermissionInSandboxError,
    numbers.EISDIR: IsDirectoryInSandboxError,
    numbers.ENOTDIR: NotDirectoryInSandboxError,
}


def file_error(number: int, message: str, path: str) -> SandboxError:
    """The error for a system call of the machine that failed with this `errno` on this path."""
    if number in (numbers.EDQUOT, numbers.ENOSPC):
        return LimitExceededError(
            f"the machine's disk is full ({message}: {path})",
            limit="disk",
            hint="remove files, or make machines with a larger `disk_mb`",
        )
    return _FILE_ERRORS.get(number, SandboxFileError)(f"{message}: {path}", number=number, path=path)


class SandboxGoneError(SandboxError):
    """The machine does not run any more. `reason` says why; `files_kept` whether `Sandbox.connect(id)` brings its files back.

    It is neither a `NotFoundError` nor an `OSError`, so that a tool which turns missing files into a message for the model does not
    swallow it.
    """

    code = "sandbox_gone"

    def __init__(self, id: str, reason: str, *, files_kept: bool) -> None:  # noqa: A002
        super().__init__(f"the machine {id!r} is gone ({reason})")
        self.id, self.reason, self.files_kept = id, reason, files_kept
        self.hint = (
            "its files are kept: `Sandbox.connect(id)` starts it again, without what was in memory"
            if files_kept
            else "create another one"
        )


class SandboxPausedError(SandboxError):
    """The machine is paused and does not wake by itself (`auto_resume=False`)."""

    code = "sandbox_paused"
    hint = "`resume()` it first"


class ConflictError(SandboxError):
    """Another process is changing this machine's state, and did not end in time; or the state does not allow it."""

    code = "conflict"
    retryable = True


class UnreachableError(SandboxError, ConnectionError):
    """The machine runs and does not answer. Nothing is known of what was asked."""

    code = "unreachable"
    retryable = True
    hint = "try again; `kill()` works in any case"


class OtherHostError(SandboxError):
    """The machine is on another host, named by `host`."""

    code = "other_host"

    def __init__(self, id: str, host: str) -> None:  # noqa: A002
        super().__init__(f"the machine {id!r} is on the host {host!r}", hint="connect to it there")
        self.id, self.host = id, host


class RemoteUnsupportedError(SandboxError, NotImplementedError):
    """`base_url` or `api_key` was given, and this release has no server to speak to."""

    code = "remote_unsupported"
    hint = "leave `base_url` and `api_key` out: machines run on this host"


class CapabilityError(SandboxError):
    """This host cannot give what was required. `missing` names it. Nothing was started, and nothing runs without it."""

    code = "capability"
    hint = "`gloveport doctor` says what works here"

    def __init__(self, message: str, *, missing: tuple[str, ...] = (), hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.missing = missing


class LimitExceededError(SandboxError):
    """A limit of the machine was reached. `limit` is `"memory"`, `"pids"`, `"disk"`, `"output"` or `"boxes"`."""

    code = "limit"

    def __init__(self, message: str, *, limit: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.limit = limit


class CommandError(SandboxError):
    """A command did not end well and `check=True` was asked for. `result` is the `CommandResult`, with the output so far."""

    code = "command"
    result: Any

    _TAIL: ClassVar[int] = 400

    def __init__(self, message: str, result: Any, *, hint: str | None = None) -> None:
        tail = (result.stderr or result.stdout).strip()[-self._TAIL :]
        super().__init__(f"{message}: {tail}" if tail else message, hint=hint)
        self.result = result
        self.stdout, self.stderr, self.exit_code = result.stdout, result.stderr, result.exit_code


class CommandFailedError(CommandError):
    """It ended with an exit code other than 0."""

    code = "command_failed"


class TemplateBuildError(CommandError):
    """A step of a template failed. `step` is its number, from 1. The template of that name is what it was."""

    code = "template_build"

    def __init__(self, message: str, result: Any, *, step: int) -> None:
        super().__init__(message, result)
        self.step = step


class CommandTimeoutError(CommandError, TimeoutError):
    """It took longer than `timeout_seconds` and was stopped, with all that it had started in the foreground."""

    code = "command_timeout"
