"""Run what an AI agent writes, where it can do no harm.

`AgentSandbox` (blocking) and `AsyncAgentSandbox` (asyncio) are sessions: JavaScript or TypeScript that a model wrote calls your
tools, keeps its state between runs, pauses at a tool call, is saved, restored and forked. `TypeScriptSandboxSession` runs complete
JavaScript, TypeScript and TSX modules in a jailed V8. Names are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .calls import CallInfo, CallLog, IdempotencyKey, LoggedCall, current_call
    from .egress.fetch import http_fetch
    from .errors import (
        CallOutcomeUnknownError,
        CapabilityError,
        CommandError,
        CommandFailedError,
        CommandNotFoundError,
        CommandTimeoutError,
        CompileError,
        ConflictError,
        DeadlockError,
        EgressDeniedError,
        EngineUnavailableError,
        FileExistsInSandboxError,
        FileNotFoundInSandboxError,
        GloveportError,
        HttpFetchError,
        HttpFetchTimeout,
        IsDirectoryInSandboxError,
        JavaScriptError,
        JournalError,
        JournalTooLarge,
        LeaseLost,
        LimitExceededError,
        McpServerError,
        McpToolError,
        MemoryLimitExceeded,
        NotDirectoryInSandboxError,
        NotFoundError,
        NotPausedError,
        OtherHostError,
        PauseRequested,
        PermissionInSandboxError,
        PolicyError,
        PoolFull,
        RemoteUnsupportedError,
        ReplayDivergence,
        ResultTooLarge,
        RunCancelled,
        RunDenied,
        RunError,
        RuntimeTimeout,
        SandboxError,
        SandboxFileError,
        SandboxGoneError,
        SandboxImageError,
        SandboxNotFoundError,
        SandboxPausedError,
        SandboxUnavailableError,
        SandboxWarning,
        SealError,
        SessionBusyError,
        SessionClosedError,
        SessionError,
        SessionPausedError,
        SnapshotNotFoundError,
        StaleJournal,
        StaleStepError,
        TemplateNotFoundError,
        ToolArgumentError,
        ToolBudgetError,
        ToolDeniedError,
        ToolError,
        ToolNotDiscoveredError,
        ToolNotFoundError,
        ToolTimeoutError,
        TypeCheckError,
        TypeCheckUnavailableError,
        TypeProblem,
        TypeScriptSandboxError,
        TypeScriptSandboxExecutionError,
        TypeScriptSandboxTimeoutError,
        TypeScriptSandboxUnavailableError,
        UnreachableError,
        ValidationError,
        ValueCrossingError,
        WidgetError,
        WidgetPluginError,
        WorkerCrashed,
    )
    from .host.keys import KeyRing
    from .host.machines.info import SandboxInfo, Snapshot
    from .host.machines.network import NetworkConfig
    from .host.machines.network_control import PreviewPort
    from .host.machines.network_secrets import NetworkSecret
    from .host.machines.options import UNSET
    from .host.machines.sandbox import AsyncSandbox
    from .host.machines.sync import Sandbox
    from .host.modules.result import ModuleResult
    from .host.modules.session import TypeScriptSandboxSession
    from .host.pool import PooledSession, PoolStats, SessionPool
    from .host.runtime import IsolatedRuntime
    from .host.sandbox import AsyncAgentSandbox
    from .host.sync import AgentSandbox
    from .host.widgets.artifacts import Artifacts
    from .host.widgets.widget import Widget
    from .machines.driver import Capabilities
    from .machines.exec import CommandInfo
    from .machines.filing import FileEvent, FileInfo
    from .machines.result import CommandResult
    from .permissions import Packages, Runtime, RuntimePermissions
    from .policy import NetworkRule, NetworkRules
    from .tools.catalog import ToolCatalog
    from .tools.prompt import describe_tools
    from .tools.typescript import typescript_stubs
    from .types import (
        Allow,
        Ask,
        CallRequest,
        Deny,
        Done,
        ExecutionResult,
        Failed,
        RuntimeConfig,
        SchemaTool,
        Step,
        ToolCall,
    )

_HOMES = {
    "Sandbox": "host.machines.sync",
    "AsyncSandbox": "host.machines.sandbox",
    "CommandResult": "machines.result",
    "CommandInfo": "machines.exec",
    "FileInfo": "machines.filing",
    "FileEvent": "machines.filing",
    "Capabilities": "machines.driver",
    "SandboxInfo": "host.machines.info",
    "Snapshot": "host.machines.info",
    "UNSET": "host.machines.options",
    "NetworkConfig": "host.machines.network",
    "NetworkSecret": "host.machines.network_secrets",
    "PreviewPort": "host.machines.network_control",
    "AgentSandbox": "host.sync",
    "AsyncAgentSandbox": "host.sandbox",
    "IsolatedRuntime": "host.runtime",
    "KeyRing": "host.keys",
    "ModuleResult": "host.modules.result",
    "TypeScriptSandboxSession": "host.modules.session",
    "Artifacts": "host.widgets.artifacts",
    "Widget": "host.widgets.widget",
    "ToolCatalog": "tools.catalog",
    **dict.fromkeys(("PoolStats", "PooledSession", "SessionPool"), "host.pool"),
    "Packages": "permissions",
    "Runtime": "permissions",
    "RuntimePermissions": "permissions",
    "NetworkRule": "policy",
    "NetworkRules": "policy",
    "describe_tools": "tools.prompt",
    "http_fetch": "egress.fetch",
    "typescript_stubs": "tools.typescript",
    **dict.fromkeys(
        (
            "Allow",
            "Ask",
            "CallRequest",
            "Deny",
            "Done",
            "ExecutionResult",
            "Failed",
            "RuntimeConfig",
            "SchemaTool",
            "Step",
            "ToolCall",
        ),
        "types",
    ),
    **dict.fromkeys(("CallInfo", "CallLog", "IdempotencyKey", "LoggedCall", "current_call"), "calls"),
}

__all__ = (
    "Capabilities",
    "CommandInfo",
    "CommandResult",
    "FileEvent",
    "FileInfo",
    "NetworkConfig",
    "NetworkSecret",
    "PreviewPort",
    "Sandbox",
    "AsyncSandbox",
    "SandboxInfo",
    "Snapshot",
    "UNSET",
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
    "TemplateNotFoundError",
    "UnreachableError",
    "ValidationError",
    "AgentSandbox",
    "Allow",
    "Artifacts",
    "Ask",
    "AsyncAgentSandbox",
    "CallInfo",
    "CallLog",
    "CallOutcomeUnknownError",
    "CallRequest",
    "CompileError",
    "DeadlockError",
    "Deny",
    "Done",
    "EgressDeniedError",
    "EngineUnavailableError",
    "ExecutionResult",
    "Failed",
    "GloveportError",
    "HttpFetchError",
    "HttpFetchTimeout",
    "IdempotencyKey",
    "IsolatedRuntime",
    "JavaScriptError",
    "JournalError",
    "JournalTooLarge",
    "KeyRing",
    "LeaseLost",
    "LoggedCall",
    "McpServerError",
    "McpToolError",
    "MemoryLimitExceeded",
    "ModuleResult",
    "NetworkRule",
    "NetworkRules",
    "NotPausedError",
    "PauseRequested",
    "PolicyError",
    "PoolFull",
    "PoolStats",
    "PooledSession",
    "ReplayDivergence",
    "ResultTooLarge",
    "RunCancelled",
    "RunDenied",
    "RunError",
    "Packages",
    "Runtime",
    "RuntimeConfig",
    "RuntimePermissions",
    "RuntimeTimeout",
    "SandboxUnavailableError",
    "SandboxWarning",
    "SchemaTool",
    "SealError",
    "SessionBusyError",
    "SessionClosedError",
    "SessionError",
    "SessionPausedError",
    "SessionPool",
    "StaleJournal",
    "StaleStepError",
    "Step",
    "ToolArgumentError",
    "ToolBudgetError",
    "ToolCall",
    "ToolCatalog",
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
    "TypeScriptSandboxSession",
    "ValueCrossingError",
    "Widget",
    "WidgetError",
    "WidgetPluginError",
    "WorkerCrashed",
    "__version__",
    "current_call",
    "describe_tools",
    "http_fetch",
    "typescript_stubs",
)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES.get(name, 'errors')}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
