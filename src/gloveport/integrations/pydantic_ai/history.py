"""What is read from a run's message history, and the one mark that is left in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, cast

from pydantic_ai.messages import ModelRequest, ModelResponse, ToolReturnPart
from pydantic_ai.tools import RunContext

from .kind import RUN_SCRIPT

__all__ = ("conversation_of", "mark", "marks_of", "mentions_scripts")

_KEY: Final = "gloveport"


def conversation_of(ctx: RunContext[Any]) -> str:
    """Whose session it is."""
    return ctx.conversation_id or ctx.run_id or ""


def mentions_scripts(ctx: RunContext[Any], tool: str) -> bool:
    """Whether the model has seen a script succeed, and so believes in a session."""
    return any(
        isinstance(part, ToolReturnPart)
        and part.outcome == "success"
        and part.tool_call_id != ctx.tool_call_id
        and (part.tool_kind == RUN_SCRIPT.id or part.tool_name == tool)
        for message in ctx.messages
        if isinstance(message, ModelRequest)
        for part in message.parts
    )


def mark(ctx: RunContext[Any], script: str, token: str) -> None:
    """Note in the history which pause the script is in, so that an answer given to this history is known to be meant for it.

    The mark is in `ModelResponse.metadata`, which no model gets. A new message object replaces the old one: histories that were
    handed out before keep theirs.
    """
    for index in range(len(ctx.messages) - 1, -1, -1):
        message = ctx.messages[index]
        if isinstance(message, ModelResponse) and any(call.tool_call_id == script for call in message.tool_calls):
            metadata = {**(message.metadata or {}), _KEY: {**_marks(message), script: token}}
            ctx.messages[index] = dataclasses.replace(message, metadata=metadata)
            return


def marks_of(ctx: RunContext[Any], script: str) -> set[str]:
    """The pauses that an answer to the script is meant for: from the history, and from the metadata given with the answer."""
    found: set[str] = set()
    for message in reversed(ctx.messages):
        if isinstance(message, ModelResponse) and any(call.tool_call_id == script for call in message.tool_calls):
            found.update(token for key, token in _marks(message).items() if key == script)
            break
    metadata: object = ctx.tool_call_metadata
    if isinstance(metadata, Mapping):
        given = cast("Mapping[str, Any]", metadata).get("pause")
        found.update([given] if isinstance(given, str) else [])
    return found


def _marks(message: ModelResponse) -> dict[str, str]:
    marks: Any = (message.metadata or {}).get(_KEY)
    return cast("dict[str, str]", marks) if isinstance(marks, dict) else {}
