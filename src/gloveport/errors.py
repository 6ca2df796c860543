"""Every error that gloveport raises, in one tree.

    GloveportError
    ├── SessionError (RuntimeError)             the session cannot do what was asked
    │   ├── SessionClosedError                  it is closed
    │   ├── SessionBusyError                    another thread or task is using it now
    │   ├── SessionPausedError                  it waits at a tool call: answer that first
    │   ├── NotPausedError                      there is no such call to answer
    │   └── StaleStepError                      that call was answered already, or is not the one it waits at
    ├── RunError                                a run failed on the host's side
    │   ├── RuntimeTimeout (TimeoutError)       guest computing time, `max_pause`
    │   ├── MemoryLimitExceeded (MemoryError)   the guest's memory limit
    │   ├── WorkerCrashed                       the worker died, or broke the protocol
    │   ├── RunCancelled                        the caller cancelled it
    │   ├── RunDenied (PermissionError)         the policy ended it
    │   ├── DeadlockError                       the code waits for a promise that nothing can settle
    │   ├── ResultTooLarge (ValueError)         `max_result_bytes`
    │   └── TypeCheckError                      `typecheck="block"` and the types do not fit: nothing was run
    ├── JavaScriptError                         the guest's code threw, or does not compile
    ├── TypeScriptSandboxError (RuntimeError)   a session of modules cannot do what was asked: closed, busy, misused
    │   ├── TypeScriptSandboxExecutionError     the code of `run_script` failed; `result` says how
    │   │   ├── TypeScriptSandboxTimeoutError   it took longer than `timeout`
    │   │   ├── PackageError                    a package is not allowed, or cannot be fetched
    │   │   └── WidgetError                     a widget that does not compile, imports what it may not, or does not mount
    │   ├── WidgetPluginError (ValueError)      a plugin of widgets that is not supported
    │   └── TypeScriptSandboxUnavailableError   modules cannot be run here: a part or a layer of the jail is missing
    ├── CompileError (ValueError)               where and why a source does not compile
    ├── ToolError                               raised by tools; the guest sees the class name
    │   ├── ToolBudgetError
    │   ├── ToolNotFoundError (LookupError)
    │   │   └── ToolNotDiscoveredError          a tool of the catalog that the session's code has not found yet
    │   ├── ToolArgumentError (TypeError)
    │   ├── ToolTimeoutError (TimeoutError)
    │   ├── ToolDeniedError (PermissionError)
    │   ├── EgressDeniedError (PermissionError) the network rules do not allow it; the text says which rule, and is for the model
    │   ├── HttpFetchError (ConnectionError)    an allowed request failed: name, connection, TLS, protocol, size
    │   │   └── HttpFetchTimeout (TimeoutError) it took longer than its `timeout`
    │   ├── McpToolError                        an MCP tool reported an error; its text is for the model
    │   ├── McpServerError (ConnectionError)    an MCP server cannot be reached, or went away
    │   ├── CallOutcomeUnknownError             the host died after the call was begun
    │   ├── PolicyError                         the policy failed, or did not give a decision
    │   └── PauseRequested                      a tool's way to hand its call out instead of answering it
    ├── ValueCrossingError (TypeError)          a value that cannot cross between Python and the guest
    ├── JournalError (ValueError)               a stored session that cannot be loaded
    │   ├── SealError                           not authentic: tampered, truncated, other key or associated data
    │   ├── JournalTooLarge
    │   ├── StaleJournal                        the store gave an older state than calls were charged for
    │   └── ReplayDivergence                    replay gave another outcome than the record
    ├── StoreError
    │   ├── StoreConflict                       someone else wrote in between
    │   │   ├── LeaseHeld                       someone else holds the lease
    │   │   └── LeaseLost                       the lease ended; someone else may go on with the record
    │   ├── StoreUnavailable (ConnectionError)  it cannot be reached now
    │   └── RecordNotFound (LookupError)
    ├── PoolFull (RuntimeError)                 a limit of a `SessionPool`
    ├── SandboxUnavailableError (RuntimeError)  a layer of the jail is missing and `sandbox="require"`
    ├── TypeCheckUnavailableError (RuntimeError)  type checking was asked for, and is not installed or does not start
    ├── EngineUnavailableError (RuntimeError)   the guest or the toolbox is not built, or does not start
    ├── ImageError (ValueError)                 an image that is out of bounds
    └── ProtocolViolation (RuntimeError)        a worker sent what no worker of ours sends

Every class has a stable `code`, says whether the same call may succeed later (`retryable`), and takes its text from the host:
nothing that a guest writes decides which class is raised.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

__all__ = (
    "PackageError",
    "CallOutcomeUnknownError",
    "CompileError",
    "DeadlockError",
    "EgressDeniedError",
    "EngineUnavailableError",
    "GloveportError",
    "HttpFetchError",
    "HttpFetchTimeout",
    "ImageError",
    "JavaScriptError",
    "JournalError",
    "JournalTooLarge",
    "McpServerError",
    "McpToolError",
    "LeaseHeld",
    "LeaseLost",
    "MemoryLimitExceeded",
    "NotPausedError",
    "PauseRequested",
    "PolicyError",
    "PoolFull",
    "ProtocolViolation",
    "RecordNotFound",
    "ReplayDivergence",
    "ResultTooLarge",
    "RunCancelled",
    "RunDenied",
    "RunError",
    "RuntimeTimeout",
    "SandboxUnavailableError",
    "SandboxWarning",
    "SealError",
    "SessionBusyError",
    "SessionClosedError",
    "SessionError",
    "SessionPausedError",
    "StaleJournal",
    "StaleStepError",
    "StoreConflict",
    "StoreError",
    "StoreUnavailable",
    "ToolArgumentError",
    "ToolBudgetError",
    "ToolDeniedError",
    "ToolError",
    "ToolNotDiscoveredError",
    "ToolNotFoundError",
    "ToolTimeoutError",
    "TypeCheckError",
    "TypeCheckUnavailableError",
    "TypeScriptSandboxError",
    "TypeScriptSandboxExecutionError",
    "TypeScriptSandboxTimeoutError",
    "TypeScriptSandboxUnavailableError",
    "ValueCrossingError",
    "WidgetError",
    "WidgetPluginError",
    "WorkerCrashed",
)


class GloveportError(Exception):
    """Base of all of them."""

    code: str = "error"
    """A stable, lower-case identifier for programs."""
    retryable: bool = False
    """Whether the same call can succeed later without a change (a busy session, a crashed worker)."""


class SandboxWarning(UserWarning):
    """`sandbox="auto"` started with layers of the jail missing; the text lists them."""


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


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


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


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


# ── modules ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class TypeScriptSandboxError(GloveportError, RuntimeError):
    """A `TypeScriptSandboxSession` cannot do what was asked: it is closed, busy, or already open."""

    code = "typescript_sandbox"


class TypeScriptSandboxExecutionError(TypeScriptSandboxError):
    """The code failed. The text is for the model; it quotes what the code threw: treat it as data."""

    code = "typescript_execution"

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result
        """The `ModuleResult`."""


class TypeScriptSandboxTimeoutError(TypeScriptSandboxExecutionError):
    """The code took longer than `timeout`. Its worker was ended; the next call gets a fresh one."""

    code = "typescript_timeout"


class PackageError(TypeScriptSandboxExecutionError):
    """A package that a module imports is not allowed, does not exist, or cannot be fetched. The text is for the model."""

    code = "package"

    def __init__(self, message: str, specifier: str = "") -> None:
        super().__init__(message)
        self.specifier = specifier
        """The import that it is about; empty: all of them."""


class TypeScriptSandboxUnavailableError(TypeScriptSandboxError):
    """Modules cannot be run here: a part is not installed, or a layer of the jail is missing. `__cause__` is the plain error."""

    code = "typescript_unavailable"


class WidgetError(TypeScriptSandboxExecutionError):
    """A widget that does not compile, imports what it may not, or does not mount.

    `line` and `column` (in characters) are 1-based and those of its source; 0: unknown. `stage` is where it failed: `"build"` (nothing
    was run), `"module"` (its top level), `"export"` (no component), `"render"` (rendering, or an effect), `"memory"` (its worker ended
    for want of memory) or `"crash"` (it ended otherwise).
    """

    code = "widget"

    def __init__(self, message: str, *, line: int = 0, column: int = 0, stage: str = "build") -> None:
        super().__init__(f"{message} (line {line}, column {column})" if line else message)
        self.message = message
        self.line = line
        self.column = column
        self.stage = stage


class WidgetPluginError(TypeScriptSandboxError, ValueError):
    """A plugin of widgets that is not supported; the text says which are."""

    code = "widget_plugin"


# ── tools and values ─────────────────────────────────────────────────────────────────────────────────────────────────


class ToolError(GloveportError):
    """Base of what tools and the host raise for the guest to catch."""

    code = "tool"
    shown: bool = False
    """The text was written for the model: the guest reads it in spite of `redact_host_errors`. Settable on class and instance."""


class ToolBudgetError(ToolError):
    """No call is left in a budget."""

    code = "tool_budget"


class ToolNotFoundError(ToolError, LookupError):
    """No tool has that name."""

    code = "tool_not_found"


class ToolNotDiscoveredError(ToolNotFoundError):
    """The catalog has the tool, but no answer to `search_tools` or `describe_tool` has named it in this session."""

    code = "tool_not_discovered"


class ToolArgumentError(ToolError, TypeError):
    """The arguments of a call do not fit the tool."""

    code = "tool_argument"


class ToolTimeoutError(ToolError, TimeoutError):
    """The tool did not answer within `tool_timeout`."""

    code = "tool_timeout"


class ToolDeniedError(ToolError, PermissionError):
    """The policy, or a person, refused the call. The text is the reason; the model reads it."""

    code = "tool_denied"
    shown = True


class PolicyError(ToolError):
    """The policy raised something (`__cause__`), took longer than `tool_timeout`, or gave what is no decision; the call was denied.

    Reported to the logger `gloveport`, by `session.events()`, and as `session.policy_error`; nothing of it reaches the guest.
    """

    code = "policy"


class EgressDeniedError(ToolError, PermissionError):
    """The network rules refuse a destination. Nothing was sent to it; the same request will be refused again."""

    code = "egress_denied"
    shown = True


class HttpFetchError(ToolError, ConnectionError):
    """A request that is allowed failed on its way, or its answer was refused. The text holds nothing that a server wrote."""

    code = "http_fetch"
    shown = True
    retryable = True


class HttpFetchTimeout(HttpFetchError, TimeoutError):
    """The request, redirects included, was not done within `timeout`. Whether the server carried it out is not known."""

    code = "http_fetch_timeout"


class McpToolError(ToolError):
    """An MCP tool answered with `isError`, or its server refused the call. The server wrote the text for the model, which reads it."""

    code = "mcp_tool"
    shown = True


class McpServerError(ToolError, ConnectionError):
    """An MCP server cannot be reached, went away during a call, or does not keep to the protocol."""

    code = "mcp_server"
    retryable = True
    shown = True


class CallOutcomeUnknownError(ToolError):
    """The call was begun, and the host ended before it noted an answer: nobody can tell whether it happened. It is not repeated."""

    code = "call_outcome_unknown"
    shown = True

    def __init__(self, message: str = "", *, tool: str = "", call_id: int = 0, idempotency_key: str = "") -> None:
        super().__init__(message)
        self.tool = tool
        """Its name, as it was given."""
        self.call_id = call_id
        self.idempotency_key = idempotency_key
        """What the tool was given, if it asked for a key."""


class PauseRequested(ToolError):
    """Raised by a tool in a run that was begun with `start(code, ask=…)`: pause at this call, and hand it out.

    Calls that are under way are answered first. In `run` and `execute`, which cannot pause, the guest gets it as an error.
    """

    code = "pause_requested"


class ValueCrossingError(GloveportError, TypeError):
    """A value has no counterpart on the other side; the text names where it is."""

    code = "value"


# ── durability ───────────────────────────────────────────────────────────────────────────────────────────────────────


class JournalError(GloveportError, ValueError):
    """A stored session cannot be saved or loaded."""

    code = "journal"


class SealError(JournalError):
    """The blob is not authentic under this key and associated data. Nothing was started for it."""

    code = "seal"


class JournalTooLarge(JournalError):
    """The blob is larger than `max_journal_bytes`; or (`engine="v8"`) the history of a session would be, and the run was rolled back."""

    code = "journal_too_large"


class StaleJournal(JournalError):
    """The store gave an older state of a session than it charged tool calls for: going on would win some back."""

    code = "stale_journal"


class ReplayDivergence(JournalError):
    """Replaying the journal gave another outcome than the one recorded. The stored session is unchanged."""

    code = "replay_divergence"


class StoreError(GloveportError):
    """A store cannot do what was asked."""

    code = "store"


class StoreConflict(StoreError):
    """The record changed since it was read. Read it again and decide anew."""

    code = "store_conflict"
    retryable = True


class LeaseHeld(StoreConflict):
    """Someone else holds the lease of the record. It ends when they release it, or stop renewing it."""

    code = "lease_held"


class LeaseLost(StoreConflict):
    """The lease ended, and with it the right to write. What was going on must stop: someone else may have taken over."""

    code = "lease_lost"
    retryable = False


class StoreUnavailable(StoreError, ConnectionError):
    """The store cannot be reached, or is too busy. Whether a write happened is not known."""

    code = "store_unavailable"
    retryable = True


class RecordNotFound(StoreError, LookupError):
    """No record has that key."""

    code = "record_not_found"


class PoolFull(GloveportError, RuntimeError):
    """A limit of a `SessionPool`: sessions at the same time, stored sessions, or stored sessions of one owner. The text says which."""

    code = "pool_full"
    retryable = True


# ── what it runs on ──────────────────────────────────────────────────────────────────────────────────────────────────


class SandboxUnavailableError(GloveportError, RuntimeError):
    """`sandbox="require"` and a layer is missing, or the self-test could do a forbidden thing."""

    code = "sandbox_unavailable"


class TypeCheckUnavailableError(GloveportError, RuntimeError):
    """Type checking was asked for, and the TypeScript compiler is not installed (`gloveport install typecheck`) or does not start."""

    code = "type_check_unavailable"


class EngineUnavailableError(GloveportError, RuntimeError):
    """A part that gloveport needs is not built or does not start; the text says how to get it."""

    code = "engine_unavailable"


class ImageError(GloveportError, ValueError):
    """A heap image is malformed or out of bounds; nothing was changed."""

    code = "image"


class ProtocolViolation(GloveportError, RuntimeError):
    """A worker sent bytes that no worker of ours sends. It is killed."""

    code = "protocol"
