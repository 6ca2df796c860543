"""The compiler of model code: one resident process for all sessions of a host process."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import Any, Literal, Self, cast

from gloveport.engines.resident import Resident
from gloveport.engines.toolbox.cache import Outcome, OutcomeCache, source_key
from gloveport.engines.toolbox.compiled import Compiled, CompiledModule, ModuleImport, Outline, SourceMap
from gloveport.engines.toolbox.connection import Connection, ToolboxDied, ToolboxTimeout
from gloveport.engines.toolbox.process import BUNDLE, Spawn, spawn, start
from gloveport.errors import CompileError, EngineUnavailableError
from gloveport.policy import SandboxMode

MAX_SOURCE_BYTES = 1024 * 1024
"""Bytes (UTF-8) of the largest source that is compiled."""
DEFAULT_TIMEOUT = 10.0
DEFAULT_CACHE_BYTES = 16 * 1024 * 1024
BUSY_SECONDS = 0.25
"""After that long the resident process counts as stuck at another source, and an extra one serves this request."""
BUSY_SECONDS_ON_LOOP = 0.005
"""The same for a thread that runs an event loop: the request it waits for may need that very loop."""
MAX_EXTRA_PROCESSES = 2
INLINE_SOURCE_CHARACTERS = 16 * 1024
"""Larger sources do not fit into a socket buffer at once: the async form gives them to a thread."""

_COMPILE = "compile"
_SCRIPT = "script"
_MODULE = "module"


class Toolbox:
    """Compiles model code. Any thread and any event loop may use it, also at the same time.

    Args:
        sandbox: `"require"` refuses to start without the jail, `"auto"` starts without what is missing and warns, `"off"`
            starts a plain process.
        cache_bytes: memory for compiled sources. Failures are kept as well, so that a source that crashes the compiler does
            so once.
        spawn: starts the process; for tests.
        bundle: the program of the toolbox; for tests.

    The process is started by the first request, restarted after it died, and ended by `close`, at exit, and with the host.
    After a fork the child starts its own.
    """

    def __init__(
        self,
        *,
        sandbox: SandboxMode = "require",
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        spawn: Spawn = spawn,
        bundle: Path = BUNDLE,
    ) -> None:
        if sandbox not in ("require", "auto", "off"):
            raise ValueError(f"sandbox must be 'require', 'auto' or 'off', not {sandbox!r}")
        self._cache = OutcomeCache(cache_bytes)
        self._resident: Resident[Connection] = Resident(
            lambda: start(spawn, sandbox, bundle),
            patience=BUSY_SECONDS,
            extras=MAX_EXTRA_PROCESSES,
            busy=lambda: EngineUnavailableError("the compiler of model code is busy with other sources: try again"),
            closed=lambda: EngineUnavailableError("this toolbox is closed: make a new one"),
            forked=self._cache.after_fork,
        )

    # ── what it is for ───────────────────────────────────────────────────────────────────────────────────────────────

    def compile(self, source: str, *, script: bool = False, timeout: float = DEFAULT_TIMEOUT) -> Compiled:
        """Compiles one piece of model code.

        Args:
            source: TypeScript or JavaScript, also inside one Markdown fence; the body of an async function. At most 1 MiB.
            script: it gives the value of its last statement, if that is an expression.
            timeout: seconds that compiling may take.

        Raises:
            CompileError: it does not compile. Lines and columns (in characters) are 1-based and those of `source`; 0 when the
                place is unknown. Also for a source that makes the compiler crash or exceed `timeout`.
            EngineUnavailableError: the compiler is not installed, does not start or is busy.
            SandboxUnavailableError: `sandbox="require"` and there is no jail.
        """
        _check_size(source)
        op = _SCRIPT if script else _COMPILE
        key = source_key(op, source)
        outcome = self._cache.get(key)
        if outcome is None:
            outcome = self._attempt(key, op, source, timeout)
        return cast("Compiled", _given(outcome))

    async def compile_async(self, source: str, *, script: bool = False, timeout: float = DEFAULT_TIMEOUT) -> Compiled:
        """The same for asyncio (and uvloop). Holds up the loop for half a millisecond at most."""
        _check_size(source)
        op = _SCRIPT if script else _COMPILE
        key = source_key(op, source)
        outcome = self._cache.get(key)
        if outcome is None:
            outcome = await self._attempt_on_loop(key, op, source, timeout)
        if outcome is None:
            return await asyncio.to_thread(self.compile, source, script=script, timeout=timeout)
        return cast("Compiled", _given(outcome))

    def module(self, source: str, *, timeout: float = DEFAULT_TIMEOUT) -> CompiledModule:
        """Compiles a whole module (JavaScript, TypeScript or TSX, also inside one Markdown fence), or a plain script.

        Raises as `compile` does.
        """
        _check_size(source)
        key = source_key(_MODULE, source)
        outcome = self._cache.get(key)
        if outcome is None:
            outcome = self._attempt(key, _MODULE, source, timeout)
        return cast("CompiledModule", _given(outcome))

    async def module_async(self, source: str, *, timeout: float = DEFAULT_TIMEOUT) -> CompiledModule:
        """The same for asyncio and trio. Small sources take no thread: the loop is held up for a fraction of a millisecond."""
        _check_size(source)
        key = source_key(_MODULE, source)
        outcome = self._cache.get(key)
        if outcome is None:
            outcome = await self._attempt_on_loop(key, _MODULE, source, timeout)
        if outcome is None:
            from anyio import to_thread  # sessions that do without it need not wait for its import

            return await to_thread.run_sync(functools.partial(self.module, source, timeout=timeout))
        return cast("CompiledModule", _given(outcome))

    def module_kind(self, source: str, *, timeout: float = DEFAULT_TIMEOUT) -> Literal["module", "session"]:
        """Whether a source is a module (it has `import` or `export`) or the code of a session. Need not compile.

        Raises as `compile` does, `CompileError` only for what is wrong with its Markdown fences.
        """
        _check_size(source)
        kind = self._ask("module_kind", source, timeout).get("kind")
        return "module" if kind == "module" else "session"

    def outline(self, source: str, *, timeout: float = DEFAULT_TIMEOUT) -> Outline:
        """What a type checker has to know of a session's code. Raises as `compile` does."""
        _check_size(source)
        reply = self._ask("outline", source, timeout)
        return Outline(_text(reply.get("text")), reply.get("typed") is True)

    def check_declarations(self, source: str, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Raises `CompileError` unless a source parses as TypeScript declarations, the content of a `.d.ts` file."""
        _check_size(source)
        self._ask("declarations", source, timeout)

    def prepare(self) -> None:
        """Have the process started in the background, the first time that this is called."""
        self._resident.prepare()

    @property
    def pid(self) -> int | None:
        """Process id of the resident process; `None` when there is none. It may have died since the last request."""
        connection = self._resident.process
        return connection.child.pid if connection is not None else None

    def close(self) -> None:
        """Ends the process. Later requests raise `EngineUnavailableError`."""
        self._resident.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ── requests ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _attempt(self, key: bytes, op: str, source: str, timeout: float) -> Outcome:
        try:
            reply = self._ask(op, source, timeout)
            outcome: Outcome = _compiled_module(reply) if op == _MODULE else _compiled(reply)
        except CompileError as error:
            outcome = error
            if isinstance(error.__cause__, ToolboxTimeout):
                return outcome  # the machine may have been busy: the next attempt can succeed
        self._cache.put(key, outcome)
        return outcome

    async def _attempt_on_loop(self, key: bytes, op: str, source: str, timeout: float) -> Outcome | None:
        """`None`: it needs a thread, because that would hold up the loop."""
        if len(source) > INLINE_SOURCE_CHARACTERS:
            return None
        with self._resident.borrowed_now() as connection:
            if connection is None:
                return None  # it serves another one, or is to be started, which takes 0.1 s
            try:
                reply = await connection.request_async(op, source, timeout)
            except ToolboxDied:
                self._resident.discard(connection)
                return None  # the thread starts another one, and finds out whether it is the source's fault
            except ToolboxTimeout as error:
                self._resident.discard(connection)
                return _too_slow(timeout, error)
            except BaseException:  # cancelled: its reply would come where the next request expects its own
                self._resident.discard(connection)
                raise
        try:
            fields = _checked(reply)
            outcome: Outcome = _compiled_module(fields) if op == _MODULE else _compiled(fields)
        except CompileError as error:
            outcome = error
        self._cache.put(key, outcome)
        return outcome

    def _ask(self, op: str, source: str, timeout: float) -> dict[str, Any]:
        """A reply that is a success. Raises as `compile` does."""
        patience = BUSY_SECONDS_ON_LOOP if _on_event_loop() else BUSY_SECONDS
        for attempt in (1, 2):  # the first process may have died for reasons of its own
            with self._resident.borrowed(timeout, patience) as connection:
                try:
                    return _checked(connection.request(op, source, timeout))
                except ToolboxTimeout as error:
                    self._resident.discard(connection)
                    raise _too_slow(timeout, error) from error
                except ToolboxDied as error:
                    self._resident.discard(connection)
                    if attempt == 2:
                        text = "this code crashes the compiler: it is nested too deeply or needs too much memory"
                        raise CompileError(text) from error
                except BaseException as error:
                    if not isinstance(error, (CompileError, EngineUnavailableError)):
                        self._resident.discard(connection)
                    raise
        raise AssertionError("unreachable")


def _on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _check_size(source: str) -> None:
    if len(source) * 4 > MAX_SOURCE_BYTES:
        size = len(source.encode("utf-8", "surrogatepass"))
        if size > MAX_SOURCE_BYTES:
            raise CompileError(
                f"the code has {size} bytes, more than the {MAX_SOURCE_BYTES} that are allowed: pass data through tools"
            )


def _given(outcome: Outcome) -> Compiled | CompiledModule:
    if isinstance(outcome, CompileError):
        # A new object for every caller: a cached one would collect tracebacks.
        raise CompileError(outcome.message, line=outcome.line, column=outcome.column) from outcome.__cause__
    return outcome


def _too_slow(timeout: float, cause: ToolboxTimeout) -> CompileError:
    error = CompileError(f"compiling this code took longer than {timeout:g} s: make it smaller or simpler")
    error.__cause__ = cause
    return error


def _checked(reply: dict[str, Any]) -> dict[str, Any]:
    if reply.get("ok") is True:
        return reply
    message = str(reply.get("message", ""))
    if reply.get("kind") == "syntax":
        raise CompileError(message, line=_count(reply.get("line")), column=_count(reply.get("column")))
    raise EngineUnavailableError(f"the compiler of model code failed: {message}")


def _count(value: object) -> int:
    return value if type(value) is int and value >= 0 else 0


def _compiled(reply: dict[str, Any]) -> Compiled:
    code, names = reply.get("code"), cast("list[object]", reply.get("names"))
    try:
        if not isinstance(code, str):
            raise TypeError
        return Compiled(code, tuple(_text(name) for name in names), _source_map(reply.get("map")))
    except (OverflowError, TypeError, ValueError) as error:
        raise EngineUnavailableError("the compiler of model code answered without code") from error


def _compiled_module(reply: dict[str, Any]) -> CompiledModule:
    try:
        imports = [
            ModuleImport(
                _text(each["specifier"]), each["dynamic"] is True, _count(each["line"]), _count(each["column"])
            )
            for each in cast("list[dict[str, Any]]", reply["imports"])
        ]
        kind = "script" if reply["kind"] == "script" else "module"
        code, head = _text(reply["code"]), _text(reply["head"])
        return CompiledModule(kind, code, head, tuple(imports), _source_map(reply.get("map")))
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise EngineUnavailableError("the compiler of model code answered without code") from error


def _source_map(lines: Any) -> SourceMap | None:
    if lines is None:
        return None
    return SourceMap(tuple(tuple((int(a), int(b), int(c)) for a, b, c in segments) for segments in lines))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
