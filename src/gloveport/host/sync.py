"""`AgentSandbox`: a session for blocking code."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self, Unpack

from ..core.commands import Note
from ..core.seal import SealingKey
from ..errors import SessionBusyError, TypeProblem
from ..tools.bridge import Prepared
from ..types import Done, ExecutionResult, Failed, Step, ToolCall
from .base import _UNSET, BaseSandbox, OnUnknown  # pyright: ignore[reportPrivateUsage]
from .log import note_at_once
from .options import Options, SessionOptions, Tools
from .portal import await_on_portal, portal
from .sync_driver import SyncDriver

__all__ = ("AgentSandbox",)

_MIB = 1024 * 1024


class AgentSandbox(BaseSandbox[SyncDriver]):
    """A session: code that a model wrote calls your tools, keeps its state, and can be paused, saved and forked.

    `tools` maps names to callables (sync or async) or to `SchemaTool`s (or mappings with their keys); a sequence of schema tools
    or callables works too.

    - `max_tool_calls`: calls over the session's life; further ones throw `ToolBudgetError` in the guest.
    - `namespace`: install the tools on this global object (`tools.search(…)`) instead of as bare globals.
    - `clock`: where the session's clock begins: a `datetime` (naive means UTC), epoch seconds, or `"frozen"` (now, and it never
      moves). Default: now.
    - `random_seed`: of `Math.random`, 0 to 2**64−1. Default: a random one.
    - `timeout`: seconds of guest computing per run (default 30). Waiting for tools does not count.
    - `max_pause`: seconds of waiting per run (default 600), for tools or for whoever has to resume it.
    - `max_journal_bytes`, `max_output_bytes`, `max_result_bytes`: bytes of a dump, of each console stream, of a result as JSON.
    - the rest: see `SessionOptions`.

    Any thread may use a session, one at a time. A timeout, memory limit, crash or cancellation rolls back to the state before the
    run; the session goes on, and `lost_runs` counts it. Close it, or use it as a context manager; a dropped one is cleaned up too.
    """

    def __init__(self, tools: Tools, **options: Any) -> None:
        super().__init__(tools, **options)
        self._driver.drive(self._core.boot())

    def _make_driver(self, options: Options) -> SyncDriver:
        return SyncDriver(options.engine, options.compiler, options.bridge, options.limits.tool_timeout)

    # ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, code: str) -> Any:
        """Run code with the real tools and give its value, or raise what it failed with.

        Raises `JavaScriptError` for what the code threw (a retry prompt for the model), a `RunError` for a failure on the host's
        side; `TypeError`, `SessionClosedError`, `SessionPausedError` or `SessionBusyError` for misuse.
        """
        return self._value_of(self._execute(code))

    def execute(self, code: str) -> ExecutionResult:
        """Run code with the real tools and give one bounded result. Raises only for misuse."""
        return self._execute(code).to_result()

    def _execute(self, code: str) -> Done | Failed:
        self._check_code(code)
        with self._exclusive(), self._observed("gloveport.run") as tell:
            self._core.check_idle()
            refused = self._checking.refusal(code, self._core.sources, self.typescript_stubs)
            self._driver.pausing = False
            step = refused or self._checking.ended(self._driver.drive(self._core.execute(code)))
            tell(step)
            return step

    def start(self, code: str, *, ask: Iterable[str] | None = None) -> Step:
        """Run code to its first tool call and hand that out instead of making it.

        With `ask`, only calls of those tools are handed out (and calls whose tool raises `PauseRequested`); the real tools answer
        the others, as in `run`, and every call under way is answered before the session pauses. `resume` goes on the same way.
        """
        self._check_code(code)
        with self._exclusive(), self._observed("gloveport.run") as tell:
            self._core.check_idle()
            asked = self._asked(ask)
            refused = self._checking.refusal(code, self._core.sources, self.typescript_stubs)
            step = refused or self._paused(self._driver.drive(self._core.start(code, asked)))
            tell(step)
            return self._checking.annotated(step)

    def resume(self, step: ToolCall, value: Any = _UNSET, *, error: BaseException | None = None) -> Step:
        """Answer the call that the session is paused at, with a value or an error, and run to the next one.

        Raises `StaleStepError` or `NotPausedError` for a call that it is not paused at and `ValueCrossingError` for a value that
        cannot cross; the session is still answerable then.
        """
        with self._exclusive(), self._observed("gloveport.run") as tell:
            answer = self._answer(step, value, error)
            following = self._paused(self._driver.drive(self._core.resume(step, answer, self._pause_length())))
            tell(following)
            return self._checking.annotated(following)

    def check(self, code: str) -> list[TypeProblem]:
        """What is wrong with the types of this code as the next run, at most 20 problems; nothing is run and nothing changes.

        It knows the tools, what the guest offers and what earlier runs declared. Works whatever `typecheck` is, also while paused; then
        without the run under way. Code that does not compile gives one problem with the code `"SyntaxError"`. Raises
        `TypeCheckUnavailableError` when the type checker is not installed.
        """
        self._core.check_open()
        return self._checking.check(self._check_code(code), self._core.sources, self.typescript_stubs())

    def call(self, step: ToolCall, *, again: bool = False) -> Any:
        """Run the real tool for a call, and give its value or raise what it raises. Answers nothing by itself.

        With a `call_log` the call is noted before and after, and what the log knows already is given without running the tool again. Raises
        `CallOutcomeUnknownError` for a call that is `unknown`, unless `again` says that it may happen twice.
        """
        known = self._known_answer(step)
        if known is not None:
            return self._given(known)
        prepared, log = self._to_call(step, again), self._options.call_log
        if log is None or prepared.info is None:
            return self._invoke(prepared)
        note_at_once(log, Note(started=[prepared.info]), await_on_portal)
        try:
            value = self._invoke(prepared)
        except Exception as error:
            answer = self._driver.bridge.failure(step.call_id, error)
            note_at_once(log, Note(answered=[(prepared.info, False, answer.payload)]), await_on_portal)
            raise
        answer = self._driver.bridge.answer(step.call_id, step.name, value)
        note_at_once(log, Note(answered=[(prepared.info, answer.ok, answer.payload)]), await_on_portal)
        return value

    @staticmethod
    def _invoke(prepared: Prepared) -> Any:
        context = contextvars.copy_context()
        value = context.run(prepared.invoke)
        return portal().run(lambda: value, context) if asyncio.iscoroutine(value) else value

    # ── durability ───────────────────────────────────────────────────────────────────────────────────────────────────

    def dump(self, key: SealingKey, *, associated_data: bytes = b"", journal: bool = False) -> bytes:
        """The session as one sealed blob, also while paused. Its size follows the live heap, not the history.

        `key` has at least 16 bytes, or is a `KeyRing`; `load` needs it again, and `associated_data` (at most 4096 bytes, not stored).
        `journal=True` embeds the record of everything that happened, with which a later release can load the session even when it
        no longer has this guest build. Signed; it holds code, heap and tool results in clear, unless
        the `KeyRing` encrypts.
        """
        with self._exclusive(), self._observed("gloveport.dump") as tell:
            blob = self._sealed(self._driver.drive(self._save_steps(journal=journal)), key, associated_data)
            tell(blob)
            return blob

    @classmethod
    def load(
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
        """A saved session, in about a millisecond whatever it did before; tools are not called.

        Clock, seed, budgets, namespace and result limits come from the blob. Raises `SealError` before anything is started unless
        the blob is authentic, `JournalError` when it belongs to other tools, `ReplayDivergence` when a replay differs.

        `on_unknown` is for calls that `call_log` knows as begun and not as answered: `"raise"` raises `CallOutcomeUnknownError`, `"ask"`
        hands them out as steps that are `unknown`, and a function (of the `ToolCall`; also async) gives their answers instead of the tool.
        """
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
        return session._restored(saved, ask_log=True)

    def _restored(self, saved: Any, *, ask_log: bool = False) -> Self:
        try:
            with self._observed("gloveport.load"):
                self._driver.drive(self._core.restore(saved, guest=self._driver.engine.build))
            if ask_log:
                log = self._options.call_log
                calls: Any = None if log is None else log.calls(self._core.id, self._core.first_mark)
                self._take_log(await_on_portal(calls) if inspect.isawaitable(calls) else calls)
        except BaseException:
            self._shut()
            raise
        if self.pending is not None:
            self._paused(self.pending)
        return self

    def fork(self, *, reseed: bool = False, calls: int | None = None) -> Self:
        """A second session with the same state, also while paused at a call.

        The budget that is left is divided: `calls` go to the fork (default: half, rounded down). `reseed=True` gives it a random
        stream of its own; otherwise both see the same numbers.
        """
        with self._exclusive(), self._observed("gloveport.fork"):
            saved = self._driver.drive(self._save_steps())
            child, branch, seed = self._forked(saved, reseed=reseed, calls=calls)
        child._restored(branch)
        if seed is not None:
            child._driver.drive(child._core.reseed(seed))
        return child

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """End the session and its worker, also while paused or in use by another thread. Idempotent.

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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
