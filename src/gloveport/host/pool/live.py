"""A session of a pool while it is awake: an `AsyncAgentSandbox` that tells its book before anything cannot be undone."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Self

from ...core.commands import Answer, Persist
from ...core.followed import FollowedSession
from ...core.saved import SavedSession
from ...core.trail import TrailRecord
from ...errors import CallOutcomeUnknownError, JournalError
from ...types import Done, Failed, Step, ToolCall
from ..base import _UNSET, _check_identity  # pyright: ignore[reportPrivateUsage]
from ..options import Options
from ..sandbox import AsyncAgentSandbox
from .book import Book

__all__ = ("LiveSession", "UnknownHook")

UnknownHook = Callable[[str, str, ToolCall], Any]
"""Called as `on_unknown(owner, sid, call)`; gives the call's answer or raises what the guest gets, and may be a coroutine function."""


class LiveSession(AsyncAgentSandbox):
    """What is written when: before tools run, that they will; an answer that the application gives, before the guest gets it; with
    `durability="call"` every answer; and at the end of each operation everything."""

    _core_type = FollowedSession
    _core: FollowedSession  # pyright: ignore[reportIncompatibleVariableOverride]
    book: Book
    waits: float | None = None
    """Since when the run under way is paused, by the store's clock."""
    unfinished = False
    """The run under way was left by a host that did not live to pause or end it."""

    # ── made and loaded ──────────────────────────────────────────────────────────────────────────────────────────────

    @classmethod
    async def new(cls, options: Options, book: Book, *, each_answer: bool) -> Self:
        """A session that was not there before. What another one of that name has spent, it has spent."""
        session = cls._made(options)
        before = book.spent_before()
        if before is not None:
            session._core.budget.made, session._core.budget.tool_made = before.made, before.tool_made
        await book.create(session._core, session._driver)
        session._attach(book, each_answer)
        return session

    @classmethod
    async def load(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, built: Options, book: Book, *, each_answer: bool
    ) -> Self:
        """The stored session, at the place where it was left."""
        saved, trail = await book.read()
        _check_identity(saved, built)
        if saved.identity.namespace != built.identity.namespace:
            raise JournalError(f"the session was made with namespace={saved.identity.namespace!r}; use the same")
        limits = dataclasses.replace(
            built.limits,
            max_tool_calls=saved.budget.limit,
            tool_budgets=saved.budget.tool_limits,
            max_output_bytes=saved.max_output_bytes,
            max_result_bytes=saved.max_result_bytes,
        )
        session = cls._made(built.with_identity(saved.identity, limits))
        try:
            await session._restore(saved, trail, book)
        except BaseException:
            session._shut()
            raise
        session._attach(book, each_answer)
        return session

    async def _restore(self, saved: SavedSession, trail: list[TrailRecord], book: Book) -> None:
        core = self._core
        self.waits = await self._driver.drive(core.restore(saved, guest=self._driver.engine.build, trail=trail))
        book.check_spent(core)
        book.waits_since(self.waits)
        run = core.run
        if run is None:
            return
        decided = not any(call.undecided for call in run.open.values())
        if self.waits is None and run.ask is None and run.open and not run.owed and not core.unknown_calls and decided:
            self.waits = book.tenure.store_time  # every call is handed out, and this one was about to be
        if self.waits is None:
            self.unfinished = True
            return
        # It is added to `run.paused` when the pause ends, on whichever host.
        if run.pause_left < self._waited(book, self.waits):
            self.waits = None
            core.follow()
            core.expire()
            self._driver.release()

    def _attach(self, book: Book, each_answer: bool) -> None:
        self.book = book
        if self._core.trail is None:
            self._core.follow()
        self._core.each_answer = each_answer
        self._driver.persist = self._persist
        self._begun: set[int] = set()
        if self.waits is not None and self.pending is not None:
            self._paused(self.pending, self._waited(book, self.waits))

    @staticmethod
    def _waited(book: Book, since: float) -> float:
        return max(0.0, book.tenure.store_time - since)

    # ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _persist(self, command: Persist) -> None:
        if not command.answers:
            await self.book.write(self._core, self._driver, resting=False)
        await self.book.ensure()

    async def _execute(self, code: str) -> Done | Failed:
        step = await super()._execute(code)
        await self._noted(step)
        return step

    async def start(self, code: str, *, ask: Iterable[str] | None = None) -> Step:
        return await self._noted(await super().start(code, ask=ask))

    async def resume(self, step: ToolCall, value: Any = _UNSET, *, error: BaseException | None = None) -> Step:
        return await self._noted(await super().resume(step, value, error=error))

    async def call(self, step: ToolCall, *, again: bool = False) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The real tool for the pending call, noted before it runs. `again`: also if it may have been made by a host that died."""
        self._check_call(step)
        self._core.check_step(step)
        if not again and step.call_id not in self._begun and any(c.call_id == step.call_id for c in self.unknown):
            raise CallOutcomeUnknownError(
                f"call {step.call_id} of `{step.name}` was begun before, and nobody knows whether it happened: find out and "
                "resume() with what you know, or call(step, again=True) if it may happen twice",
                tool=step.name,
                call_id=step.call_id,
                idempotency_key=step.idempotency_key,
            )
        with self._exclusive():
            self._core.begin_call(step)
            await self.book.write(self._core, self._driver, waits=self.waits)
            await self.book.ensure()
        self._begun.add(step.call_id)
        return await super().call(step, again=True)

    @property
    def unknown(self) -> tuple[ToolCall, ...]:
        """Open calls that may have been made or not, as far as this host knows."""
        core = self._core
        steps = (core.step_of(call) for call in core.unknown_calls)
        return tuple(step for step in steps if step.call_id not in self._begun)

    async def recover(self, hook: UnknownHook | None) -> Step:
        """Finish the run that a host left."""
        with self._exclusive(), self._observed("gloveport.run") as tell:
            answers = [await self._answer_unknown(step, hook) for step in self.unknown]
            self.unfinished = False
            self._driver.pausing = self._core.run is not None and self._core.run.ask is not None
            step = await self._driven(self._core.recover(answers))
            tell(step)
        return await self._noted(step)

    async def _answer_unknown(self, step: ToolCall, hook: UnknownHook | None) -> Answer:
        error: BaseException = CallOutcomeUnknownError(
            f"the host ended after this call of `{step.name}` was begun; it may have happened or not, and was not repeated",
            tool=step.name,
            call_id=step.call_id,
            idempotency_key=step.idempotency_key,
        )
        value: Any = None
        if hook is not None:
            try:
                value = hook(self.book.name.owner, self.book.name.sid, step)
                if inspect.isawaitable(value):
                    value = await value
            except Exception as raised:
                error = raised
            else:
                return self._numbered(self._driver.bridge.value(step.call_id, value))
        if isinstance(error, CallOutcomeUnknownError):
            return self._numbered(self._driver.bridge.told(step.call_id, error))
        return self._numbered(self._driver.bridge.failure(step.call_id, error))

    def _numbered(self, answer: Answer) -> Answer:
        answer.call_id -= self._core.ids_lost  # as the guest counts
        return answer

    async def roll_back(self) -> None:
        """Undo the run under way."""
        with self._exclusive():
            await self._driver.drive(self._core.roll_back())
            self.unfinished, self.waits = False, None
            await self.book.write(self._core, self._driver)

    # ── between operations ───────────────────────────────────────────────────────────────────────────────────────────

    async def _noted(self, step: Any) -> Any:
        """Write what an operation came to, before its caller learns of it."""
        with self._exclusive():
            self.waits = self.book.tenure.store_time if isinstance(step, ToolCall) else None
            await self.book.write(self._core, self._driver, waits=self.waits)
            if isinstance(step, ToolCall):
                await self.book.ensure()
        return step

    async def release(self) -> None:
        """Write what is left, and give the lease back."""
        with self._exclusive():
            core = self._core
            if core.run is None or self.unfinished:
                self.waits = None
            elif self.waits is None:  # a tool's SystemExit left it at its call
                self.waits = self.book.tenure.store_time
            await self.book.write(core, self._driver, waits=self.waits, release=True)

    async def suspend(self) -> None:
        """Give the worker back. The next operation has a new one, in the same state."""
        with self._exclusive():
            await self._driver.drive(self._core.suspend())

    @property
    def awake(self) -> bool:
        """Whether it has a worker."""
        return self._driver.link is not None

    def shut(self) -> None:
        """End it without writing anything."""
        self._shut()

    def abort(self) -> None:
        """Kill the worker, whatever it does."""
        link = self._driver.link
        if link is not None:
            link.abort()
