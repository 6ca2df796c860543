"""What both drivers share: launched calls, their deadlines, and answers that come in from anywhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ..calls import CallLog
from ..core.commands import (
    Answer,
    Cancel,
    Compiled,
    Dump,
    Judge,
    Launch,
    LinkLost,
    Load,
    Persist,
    Release,
    Replay,
    Retrace,
    Ruling,
    Step,
)
from ..engines.wasm.link import Link
from ..telemetry import end_call, start_call
from ..tools.bridge import Prepared, ToolBridge
from .desk import Judgement, PolicyDesk

__all__ = ("GUEST_COMMANDS", "Compiler", "Driver", "Engine")

GUEST_COMMANDS = frozenset((Step, Replay, Retrace, Dump, Load))
"""The commands that go to the guest."""


class Engine(Protocol):
    """Makes guests."""

    def open(self) -> Link: ...

    async def open_async(self) -> Link: ...

    @property
    def build(self) -> str:
        """SHA-256 of the guest build."""
        ...


class Compiler(Protocol):
    """Compiles the model's code."""

    def compile(self, source: str, *, script: bool = False) -> Compiled: ...

    async def compile_async(self, source: str, *, script: bool = False) -> Compiled: ...


class Driver:
    """Launched calls of one session. A call that was cancelled or is late is forgotten; what it still answers is dropped."""

    def __init__(self, engine: Engine, compiler: Compiler, bridge: ToolBridge, tool_timeout: float | None) -> None:
        self.engine = engine
        self.compiler = compiler
        self.bridge = bridge
        self.link: Link | None = None
        self.pausing = False
        """Whether the run under way can pause."""
        self.traced = False
        """Whether anybody sees spans of its calls."""
        self.persist: Callable[[Persist], Awaitable[None]] | None = None
        """What tells a store of a session that has one. For asyncio only."""
        self.desk: PolicyDesk | None = None
        self.call_log: CallLog | None = None
        self._tool_timeout = tool_timeout
        self._running: dict[int, Prepared] = {}
        """What has no answer yet. A rollback sets call ids back, so it is the object that tells a late answer from a wanted one."""
        self._unstarted: list[Prepared] = []
        """Calls that begin with the next wait."""
        self._ready: deque[Answer] = deque()

    # ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def judge(self, command: Judge) -> tuple[Ruling | None, float]:
        """Ask the policy. Without a ruling it takes its time, as a tool does."""
        if self.desk is None:
            return Ruling("deny", "there is no policy to decide"), 0.0
        ruling, took = self.desk.ask(command)
        if isinstance(ruling, Ruling):
            return ruling, took
        if self._tool_timeout:
            ruling.deadline = time.monotonic() + self._tool_timeout
        self._running[ruling.call_id] = ruling
        self.start_tool(ruling)
        return None, took

    def launch(self, command: Launch) -> None:
        """Start a tool, or answer at once when its arguments do not fit."""
        call = command.call
        prepared = self.bridge.prepare(call, command.info)
        if isinstance(prepared, Answer):
            self._ready.append(prepared)
            return
        if self.traced:
            prepared.span = start_call(prepared.spec.name)
        if self._tool_timeout:
            prepared.deadline = time.monotonic() + self._tool_timeout
        self._running[call.id] = prepared
        self.start_tool(prepared)

    def start_tool(self, prepared: Prepared) -> None:
        """Begin, now or with the next wait; `finish` has to be called with what came of it."""
        raise NotImplementedError

    def finish(self, prepared: Prepared, value: Any, error: BaseException | None) -> bool:
        """Take in a result, in the session's own thread. Gives whether anyone still wants it."""
        if self._running.get(prepared.call_id) is not prepared:
            return False
        del self._running[prepared.call_id]
        end_call(prepared.span, ok=error is None)
        if isinstance(prepared, Judgement):
            assert self.desk is not None
            self._ready.append(self.desk.answer(prepared, value, error))
        elif error is None:
            self._ready.append(self.bridge.answer(prepared.call_id, prepared.spec.name, value))
        else:
            self._ready.append(self.bridge.failure(prepared.call_id, error, pausing=self.pausing))
        return True

    def patience(self, timeout: float) -> float:
        """Seconds to wait: until `timeout`, or until the first tool is late."""
        if not self._tool_timeout or not self._running:
            return timeout
        first = min(prepared.deadline for prepared in self._running.values())
        return min(timeout, max(0.0, first - time.monotonic()))

    def give_up_late(self) -> None:
        """Answer for the tools that are late."""
        if not self._tool_timeout:
            return
        now = time.monotonic()
        for call_id, prepared in list(self._running.items()):
            if prepared.deadline <= now:
                del self._running[call_id]
                _stop(prepared)
                self._ready.append(self._late(prepared, self._tool_timeout))

    def _late(self, prepared: Prepared, seconds: float) -> Answer:
        if isinstance(prepared, Judgement) and self.desk is not None:
            return self.desk.late(prepared, seconds)
        return self.bridge.late(prepared.call_id, prepared.spec.name, seconds)

    def cancel(self) -> None:
        """Forget every launched call."""
        for prepared in self._running.values():
            _stop(prepared)
        self._running.clear()
        self._unstarted.clear()
        self._ready.clear()

    def alone(self) -> Prepared | None:
        """The call to wait for, if it has not begun and is the only one."""
        if len(self._running) == 1 and len(self._unstarted) == 1 and not self._ready:
            return self._unstarted[0]
        return None

    def begin(self) -> None:
        """The caller makes what has not begun."""
        self._unstarted.clear()

    def take_ready(self) -> list[Answer]:
        """The answers so far."""
        answers = list(self._ready)
        self._ready.clear()
        return answers

    # ── the guest ────────────────────────────────────────────────────────────────────────────────────────────────────

    def need_link(self) -> Link:
        """The line to the guest, or `LinkLost`."""
        if self.link is None:
            raise LinkLost("died", "the worker is gone")
        return self.link

    def abort(self) -> None:
        """From any thread: make what the guest is asked end."""
        link = self.link
        if link is not None:
            link.abort()

    def release(self) -> None:
        """Give the guest back."""
        link, self.link = self.link, None
        if link is not None:
            link.close()

    def perform_now(self, command: Any) -> None:
        """The commands that need no waiting."""
        if isinstance(command, Launch):
            self.launch(command)
        elif isinstance(command, Cancel):
            self.cancel()
        elif isinstance(command, Release):
            self.release()
        else:  # pragma: no cover  a command without a driver is a mistake in this package
            raise TypeError(f"no driver for {command!r}")


def _stop(prepared: Prepared) -> None:
    """Cancel an awaited tool. A sync one cannot be stopped: it is left behind on its thread."""
    end_call(prepared.span, ok=False)
    if isinstance(prepared, Judgement):
        prepared.drop()
    if prepared.handle is not None:
        prepared.handle.cancel()
