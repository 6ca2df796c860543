"""Host functions that a guest may call: what they are called, what the model is told of them, how they are called."""

from __future__ import annotations

from .binding import bind_arguments
from .prompt import describe_tools
from .spec import Parameter, Tools, ToolSpec, build_specs
from .typescript import typescript_stubs

__all__ = ("Parameter", "ToolSpec", "Tools", "bind_arguments", "build_specs", "describe_tools", "typescript_stubs")
