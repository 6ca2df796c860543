"""The Pydantic AI integration; its public names are in `gloveport.pydantic_ai`."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("pydantic_ai") is None:
    raise ImportError(
        "gloveport.pydantic_ai needs Pydantic AI: pip install 'gloveport[pydantic-ai]'", name="pydantic_ai"
    )

from .capability import ToolScript
from .kind import RUN_SCRIPT
from .machines import MachineBackend, MachineSandbox, MachineTools
from .typescript import TypeScriptSandbox

__all__ = ("RUN_SCRIPT", "MachineBackend", "MachineSandbox", "MachineTools", "ToolScript", "TypeScriptSandbox")
