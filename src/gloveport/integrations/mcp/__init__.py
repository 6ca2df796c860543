"""The MCP client; its public names are in `gloveport.mcp`."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("mcp") is None:
    raise ImportError("gloveport.mcp needs the MCP library: pip install 'gloveport[mcp]'", name="mcp")

from .server import McpServer

__all__ = ("McpServer",)
