"""MCP servers as tools: `McpServer`, whose tools a session takes as `tools` or as `tools_catalog`.

Needs the extra: `pip install 'gloveport[mcp]'`.
"""

from __future__ import annotations

from .errors import McpServerError, McpToolError
from .integrations.mcp import McpServer

__all__ = ("McpServer", "McpServerError", "McpToolError")
