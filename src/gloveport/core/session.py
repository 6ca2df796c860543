"""The session: every state it can be in, and every way from one to another.

A session is *idle*, *running* (a generator is under way), *paused* (at a tool call) or *closed*. Beside that it has

- a **rollback point**: `base` (an image, or nothing) and `tail` (the completed runs since), always the state after the last
  completed run. A run that times out, runs out of memory, crashes or is cancelled leaves it untouched;
- a **live guest**, or none: without one, the next use boots a fresh guest, loads `base` and replays `tail`.

An image costs more than a short run does, so it is taken only when what happened since the last one would cost ten times
as much to replay or has grown large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from ..calls import said_of
from ..errors import (
    CompileError,
    GloveportError,
    ImageError,
    JavaScriptError,
    JournalTooLarge,
    MemoryLimitExceeded,
    NotPausedError,
    ProtocolViolation,
    ReplayDivergence,
    ResultTooLarge,
    RunCancelled,
    RunError,
    RuntimeTimeout,
    SessionPausedError,
    StaleStepError,
    ValueCrossingError,
    WorkerCrashed,
)
from ..policy import Limits
from ..types import Done, Failed, ToolCall
from ..wire import messages as wire
from ..wire.values import UNDEFINED, decode, decode_arguments, encode
from .commands import (
    Answer,
    Await,
    Awaited,
    Cancel,
    Compile,
    Compiled,
    LinkLost,
    OpenCall,
    Persist,
    Release,
    Replay,
    Step,
)
from .discovery import CatalogTools, Refusal, ToolInfo
from .durable import Steps, request_parts
from .judged import Abandoned as _Abandoned
from .judged import JudgedSession
from .outcome import Output, clean, failed, guest_error, json_size
from .plain import AsWritten, declares, is_plain
from .run import Run
from .saved import Identity

__all__ = ("Session", "ToolInfo")

_MIN_TICK: Final = 0.001
"""Seconds between two ticks: timers of 0 ms do not make a loop of host and guest while a tool works."""
_BUSY_WAIT_READS: Final = 1000
"""A run that read the clock that often before its time was up was waiting for it."""


class _Fatal(Exception):
    """A tool raised what is not an answer; the session stays paused at that call."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Session(JudgedSession):
    """The state machine. Methods that return `Steps` are generators for a driver; the others decide at once."""

    def __init__(
        self,
        *,
        session_id: str,
        identity: Identity,
        limits: Limits,
        tools: dict[str, ToolInfo],
        console: Callable[[str, str], None] | None = None,
        sequential: bool = False,
        catalog: CatalogTools | None = None,
    ) -> None:
        super().__init__(session_id, identity, limits, tools, catalog)
        names = {tool.name for tool in tools.values()}
        if catalog is not None:
            names.update(filter(catalog.covers, (*self.budget.tool_limits, *self.budget.run_limits)))
        unknown = self.budget.covers(dict.fromkeys(names))
        if unknown is not None:
            option = "tool_budgets" if unknown in self.budget.tool_limits else "run_budgets"
            raise ValueError(f"`{option}` names {unknown!r}, which is not a tool of this session")
        self.window = 1 if sequential else limits.max_inflight
        self.console = console
        self.plain_first = True
        """Whether the guest, which can compile plain JavaScript by itself, is asked to before the compiler is."""
        self.fatal_pauses = False
        """What a tool's `SystemExit` does: stop the run (blocking sessions), or leave it paused and pass it on."""
        self.each_answer = False
        """Whether a store is told of an answer before the guest is; else together with what it is told next."""
        self._expired: Failed | None = None

    # ── what can be asked at any time ────────────────────────────────────────────────────────────────────────────────

    @property
    def pending(self) -> ToolCall | None:
        """The call that a paused session waits at."""
        call = self._pending_call
        return None if call is None else self._tool_call(call)

    @property
    def _pending_call(self) -> OpenCall | None:
        if self.run is None or not self.run.open or self.run.owed:
            return None
        call = next(iter(self.run.open.values()))
        return None if call.undecided else call  # a host died before its policy decided; recovering asks it again

    def check_idle(self) -> None:
        """Raise unless a run may start."""
        self.check_open()
        if self.run is not None:
            call = self._pending_call
            name = self.tool(call.name).name if call else "a tool"
            raise SessionPausedError(f"the session is paused at `{name}`: answer session.pending with resume() first")

    def check_step(self, step: ToolCall) -> None:
        """Raise unless `step` is the call that the session waits at."""
        self.check_open()
        if not isinstance(step, ToolCall):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"resume() takes the ToolCall that start() or resume() gave, not {type(step).__name__}")
        if self._expired is not None:
            return
        call = self._pending_call
        if call is None:
            raise NotPausedError("the session does not wait at a tool call; start() a run first")
        if call.id + self.ids_lost != step.call_id or self.tool(call.name).name != step.name:
            raise StaleStepError(
                f"call {step.call_id} of `{step.name}` is not the one that the session waits at: "
                f"that is call {call.id + self.ids_lost} of `{self.tool(call.name).name}` (session.pending)"
            )
        # Of another session, say of one that had this one's name before: what was approved there is not what is asked here.
        if step.idempotency_key and said_of(step.idempotency_key) != said_of(self.call_info(call).idempotency_key):
            raise StaleStepError(
                f"call {step.call_id} of `{step.name}` has other arguments than the one that the session waits at (session.pending)"
            )

    def bind(self, tool: ToolInfo) -> Steps:
        """One more tool, as a global."""
        self.check_idle()
        yield from self.ask_guest(wire.bind_request(tool.js_name))
        self.tools[tool.js_name] = tool

    # ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def execute(self, source: str, *, script: bool = False) -> Steps:
        """Run to the end with the real tools. As a `script` it gives the value of its last expression. → `Done | Failed`"""
        self.check_idle()
        return (yield from self._guard(self._begin(source, frozenset(), script, can_ask=False), self._work))

    def start(self, source: str, ask: frozenset[str] | None = None) -> Steps:
        """Run to the first tool call, or with `ask` to the first call that is held. → `ToolCall | Done | Failed`"""
        self.check_idle()
        return (yield from self._guard(self._begin(source, ask), self._go_on))

    def resume(self, step: ToolCall, answer: Answer, elapsed: float) -> Steps:
        """Answer the pending call after `elapsed` seconds of pause. → `ToolCall | Done | Failed`"""
        self.check_step(step)
        if self._expired is not None:
            expired, self._expired = self._expired, None
            return expired
        return (yield from self._guard(self._continue(answer, elapsed), self._go_on))

    def expire(self) -> None:
        """The pause lasted longer than `max_pause`: roll back. The driver releases the guest; the next `resume` says so."""
        if self.run is None:
            return
        error = RuntimeTimeout(
            f"nobody answered the call within max_pause ({self.limits.max_pause:g} s); the run was rolled back"
        )
        run, self._expired = self.run, failed(error, self.run.output)
        self.lose(run, error)
        self.tell_ended(run, self._expired)

    def _guard(self, body: Steps, then: Callable[[Run], Steps]) -> Steps:
        """Perform a part of a run; whatever ends it early rolls back, and nothing but its result is lost."""
        try:
            run = yield from body
            if isinstance(run, Failed):
                return run
            return (yield from then(run))
        except _Abandoned as abandoned:
            return (yield from self._abandon(abandoned.error))
        except LinkLost as lost:
            self._keep_last(lost)
            return (yield from self._abandon(self._why_lost(lost)))
        except (ProtocolViolation, ImageError, ReplayDivergence) as violation:
            return (yield from self._abandon(WorkerCrashed(f"the worker broke the protocol: {violation}")))
        except _Fatal as fatal:
            raise fatal.error from None
        except GeneratorExit:
            raise
        except BaseException:
            if self.run is not None:
                run, error = self.run, RunCancelled("the caller cancelled the run")
                self.lose(run, error)
                self.tell_ended(run, failed(error, run.output))
                yield Cancel()
                yield Release()
            raise

    def _abandon(self, error: GloveportError) -> Steps:
        run = self.run
        if self.closed:  # whatever it is that ended then
            error = RunCancelled("the session was closed while it ran; the run was rolled back")
        yield Cancel()
        yield Release()
        if run is None:
            self.live = False
            return failed(error, None)
        self.lose(run, error)
        end = failed(error, run.output)
        self.tell_ended(run, end)
        return end

    def _begin(self, source: str, ask: frozenset[str] | None, script: bool = False, *, can_ask: bool = True) -> Steps:
        self._expired = None
        if self.plain_first and not script and is_plain(source) and (self.has_images or not declares(source)):
            run = yield from self._begin_plain(source, ask, can_ask)
            if run is not None:
                return run
        try:
            compiled = yield Compile(source, script)
        except CompileError as error:
            return failed(self._syntax_error(error, source), None)
        yield from self.revive()
        run = self._new_run(source, ask, compiled, can_ask)
        self.tell_started(run)
        request = wire.run_request(run.number, Output.guest_cap(self.limits.max_output_bytes), compiled.code)
        yield from self._step(run, request)
        return run

    def _new_run(self, source: str, ask: frozenset[str] | None, compiled: Compiled, can_ask: bool) -> Run:
        self.runs += 1
        self.discovery.begin_run()
        run = self.run = Run(self.runs, source, self.limits, self.last_call, has_images=self.has_images)
        run.ask, run.compiled, run.trail = ask, compiled, self.trail
        self.take_over(run, can_ask=can_ask)
        return run

    def _begin_plain(self, source: str, ask: frozenset[str] | None, can_ask: bool) -> Steps:
        """Two context switches less than with the compiler. → `Run`, or `None`: the guest leaves it to the compiler"""
        yield from self.revive()
        run = self._new_run(source, ask, AsWritten(source), can_ask)
        request = wire.plain_request(run.number, Output.guest_cap(self.limits.max_output_bytes), source)
        reply = yield Step(request, run.time_left)
        if reply.status == wire.OK and reply.output == wire.NOT_PLAIN:
            self.runs -= 1
            self.run = None
            return None
        self.tell_started(run)
        run.record(request)
        self._take(run, reply)
        return run

    def _syntax_error(self, error: CompileError, source: str) -> JavaScriptError:
        lines = source.splitlines()
        excerpt = clean(lines[error.line - 1].strip())[:200] if 1 <= error.line <= len(lines) else ""
        return JavaScriptError(
            error.message, name="SyntaxError", line=error.line, column=error.column, source_line=excerpt
        )

    def _continue(self, answer: Answer, elapsed: float) -> Steps:
        run = self.run
        if run is None:
            raise NotPausedError("the session does not wait at a tool call")
        run.paused += elapsed
        if run.pause_left < 0:
            self._over_pause()
        answer.call_id -= self.ids_lost
        self.take_over(run)
        yield from self.revive()
        yield from self._settle(run, [answer], 0.0, given=True)
        return run

    def _go_on(self, run: Run) -> Steps:
        return (yield from (self._pause(run) if run.ask is None else self._work(run)))

    def _pause(self, run: Run) -> Steps:
        """Stop at the first open call, or end the run."""
        while True:
            yield from self._refuse(run)
            if run.finished is not None:
                return (yield from self._finish(run))
            yield from self.judge_all(run)
            if run.refused:
                continue
            step = yield from self._hand_out(run)
            if step is not None:
                return step

    def _hand_out(self, run: Run) -> Steps:
        """The first open call as a step; nothing when its arguments cannot leave the guest, which is told so instead."""
        call = next(iter(run.open.values()))
        call.unknown = call.unknown or call.started  # on a host that did not stay to note its answer
        try:
            return self._tool_call(call)
        except ValueCrossingError as error:
            payload = encode({"name": "TypeError", "message": str(error)})
            yield from self._settle(run, [Answer(call.id, False, payload)], 0.0)
            return None

    def _work(self, run: Run) -> Steps:
        """Have every call answered by the real tools, as many at a time as the window allows."""
        waited = 0.0  # seconds since the guest's clock last moved
        while True:
            yield from self._refuse(run)
            if run.finished is not None:
                return (yield from self._finish(run))
            if run.undecided:
                waited += yield from self.judge(run)
                if run.refused:
                    continue
            self._check_closed()
            yield from self.launch(run)
            if self.known and (known := self.known_answers(run)):
                yield from self._settle(run, known, waited)
                waited = 0.0
                continue
            if not run.in_flight:  # every open call is held: nothing but an answer from outside goes on
                step = yield from self._hand_out(run)
                if step is not None:
                    return step
                continue
            timer = self._timer_left(run, waited)
            patience = max(0.0, run.pause_left)
            got: Awaited = yield Await(patience if timer is None else min(timer, patience))
            self._check_closed()
            run.paused += got.elapsed
            waited += got.elapsed
            if answers := self.take_rulings(run, got.answers) if self.has_policy else got.answers:
                yield from self._check_fatal(run, answers)
                yield from self._settle(run, answers, waited)
                waited = 0.0
            elif got.answers:
                continue
            elif run.pause_left <= 0:
                self._over_pause()
            else:
                yield from self._step(run, wire.tick_request(waited * 1000))
                waited = 0.0

    def _check_closed(self) -> None:
        """Another thread or task may close the session while the guest or a tool works: nothing is called or charged then."""
        if self.closed:
            raise _Abandoned(RunCancelled("the session was closed"))

    @staticmethod
    def _timer_left(run: Run, waited: float) -> float | None:
        if run.idle is None or run.idle.timer is None:
            return None
        return max(_MIN_TICK, run.idle.timer / 1000 - waited)

    def _check_fatal(self, run: Run, answers: list[Answer]) -> Steps:
        fatal = next((answer for answer in answers if answer.fatal is not None), None)
        if fatal is None or fatal.fatal is None:
            return
        if not self.fatal_pauses or not run.open:
            raise _Abandoned(
                WorkerCrashed(
                    f"a tool raised {type(fatal.fatal).__name__}, which is not an answer; the run was stopped"
                )
            )
        yield Cancel()
        yield from self._settle(run, [answer for answer in answers if answer.fatal is None], 0.0)
        run.open = {fatal.call_id: run.open.pop(fatal.call_id), **run.open}
        run.leave_behind(fatal.call_id)
        raise _Fatal(fatal.fatal)

    def _settle(self, run: Run, answers: list[Answer], waited: float, *, given: bool = False) -> Steps:
        requests: list[bytes] = []
        if self.logs_calls:
            yield from self.note_answered(run, answers)
        for answer in answers:
            if answer.pause:
                run.hold(answer.call_id)
                if self.trail is not None:
                    self.trail.held(answer.call_id)
                continue
            call = run.settle(answer.call_id)
            if call is None:
                continue
            if call in run.waiting:
                run.waiting.remove(call)
            if not answer.ok:
                self._issue(answer.payload)
            else:
                self.discovery.learn(call.name, answer.payload)
            self.tell_answered(run, answer.call_id, self.tool(call.name).name, answer.ok)
            requests.append(wire.answer_request(waited * 1000, answer.call_id, answer.ok, answer.payload))
            waited = 0.0
        if self.trail is not None and requests:
            write = given or self.each_answer
            if write:
                self.trail.announce(run, requests)
            yield Persist(answers=not write)
        yield from self._steps(run, requests)

    def _refuse(self, run: Run) -> Steps:
        """Tell the guest of calls that are not made, until it makes no more of them."""
        while run.refused:
            requests: list[bytes] = []
            for call_id, refusal in run.refused:
                payload = encode({"name": refusal.name, "message": refusal.text})
                requests.append(wire.answer_request(0.0, call_id, False, payload))
                self.issued.add(refusal.name)
            run.refused, refused = [], run.refused
            if self.trail is not None:
                self.trail.refused([call_id for call_id, _ in refused])
            yield from self._steps(run, requests)

    def _issue(self, payload: bytes) -> None:
        try:
            name = decode(payload, 0)["name"]
        except (ProtocolViolation, KeyError, TypeError):
            return
        if len(self.issued) < 256:
            self.issued.add(str(name))

    def _steps(self, run: Run, requests: list[bytes]) -> Steps:
        if not requests:
            return
        if len(requests) == 1:
            yield from self._step(run, requests[0])
            return
        left = len(requests)
        for part in request_parts(requests):
            reply = yield Replay(part, run.time_left)
            for request in part:
                run.record(request)
            left -= len(part)
            self._take(run, reply, settled=len(part), left=left)

    def _step(self, run: Run, request: bytes) -> Steps:
        reply = yield Step(request, run.time_left)
        run.record(request)
        self._take(run, reply)

    def _take(self, run: Run, reply: wire.Reply, settled: int = 1, left: int = 0) -> None:
        run.spend(reply)
        if not self.has_room(run):
            raise _Abandoned(
                JournalTooLarge(
                    f"the history of this session would be more than max_journal_bytes ({self.limits.max_journal_bytes}), and "
                    f"engine={self.identity.engine!r} keeps a session by its history; the run was rolled back"
                )
            )
        output = wire.decode_output(reply.output)
        if reply.status != wire.OK:
            self._keep_output(run, output)
            raise _Abandoned(self._why_stopped(run, reply.status))
        if run.stalls:
            raise _Abandoned(self._timeout(run))
        if settled > 1:  # each request of a batch ends with its own idle message; only the last one says how it stands
            idles = [message for message in output if isinstance(message, wire.Idle)]
            output = [message for message in output if not isinstance(message, wire.Idle)] + idles[-1:]
            if any(isinstance(message, (wire.DoneMessage, wire.FailMessage)) for message in output):
                output = [message for message in output if not isinstance(message, wire.Idle)]
        run.take(output, self._admit, self.console, None if self.tell is None else self.observe, left)

    def _keep_output(self, run: Run, output: Iterable[wire.Message]) -> None:
        for message in output:
            if isinstance(message, wire.Log):
                run.output.add(message)
            elif isinstance(message, wire.Tail):
                run.output.end(message)
            elif isinstance(message, wire.Call):  # made just before the end: charged, never answered
                run.last_call = max(run.last_call, message.id)
                if self._admit(message.n) is None and not run.judged:
                    run.charged[message.n] = run.charged.get(message.n, 0) + 1

    def _keep_last(self, lost: LinkLost) -> None:
        """What a run said before its worker was gone."""
        if self.run is None:
            return
        self.run.clock_reads = max(self.run.clock_reads, lost.clock_reads)
        try:
            self._keep_output(self.run, wire.decode_output(lost.output))
        except ProtocolViolation:
            return  # the worker is gone already

    def _admit(self, js_name: str) -> Refusal | None:
        if js_name not in self.tools:
            if not self.discovery.owns(js_name):
                raise ProtocolViolation(f"a guest called {js_name[:100]!r}, which is not a tool of this session")
            unknown = self.discovery.refuse(js_name)
            if unknown is not None:  # it is charged for nothing
                return unknown
        # To have been found is necessary and not sufficient: what follows decides about every call alike.
        return self.charge(js_name)

    def _tool_call(self, call: OpenCall) -> ToolCall:
        arguments = decode_arguments(call.args, call.flags)
        while arguments and arguments[-1] is UNDEFINED:
            arguments.pop()
        plain = tuple(None if item is UNDEFINED else item for item in arguments)
        info = self.call_info(call)
        return ToolCall(info.name, plain, info.call_id, call.reason, call.unknown, info.idempotency_key)

    def _why_stopped(self, run: Run, status: int) -> RunError:
        if status == wire.OUT_OF_MEMORY:
            return self._out_of_memory()
        if status == wire.INTERRUPTED:
            return self._timeout(run)
        return WorkerCrashed("the guest trapped; the run was rolled back")

    def _out_of_memory(self) -> MemoryLimitExceeded:
        return MemoryLimitExceeded(
            f"the code needed more than max_memory ({self.limits.max_memory // (1024 * 1024)} MiB); the run was rolled back"
        )

    def _timeout(self, run: Run | None) -> RuntimeTimeout:
        text = f"the code computed longer than timeout ({self.limits.timeout:g} s); the run was rolled back"
        if run is not None and run.clock_reads >= _BUSY_WAIT_READS:
            text += (
                ". It read the clock over and over: time does not pass while code computes; "
                "to wait, use `await new Promise(r => setTimeout(r, ms))`"
            )
        return RuntimeTimeout(text)

    def _why_lost(self, lost: LinkLost) -> RunError:
        if lost.reason == "timeout":
            return self._timeout(self.run)
        if lost.reason == "memory":
            return self._out_of_memory()
        return WorkerCrashed(f"{lost.detail}; the run was rolled back")

    # ── the end of a run ─────────────────────────────────────────────────────────────────────────────────────────────

    def _finish(self, run: Run) -> Steps:
        if isinstance(run.finished, wire.FailMessage) and run.finished.line:
            run.finished = yield from self._located(run, run.finished)
        step = self._outcome(run)
        self.commit(run, step.status)
        self.tell_ended(run, step)
        if run.requests is None or self.tail_is_long():
            try:
                yield from self.checkpoint()
            except (LinkLost, ProtocolViolation, ImageError) as lost:
                yield Release()
                self.live = False
                if run.requests is None:  # the state after this run exists nowhere else
                    self.lost_runs += 1
                    return failed(WorkerCrashed(f"{lost} at the end of the run; it was rolled back"), run.output)
        return step

    def _located(self, run: Run, end: wire.FailMessage) -> Steps:
        """The failure with the model's own line: some TypeScript does not keep its lines when it is compiled."""
        compiled = run.compiled
        if compiled is None:
            try:
                compiled = yield Compile(run.source)
            except CompileError:
                return end
        line, column = compiled.locate(end.line + 1, end.col)  # the guest counts from the line after the prelude
        return msgspec.structs.replace(end, line=line, col=column)

    def _outcome(self, run: Run) -> Done | Failed:
        end = run.finished
        output = run.output
        if isinstance(end, wire.FailMessage):
            return failed(guest_error(end, self.issued, run.source), output)
        try:
            value = None if end is None or isinstance(end.v, msgspec.UnsetType) else decode(end.v, end.f)
        except ValueCrossingError as error:
            return failed(error, output)
        plain = (
            end is None
            or isinstance(end.v, msgspec.UnsetType)
            or (end.f == 0 and len(bytes(end.v)) <= self.limits.max_result_bytes)
        )
        if not plain and (size := json_size(value)) > self.limits.max_result_bytes:
            text = f"the result has {size} bytes as JSON; max_result_bytes allows {self.limits.max_result_bytes}: return less of it"
            return failed(ResultTooLarge(text), output)
        return Done(value, output.text(1), output.text(2), output.truncated)
