"""The builder: one resident process for all sessions of a host process."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import anyio
import msgspec

from ...errors import EngineUnavailableError, TypeScriptSandboxTimeoutError, WidgetError
from ...policy import MIB, SandboxMode
from ..deno.process import BASE_HEAP, OFFLINE, Process, Program, start
from ..deno.worker import DenoWorker
from ..resident import Resident
from ..toolbox.process import program
from .spoken import Answer, Built, Refused, Reply, told
from .talk import Ended, Talk

__all__ = ("NATIVE", "Builder", "Resolve", "builder_program", "bury")

NATIVE: Final = Path(__file__).resolve().parents[2] / "_native"
MEMORY: Final = 1024 * MIB
"""Bytes of private memory beyond what the program takes by itself: esbuild's, and V8's heap."""
MAX_REPLY: Final = 48 * MIB
MAX_SOURCE_BYTES: Final = 1 * MIB
"""Bytes (UTF-8) of the largest source."""
BUSY_SECONDS: Final = 0.25
MAX_EXTRA: Final = 2
MAX_QUESTIONS: Final = 10_000
"""Imports that the host is asked about for one widget: a package of small files, such as an icon set, has several thousand. What
bounds them really is the time."""

Resolve: TypeAlias = Callable[[str, str, str], Awaitable[Answer]]
"""Gives the module for a specifier, its importer's name (empty: the widget) and the kind of import, as esbuild calls it
(`import-statement`, `require-call`, `dynamic-import`, `import-rule`), or raises `WidgetError` with the reason."""


def builder_program() -> Program:
    """The builder's program. Raises `EngineUnavailableError` when a part is missing."""
    deno, bundle, wasm = program(), NATIVE / "builder.js", NATIVE / "esbuild.wasm"
    if not bundle.is_file() or not wasm.is_file():
        raise EngineUnavailableError(
            "the builder of widgets is not built: reinstall gloveport from its source or wheel"
        )
    flags = (f"--allow-read={wasm}", f"--v8-flags=--max-old-space-size={(256 * MIB + BASE_HEAP) // MIB}")
    argv = (str(deno), "run", *OFFLINE, *flags, str(bundle))
    return Program("the builder of widgets", argv, MEMORY, readable=(argv[0], str(bundle), str(wasm)))


class Builder:
    """Makes the source of a widget into a script and a style sheet. Any thread and any event loop may use it.

    `sandbox` is as for sessions. The process sees its own program, and no other file; it has no network.
    """

    def __init__(self, *, sandbox: SandboxMode = "require") -> None:
        self._sandbox: SandboxMode = sandbox
        self._warned = False
        self._resident = Resident(
            self._start,
            patience=BUSY_SECONDS,
            extras=MAX_EXTRA,
            busy=lambda: EngineUnavailableError("the builder of widgets is busy with other sources: try again"),
            closed=lambda: EngineUnavailableError("this builder is closed: make a new one"),
        )

    async def build(self, source: str, *, css: str | None, resolve: Resolve | None, timeout: float) -> Built:
        """Builds one.

        Args:
            source: a module in TSX, TypeScript or JavaScript, at most 1 MiB.
            css: the application's own style sheet for Tailwind CSS, which may be empty; `None`: without Tailwind CSS.
            resolve: gives modules for imports that are not React's; `None`: there are none.
            timeout: seconds that it may take; waiting for others, or for the builder to start, does not count.

        Raises:
            WidgetError: it does not compile, with `stage="build"`.
            TypeScriptSandboxTimeoutError: it took too long.
            EngineUnavailableError: the builder does not start, or is busy.
            SandboxUnavailableError: `sandbox="require"` and there is no jail.
        """
        _check_size(source)
        for attempt in (1, 2):  # the first process may have died for reasons of its own
            async with self._resident.borrowed_async(timeout) as talk:
                done = False
                try:
                    with anyio.fail_after(timeout):
                        reply = await _ask(talk, source, css, resolve)
                    done = not reply.last
                except TimeoutError:
                    text = "the widget was not built in time: make it simpler"
                    raise TypeScriptSandboxTimeoutError(text) from None
                except Ended as error:
                    if attempt == 2:
                        text = "this code crashes the builder: it is nested too deeply or needs too much memory"
                        raise WidgetError(text) from error
                    continue
                finally:
                    if not done:  # also when cancelled: its answer would come where the next request expects its own
                        self._resident.discard(talk)
            return _built(reply, talk.number)
        raise AssertionError("unreachable")

    @property
    def pid(self) -> int | None:
        """Process id of the resident process; `None` when there is none."""
        talk = self._resident.process
        return None if talk is None else talk.worker.pid

    @property
    def process(self) -> int | None:
        """The resident process's number, as in `Built`; `None` when there is none. Once given up it never comes again."""
        talk = self._resident.process
        return None if talk is None else talk.number

    def close(self) -> None:
        """Ends the process. Later requests raise `EngineUnavailableError`."""
        self._resident.close()

    def _start(self) -> Talk:
        process = start(builder_program(), self._sandbox, warn=not self._warned)
        self._warned = True
        return Talk(DenoWorker(process, bury), MAX_REPLY)


def bury(process: Process) -> None:
    """Waits for its end somewhere else than on an event loop."""
    threading.Thread(target=process.close, name="gloveport-builder", daemon=True).start()


def _check_size(source: str) -> None:
    size = len(source.encode("utf-8", "surrogatepass"))
    if size > MAX_SOURCE_BYTES:
        raise WidgetError(f"the widget has {size} bytes, more than the {MAX_SOURCE_BYTES} that are allowed")


async def _ask(talk: Talk, source: str, css: str | None, resolve: Resolve | None) -> Reply:
    request: dict[str, Any] = {"id": 1, "op": "build", "source": source, "css": css, "packages": resolve is not None}
    await talk.send(request)
    given: set[str] = set()
    for _ in range(MAX_QUESTIONS):
        reply = await talk.receive(Reply)
        if reply.ask is None:
            return reply
        answer: Answer | Refused = Refused("packages are not allowed here")
        if resolve is not None:
            try:
                answer = await resolve(reply.ask.specifier, reply.ask.importer, reply.ask.kind)
            except WidgetError as error:
                answer = Refused(error.message)
        said = msgspec.to_builtins(answer)
        if isinstance(answer, Answer):
            if answer.name in given:  # a module that many others import is sent once
                said["code"] = None
            given.add(answer.name)
        await talk.send({"id": 1, "answer": said}, size=len(said.get("code") or ""))
    raise WidgetError(f"the widget and its packages have more than {MAX_QUESTIONS} imports")


def _built(reply: Reply, process: int) -> Built:
    if reply.ok:
        return Built(reply.code, reply.page, reply.css, process, reply.map)
    if reply.kind == "source":
        raise WidgetError(told(reply.message), line=reply.line, column=reply.column)
    raise EngineUnavailableError(f"the builder of widgets failed: {told(reply.message)}")
