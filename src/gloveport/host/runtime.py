"""`IsolatedRuntime`: one sandboxed JavaScript runtime, without what a session has on top of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self, Unpack

from ..core.discovery import ToolInfo
from ..errors import SessionBusyError
from ..tools.spec import build_specs
from ..types import Done, ExecutionResult, Failed, RuntimeConfig
from .async_driver import AsyncDriver
from .base import BaseSandbox
from .options import Options, SessionOptions
from .sync_driver import SyncDriver

__all__ = ("IsolatedRuntime",)


class IsolatedRuntime(BaseSandbox[SyncDriver]):
    """Evaluates scripts in a worker of their own; what they declare and put on `globalThis` stays. Blocking and asyncio alike.

    A script's value is that of its last statement, if that is an expression; `await` and `return` at its top level are legal too.
    What is not plain JSON data crosses as in sessions (`docs/sessions.md`). A script that runs too long, or out of memory, is
    rolled back, and the runtime goes on. For pausing, saving and forking use `AgentSandbox`.

    Args:
        runtime_config (or `config=`): limits, `on_console` and `bootstrap` as one object; a keyword wins over it.
        functions: Python functions by the name that scripts call them by; each call is a promise. More with `bind_function`.
        capture_console: whether results hold what was printed (default: not; `on_console` gets it in any case).
        timeout: seconds of computing per script (default 30).
        max_wait: seconds that a script may wait for functions (default 600).
        max_output_bytes, max_result_bytes: of each console stream (default 64 KiB), and of a result as JSON (default 1 MiB).
        options: as for a session: `max_memory`, `isolation`, `sandbox`, `engine`, `max_host_calls`, `tool_timeout`,
            `redact_host_errors` and the rest of `SessionOptions`.

    Nothing is started before the first use. Any thread may use it, one at a time.
    """

    def __init__(
        self,
        runtime_config: RuntimeConfig | None = None,
        /,
        *,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        capture_console: bool = False,
        timeout: float | None = None,
        max_wait: float = 600.0,
        max_output_bytes: int = 64 * 1024,
        max_result_bytes: int = 1024 * 1024,
        **options: Unpack[SessionOptions],
    ) -> None:
        if runtime_config is not None:
            options["config"] = runtime_config
        self._capture = capture_console
        super().__init__(
            dict(functions or {}),
            timeout=timeout,
            max_pause=max_wait,
            max_output_bytes=max_output_bytes,
            max_result_bytes=max_result_bytes,
            **options,
        )

    def _make_driver(self, options: Options) -> SyncDriver:
        parts = (options.engine, options.compiler, options.bridge, options.limits.tool_timeout)
        self._awaiting = AsyncDriver(*parts)
        self._awaiting.keeps_to_loop = options.on_console is not None
        return SyncDriver(*parts)

    # ── scripts ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def eval(self, code: str) -> Any:
        """The value of a script. Raises `JavaScriptError` for what it threw, a `RunError` for a failure on the host's side."""
        return self._value_of(self._run(code))

    def execute(self, code: str) -> ExecutionResult:
        """Run a script and give one bounded result. Raises only for misuse."""
        return self._result(self._run(code))

    async def eval_async(self, code: str) -> Any:
        """`eval` on the running event loop, where async functions run then."""
        return self._value_of(await self._run_async(code))

    async def execute_async(self, code: str) -> ExecutionResult:
        """`execute` on the running event loop. A cancelled script is rolled back."""
        return self._result(await self._run_async(code))

    def _run(self, code: str) -> Done | Failed:
        self._check_code(code)
        with self._exclusive(), self._observed("gloveport.run") as tell:
            self._core.check_idle()
            refused = self._checking.refusal(code, self._core.sources, self.typescript_stubs)
            step = refused or self._checking.ended(self._driver.drive(self._core.execute(code, script=True)))
            tell(step)
            return step

    async def _run_async(self, code: str) -> Done | Failed:
        self._check_code(code)
        with self._exclusive(), self._observed("gloveport.run") as tell:
            self._core.check_idle()
            refused = await self._checking.refusal_async(code, self._core.sources, self.typescript_stubs)
            driver, other = self._awaiting, self._driver
            driver.link, driver.traced = other.link, other.traced
            try:
                step = refused or self._checking.ended(await driver.drive(self._core.execute(code, script=True)))
            finally:
                other.link, driver.link = driver.link, None
            tell(step)
            return step

    def _result(self, step: Done | Failed) -> ExecutionResult:
        result = step.to_result()
        return result if self._capture else dataclasses.replace(result, stdout="", stderr="", truncated=False)

    # ── functions ────────────────────────────────────────────────────────────────────────────────────────────────────

    def bind_function(self, name: str, function: Callable[..., Any]) -> None:
        """Let later scripts call `name(…)`: a global that gives a promise. Sync or async.

        Raises `ValueError` for a name that is taken, reserved or no identifier; `TypeError` for what is not callable.
        """
        ((js_name, spec),) = build_specs({name: function}).items()
        with self._exclusive():
            specs = self._driver.bridge.specs
            if js_name in specs:
                raise ValueError(f"{js_name!r} is bound already")
            self._driver.drive(self._core.bind(ToolInfo(spec.name, js_name, spec.sequential)))
            self._driver.bridge.add(spec)

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """End the runtime and its worker, also while a script runs. Idempotent."""
        try:
            with self._exclusive():
                self._shut()
        except SessionBusyError:
            self._core.closed = True
            self._end_events()
            for link in (self._driver.link, self._awaiting.link):
                if link is not None:
                    link.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
