"""The type checker of model code: one resident language server for all sessions of a host process."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Final, Self

from gloveport.engines.checker import install
from gloveport.engines.checker.documents import Question, Text, written
from gloveport.engines.checker.lsp import ServerDied, ServerTimeout
from gloveport.engines.checker.problems import found
from gloveport.engines.checker.server import Server, Spawn, spawn
from gloveport.engines.resident import Resident
from gloveport.engines.toolbox.client import Toolbox
from gloveport.engines.toolbox.compiled import Outline
from gloveport.errors import CompileError, TypeCheckUnavailableError, TypeProblem
from gloveport.policy import SandboxMode

__all__ = ("DEFAULT_PROBLEMS", "DEFAULT_TIMEOUT", "Checker", "Question")

DEFAULT_TIMEOUT: Final = 5.0
"""Seconds that one check may take: a usual one takes 0.003. Types are a programming language of their own, without an end."""
DEFAULT_PROBLEMS: Final = 20
BUSY_SECONDS: Final = 0.25
"""After that long the resident server counts as stuck at another source, and an extra one serves this check."""
MAX_EXTRA_SERVERS: Final = 1

_KEPT_OUTLINES: Final = 256
"""Sources of earlier runs, which come again with every check of their session."""


class Checker:
    """Checks the types of model code. Any thread may use it, also at the same time.

    Args:
        sandbox: as for sessions. Under `"off"` the server is a plain process.
        toolbox: what takes Markdown away and says whether code compiles.
        compiler: finds the TypeScript compiler; for tests.
        spawn: starts it; for tests.

    The server is started by the first check, restarted after it died, and ended by `close`, at exit, and with the host. After a fork
    the child starts its own.
    """

    def __init__(
        self,
        *,
        sandbox: SandboxMode = "require",
        toolbox: Toolbox,
        compiler: Callable[[], install.Compiler] = install.require,
        spawn: Spawn = spawn,
    ) -> None:
        self._outline = functools.lru_cache(maxsize=_KEPT_OUTLINES)(toolbox.outline)
        self._compiler = compiler
        self._resident: Resident[Server] = Resident(
            lambda: Server(compiler(), sandbox, spawn),
            patience=BUSY_SECONDS,
            extras=MAX_EXTRA_SERVERS,
            busy=lambda: TypeCheckUnavailableError("the type checker is busy with other sources: try again"),
            closed=lambda: TypeCheckUnavailableError("this type checker is closed: make a new one"),
        )

    # ── what it is for ───────────────────────────────────────────────────────────────────────────────────────────────

    def check(
        self, question: Question, *, timeout: float = DEFAULT_TIMEOUT, most: int = DEFAULT_PROBLEMS
    ) -> list[TypeProblem]:
        """What is wrong with the types of a session's next code, at most `most` problems; nothing is run.

        Code that does not compile gives one problem with the code `"SyntaxError"`; code whose check takes longer than `timeout` seconds,
        or crashes the checker, one with the code `"Unchecked"`. Raises `TypeCheckUnavailableError`, `EngineUnavailableError` and
        `SandboxUnavailableError` for what is the machine's fault.
        """
        self._compiler()
        try:
            code = self._outline.__wrapped__(question.code)
        except CompileError as error:
            return [TypeProblem(error.line, error.column, "SyntaxError", error.message)]
        text = written(question, self._outlines(question.earlier), code)
        for attempt in (1, 2):  # the first server may have died for reasons of its own
            with self._resident.borrowed(2 * timeout) as server:
                try:
                    return _ask(server, text, time.monotonic() + timeout, most)
                except ServerTimeout:
                    self._resident.discard(server)
                    return [_unchecked(f"checking the types of this code took longer than {timeout:g} s")]
                except ServerDied:
                    self._resident.discard(server)
                    if attempt == 2:
                        return [_unchecked("the types of this code crash the checker, or need too much memory")]
                except BaseException:
                    self._resident.discard(server)  # its answer would come where the next check expects its own
                    raise
        raise AssertionError("unreachable")

    @property
    def pid(self) -> int | None:
        """Process id of the resident server; `None` when there is none. It may have died since the last check."""
        server = self._resident.process
        return server.wire.child.pid if server is not None else None

    def close(self) -> None:
        """End the server. Later checks raise `TypeCheckUnavailableError`."""
        self._resident.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ── the server ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _outlines(self, sources: tuple[str, ...]) -> list[Outline]:
        """They ran, so they compile; one that does not under this release's compiler is left out."""
        outlines: list[Outline] = []
        for source in sources:
            try:
                outlines.append(self._outline(source))
            except CompileError:
                continue
        return outlines


def _ask(server: Server, text: Text, deadline: float, most: int) -> list[TypeProblem]:
    server.show("tools.d.ts", text.tools, deadline)
    for name in ("run.js", "run.ts"):
        server.show(name, text.text if name == text.document else "", deadline)
    said = server.problems(text.document, deadline)
    return found(said, text, lambda at: server.hover(text.document, at, deadline), most=most)


def _unchecked(what: str) -> TypeProblem:
    return TypeProblem(0, 0, "Unchecked", f"{what}: make it simpler")
