"""Errors of sessions and of what runs in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from .base import GloveportError

__all__ = (
    "CompileError",
    "DeadlockError",
    "JavaScriptError",
    "MemoryLimitExceeded",
    "NotPausedError",
    "ResultTooLarge",
    "RunCancelled",
    "RunDenied",
    "RunError",
    "RuntimeTimeout",
    "SessionBusyError",
    "SessionClosedError",
    "SessionError",
    "SessionPausedError",
    "StaleStepError",
    "TypeCheckError",
    "TypeProblem",
    "WorkerCrashed",
)


class SessionError(GloveportError, RuntimeError):
    """The session cannot do what was asked; it is unchanged."""

    code = "session"


class SessionClosedError(SessionError):
    """The session is closed. Make a new one, or `load` a dump."""

    code = "session_closed"


class SessionBusyError(SessionError):
    """Another thread or task is using the session at this moment. Any thread may use it, one at a time."""

    code = "session_busy"
    retryable = True


class SessionPausedError(SessionError):
    """The session waits at a tool call (`session.pending`); `resume` it first."""

    code = "session_paused"


class NotPausedError(SessionError):
    """The session does not wait at any tool call."""

    code = "not_paused"


class StaleStepError(SessionError):
    """The step is not the call that the session waits at: it was answered already, or belongs to another session."""

    code = "stale_step"


class RunError(GloveportError):
    """A run failed on the host's side. The session goes on.

    Unless the class says that the run completed, the session was rolled back to the state before the run, the run's tool
    calls stay charged, and `lost_runs` counts it.
    """

    code = "run"


class RuntimeTimeout(RunError, TimeoutError):
    """The run used up its computing time (`timeout`) or its waiting time (`max_pause`)."""

    code = "timeout"


class MemoryLimitExceeded(RunError, MemoryError):
    """The guest needed more than `max_memory`."""

    code = "out_of_memory"


class WorkerCrashed(RunError, RuntimeError):
    """The worker died or had to be killed during the run."""

    code = "worker_crashed"
    retryable = True


class RunCancelled(RunError):
    """The caller cancelled the run."""

    code = "cancelled"


class RunDenied(RunError, PermissionError):
    """The policy refused a call and ended the run with it, or refused more calls than one run may be refused."""

    code = "run_denied"


class DeadlockError(RunError):
    """The code waits for a promise that nothing can settle. The run itself completed; its state is kept."""

    code = "deadlock"


class ResultTooLarge(RunError, ValueError):
    """The value is larger than `max_result_bytes` as JSON. The run itself completed; its state is kept."""

    code = "result_too_large"


@dataclasses.dataclass(frozen=True)
class TypeProblem:
    """One thing that a type check found. The texts quote the code: treat them as data."""

    line: int
    """1-based, in the code as it was given; 0 for a problem without a place."""
    column: int
    """1-based, in characters."""
    code: str
    """`"TS2339"`: the TypeScript compiler's number; `"SyntaxError"`: it does not compile; `"Unchecked"`: checking it took too much."""
    message: str
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        return f"{self.line}:{self.column} {self.code} {self.message}" if self.line else f"{self.code} {self.message}"


class TypeCheckError(RunError):
    """The types of the code do not fit. Nothing was run and nothing was charged; the session is unchanged."""

    code = "type_check"

    def __init__(self, problems: Sequence[TypeProblem]) -> None:
        self.problems = tuple(problems)
        """What was found, in the order of the code."""
        lines = "".join(f"\n{problem}" for problem in self.problems)
        super().__init__(f"the types do not fit, so nothing was run (line:column){lines}")


class JavaScriptError(GloveportError):
    """The guest's code threw, or does not compile. Text and name are the guest's choice: treat them as data."""

    code = "javascript"

    def __init__(
        self,
        message: str,
        *,
        name: str = "Error",
        line: int = 0,
        column: int = 0,
        stack: str = "",
        source_line: str = "",
    ) -> None:
        super().__init__(message)
        self.name = name
        """The JavaScript name: `"TypeError"`, a tool's exception class, or what the guest chose."""
        self.message = message
        self.line = line
        """1-based line in the code as it was given; 0 when unknown."""
        self.column = column
        self.stack = stack
        self.source_line = source_line
        """The text of that line, shortened."""

    def __str__(self) -> str:
        where = f" (line {self.line}{f':{self.column}' if self.column else ''})" if self.line else ""
        return f"{self.name}: {self.message}{where}"


class CompileError(GloveportError, ValueError):
    """A source does not compile; says where, in the lines of the source as it was given."""

    code = "compile"

    def __init__(self, message: str, *, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column
