"""A session that someone took out of a pool."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import PolicyError, SessionClosedError, SessionPausedError, TypeProblem
from ...types import ExecutionResult, Step, ToolCall
from ..base import _UNSET  # pyright: ignore[reportPrivateUsage]
from .live import LiveSession

if TYPE_CHECKING:
    from .entry import Entry
    from .pool import SessionPool

__all__ = ("PooledSession",)

T = TypeVar("T")


class PooledSession:
    """A session of a `SessionPool`, from `get` to `release`. One task uses it at a time.

    It does what an `AsyncAgentSandbox` does, and every operation is in the store before it returns. Between operations it may lose its
    worker to another session; the next one gives it another, in the same state. `LeaseLost` means that this host was too slow to renew
    its lease: nothing more is written from here, and whoever takes the session next goes on from what is stored.
    """

    def __init__(self, pool: SessionPool, entry: Entry) -> None:
        self._pool = pool
        self._entry = entry
        self._open = True

    # ── what needs no waiting ────────────────────────────────────────────────────────────────────────────────────────

    @property
    def owner(self) -> str:
        """Whose it is."""
        return self._entry.name.owner

    @property
    def sid(self) -> str:
        """Which of the owner's it is."""
        return self._entry.name.sid

    @property
    def _live(self) -> LiveSession:
        live = self._entry.live
        if not self._open or live is None:
            raise SessionClosedError(f"{self._entry.name} was released; get() it again")
        return live

    @property
    def pending(self) -> ToolCall | None:
        """The call that it is paused at, whichever host it was paused on; `None` also for a run that was `interrupted`."""
        live = self._live
        step = None if live.unfinished else live.pending
        return None if step is None else next((call for call in live.unknown if call.call_id == step.call_id), step)

    @property
    def interrupted(self) -> bool:
        """Whether a host died in the middle of its run: `recover()` finishes it, `roll_back()` undoes it."""
        return self._live.unfinished

    @property
    def unknown_calls(self) -> tuple[ToolCall, ...]:
        """Open calls that were begun by a host that died: nobody knows whether they happened."""
        return self._live.unknown

    @property
    def calls_made(self) -> int:
        """Tool calls charged over the session's life, and to sessions of that name before it."""
        return self._live.calls_made

    @property
    def calls_remaining(self) -> int | None:
        """Tool calls that are left of `max_tool_calls`; `None` without a limit."""
        return self._live.calls_remaining

    @property
    def calls_remaining_by_tool(self) -> dict[str, int]:
        """Calls that are left of each tool with a budget of its own, by name."""
        return self._live.calls_remaining_by_tool

    @property
    def policy_error(self) -> PolicyError | None:
        """Why the policy failed the last time it did while this session was awake here."""
        return self._live.policy_error

    @property
    def lost_runs(self) -> int:
        """Runs that were rolled back."""
        return self._live.lost_runs

    @property
    def clock(self) -> dt.datetime:
        """Where the session's clock began (UTC)."""
        return self._live.clock

    @property
    def random_seed(self) -> int:
        """The seed of `Math.random`."""
        return self._live.random_seed

    @property
    def session_id(self) -> str:
        """Unique to this session; the one that is made after a `drop` has another."""
        return self._live.session_id

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The tools, by the names they were given."""
        return self._live.tool_names

    @property
    def catalog_names(self) -> tuple[str, ...]:
        """The tools of the catalog as they are now, by the names they were given."""
        return self._live.catalog_names

    @property
    def discovered_tools(self) -> tuple[str, ...]:
        """The tools of the catalog that were found, by the names they were given."""
        return self._live.discovered_tools

    @property
    def problems(self) -> tuple[TypeProblem, ...]:
        """What the type check of the run that was begun last found."""
        return self._live.problems

    @property
    def worker_pid(self) -> int | None:
        """The worker's process id, while there is one."""
        return self._live.worker_pid

    def describe_tools(self) -> str:
        """A block for the system prompt. See `AgentSandbox.describe_tools`."""
        return self._live.describe_tools()

    def typescript_stubs(self) -> str:
        """The tools as a `.d.ts` file."""
        return self._live.typescript_stubs()

    def is_closed(self) -> bool:
        """Whether it was released."""
        return not self._open

    def __repr__(self) -> str:
        return f"<PooledSession {self.owner!r} {self.sid!r}{'' if self._open else ', released'}>"

    # ── operations ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self, code: str) -> Any:
        """Run code with the real tools and give its value, or raise what it failed with. See `AgentSandbox.run`."""
        return await self._operate(lambda live: live.run(code))

    async def execute(self, code: str) -> ExecutionResult:
        """Run code with the real tools and give one bounded result. See `AgentSandbox.execute`."""
        return await self._operate(lambda live: live.execute(code))

    async def start(self, code: str, *, ask: Iterable[str] | None = None) -> Step:
        """Run code to its first tool call (with `ask`: of one of those tools) and hand that out. See `AsyncAgentSandbox.start`."""
        return await self._operate(lambda live: live.start(code, ask=ask))

    async def resume(self, step: ToolCall, value: Any = _UNSET, *, error: BaseException | None = None) -> Step:
        """Answer the call that it is paused at. The answer is in the store before the code gets it."""
        return await self._operate(lambda live: live.resume(step, value, error=error))

    async def check(self, code: str) -> list[TypeProblem]:
        """What is wrong with the types of this code as the next run. See `AgentSandbox.check`."""
        return await self._operate(lambda live: live.check(code))

    async def call(self, step: ToolCall, *, again: bool = False) -> Any:
        """Run the real tool for the pending call, noted in the store before it runs. Answers nothing by itself.

        Raises `CallOutcomeUnknownError` for a call that a host began and did not live to tell of, unless `again=True`.
        """
        return await self._operate(lambda live: live.call(step, again=again))

    async def recover(self) -> Step:
        """Finish the run that a host left in the middle (`interrupted`).

        Answers that were stored are not asked for again. Each of `unknown_calls` is answered by the pool's `on_unknown`; without one the
        code gets a `CallOutcomeUnknownError` that it can catch. Then the run goes on as it was begun.
        """
        if not self._live.unfinished:
            raise SessionPausedError("no run of this session was interrupted")
        return await self._operate(lambda live: live.recover(self._pool.on_unknown), unfinished=True)

    async def roll_back(self) -> None:
        """Undo the run under way, paused or interrupted. Its calls stay charged, and `lost_runs` counts it."""
        await self._operate(lambda live: live.roll_back(), unfinished=True)

    async def _operate(self, work: Callable[[LiveSession], Awaitable[T]], *, unfinished: bool = False) -> T:
        if self._live.unfinished and not unfinished:
            raise SessionPausedError("a host died in the middle of a run: recover() finishes it, roll_back() undoes it")
        async with self._pool.using(self._entry):
            return await work(self._live)

    def end(self) -> None:
        """Called by the pool: it is not held any more."""
        self._open = False
