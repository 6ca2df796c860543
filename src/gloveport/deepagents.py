"""deepagents: `GloveportSandbox` is a machine as the backend of a deep agent.

Needs the extra: `pip install 'gloveport[deepagents]'`.
"""

from __future__ import annotations

from .integrations.deepagents import GloveportSandbox

__all__ = ("GloveportSandbox",)
