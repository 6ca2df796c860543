"""`GloveportSandbox`: a machine as the backend of a deep agent."""

from __future__ import annotations

from typing import Final

from deepagents.backends.protocol import (
    ExecuteResponse,
    FileDownloadResponse,
    FileOperationError,
    FileUploadResponse,
)
from deepagents.backends.sandbox import BaseSandbox

from ...errors import FileNotFoundInSandboxError, SandboxFileError, ValidationError
from ...host.machines.sync import Sandbox

__all__ = ("GloveportSandbox",)

_MAX_OUTPUT: Final = 4 * 1024 * 1024
"""Above what the scripts of `BaseSandbox` print for one page of a file."""


class GloveportSandbox(BaseSandbox):
    """A machine as a deepagents backend: `create_deep_agent(backend=GloveportSandbox(sandbox))`.

    What a command does is told in its response. A machine that is gone raises `SandboxGoneError`. The tools of deepagents that read and
    edit files run `python3` in the machine, so its image needs one; the `host` image has the host's.

    Args:
        sandbox: which machine. It is neither paused nor deleted from here.
        timeout_seconds: of a command for which the agent asks no other.
    """

    def __init__(self, sandbox: Sandbox, *, timeout_seconds: float = 120.0) -> None:
        self.sandbox = sandbox
        self._timeout = timeout_seconds

    @property
    def id(self) -> str:
        """That of the machine."""
        return self.sandbox.id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run a shell command in `/workspace`; stdout and stderr come together, as on a terminal. After a timeout the exit code is 124."""
        result = self.sandbox.commands.run(
            f"exec 2>&1\n{command}",
            timeout_seconds=self._timeout if timeout is None else timeout or None,
            max_output_bytes=_MAX_OUTPUT,
        )
        note = f"\n[{result.note}]" if result.note else ""
        return ExecuteResponse(output=result.stdout + note, exit_code=result.exit_code, truncated=result.truncated)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write files, and the directories above them."""
        return [FileUploadResponse(path=path, error=self._write(path, data)) for path, data in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read files."""
        return [self._read(path) for path in paths]

    def _write(self, path: str, data: bytes) -> FileOperationError | str | None:
        try:
            self.sandbox.files.write(path, data)
        except (SandboxFileError, ValidationError) as error:
            return _word(error)
        return None

    def _read(self, path: str) -> FileDownloadResponse:
        try:
            return FileDownloadResponse(path=path, content=self.sandbox.files.read(path))
        except (SandboxFileError, ValidationError) as error:
            return FileDownloadResponse(path=path, error=_word(error))


def _word(error: Exception) -> FileOperationError | str:
    """What deepagents calls it."""
    match error:
        case FileNotFoundInSandboxError():
            return "file_not_found"
        case PermissionError():
            return "permission_denied"
        case IsADirectoryError():
            return "is_directory"
        case ValidationError() | NotADirectoryError():
            return "invalid_path"
        case _:
            return str(error)
