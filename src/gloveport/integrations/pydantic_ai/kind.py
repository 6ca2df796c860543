"""What the `run_script` tool is to Pydantic AI, whatever it is called."""

from __future__ import annotations

from typing import Annotated, Final, NotRequired

from pydantic import Field, TypeAdapter
from pydantic_ai.messages import ToolKind
from typing_extensions import TypedDict

__all__ = ("ARGUMENTS", "RUN_SCRIPT", "SCHEMA", "ScriptArguments")


# The schema goes to the model, so what is said about the class is said here: the arguments of the script tool.
class ScriptArguments(TypedDict):
    code: Annotated[
        str, Field(description="The body of an async JavaScript or TypeScript function; `return` the result.")
    ]
    restart: NotRequired[
        Annotated[bool, Field(description="Forget everything earlier scripts declared, before this one runs.")]
    ]


ARGUMENTS: Final = TypeAdapter(ScriptArguments)
SCHEMA: Final = {key: value for key, value in ARGUMENTS.json_schema().items() if key != "title"}
RUN_SCRIPT: Final = ToolKind("gloveport", "run_script", args=ScriptArguments)
"""The `tool_kind` of calls and returns of the tool, to recognise them in a message history."""
