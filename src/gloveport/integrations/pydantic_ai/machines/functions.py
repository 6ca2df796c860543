"""What the tools of `MachineTools` do. Their docstrings go to the model."""

# No `from __future__ import annotations`: Pydantic AI reads the annotations of tool functions.

import dataclasses
import functools
import hashlib
import posixpath
from collections.abc import Awaitable, Callable
from typing import Any, Final, ParamSpec, TypeVar

from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import BinaryContent
from pydantic_ai.tools import RunContext
from pydantic_ai.workspaces import (
    WorkspaceOutputLimitError,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)
from typing_extensions import TypedDict

from ....machines.result import CommandResult
from ....machines.transcript import Stream
from .search import Pattern, find_arguments, grep_arguments, inside, lines_of_find, lines_of_grep

__all__ = ("Functions", "Replacement")

P = ParamSpec("P")
T = TypeVar("T")
_TIMED_OUT: Final = 124
_MAX_FILE: Final = 16 * 1024 * 1024
_MAX_IMAGE: Final = 5 * 1024 * 1024
_IMAGES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
)


class Replacement(TypedDict):
    """One change of a file."""

    old_text: str
    new_text: str


def _told(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """What goes wrong with files and searches is told to the model; a workspace that is gone ends the run."""

    @functools.wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await function(*args, **kwargs)
        except WorkspaceUnavailableError:
            raise
        except WorkspaceOutputLimitError:
            raise ToolFailed(
                "There is too much to show: ask for less, with a narrower path, glob or pattern."
            ) from None
        except WorkspaceTimeoutError:
            raise ToolFailed("This took too long: ask for less, with a narrower path, glob or pattern.") from None
        except (OSError, ValueError) as error:
            raise ToolFailed(_text(error)) from None

    return call


def _text(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{error} - list_files shows what is there."
    return str(error) or type(error).__name__


@dataclasses.dataclass(frozen=True, kw_only=True)
class Functions:
    """Bound to the options of one `MachineTools`."""

    timeout: float
    max_timeout: float
    max_output: int
    max_lines: int

    @property
    def reading(self) -> tuple[Callable[..., Any], ...]:
        """Those that change nothing."""
        return (self.read_file, self.list_files, self.grep)

    @property
    def writing(self) -> tuple[Callable[..., Any], ...]:
        """Those that change files."""
        return (self.write_file, self.edit_file)

    # ── commands ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def bash(self, ctx: RunContext[Any], command: str, timeout_seconds: float | None = None) -> CommandResult:
        """Run a shell command in the working directory of the machine. Files stay between calls; a `cd` or a variable does not.

        Args:
            command: The command, for `sh -c`. Start what should go on running with `setsid … >log 2>&1 &`.
            timeout_seconds: After which it is stopped. Leave it out unless the command takes long.
        """
        seconds = self.timeout if timeout_seconds is None else min(max(timeout_seconds, 1.0), self.max_timeout)
        try:
            result = await ctx.workspace.run(command, shell=True, timeout=seconds)  # noqa: S604
        except WorkspaceTimeoutError as error:
            note = f"stopped after {seconds:g} s; `timeout_seconds` may be up to {self.max_timeout:g}"
            return self._result(error.stdout, error.stderr, _TIMED_OUT, timed_out=True, note=note)
        except WorkspaceOutputLimitError as error:
            note = "stopped because it wrote too much: write to a file and read parts of it"
            return self._result(error.stdout, error.stderr, 137, limit="output", note=note)
        except ValueError as error:
            raise ToolFailed(str(error)) from None
        return self._result(result.stdout, result.stderr, result.exit_code)

    def _result(self, stdout: str, stderr: str, exit_code: int, **more: Any) -> CommandResult:
        (out, out_skipped), (err, err_skipped) = self._bounded(stdout), self._bounded(stderr)
        return CommandResult(
            out,
            err,
            exit_code,
            bool(out_skipped or err_skipped) or more.get("limit") == "output",
            stdout_skipped=out_skipped,
            stderr_skipped=err_skipped,
            **more,
        )

    def _bounded(self, text: str) -> tuple[str, int]:
        stream = Stream(self.max_output)
        stream.add(0, text.encode("utf-8", "replace"))
        return stream.text()

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────

    @_told
    async def read_file(self, ctx: RunContext[Any], path: str, offset: int = 0, limit: int | None = None) -> Any:
        """Read a text file, with line numbers, or look at an image or PDF.

        Args:
            path: Absolute, or relative to the working directory.
            offset: How many lines to skip.
            limit: How many lines to read at most.
        """
        data = await self._content(ctx, path)
        for start, media_type in _IMAGES:
            if data.startswith(start) and len(data) <= _MAX_IMAGE:
                return [f"[{path}: {media_type}, {len(data)} bytes]", BinaryContent(data, media_type=media_type)]
        if b"\0" in data[:8192]:
            return f"[{path}: a binary file of {len(data)} bytes, sha256:{_hash(data)}]"
        lines = data.decode("utf-8", "replace").splitlines()
        first = min(max(offset, 0), len(lines))
        shown = lines[first : first + min(limit or self.max_lines, self.max_lines)]
        body, skipped = self._bounded("\n".join(f"{first + n}\t{line}" for n, line in enumerate(shown, 1)))
        place = f"lines {first + 1}-{first + len(shown)} of {len(lines)}" if shown else f"{len(lines)} lines"
        more = ", long lines cut" if skipped else ""
        return f"[{path}: {place}{more}, sha256:{_hash(data)}]\n{body}"

    @_told
    async def write_file(self, ctx: RunContext[Any], path: str, content: str, expected_hash: str | None = None) -> str:
        """Write a text file, and the directories above it. What the file held before is gone.

        Args:
            path: Absolute, or relative to the working directory.
            content: All of the file.
            expected_hash: The `sha256` that read_file gave: refuse if the file has changed since.
        """
        if expected_hash is not None and await ctx.workspace.exists(path):
            _expect(path, await self._content(ctx, path), expected_hash)
        data = content.encode("utf-8")
        await ctx.workspace.write_bytes(path, data)
        return f"Wrote {len(data)} bytes to {path} (sha256:{_hash(data)})"

    @_told
    async def edit_file(
        self,
        ctx: RunContext[Any],
        path: str,
        old_text: str | None = None,
        new_text: str | None = None,
        replacements: list[Replacement] | None = None,
        expected_hash: str | None = None,
    ) -> str:
        """Replace parts of a text file. Nothing is written unless every part is found exactly once.

        Args:
            path: Absolute, or relative to the working directory.
            old_text: What to replace, exactly as it is in the file, without line numbers.
            new_text: What to put there.
            replacements: Several, in order, instead of one `old_text` and `new_text`.
            expected_hash: The `sha256` that read_file gave: refuse if the file has changed since.
        """
        if (old_text is None) == (not replacements):
            raise ValueError("Give either `old_text` and `new_text`, or `replacements`.")
        wanted = replacements or [Replacement(old_text=old_text or "", new_text=new_text or "")]
        data = await self._content(ctx, path)
        if expected_hash is not None:
            _expect(path, data, expected_hash)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not UTF-8 text, and cannot be edited as such.") from None
        for replacement in wanted:
            text = _replaced(path, text, replacement)
        new = text.encode("utf-8")
        await ctx.workspace.write_bytes(path, new)
        return f"Edited {path}: {len(wanted)} replaced (sha256:{_hash(new)})"

    @staticmethod
    async def _content(ctx: RunContext[Any], path: str) -> bytes:
        """All of a file that the host's memory is not too small for: it is held several times over."""
        size = (await ctx.workspace.stat(path)).size
        if size is not None and size > _MAX_FILE:
            raise ValueError(f"{path} has {size} bytes, too many for this tool: use bash, for example `sed -n 1,100p`.")
        return await ctx.workspace.read_bytes(path)

    # ── searches ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @_told
    async def list_files(self, ctx: RunContext[Any], path: str = ".", glob: str | None = None) -> str:
        """List files below a directory, sorted, without hidden ones.

        Args:
            path: Absolute, or relative to the working directory.
            glob: Only those that fit, such as `*.py`, or `src/**/*.ts` from `path` on.
        """
        directory = await self._directory(ctx, path)
        result = await ctx.workspace.run(inside(directory, find_arguments()), timeout=self.timeout)
        found = lines_of_find(result.stdout, None if glob is None else Pattern(glob))
        return self._listing(found, "No files" + (f" fit {glob!r}." if glob else "."))

    @_told
    async def grep(
        self,
        ctx: RunContext[Any],
        pattern: str,
        path: str = ".",
        glob: str | None = None,
        ignore_case: bool = False,
        literal: bool = False,
        context: int = 0,
    ) -> str:
        """Search in files below a directory, or in one file, without hidden ones and binary ones.

        Args:
            pattern: An extended regular expression (POSIX), or a text if `literal`.
            path: Absolute, or relative to the working directory.
            glob: Only files that fit, such as `*.py`, or `src/**/*.ts` from `path` on.
            ignore_case: Whether capital and small letters are the same.
            literal: Whether `pattern` is a plain text.
            context: How many lines to show before and after each.
        """
        entry = await ctx.workspace.stat(path)
        resolved = await ctx.workspace.resolve(path)
        directory, name = (resolved, ".") if entry.is_dir else posixpath.split(resolved)
        arguments = grep_arguments(
            pattern, name, ignore_case=ignore_case, literal=literal, context=min(max(context, 0), 100)
        )
        result = await ctx.workspace.run(inside(directory, arguments), timeout=self.timeout)
        found = lines_of_grep(result.stdout, None if glob is None else Pattern(glob))
        if result.exit_code > 1 and not found:
            raise ValueError(result.stderr.strip() or f"grep ended with {result.exit_code}")
        return self._listing(found, "No matches.")

    async def _directory(self, ctx: RunContext[Any], path: str) -> str:
        if not (await ctx.workspace.stat(path)).is_dir:
            raise NotADirectoryError(f"{path} is no directory.")
        return await ctx.workspace.resolve(path)

    def _listing(self, lines: list[str], none: str) -> str:
        return self._bounded("\n".join(lines))[0] if lines else none


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _expect(path: str, data: bytes, expected: str) -> None:
    if _hash(data) != expected.strip().removeprefix("sha256:")[:16]:
        raise ValueError(f"{path} has changed since it was read (it is sha256:{_hash(data)} now): read it again.")


def _replaced(path: str, text: str, replacement: Replacement) -> str:
    old, new = replacement["old_text"], replacement["new_text"]
    if not old:
        raise ValueError("`old_text` is empty: write_file makes a file.")
    if old not in text and "\r\n" in text:
        old, new = (part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (old, new))
    count = text.count(old)
    if count != 1:
        raise ValueError(
            f"`old_text` is {'not' if count == 0 else f'{count} times'} in {path}: "
            + ("copy it exactly, with its spaces." if count == 0 else "add lines around it until it is there once.")
        )
    return text.replace(old, new)
