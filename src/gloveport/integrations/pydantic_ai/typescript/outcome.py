"""What became of a call of a module tool, as data that a durable engine can record."""

# No `from __future__ import annotations`: Pydantic reads the annotations of `Outcome` in the sandbox of a Temporal workflow, where texts
# cannot be looked up.

import dataclasses
from typing import Any

from typing_extensions import TypedDict

from ....host.modules.result import ModuleResult
from ....host.widgets.widget import Widget
from ..results import well_formed

__all__ = ("Outcome", "of_module", "of_widget")


class Outcome(TypedDict):
    """A call's end."""

    ok: bool
    value: Any
    """For the model, of a call that worked."""
    text: str
    """For the model, of one that failed."""
    metadata: dict[str, Any]
    """For the application."""


def of_module(result: ModuleResult, *, lost: bool) -> Outcome:
    """The bare value; an object with `result` and what else there is to say when there is something."""
    more = {
        "stdout": well_formed(result.stdout),
        "stderr": well_formed(result.stderr),
        "notes": [_LOST] if lost or result.state_lost else [],
    }
    more = {key: value for key, value in more.items() if value}
    value = {"result": result.value, **more} if more else result.value
    return Outcome(
        ok=result.ok,
        value=value if result.ok else None,
        text="" if result.ok else _failure(result, more),
        metadata={
            "typescript_sandbox": True,
            "code_language": "typescript",
            "output_bytes": result.output_bytes,
            "duration": result.duration,
            "cpu_time": result.cpu_time,
            "peak_memory": result.peak_memory,
            "exit_reason": result.exit_reason,
            "exit_code": result.exit_code,
            "error_type": result.error_type,
            "stdout": more.get("stdout", ""),
            "stderr": more.get("stderr", ""),
            "truncated": result.truncated,
            "state_lost": lost or result.state_lost,
            "network": [dataclasses.asdict(decision) for decision in result.decisions],
        },
    )


_LOST = "What earlier calls left on `globalThis` is gone: this one had a new worker."


def _failure(result: ModuleResult, more: dict[str, Any]) -> str:
    """The error with its place, then the console output."""
    text = well_formed(result.error) or "the module failed"
    for name in ("stdout", "stderr"):
        if name in more:
            text += f"\n{name}:\n{more[name]}"
    return "\n".join([text, *more.get("notes", ())])


def of_widget(widget: Widget, *, whole: bool, call_input: str, toolset_id: str) -> Outcome:
    """What the model is told of a widget; the document is in the metadata, as an MCP app's resource."""
    uri = f"ui://gloveport/{widget.artifact_id}"
    told = widget.summary()
    resource = {"uri": uri, "mimeType": "text/html;profile=mcp-app", "text": widget.html}
    return Outcome(
        ok=True,
        value=widget.html if whole else told,
        text="",
        metadata={
            "typescript_sandbox": True,
            "code_language": "tsx",
            "output_bytes": widget.bytes,
            "artifact_id": widget.artifact_id,
            "warnings": list(widget.warnings),
            # pydantic_ai.mcp.MCPAppToolResult, which the AG-UI and Vercel adapters forward to the page
            "mcp_app": {
                "resource_uri": uri,
                "tool_input": {"source": call_input},
                "result": {
                    "content": [{"type": "resource", "resource": resource}],
                    "structuredContent": told,
                    "isError": False,
                },
                "toolset_id": toolset_id,
            },
        },
    )
