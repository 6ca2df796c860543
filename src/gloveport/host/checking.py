"""Type checking for a session: what is asked, and what follows from the answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal

from ..core.outcome import failed
from ..core.sources import Sources
from ..engines.defaults import checker
from ..errors import TypeCheckError, TypeProblem
from ..policy import SandboxMode
from ..types import Done, Failed, Step, ToolCall

if TYPE_CHECKING:
    from ..engines.checker import Question

__all__ = ("Checking", "TypeCheck", "require_checker")

TypeCheck = Literal["off", "warn", "block"]

_MOST: Final = 20
"""Problems that are told at most: more say no more to whoever wrote the code."""
_ONLY_V8: Final = frozenset({"Atomics", "SharedArrayBuffer", "Temporal"})


def require_checker() -> None:
    """Raise `TypeCheckUnavailableError` unless the type checker is installed."""
    from ..engines.checker.install import require

    require()


class Checking:
    """The checks of one session."""

    def __init__(self, mode: TypeCheck, sandbox: SandboxMode, engine: str, bootstrap: str | None) -> None:
        self.mode: TypeCheck = mode
        self.problems: tuple[TypeProblem, ...] = ()
        """Of the run that was begun last."""
        self._sandbox: SandboxMode = sandbox
        self._extras = _ONLY_V8 if engine == "v8" else frozenset[str]()
        self._bootstrap = bootstrap or ""
        self._asker = object()
        """The session, to the checker: it takes turns."""

    def check(self, code: str, sources: Sources, stubs: str) -> list[TypeProblem]:
        """What is wrong with the types of `code` as the next run."""
        question = self._question(code, sources, stubs)
        return checker(self._sandbox).check(question, asker=self._asker, most=_MOST)

    async def check_async(self, code: str, sources: Sources, stubs: str) -> list[TypeProblem]:
        """The same without holding up the event loop."""
        question = self._question(code, sources, stubs)
        return await checker(self._sandbox).check_async(question, asker=self._asker, most=_MOST)

    def refusal(self, code: str, sources: Sources, stubs: Callable[[], str]) -> Failed | None:
        """Check a run that is about to begin; a failure in place of it if it must not."""
        self.problems = ()
        if self.mode == "off":
            return None
        with self._bearing():
            return self._judged(self.check(code, sources, stubs()))

    async def refusal_async(self, code: str, sources: Sources, stubs: Callable[[], str]) -> Failed | None:
        """The same without holding up the event loop."""
        self.problems = ()
        if self.mode == "off":
            return None
        with self._bearing():
            return self._judged(await self.check_async(code, sources, stubs()))

    @contextmanager
    def _bearing(self) -> Generator[None]:
        """In `"warn"`, that the checker had no time for this code is one more thing to tell."""
        from ..engines.checker import CheckerBusyError

        try:
            yield
        except CheckerBusyError:
            if self.mode != "warn":
                raise
            self.problems = (TypeProblem(0, 0, "Unchecked", "the type checker was busy with other sources"),)

    def annotated(self, step: Step) -> Step:
        """The end of a run, with what was found before it began."""
        if not self.problems or isinstance(step, ToolCall):
            return step
        return dataclasses.replace(step, problems=self.problems)

    def ended(self, step: Done | Failed) -> Done | Failed:
        """The same for a run that cannot pause."""
        return dataclasses.replace(step, problems=self.problems) if self.problems else step

    def _question(self, code: str, sources: Sources, stubs: str) -> Question:
        from ..engines.checker import Question

        return Question(
            code,
            stubs,
            tuple(sources.texts),
            complete=sources.complete,
            bootstrap=self._bootstrap,
            extras=self._extras,
        )

    def _judged(self, found: list[TypeProblem]) -> Failed | None:
        # What does not compile is told by the run itself, as ever: an error of the code, not of its types.
        self.problems = tuple(problem for problem in found if problem.code != "SyntaxError")
        if self.mode != "block" or not self.problems:
            return None
        return self.ended(failed(TypeCheckError(self.problems), None))  # pyright: ignore[reportReturnType]
