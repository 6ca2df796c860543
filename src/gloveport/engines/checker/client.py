"""The type checker of model code: one resident language server for all sessions of a host process."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Self

from gloveport.engines.checker import install
from gloveport.engines.checker.documents import Question, Text, written
from gloveport.engines.checker.lsp import ServerDied, ServerTimeout, ServerUnwanted
from gloveport.engines.checker.problems import found
from gloveport.engines.checker.server import Server, Spawn, spawn
from gloveport.engines.checker.turns import CheckerBusyError, Turn, Turns
from gloveport.engines.resident import Resident
from gloveport.engines.toolbox.client import Toolbox
from gloveport.engines.toolbox.compiled import Outline
from gloveport.errors import CompileError, TypeCheckUnavailableError, TypeProblem
from gloveport.policy import SandboxMode

__all__ = ("DEFAULT_PROBLEMS", "DEFAULT_TIMEOUT", "Checker", "CheckerBusyError", "Question")

DEFAULT_TIMEOUT: Final = 5.0
"""Seconds that one check may take: a usual one takes 0.003. Types are a programming language of their own, without an end."""
DEFAULT_PROBLEMS: Final = 20
BUSY_SECONDS: Final = 0.25
"""After that long the resident server counts as stuck at another source, and an extra one serves this check."""
MAX_EXTRA_SERVERS: Final = 1
LARGE: Final = 64 * 1024
"""Characters of code that counts as slow before it is looked at: compiling alone takes 0.2 s."""
_PLACES: Final = 1 + MAX_EXTRA_SERVERS
"""Checks at the same time. The others wait for their turn, without a thread if they come from an event loop."""

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
        resident = functools.partial(
            Resident[Server],
            lambda: Server(compiler(), sandbox, spawn),
            patience=BUSY_SECONDS,
            busy=CheckerBusyError,
            closed=lambda: TypeCheckUnavailableError("this type checker is closed: make a new one"),
        )
        self._resident = resident(extras=MAX_EXTRA_SERVERS, forked=self._forked)
        self._aside = resident(extras=0)
        """For checks that are known to be slow: the other one is there for those that are not."""
        self._forked()

    def _forked(self) -> None:
        """Also at the beginning: nobody waits, and no thread is there."""
        self._turns = Turns(_PLACES)
        self._threads = ThreadPoolExecutor(_PLACES, thread_name_prefix="gloveport-typecheck")

    # ── what it is for ───────────────────────────────────────────────────────────────────────────────────────────────

    def check(
        self,
        question: Question,
        *,
        asker: Hashable = None,
        timeout: float = DEFAULT_TIMEOUT,
        most: int = DEFAULT_PROBLEMS,
    ) -> list[TypeProblem]:
        """What is wrong with the types of a session's next code, at most `most` problems; nothing is run.

        Code that does not compile gives one problem with the code `"SyntaxError"`; code whose check takes longer than `timeout` seconds,
        or crashes the checker, one with the code `"Unchecked"`. Raises `TypeCheckUnavailableError`, `EngineUnavailableError` and
        `SandboxUnavailableError` for what is the machine's fault.

        Each `asker` (default: the thread) has one check at a time, and whose checks took much time lately are behind those of others.
        Raises `CheckerBusyError` when no turn came within twice the `timeout`.
        """
        asker = threading.get_ident() if asker is None else asker
        for heavy in (len(question.code) > LARGE, True):
            with self._turns.taken(asker, 2 * timeout, heavy=heavy) as turn:
                try:
                    return self._checked(question, timeout, most, turn)
                except ServerUnwanted:
                    continue
        raise AssertionError("unreachable")

    async def check_async(
        self,
        question: Question,
        *,
        asker: Hashable = None,
        timeout: float = DEFAULT_TIMEOUT,
        most: int = DEFAULT_PROBLEMS,
    ) -> list[TypeProblem]:
        """The same for asyncio; takes none of the loop's threads, and none at all while it waits."""
        asker = threading.get_ident() if asker is None else asker
        for heavy in (len(question.code) > LARGE, True):
            try:
                return await self._attempt_async(question, asker, timeout, most, heavy=heavy)
            except ServerUnwanted:
                continue
        raise AssertionError("unreachable")

    async def _attempt_async(
        self, question: Question, asker: Hashable, timeout: float, most: int, *, heavy: bool
    ) -> list[TypeProblem]:
        turns, threads = self._turns, self._threads
        answer: Future[list[TypeProblem]] = Future()

        def work(turn: Turn) -> None:
            try:
                if answer.set_running_or_notify_cancel():
                    answer.set_result(self._checked(question, timeout, most, turn))
            except BaseException as error:
                answer.set_exception(error)
            finally:
                turns.end(turn)

        def begin(turn: Turn) -> None:
            try:
                threads.submit(work, turn)
            except RuntimeError as error:  # the interpreter is about to exit
                turns.end(turn)
                if answer.set_running_or_notify_cancel():
                    answer.set_exception(error)

        def give_up() -> None:
            if turns.withdraw(turn) and answer.set_running_or_notify_cancel():
                answer.set_exception(CheckerBusyError())

        turn = turns.ask(asker, begin, heavy=heavy)
        timer = asyncio.get_running_loop().call_later(2 * timeout, give_up)
        try:
            return await asyncio.wrap_future(answer)
        finally:
            timer.cancel()
            turns.withdraw(turn)

    def _checked(self, question: Question, timeout: float, most: int, turn: Turn) -> list[TypeProblem]:
        self._compiler()
        try:
            code = self._outline.__wrapped__(question.code)
        except CompileError as error:
            return [TypeProblem(error.line, error.column, "SyntaxError", error.message)]
        earlier = self._outlines(question.earlier)
        began = time.monotonic()
        text = written(question, earlier, code)
        left = timeout - (time.monotonic() - began)
        resident = self._aside if turn.heavy else self._resident
        for attempt in (1, 2):  # the first server may have died for reasons of its own
            with resident.borrowed(2 * timeout) as server:
                self._turns.count(turn)
                server.wire.unwanted = functools.partial(self._turns.unwanted, turn)
                try:
                    return _ask(server, text, time.monotonic() + left, most)
                except ServerTimeout:
                    resident.discard(server)
                    return [_unchecked(f"checking the types of this code took longer than {timeout:g} s")]
                except ServerDied:
                    resident.discard(server)
                    if attempt == 2:
                        return [_unchecked("the types of this code crash the checker, or need too much memory")]
                except BaseException:
                    resident.discard(server)  # its answer would come where the next check expects its own
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
        self._aside.close()

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
