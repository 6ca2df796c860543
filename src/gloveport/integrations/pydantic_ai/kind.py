"""What the `run_script` tool is to Pydantic AI, whatever it is called."""

from __future__ import annotations

from typing import Annotated, Final, NotRequired

from pydantic import Field, TypeAdapter
from pydantic_ai.messages import ToolKind
from typing_extensions import TypedDict

__all__ = ("ARGUMENTS", "RUN_SCRIPT", "ScriptArguments")


class ScriptArguments(TypedDict):
    """What the model gives."""

    code: Annotated[str, Field(description="The body of an async JavaScript or TypeScript function; `return` the result.")]
    restart: NotRequired[Annotated[bool, Field(description="Forget everything earlier scripts declared, before this one runs.")]]


ARGUMENTS: Final = TypeAdapter(ScriptArguments)
RUN_SCRIPT: Final = ToolKind("gloveport", "run_script", args=ScriptArguments)
"""The `tool_kind` of calls and returns of the tool, to recognise them in a message history."""
