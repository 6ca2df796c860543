"""The integration of deepagents; its public names are in `gloveport.deepagents`."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("deepagents") is None:
    raise ImportError("gloveport.deepagents needs deepagents: pip install 'gloveport[deepagents]'", name="deepagents")

from .backend import GloveportSandbox

__all__ = ("GloveportSandbox",)
