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
    ├── SandboxError (RuntimeError)             a machine, or something in it, cannot do what was asked
    │   ├── ValidationError (ValueError)        an argument cannot mean anything; nothing was done
    │   ├── NotFoundError (LookupError)
    │   │   ├── SandboxNotFoundError            no machine has this id
    │   │   ├── SnapshotNotFoundError, TemplateNotFoundError, CommandNotFoundError
    │   │   └── FileNotFoundInSandboxError (FileNotFoundError)  also a SandboxFileError
    │   ├── SandboxImageError                   an image cannot be read or made
    │   ├── SandboxFileError (OSError)          a file operation failed in the machine
    │   │   └── FileExistsInSandboxError, PermissionInSandboxError, IsDirectoryInSandboxError, NotDirectoryInSandboxError
    │   ├── SandboxGoneError                    it does not run any more; `reason`, `files_kept`
    │   ├── SandboxPausedError                  it is paused and does not wake by itself
    │   ├── ConflictError                       somebody else is changing its state
    │   ├── UnreachableError (ConnectionError)  it runs and does not answer
    │   ├── OtherHostError                      it is on another host
    │   ├── RemoteUnsupportedError (NotImplementedError)  `base_url` or `api_key`: there is no server yet
    │   ├── CapabilityError                     this host cannot give what was required
    │   ├── LimitExceededError                  a limit of the machine: memory, pids, disk, output
    │   └── CommandError                        with `check=True`: `result` has the output so far
    │       ├── CommandFailedError              it ended with another exit code than 0
    │       ├── TemplateBuildError              a step of a template failed; `step` is its number
    │       └── CommandTimeoutError (TimeoutError)  it took longer than `timeout_seconds`
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

from .base import (
    GloveportError,
    SandboxWarning,
)
from .durability import (
    JournalError,
    JournalTooLarge,
    LeaseHeld,
    LeaseLost,
    PoolFull,
    RecordNotFound,
    ReplayDivergence,
    SealError,
    StaleJournal,
    StoreConflict,
    StoreError,
    StoreUnavailable,
)
from .machines import (
    CapabilityError,
    CommandError,
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    ConflictError,
    FileExistsInSandboxError,
    FileNotFoundInSandboxError,
    IsDirectoryInSandboxError,
    LimitExceededError,
    NotDirectoryInSandboxError,
    NotFoundError,
    OtherHostError,
    PermissionInSandboxError,
    RemoteUnsupportedError,
    SandboxError,
    SandboxFileError,
    SandboxGoneError,
    SandboxImageError,
    SandboxNotFoundError,
    SandboxPausedError,
    SnapshotNotFoundError,
    TemplateBuildError,
    TemplateNotFoundError,
    UnreachableError,
    ValidationError,
)
from .machines import (
    file_error as file_error,
)
from .modules import (
    PackageError,
    TypeScriptSandboxError,
    TypeScriptSandboxExecutionError,
    TypeScriptSandboxTimeoutError,
    TypeScriptSandboxUnavailableError,
    WidgetError,
    WidgetPluginError,
)
from .platform import (
    EngineUnavailableError,
    ImageError,
    ProtocolViolation,
    SandboxUnavailableError,
    TypeCheckUnavailableError,
)
from .sessions import (
    CompileError,
    DeadlockError,
    JavaScriptError,
    MemoryLimitExceeded,
    NotPausedError,
    ResultTooLarge,
    RunCancelled,
    RunDenied,
    RunError,
    RuntimeTimeout,
    SessionBusyError,
    SessionClosedError,
    SessionError,
    SessionPausedError,
    StaleStepError,
    TypeCheckError,
    TypeProblem,
    WorkerCrashed,
)
from .tools import (
    CallOutcomeUnknownError,
    EgressDeniedError,
    HttpFetchError,
    HttpFetchTimeout,
    McpServerError,
    McpToolError,
    PauseRequested,
    PolicyError,
    ToolArgumentError,
    ToolBudgetError,
    ToolDeniedError,
    ToolError,
    ToolNotDiscoveredError,
    ToolNotFoundError,
    ToolTimeoutError,
    ValueCrossingError,
)

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
    "TypeProblem",
    "TypeScriptSandboxError",
    "TypeScriptSandboxExecutionError",
    "TypeScriptSandboxTimeoutError",
    "TypeScriptSandboxUnavailableError",
    "ValueCrossingError",
    "WidgetError",
    "WidgetPluginError",
    "WorkerCrashed",
)
