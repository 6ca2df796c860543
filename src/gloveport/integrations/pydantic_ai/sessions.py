"""Sessions of conversations: new ones, stored ones, and stored ones set back to before a script that nobody waits for any more."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...core.seal import SealingKey
from ...errors import JournalError, ToolError
from ...host.checking import TypeCheck
from ...host.sandbox import AsyncAgentSandbox
from ...policy import EngineName, Isolation, Limits, SandboxMode
from ...types import Failed, Policy
from .catalog import AgentTools
from .ledger import Conversation

__all__ = ("Settings", "fresh_session", "load_session", "roll_back")

_NO_PAUSE: Final = 1e-9


@dataclasses.dataclass(frozen=True)
class Settings:
    """How sessions are made."""

    limits: Limits
    namespace: str | None
    engine: EngineName
    isolation: Isolation
    sandbox: SandboxMode
    group: str
    bootstrap: str | None
    policy: Policy | None = None
    typecheck: TypeCheck = "off"

    def options(self) -> dict[str, Any]:
        """What a new session and a loaded one are both given."""
        limits = self.limits
        return {
            "timeout": limits.timeout,
            "max_journal_bytes": limits.max_journal_bytes,
            "max_memory": limits.max_memory,
            "max_host_calls": limits.max_host_calls,
            "max_inflight_host_calls": limits.max_inflight + 1,
            "engine": self.engine,
            "isolation": self.isolation,
            "sandbox": self.sandbox,
            "group": self.group,
            "bootstrap": self.bootstrap,
            "typecheck": self.typecheck,
            "expose_host_errors": (ToolError,),
            "policy": self.policy,
        }


def fresh_session(
    settings: Settings, tools: Sequence[Mapping[str, Any]], conversation: Conversation, searched: AgentTools | None
) -> AsyncAgentSandbox:
    """A new session, with what is left of the conversation's budgets. It starts with its first script."""
    limits = settings.limits
    names = {str(tool["name"]) for tool in tools} | {tool.name for tool in (searched.tools if searched else ())}
    left = {
        tool: max(0, most - conversation.used.get(tool, 0))
        for tool, most in limits.tool_budgets.items()
        if tool in names
    }
    return AsyncAgentSandbox(
        list(tools),
        namespace=settings.namespace,
        max_tool_calls=None if limits.max_tool_calls is None else max(0, limits.max_tool_calls - conversation.spent),
        tool_budgets=left,
        run_budgets={tool: most for tool, most in limits.run_budgets.items() if tool in names},
        max_pause=limits.max_pause,
        max_output_bytes=limits.max_output_bytes,
        max_result_bytes=limits.max_result_bytes,
        tools_catalog=searched,
        **settings.options(),
    )


async def load_session(
    settings: Settings,
    tools: Sequence[Mapping[str, Any]],
    blob: bytes,
    key: SealingKey,
    binding: bytes,
    searched: AgentTools | None,
    *,
    max_pause: float | None = None,
) -> AsyncAgentSandbox:
    """A stored session. Raises `JournalError`."""
    return await AsyncAgentSandbox.load(
        blob,
        key,
        list(tools),
        associated_data=binding,
        max_pause=settings.limits.max_pause if max_pause is None else max_pause,
        tools_catalog=searched,
        **settings.options(),
    )


async def roll_back(
    settings: Settings,
    tools: Sequence[Mapping[str, Any]],
    blob: bytes,
    key: SealingKey,
    binding: bytes,
    searched: AgentTools | None,
) -> tuple[bytes, int]:
    """A dump of a paused session as it was before the script that waits, and its calls so far. They stay charged.

    A pause that is over its limit ends in a rollback; so the session is loaded with next to no time to wait.
    """
    session = await load_session(settings, tools, blob, key, binding, searched, max_pause=_NO_PAUSE)
    try:
        if session.pending is not None:
            step = await session.resume(session.pending, error=ToolError("nobody waits for this script any more"))
            if not isinstance(step, Failed):
                raise JournalError("the stored session could not be set back to before the script that waits")
        return await session.dump(key, associated_data=binding), session.calls_made
    finally:
        await session.close()
