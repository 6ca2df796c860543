"""The sessions of agent runs."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio
from pydantic_ai.exceptions import ToolFailed

from ....errors import TypeScriptSandboxExecutionError
from ....host.modules.session import TypeScriptSandboxSession
from .outcome import Outcome
from .tools import ModuleTools

__all__ = ("ModuleRun", "RunSessions")

_PATIENCE: Final = 5.0
_MAX_IDLE: Final = 8
_IDLE: Final = 600.0


class ModuleRun:
    """The state of one agent run: its session, which begins with the first call, and how often its modules failed."""

    def __init__(
        self,
        make: Callable[[], TypeScriptSandboxSession],
        injected: TypeScriptSandboxSession | None,
        tool_timeout: float | None,
    ) -> None:
        self._make = make
        self._injected = injected
        self._own: TypeScriptSandboxSession | None = None
        self._lock = anyio.Lock()
        self._ended = False
        self.tools = ModuleTools(tool_timeout)
        self.failures = 0
        self.calls = 0

    async def session(self) -> TypeScriptSandboxSession:
        """The session to use. Raises `TypeScriptSandboxError` for an injected one that is not open."""
        if self._injected is not None:
            return self._injected
        async with self._lock:
            if self._ended:
                raise TypeScriptSandboxExecutionError("the agent run is over")
            if self._own is None:
                session = self._make()
                await session.__aenter__()
                self._own = session
            return self._own

    async def end(self) -> None:
        """The end of the run: its worker is ended, whatever it does.

        A run that is cancelled leaves its toolsets before it cancels the tasks of its tools (seen with 2.62 and 2.68).
        """
        self._ended = True
        session, self._own = self._own, None
        if session is not None:
            with anyio.move_on_after(_PATIENCE, shield=True):
                await session.close()

    # ── failures in a row ────────────────────────────────────────────────────────────────────────────────────────────

    def check_failures(self, most: int, tool: str) -> None:
        """Raise `ToolFailed` when no more code is run."""
        if self.failures >= max(most, 1):
            raise ToolFailed(self._stopped(tool))

    def count(self, outcome: Outcome, most: int, tool: str) -> str:
        """Count a call; gives what the model is told in addition."""
        self.calls += 1
        if outcome["ok"]:
            self.failures = 0
            return ""
        self.failures += 1
        return f"\n{self._stopped(tool)}" if self.failures >= max(most, 1) else ""

    def _stopped(self, tool: str) -> str:
        return f"{self.failures} calls in a row failed: no more code is run in this agent run. Go on without `{tool}`."


class RunSessions:
    """The sessions of runs under a durable engine, which knows a run by its id only.

    An engine tells no operation that it was a run's last one, so a session that was not used for ten minutes is ended, and all but the
    eight used last are. What a run finds gone it is told.
    """

    def __init__(self, make: Callable[[], TypeScriptSandboxSession]) -> None:
        self._make = make
        self._kept: dict[str, tuple[TypeScriptSandboxSession, float]] = {}

    @asynccontextmanager
    async def use(self, run: str, *, lost: bool) -> AsyncGenerator[tuple[TypeScriptSandboxSession, bool]]:
        """The run's session, and whether it is a new one in place of one with state."""
        kept = self._kept.pop(run, None)
        await self._let_go()
        session = kept[0] if kept is not None else self._make()
        if kept is None:
            await session.__aenter__()
        try:
            yield session, lost and kept is None
        except BaseException:
            with anyio.CancelScope(shield=True):
                await session.close()
            raise
        self._kept[run] = (session, time.monotonic())

    async def _let_go(self) -> None:
        late = time.monotonic() - _IDLE
        runs = list(self._kept)
        for run in [run for run in runs if self._kept[run][1] < late or run in runs[: -_MAX_IDLE + 1]]:
            session, _ = self._kept.pop(run)
            await session.close()
