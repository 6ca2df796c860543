"""`AsyncAgentSandbox`: a session for asyncio."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self, Unpack

from ..core.commands import Note
from ..core.durable import Steps
from ..core.seal import SealingKey
from ..errors import SessionBusyError, TypeProblem
from ..tools.bridge import Prepared
from ..types import Done, ExecutionResult, Failed, Step, ToolCall
from .async_driver import AsyncDriver
from .base import _UNSET, BaseSandbox, OnUnknown  # pyright: ignore[reportPrivateUsage]
from .log import note_to
from .options import Options, SessionOptions, Tools
from .task_trip import in_own_context

__all__ = ("AsyncAgentSandbox",)

_MIB = 1024 * 1024


class AsyncAgentSandbox(BaseSandbox[AsyncDriver]):
    """`AgentSandbox` with coroutine methods and no thread per session. Dumps of the two are interchangeable.

    A sync tool runs in a thread, and so does what follows it in the run until the event loop is needed, unless `on_console` is given.

    The constructor starts nothing: the first use does, or `async with`, or `await AsyncAgentSandbox.create(…)`. A cancelled run is
    rolled back and the session goes on. A tool that raises something that is not an `Exception` (`SystemExit`,
    `KeyboardInterrupt`) leaves the session paused at that call, and the exception reaches whoever awaits `run`.
    Other calls that were under way then are handed out afterwards with `unknown=True`: their tools may have gone on to their end.
    """

    @classmethod
    async def create(cls, tools: Tools, **options: Any) -> Self:
        """A session whose worker is ready."""
        session = cls(tools, **options)
        await session._started()
        return session

    def _make_driver(self, options: Options) -> AsyncDriver:
        self._core.fatal_pauses = True
        driver = AsyncDriver(options.engine, options.compiler, options.bridge, options.limits.tool_timeout)
        driver.keeps_to_loop = options.on_console is not None  # it may not be safe to call in another thread
        return driver

    async def _started(self) -> None:
        with self._exclusive():
            try:
                await self._driver.drive(self._core.boot())
            except BaseException:
                self._shut()
                raise

    # ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self, code: str) -> Any:
        """Run code with the real tools and give its value, or raise what it failed with. See `AgentSandbox.run`."""
        return self._value_of(await self._execute(code))

    async def execute(self, code: str) -> ExecutionResult:
        """Run code with the real tools and give one bounded result. Raises only for misuse."""
        return (await self._execute(code)).to_result()

    async def _execute(self, code: str) -> Done | Failed:
        self._check_code(code)
        with self._exclusive(), self._observed("gloveport.run") as tell:
            self._core.check_idle()
            refused = await self._checking.refusal_async(code, self._core.sources, self.typescript_stubs)
            self._driver.pausing = False
            step = refused or self._checking.ended(await self._driven(self._core.execute(code)))
            tell(step)
            return step

    async def _driven(self, steps: Steps) -> Any:
        """Run a part of a run, and note the time if it pauses."""
        try:
            return self._paused(await self._driver.drive(steps))
        except BaseException:
            if self._core.pending is not None:  # a tool's SystemExit left it paused
                self._paused(self._core.pending)
            raise

    async def start(self, code: str, *, ask: Iterable[str] | None = None) -> Step:
        """Run code to its first tool call and hand that out instead of making it.

        With `ask`, only calls of those tools are handed out (and calls whose tool raises `PauseRequested`); the real tools answer
        the others, as in `run`, and every call under way is answered before the session pauses. `resume` goes on the same way.
        """
        self._check_code(code)
        with self._exclusive(), self._observed("gloveport.run") as tell:
            self._core.check_idle()
            asked = self._asked(ask)
            refused = await self._checking.refusal_async(code, self._core.sources, self.typescript_stubs)
            step = refused or await self._driven(self._core.start(code, asked))
            tell(step)
            return self._checking.annotated(step)

    async def resume(self, step: ToolCall, value: Any = _UNSET, *, error: BaseException | None = None) -> Step:
        """Answer the call that the session is paused at. See `AgentSandbox.resume`."""
        with self._exclusive(), self._observed("gloveport.run") as tell:
            answer = self._answer(step, value, error)
            following = await self._driven(self._core.resume(step, answer, self._pause_length()))
            tell(following)
            return self._checking.annotated(following)

    async def check(self, code: str) -> list[TypeProblem]:
        """What is wrong with the types of this code as the next run. See `AgentSandbox.check`."""
        self._core.check_open()
        return await self._checking.check_async(self._check_code(code), self._core.sources, self.typescript_stubs())

    async def call(self, step: ToolCall, *, again: bool = False) -> Any:
        """Run the real tool for a call, and give its value or raise what it raises. Sync tools run in a thread. See `AgentSandbox.call`."""
        known = self._known_answer(step)
        if known is not None:
            return self._given(known)
        prepared, log = self._to_call(step, again), self._options.call_log
        if log is None or prepared.info is None:
            return await self._invoke(prepared)
        await note_to(log, Note(started=[prepared.info]))
        try:
            value = await self._invoke(prepared)
        except Exception as error:
            answer = self._driver.bridge.failure(step.call_id, error)
            await note_to(log, Note(answered=[(prepared.info, False, answer.payload)]))
            raise
        answer = self._driver.bridge.answer(step.call_id, step.name, value)
        await note_to(log, Note(answered=[(prepared.info, answer.ok, answer.payload)]))
        return value

    @staticmethod
    async def _invoke(prepared: Prepared) -> Any:
        if prepared.spec.is_async:
            return await in_own_context(prepared.invoke)
        value = await asyncio.to_thread(prepared.invoke)
        return await value if asyncio.iscoroutine(value) else value

    # ── durability ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def dump(self, key: SealingKey, *, associated_data: bytes = b"", journal: bool = False) -> bytes:
        """The session as one sealed blob. See `AgentSandbox.dump`."""
        with self._exclusive(), self._observed("gloveport.dump") as tell:
            blob = self._sealed(await self._driver.drive(self._save_steps(journal=journal)), key, associated_data)
            tell(blob)
            return blob

    @classmethod
    async def load(
        cls,
        blob: bytes,
        key: SealingKey,
        tools: Tools,
        *,
        timeout: float | None = None,
        max_pause: float = 600.0,
        max_journal_bytes: int = 8 * _MIB,
        associated_data: bytes = b"",
        on_unknown: OnUnknown = "raise",
        **options: Unpack[SessionOptions],
    ) -> Self:
        """A saved session. See `AgentSandbox.load`."""
        session, saved = cls._opened(
            blob,
            key,
            tools,
            timeout=timeout,
            max_pause=max_pause,
            max_journal_bytes=max_journal_bytes,
            associated_data=associated_data,
            on_unknown=on_unknown,
            options=options,
        )
        return await session._restored(saved, ask_log=True)

    async def _restored(self, saved: Any, *, ask_log: bool = False) -> Self:
        try:
            with self._observed("gloveport.load"):
                await self._driver.drive(self._core.restore(saved, guest=self._driver.engine.build))
            if ask_log:
                log = self._options.call_log
                calls: Any = None if log is None else log.calls(self._core.id, self._core.first_mark)
                self._take_log(await calls if inspect.isawaitable(calls) else calls)
        except BaseException:
            self._shut()
            raise
        if self.pending is not None:
            self._paused(self.pending)
        return self

    async def fork(self, *, reseed: bool = False, calls: int | None = None) -> Self:
        """A second session with the same state. See `AgentSandbox.fork`."""
        with self._exclusive(), self._observed("gloveport.fork"):
            saved = await self._driver.drive(self._save_steps())
            child, branch, seed = self._forked(saved, reseed=reseed, calls=calls)
        await child._restored(branch)
        if seed is not None:
            await child._driver.drive(child._core.reseed(seed))
        return child

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def close(self) -> None:
        """End the session and its worker, also while paused or in use by another task. Idempotent.

        A run that is under way ends with `RunCancelled`: at once if it computes, and if it waits for tools, when one of these ends.
        """
        try:
            with self._exclusive():
                self._shut()
        except SessionBusyError:
            self._core.closed = True
            self._end_events()
            link = self._driver.link
            if link is not None:
                link.abort()

    async def __aenter__(self) -> Self:
        await self._started()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
