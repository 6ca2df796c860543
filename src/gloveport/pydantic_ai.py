"""Pydantic AI: `ToolScript` lets a model call the agent's tools from JavaScript or TypeScript; `TypeScriptSandbox` runs whole modules;
`MachineSandbox` and `MachineTools` give an agent a Linux machine.

Needs the extra: `pip install 'gloveport[pydantic-ai]'`.
"""

from __future__ import annotations

from .errors import (
    TypeScriptSandboxError,
    TypeScriptSandboxExecutionError,
    TypeScriptSandboxTimeoutError,
    TypeScriptSandboxUnavailableError,
    WidgetError,
    WidgetPluginError,
)
from .host.modules.result import ModuleResult
from .host.modules.session import TypeScriptSandboxSession
from .host.widgets.widget import Widget
from .integrations.pydantic_ai import (
    RUN_SCRIPT,
    MachineBackend,
    MachineSandbox,
    MachineTools,
    ToolScript,
    TypeScriptSandbox,
)
from .permissions import Packages, Runtime, RuntimePermissions

__all__ = (
    "RUN_SCRIPT",
    "MachineBackend",
    "MachineSandbox",
    "MachineTools",
    "ModuleResult",
    "Packages",
    "Runtime",
    "RuntimePermissions",
    "ToolScript",
    "TypeScriptSandbox",
    "TypeScriptSandboxError",
    "TypeScriptSandboxExecutionError",
    "TypeScriptSandboxSession",
    "TypeScriptSandboxTimeoutError",
    "TypeScriptSandboxUnavailableError",
    "Widget",
    "WidgetError",
    "WidgetPluginError",
)
