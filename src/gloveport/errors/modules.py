"""Errors of modules, their packages and widgets."""

from __future__ import annotations

from typing import Any

from .base import GloveportError

__all__ = (
    "PackageError",
    "TypeScriptSandboxError",
    "TypeScriptSandboxExecutionError",
    "TypeScriptSandboxTimeoutError",
    "TypeScriptSandboxUnavailableError",
    "WidgetError",
    "WidgetPluginError",
)


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
