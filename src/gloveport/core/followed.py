"""A session that a store follows: going on where another host stopped, and calls that the application makes."""

from __future__ import annotations

import dataclasses

from ..errors import NotPausedError, RunCancelled, ValueCrossingError
from ..types import ToolCall
from .commands import Answer, Cancel, OpenCall, Release
from .durable import Steps
from .outcome import failed
from .run import Run
from .session import Session
from .trail import settled_calls

__all__ = ("FollowedSession",)


class FollowedSession(Session):
    """`follow()` begins its trail."""

    def recover(self, answers: list[Answer]) -> Steps:
        """Go on with a run that a host left, with answers for its `unknown_calls`. → `ToolCall | Done | Failed`"""
        self.check_open()
        if self.run is None:
            raise NotPausedError("no run was left unfinished")
        return (yield from self._guard(self._take_up(self.run, answers), self._go_on))

    def _take_up(self, run: Run, answers: list[Answer]) -> Steps:
        self.take_over(run)
        yield from self.revive()
        owed, run.owed = run.owed, []
        for call_id in settled_calls(owed):
            call = run.settle(call_id)
            if call in run.waiting:
                run.waiting.remove(call)
        yield from self._steps(run, owed)
        yield from self._settle(run, answers, 0.0, given=True)
        return run

    def begin_call(self, step: ToolCall) -> None:
        """Note that whoever drives the session is about to make the pending call."""
        self.check_step(step)
        call = self._pending_call
        if call is not None and self.trail is not None and not call.started:
            call.started = True
            self.trail.started([call.id])

    def roll_back(self) -> Steps:
        """Undo the run under way."""
        self.check_open()
        if self.run is None:
            raise NotPausedError("there is no run to roll back")
        yield Cancel()
        yield Release()
        run, error = self.run, RunCancelled("the run was rolled back")
        self.lose(run, error)
        self.tell_ended(run, failed(error, run.output))

    def step_of(self, call: OpenCall) -> ToolCall:
        """An open call as whoever drives the session sees it."""
        try:
            step = self._tool_call(call)
        except ValueCrossingError:
            info = self.call_info(call)
            step = ToolCall(info.name, (), info.call_id, call.reason, idempotency_key=info.idempotency_key)
        return dataclasses.replace(step, unknown=True) if call in self.unknown_calls else step
