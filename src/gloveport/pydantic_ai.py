"""Pydantic AI: `ToolScript`, the capability that lets a model call the agent's tools from JavaScript or TypeScript.

Needs the extra: `pip install 'gloveport[pydantic-ai]'`.
"""

from __future__ import annotations

from .errors import (
    TypeScriptSandboxError,
    TypeScriptSandboxExecutionError,
    TypeScriptSandboxTimeoutError,
    TypeScriptSandboxUnavailableError,
)
from .host.modules.result import ModuleResult
from .host.modules.session import TypeScriptSandboxSession
from .integrations.pydantic_ai import RUN_SCRIPT, ToolScript
from .permissions import Runtime, RuntimePermissions

__all__ = (
    "RUN_SCRIPT",
    "ModuleResult",
    "Runtime",
    "RuntimePermissions",
    "ToolScript",
    "TypeScriptSandboxError",
    "TypeScriptSandboxExecutionError",
    "TypeScriptSandboxSession",
    "TypeScriptSandboxTimeoutError",
    "TypeScriptSandboxUnavailableError",
)
