"""Running whole modules that a model wrote: `TypeScriptSandboxSession`."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import anyio
import anyio.to_thread

from ...egress.gateway import connection_rules
from ...engines.defaults import toolbox
from ...engines.deno.authorities import extra_authorities
from ...engines.modules.pool import module_pool
from ...engines.modules.profile import Profile
from ...engines.toolbox.compiled import CompiledModule
from ...errors import (
    CompileError,
    EngineUnavailableError,
    PackageError,
    SandboxUnavailableError,
    TypeScriptSandboxError,
    TypeScriptSandboxExecutionError,
    TypeScriptSandboxTimeoutError,
    TypeScriptSandboxUnavailableError,
    WidgetError,
)
from ...permissions import Packages, Runtime
from ...policy import NetworkRules, SandboxMode, check_count, check_seconds
from ..packages.resolver import resolver_for
from ..packages.specifiers import is_package
from ..widgets.artifacts import Artifacts
from ..widgets.plugins import Plugins
from ..widgets.widget import Widget
from .calls import bridge_of
from .explain import compile_failure, package_failure
from .inputs import encoded_inputs
from .network import SessionNetwork
from .result import ModuleResult
from .running import ModuleRun, Request

if TYPE_CHECKING:
    from ...engines.deno.worker import DenoWorker
    from ..widgets.packages import WidgetPackages

__all__ = ("TypeScriptSandboxSession",)

DEFAULT_OUTPUT = 50 * 1024
SCRIPT_OUTPUT = 16 * 1024 * 1024
MIN_OUTPUT = 16
MAX_OUTPUT = 48 * 1024 * 1024
MAX_TIMEOUT = 86400
"""Seconds."""


class TypeScriptSandboxSession:
    """A jailed process that runs complete JavaScript, TypeScript and TSX modules, one after another.

    An async context manager, for asyncio and trio; it can be entered again after it was closed. What modules leave on `globalThis`
    stays until it closes, until `reset`, or until a call ends the process (a timeout, too much memory, `Deno.exit`).

    Args:
        allow_package_imports: `npm:`, `jsr:` and `https:` imports (default: none).
        allow_network: `True` for every public host and port, or rules: `["api.example.com"]`, `NetworkRules` (default: no network).
        enable_rendering: `render` and `render_widget` (default: off), with `plugins`: `"npm:@tailwindcss/vite@latest"`.
        max_old_generation_size_mb: V8's heap in MiB (default 128); `None` leaves it to V8.
        runtime: instead of all of these, what the application grants in detail.
        max_memory_mb: all private memory of the process beyond what it takes by itself, in MiB (default 512).
        sandbox: `"require"` (default) refuses to start without the whole jail, `"auto"` warns, `"off"` has none.
        busy: what an overlapping call does: `"queue"` (default) waits, `"error"` raises `TypeScriptSandboxError`.

    Raises `TypeError` and `ValueError` for options that cannot be. Entering raises `TypeScriptSandboxUnavailableError`.
    """

    def __init__(
        self,
        *,
        allow_package_imports: bool | Packages = False,
        allow_network: bool | NetworkRules | Sequence[str] = False,
        enable_rendering: bool = False,
        plugins: Sequence[str] = (),
        max_old_generation_size_mb: int | None = 128,
        runtime: Runtime | None = None,
        max_memory_mb: int = 512,
        sandbox: SandboxMode = "require",
        busy: Literal["queue", "error"] = "queue",
    ) -> None:
        if type(enable_rendering) is not bool:
            raise TypeError(f"`enable_rendering` must be True or False, not {enable_rendering!r}")
        if type(allow_package_imports) is not bool and not isinstance(allow_package_imports, Packages):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"`allow_package_imports` must be True, False or a Packages, not {allow_package_imports!r}")
        if plugins and not enable_rendering:
            raise ValueError("`plugins` are for widgets: they need `enable_rendering=True`")
        owned = {
            "allow_package_imports": allow_package_imports is not False,
            "allow_network": allow_network is not False,
            "enable_rendering": enable_rendering,
            "max_old_generation_size_mb": max_old_generation_size_mb != 128,
            "max_memory_mb": max_memory_mb != 512,
            "sandbox": sandbox != "require",
        }
        if runtime is None:
            runtime = Runtime(
                max_old_generation_size_mb=max_old_generation_size_mb, max_memory_mb=max_memory_mb, sandbox=sandbox
            )
        elif not isinstance(runtime, Runtime):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"`runtime` must be a `Runtime`, not {runtime!r}")
        elif any(owned.values()):
            clash = next(name for name, given in owned.items() if given)
            raise ValueError(
                f"`{clash}` cannot be given beside `runtime`: set it on the `Runtime`, or leave `runtime` out"
            )
        granted = runtime.permissions.allow_net
        rules = connection_rules(allow_network if granted is None else granted)
        self._network = None if rules is None else SessionNetwork(rules)
        if busy not in ("queue", "error"):
            raise ValueError(f"`busy` must be 'queue' or 'error', not {busy!r}")
        self._sandbox: SandboxMode = runtime.sandbox
        self._busy = busy
        self._plugins = Plugins.parse(plugins)
        self._rendering = enable_rendering
        self.widgets = Artifacts()
        """What was rendered, by `artifact_id`; it stays after the session was closed."""
        packages = Packages() if allow_package_imports is True else allow_package_imports or None
        self._packages = None if packages is None else resolver_for(packages)
        self._profile = Profile(
            heap_mb=runtime.max_old_generation_size_mb,
            memory_mb=runtime.max_memory_mb,
            cache=None if self._packages is None else self._packages.cache,
            permissions=runtime.permissions,
            network=rules is not None,
            certificates=None if rules is None else extra_authorities(),
        )
        self._worker: DenoWorker | None = None
        self._lock: anyio.Lock | None = None
        self._entering = False
        self._id = secrets.token_hex(8)
        self._number = 0
        self._spent = False  # the worker is of no more use
        self._dirty = False  # a call may have left state in the worker
        self._lost = False  # and that state is gone

    # ── opening and closing ──────────────────────────────────────────────────────────────────────────────────────────

    @property
    def is_open(self) -> bool:
        """Whether it was entered and not closed."""
        return self._lock is not None

    @property
    def renders(self) -> bool:
        """Whether it was made with `enable_rendering`."""
        return self._rendering

    @property
    def workspace(self) -> Path | None:
        """A temporary directory of the host that modules see as `/workspace`, read-only; `None` while the session is closed.

        What is put there stays until the session closes. Files have to be readable for everyone. With `sandbox="off"` modules see it
        under its own path, which changes when the worker is replaced.
        """
        worker = self._worker
        return worker.workspace.path if worker is not None and worker.workspace is not None else None

    async def __aenter__(self) -> Self:
        if self._lock is not None or self._entering:
            raise TypeScriptSandboxError("the session is open already: enter it once, and use it until it is closed")
        self._entering = True
        _start_compiler(self._sandbox)
        try:
            self._worker, self._spent = await self._take(), False
            self._lock = anyio.Lock()
        finally:
            self._entering = False
        self._dirty = self._lost = False
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the process and removes the workspace. A call that is under way raises `TypeScriptSandboxError`. Idempotent."""
        lock, self._lock = self._lock, None
        worker = self._worker
        if lock is None or worker is None:
            return
        worker.kill()
        if self._network is not None:
            self._network.close()
        with anyio.CancelScope(shield=True):
            async with lock:  # a call that is under way sees the end of the process now
                worker, self._worker = self._worker, None
                if worker is not None:
                    worker.close()
                    await _removed(worker)
                if self._network is not None:
                    self._network.close()  # that of a worker which came meanwhile

    async def reset(self) -> None:
        """A fresh process for the next call; the workspace stays. Waits for a call that is under way."""
        async with self._turn():
            await self._replace()
            self._dirty = self._lost = False

    async def _take(self) -> DenoWorker:
        if self._packages is not None:
            self._packages.prepare()
        try:
            worker = await module_pool(self._sandbox, self._profile).take_async()
            if self._network is not None:
                try:
                    await self._network.attach(worker)
                except BaseException:
                    self._network.close()
                    worker.close()
                    raise
            return worker
        except (EngineUnavailableError, SandboxUnavailableError) as error:
            raise TypeScriptSandboxUnavailableError(str(error)) from error

    async def _replace(self) -> DenoWorker:
        """A fresh worker, which takes over the workspace."""
        old = self._worker
        if old is not None:
            old.kill()
        worker = await self._take()
        if old is not None:
            if old.workspace is not None and worker.workspace is not None:
                worker.workspace.take_over(old.workspace)
            old.close()  # which removes the workspace that it still has
        self._worker, self._spent = worker, False
        if self._lock is None:  # whoever closes it waits for this call to end, and then ends this worker
            raise TypeScriptSandboxError("the session was closed during the call")
        return worker

    def _turn(self) -> anyio.Lock:
        lock = self._lock
        if lock is None:
            raise TypeScriptSandboxError("the session is closed: use it inside of `async with`")
        if self._busy == "error" and lock.locked():
            raise TypeScriptSandboxError("the session is busy with another call")
        return lock

    # ── running ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def run_module(
        self,
        source: str,
        *,
        inputs: Mapping[str, Any] | None = None,
        timeout: float = 30.0,
        max_output_bytes: int = DEFAULT_OUTPUT,
        tools: Any = None,
        on_event: Callable[[Any], object] | None = None,
    ) -> ModuleResult:
        """Runs one module, or a plain script, and gives what became of it. Never raises for what the code did.

        Args:
            source: JavaScript, TypeScript or TSX, also in a Markdown fence. A module exports a default function, or one named `run`;
                a script's value is that of its last statement.
            inputs: JSON data by name: the argument of the exported function, or variables of a script.
            timeout: seconds for the run, without waiting for other calls (default 30).
            max_output_bytes: of the value as JSON, and of stdout and stderr each (default 50 KiB).
            tools: functions for the code, as for sessions: `await tools.name(argument)`. Calls overlap; waiting for them counts.
            on_event: called with a `ConsoleOutput` for every line as it is printed.

        Raises `TypeScriptSandboxError` when the session is closed or busy, `TypeScriptSandboxUnavailableError` when no worker starts,
        and `TypeError` or `ValueError` for arguments that cannot be.
        """
        if not isinstance(source, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the code must be a string, not {type(source).__name__}")
        _check_timeout(timeout)
        check_count("max_output_bytes", max_output_bytes, least=MIN_OUTPUT, most=MAX_OUTPUT)
        given = None if inputs is None else encoded_inputs(inputs)
        request = Request(source, given, timeout, max_output_bytes, bridge_of(tools), on_event)
        self._turn()
        try:
            compiled = await toolbox(self._sandbox).module_async(source)
        except CompileError as error:
            return ModuleResult(**compile_failure(error, source))
        except (EngineUnavailableError, SandboxUnavailableError) as error:
            raise TypeScriptSandboxUnavailableError(str(error)) from error
        if self._packages is not None:
            wanted = [each.specifier for each in compiled.imports if is_package(each.specifier)]
            try:
                request = dataclasses.replace(request, resolve=await self._packages.resolve(wanted))
            except PackageError as error:
                return ModuleResult(**package_failure(error, compiled, source))
            except EngineUnavailableError as error:
                raise TypeScriptSandboxUnavailableError(str(error)) from error
        async with self._turn():
            return await self._run(request, compiled)

    async def run_script(
        self,
        source: str,
        *,
        timeout: float = 30.0,
        inputs: Mapping[str, Any] | None = None,
        max_output_bytes: int = SCRIPT_OUTPUT,
    ) -> Any:
        """The value of one module or script, for the application rather than a model: it may be larger (default 16 MiB). Takes and
        raises what `run_module` does, and `TypeScriptSandboxExecutionError` (with the `result`) or `TypeScriptSandboxTimeoutError` when
        there is no value."""
        result = await self.run_module(source, inputs=inputs, timeout=timeout, max_output_bytes=max_output_bytes)
        if result.ok:
            return result.value
        kind = TypeScriptSandboxTimeoutError if result.exit_reason == "timeout" else TypeScriptSandboxExecutionError
        raise kind(result.error or "", result)

    async def render(self, source: str, *, timeout: float = 30.0) -> Widget:
        """Makes a page of a React component: a module that exports it as its default. Calls may overlap, also with those of modules.

        Raises `WidgetError` for a component that cannot be built or mounted, with its line; `TypeScriptSandboxTimeoutError`;
        `TypeScriptSandboxError` when the session is closed or has no `enable_rendering=True`.
        """
        if not self._rendering:
            raise TypeScriptSandboxError("this session does not render: it needs `enable_rendering=True`")
        if self._lock is None:
            raise TypeScriptSandboxError("the session is closed: use it inside of `async with`")
        from ..widgets.render import render

        packages: WidgetPackages | None = None
        try:
            packages = await self._packages_of_widget(source)
            widget = await render(
                source,
                plugins=self._plugins.names,
                packages_hook=packages,
                timeout=timeout,
                sandbox=self._sandbox,
            )
        except WidgetError as error:
            located = error if packages is None else packages.located(error)
            if located is error:
                raise
            raise located from error
        except (EngineUnavailableError, SandboxUnavailableError) as error:
            raise TypeScriptSandboxUnavailableError(str(error)) from error
        self.widgets.put(widget)
        return widget

    async def _packages_of_widget(self, source: str) -> WidgetPackages | None:
        if self._packages is None or not isinstance(source, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            return None
        from ..widgets.packages import packages_of

        return await packages_of(source, self._packages, self._sandbox)

    async def render_widget(self, source: str, *, timeout: float = 30.0) -> str:
        """The HTML of `render`."""
        return (await self.render(source, timeout=timeout)).html

    async def _run(self, request: Request, compiled: CompiledModule) -> ModuleResult:
        worker = self._worker
        if self._lock is None:
            raise TypeScriptSandboxError("the session was closed")
        network = self._network
        unserved = network is not None and not network.alive
        if worker is None or self._spent or not worker.alive or worker.hung_up or unserved:
            self._spent = True
            worker = await self._replace()
            self._lost = self._dirty
        lost, self._lost, self._dirty = self._lost, False, True
        self._number += 1
        run = ModuleRun(worker, request, compiled, self._number, self._profile, lost, self._id)
        try:
            result = await run.result()
            if not self.is_open:
                raise TypeScriptSandboxError("the session was closed during the call")
            return result if network is None else await network.noted(result)
        finally:
            if run.over:
                self._spent = True
                worker.kill()


def _start_compiler(sandbox: SandboxMode) -> None:
    """Beside the first worker instead of after it. What goes wrong is told when something is compiled."""
    box = toolbox(sandbox)
    if box.pid is None:

        def start() -> None:
            with contextlib.suppress(EngineUnavailableError, SandboxUnavailableError, CompileError):
                box.module("0")

        threading.Thread(target=start, name="gloveport-compiler", daemon=True).start()


async def _removed(worker: DenoWorker) -> None:
    if worker.workspace is not None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(worker.workspace.remove)


def _check_timeout(timeout: float) -> None:
    check_seconds("timeout", timeout)
    if timeout > MAX_TIMEOUT:
        raise ValueError(f"`timeout` must be at most {MAX_TIMEOUT} seconds, not {timeout!r}")
