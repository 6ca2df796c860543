"""What an agent run has of its own: its live session, answers that came from outside, and how often its scripts failed."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

import anyio
from pydantic_ai.exceptions import ToolFailed, UserError
from pydantic_ai.tools import RunContext

from ...host.sandbox import AsyncAgentSandbox
from .catalog import AgentTools
from .durable import Outcome
from .ledger import Found, Ledger
from .nested import Bridge
from .sessions import Settings
from .verdicts import Verdict

__all__ = ("RunState",)

Operation = Callable[[RunContext[Any]], Awaitable[Outcome]]
Dispatch = Callable[[RunContext[Any], str], Awaitable[Outcome]]

_PATIENCE: Final = 5.0
"""Seconds for a cancelled script to be cleaned up: an image, and one write."""


class RunState:
    """The state of one run. Its worker lives until `drop`, at the latest until the run's toolset is left."""

    def __init__(
        self, tool: str, settings: Settings, ledger: Ledger, *, tool_timeout: float | None, max_failures: int | None
    ) -> None:
        self.tool = tool
        self.ledger = ledger
        self.tool_timeout = tool_timeout
        self.bridge = Bridge()
        policy = settings.policy
        self.settings = settings if policy is None else dataclasses.replace(settings, policy=self.bridge.guard(policy))
        self.searched = AgentTools(self.bridge)
        self.verdicts: dict[str, Verdict] = {}
        self.operations: dict[str, Operation] = {}
        """What a durable engine is asked to perform, by tool call id."""
        self.dispatch: Dispatch | None = None
        """Hands an operation to the engine."""
        self.failures = 0
        self._max_failures = max_failures
        self._live: _Live | None = None
        self._under_way: dict[asyncio.Event, asyncio.Task[Any] | None] = {}

    @property
    def has_budgets(self) -> bool:
        """Whether it matters what a conversation spent."""
        return self.settings.limits.max_tool_calls is not None or bool(self.settings.limits.tool_budgets)

    # ── the live session ─────────────────────────────────────────────────────────────────────────────────────────────

    def adopt(self, session: AsyncAgentSandbox, conversation: str, found: Found) -> None:
        """Keep a session for the next script: it is the state of that version of the record."""
        self._live = _Live(session, conversation, found.version, found)

    def live_for(self, conversation: str, found: Found) -> AsyncAgentSandbox | None:
        """The live session, if it is what the record says. If the record has been deleted, the session still knows what was in it."""
        live = self._live
        if live is None or live.conversation != conversation or live.session.is_closed():
            return None
        if found.version is None:
            found.conversation = live.found.conversation
        elif found.version != live.version:
            return None
        return live.session

    async def operate(self, ctx: RunContext[Any], perform: Operation) -> Outcome:
        """Have the durable engine perform something, or give what it recorded."""
        if self.dispatch is None:
            raise UserError("ToolScript needs to be one of the capabilities that the agent was made with.")
        script = ctx.tool_call_id or ""
        self.operations[script] = perform
        try:
            return await self.dispatch(ctx, script)
        finally:
            del self.operations[script]

    @contextmanager
    def script(self) -> Generator[None]:
        """Around a script, so that the end of the run can wait for it."""
        over = asyncio.Event()
        self._under_way[over] = asyncio.current_task()
        try:
            yield
        finally:
            del self._under_way[over]
            over.set()

    async def end(self) -> None:
        """The end of the run.

        A run that is cancelled leaves its toolsets before it cancels the tasks of its tools (seen with 2.62 and 2.68). A script has
        to store what it spent before its session goes, so it is cancelled here, and waited for.
        """
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(_PATIENCE):
                for over, task in list(self._under_way.items()):
                    if task is not None and task is not asyncio.current_task():
                        task.cancel()
                        await over.wait()
            await self.drop()

    async def drop(self) -> None:
        """Release the worker."""
        live, self._live = self._live, None
        if live is not None:
            await live.session.close()

    # ── failures in a row ────────────────────────────────────────────────────────────────────────────────────────────

    def count_failure(self) -> list[str]:
        """Count a failed script; gives what the model is told of it."""
        self.failures += 1
        return [self._stopped()] if self._is_over() else []

    def check_failures(self) -> None:
        """Raise `ToolFailed` when no more code is run."""
        if self._is_over():
            raise ToolFailed(self._stopped())

    def _is_over(self) -> bool:
        return self._max_failures is not None and self.failures >= self._max_failures

    def _stopped(self) -> str:
        return f"{self.failures} scripts in a row failed: no more code is run in this agent run. Go on without `{self.tool}`."


@dataclasses.dataclass(frozen=True)
class _Live:
    session: AsyncAgentSandbox
    conversation: str
    version: int | None
    found: Found
