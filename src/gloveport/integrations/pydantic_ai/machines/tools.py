"""`MachineTools`: a shell and files of the run's workspace, as tools for the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.tools import AgentDepsT
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset

from ....policy import check_count, check_seconds
from . import functions

__all__ = ("MachineTools",)

_DESCRIPTION = (
    "A shell and files of an isolated Linux machine: bash, read_file, write_file, edit_file, list_files, grep."
)


@dataclasses.dataclass(kw_only=True)
class MachineTools(AbstractCapability[AgentDepsT]):
    """The model gets `bash`, `read_file`, `write_file`, `edit_file`, `list_files` and `grep`, for the workspace of the run.

    Names and arguments are those that models know from the harness. A command that fails, takes too long or writes too much is a
    result; what cannot be done to a file is a failed result that says why. Neither uses up a retry or ends the run.
    """

    id: str | None = "machine_tools"

    timeout_seconds: float = 60.0
    """Of a command that does not ask for another."""
    max_timeout_seconds: float = 600.0
    """What a command may ask for."""
    max_output_bytes: int = 50 * 1024
    """Of stdout and stderr each, and of what the other tools give: the beginning and the end."""
    max_read_lines: int = 2000
    """That `read_file` gives at once."""
    writable: bool = True
    """`False`: without `bash`, `write_file` and `edit_file`."""

    def __post_init__(self) -> None:
        check_seconds("timeout_seconds", self.timeout_seconds)
        check_seconds("max_timeout_seconds", self.max_timeout_seconds)
        if self.timeout_seconds > self.max_timeout_seconds:
            raise ValueError("`timeout_seconds` must be at most `max_timeout_seconds`")
        check_count("max_output_bytes", self.max_output_bytes, least=1024)
        check_count("max_read_lines", self.max_read_lines, least=1)
        if self.defer_loading and self.description is None:
            self.description = _DESCRIPTION

    @classmethod
    def combine(cls, capabilities: Sequence[AbstractCapability[AgentDepsT]]) -> AbstractCapability[AgentDepsT]:
        """The last one, whole."""
        return capabilities[-1]

    def get_toolset(self) -> AbstractToolset[AgentDepsT]:
        """The tools."""
        toolset = FunctionToolset[Any](id=self.id)
        bound = functions.Functions(
            timeout=self.timeout_seconds,
            max_timeout=self.max_timeout_seconds,
            max_output=self.max_output_bytes,
            max_lines=self.max_read_lines,
        )
        for function in bound.reading:
            toolset.add_function(function)
        if self.writable:
            toolset.add_function(bound.bash, metadata={"code_arg_name": "command", "code_arg_language": "bash"})
            for function in bound.writing:
                toolset.add_function(function)
        return toolset
