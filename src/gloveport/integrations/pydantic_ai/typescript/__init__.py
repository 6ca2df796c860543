"""`TypeScriptSandbox`: the tool `run_typescript`, and `render_widget`."""

from __future__ import annotations

from .capability import TypeScriptSandbox

__all__ = ("TypeScriptSandbox",)
