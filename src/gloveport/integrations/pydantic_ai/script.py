"""One call of the script tool: from the stored session, through the script and its pauses, back to the store."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Mapping
from typing import Any, Final

import anyio
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ToolFailed, UserError
from pydantic_ai.messages import ToolReturn
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.tools import RunContext

from ...errors import GloveportError, JournalError, JournalTooLarge, StoreConflict, ToolError, ValueCrossingError
from ...host.sandbox import AsyncAgentSandbox
from ...types import Done, Failed, Step, ToolCall, json_data
from . import history, results
from .catalog import AgentTools, Catalog, tool_entries
from .durable import Attempt, Outcome, outcome_of, recall
from .ledger import Conversation, Found, Held, Unreadable, Waiting
from .nested import EndRun, NestedCalls, deferral
from .runs import RunState
from .sessions import fresh_session, load_session, roll_back
from .verdicts import Verdict

__all__ = ("Script",)

_logger = logging.getLogger("gloveport")
_TRIES: Final = 10


class Script:
    """The state of one call."""

    def __init__(
        self,
        run: RunState,
        ctx: RunContext[Any],
        catalog: Catalog,
        manager: ToolManager[Any],
        attempt: Attempt | None = None,
    ) -> None:
        """With an `attempt` the script is part of a durable workflow."""
        self._run = run
        self._attempt = attempt
        self._usage_before = ctx.usage.tool_calls
        self._ctx = ctx
        self._catalog = catalog
        self._searched: AgentTools | None = None
        if catalog.searched is not None:
            self._searched = run.searched
            run.searched.offer(catalog.searched)
        self._manager = manager
        self._id = ctx.tool_call_id or ""
        self._conversation = history.conversation_of(ctx)
        self._binding = run.ledger.binding(self._conversation)
        self._found = Found(Conversation(), None)
        self._noting = anyio.Lock()
        self._before = None if attempt is None else self._note_call
        self._calls = NestedCalls(manager, ctx, tool_timeout=run.tool_timeout, before=self._before)
        self._counted: dict[str, int] = {}
        self._pauses = 0
        self._others: list[Held] = []
        self._notes: list[str] = []

    @property
    def _state(self) -> Conversation:
        return self._found.conversation

    # ── a new script ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def start(self, code: str, *, restart: bool) -> ToolReturn[Any]:
        """Run code. Raises `ToolFailed` for a script that failed, and the deferral for one that waits."""
        session = await self._session(code, restart=restart)
        await self._begin(session)
        return await self._perform(session, lambda: session.start(code, ask=()))

    async def _session(self, code: str, *, restart: bool) -> AsyncAgentSandbox:
        await self._find(restart=restart)
        await self._leave_waiting()
        if restart:
            await self._run.drop()
            self._found.conversation = Conversation(
                version=self._state.version,
                spent=self._state.spent,
                used=self._state.used,
                answered=self._state.answered,
                attempts=self._state.attempts,
            )
        live = None if restart else self._run.live_for(self._conversation, self._found)
        if live is None:
            live = await self._open(restart=restart)
        if new := self._catalog.new_names_in(code, self._state.tools):
            names = ", ".join(f"`{name}`" for name in new)
            raise ToolFailed(
                f"{names}: added after this session began, which has no such function. restart=true begins one that has."
            )
        return live

    async def _begin(self, session: AsyncAgentSandbox) -> None:
        """Note that the script is begun, before it is."""
        if self._attempt is None:
            return
        self._attempt.begin(self._state)
        try:
            await self._run.ledger.put(self._conversation, self._found)
        except StoreConflict as conflict:
            await self._run.drop()
            raise ToolFailed(
                "Nothing was run: another run of this conversation uses the session. Try again."
            ) from conflict
        self._run.adopt(session, self._conversation, self._found)

    async def _find(self, *, restart: bool) -> None:
        try:
            self._found = await self._run.ledger.get(self._conversation)
            self._account()
        except Unreadable as unreadable:
            await self._run.drop()
            known = unreadable.conversation
            if not restart:
                raise results.lost(self._run.tool, unreadable.reason) from unreadable
            if known is None and self._run.has_budgets:
                raise ToolFailed(
                    f"The session's record cannot be used ({unreadable.reason}), so what it spent of its tool budgets is not known. "
                    "No code is run in this conversation any more."
                ) from unreadable
            used = {} if known is None else known.used
            self._found = Found(Conversation(spent=unreadable.spent, used=used), unreadable.version)

    async def _leave_waiting(self) -> None:
        """A script that waits blocks the session while its agent run can still be answered; after that it is given up."""
        waiting = self._state.waiting
        if waiting is None:
            return
        if waiting.run_id == self._ctx.run_id and waiting.script_id != self._id:
            raise ToolFailed(
                f"Nothing was run: an earlier script waits for an answer to its call of `{waiting.call.tool}`. Call again after it."
            )
        await self._run.drop()
        how = "it was begun, and what came of it is not known" if waiting.claimed else "nobody answered it"
        self._notes.append(
            f"An earlier script that waited at its call of `{waiting.call.tool}` was given up ({how}), "
            "and the session was set back to before that script."
        )
        if not waiting.claimed:
            self._state.claim(waiting)  # an answer that comes too late finds that it was dealt with
        await self._set_back()
        try:
            await self._run.ledger.put(self._conversation, self._found)
        except StoreConflict as conflict:
            raise ToolFailed(
                "Nothing was run: another run of this conversation uses the session. Try again."
            ) from conflict

    async def _set_back(self) -> None:
        """Turn the dump of the paused session into that of the session before the script."""
        state = self._state
        try:
            state.blob, made = await roll_back(
                self._run.settings,
                self._entries(state),
                state.blob,
                self._run.ledger.key,
                self._binding,
                self._searched,
            )
            state.spent = max(state.spent, state.earlier + made)
        except JournalError as error:
            state.blob, state.lost = b"", str(error)
        state.waiting = None

    async def _open(self, *, restart: bool) -> AsyncAgentSandbox:
        state = self._state
        await self._run.drop()
        if state.blob:
            try:
                session = await self._load(state)
            except JournalError as error:
                raise results.lost(self._run.tool, str(error)) from error
        elif state.lost:
            raise results.lost(self._run.tool, state.lost)
        elif not restart and self._found.version is None and history.mentions_scripts(self._ctx, self._run.tool):
            raise results.lost(self._run.tool, "there is no record of it")
        else:
            state.tools, state.earlier = list(self._catalog.definitions), state.spent
            session = fresh_session(self._run.settings, self._entries(state), state, self._searched)
        self._run.adopt(session, self._conversation, self._found)
        return session

    async def _load(self, state: Conversation) -> AsyncAgentSandbox:
        return await load_session(
            self._run.settings,
            self._entries(state),
            state.blob,
            self._run.ledger.key,
            self._binding,
            self._searched,
        )

    def _entries(self, state: Conversation) -> list[dict[str, Any]]:
        return tool_entries(state.tools, self._catalog.definitions, self._run.bridge)

    # ── a script that waited ─────────────────────────────────────────────────────────────────────────────────────────

    async def answer(self, verdict: Verdict) -> ToolReturn[Any] | None:
        """Answer the call that this script waits at, once, and go on. `None`: it never waited, the approval is for all of it."""
        waiting = await self._waiting_for(verdict)
        if waiting is None:
            return None
        try:
            session = await self._load(self._state)
        except JournalError as error:
            raise results.lost(self._run.tool, str(error)) from error
        self._run.adopt(session, self._conversation, self._found)
        step = session.pending
        if step is None or not _same_call(waiting.call, step):
            raise results.lost(self._run.tool, "the stored session does not wait at the call that was answered")
        self._calls = NestedCalls(
            self._manager,
            self._ctx,
            tool_timeout=self._run.tool_timeout,
            before=self._before,
            made=waiting.calls,
            content=waiting.content,
        )
        self._pauses, self._others = waiting.number, waiting.others
        self._state.claim(waiting)
        if self._attempt is not None:
            self._attempt.begin(self._state)
        try:
            await self._run.ledger.put(self._conversation, self._found)
        except StoreConflict as conflict:
            await self._run.drop()
            raise UserError(f"The call of `{waiting.call.tool}` is being answered by another run.") from conflict
        self._run.adopt(session, self._conversation, self._found)
        return await self._perform(session, lambda: self._resume(session, step, waiting, verdict))

    async def _waiting_for(self, verdict: Verdict) -> Waiting | None:
        try:
            self._found = await self._run.ledger.get(self._conversation)
        except Unreadable as unreadable:
            raise results.lost(self._run.tool, unreadable.reason) from unreadable
        waiting, marks = self._state.waiting, history.marks_of(self._ctx, self._id)
        if waiting is None or waiting.script_id != self._id:
            answered = self._state.answered
            if any(token in marks or (not marks and script == self._id) for token, script in answered):
                raise UserError(
                    "The call that this script waited at was answered before, or given up. It is not made again."
                )
            if not marks and not verdict.taken:
                return None
            raise results.lost(self._run.tool, "there is no record of the script that waited")
        # The same script may wait several times under one id: an answer to an earlier question must not count for this one.
        if any(mark != waiting.token for mark in marks) or (not marks and waiting.number > 1):
            raise UserError(
                f"The answer is not meant for the call of `{waiting.call.tool}` that the script waits at now. Answer the requests of the "
                "last run, with its message history, or with `metadata=requests.metadata` if the history loses its metadata."
            )
        if waiting.claimed:
            raise UserError(
                f"The call of `{waiting.call.tool}` was answered before; it is not known how it ended. It is not made again."
            )
        verdict.check(waiting.call)
        return waiting

    async def _resume(self, session: AsyncAgentSandbox, step: ToolCall, waiting: Waiting, verdict: Verdict) -> Step:
        try:
            value = await verdict.value(self._calls, waiting.call, self._ctx.tool_call_metadata)
        except (ApprovalRequired, CallDeferred) as again:
            self._others = [self._calls.hold_again(waiting.call, again), *self._others]
            return step
        except Exception as error:
            return await session.resume(step, error=error)
        try:
            return await session.resume(step, value)
        except ValueCrossingError as error:
            return await session.resume(step, error=ToolError(f"the result of `{step.name}` cannot cross: {error}"))

    # ── how it ends ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _perform(self, session: AsyncAgentSandbox, go: Any) -> ToolReturn[Any]:
        self._run.bridge.calls = self._calls
        try:
            step: Step = await go()
        except EndRun as end:
            await self._give_up(session)
            raise end.error from None
        except BaseException:
            await self._give_up(session)
            raise
        finally:
            self._run.bridge.calls = None
        if isinstance(step, ToolCall):
            raise await self._wait(session, step)
        return await self._finish(session, step)

    async def _finish(self, session: AsyncAgentSandbox, step: Done | Failed) -> ToolReturn[Any]:
        self._state.waiting = None
        if isinstance(step, Done):
            self._run.failures = 0
        else:
            self._notes.extend(self._run.count_failure())
        await self._keep(session, step)
        told = self._told(step)
        if isinstance(told, ToolFailed):
            raise told
        return told

    def _told(self, step: Done | Failed) -> ToolReturn[Any] | ToolFailed:
        if isinstance(step, Done):
            return results.success(step, self._notes, self._calls.content)
        return results.failure(step, self._notes)

    async def _keep(self, session: AsyncAgentSandbox, step: Done | Failed) -> None:
        """Store the session after a script."""
        state = self._state
        try:
            await self._dump(session)
        except JournalTooLarge as error:
            state.blob, state.lost = b"", f"its state was too large to be stored ({error})"
            self._notes.append(
                "The session's state is too large to be stored: it lasts until the end of this run. Free some of it."
            )
        self._note_end(self._told(step))
        try:
            await self._run.ledger.put(self._conversation, self._found)
        except StoreConflict:
            await self._run.drop()
            self._notes.append(
                "Another run of this conversation stored its session meanwhile: what this script declared is lost."
            )
        else:
            self._run.adopt(session, self._conversation, self._found)

    async def _dump(self, session: AsyncAgentSandbox) -> None:
        state = self._state
        self._charge(session)
        state.blob = await session.dump(self._run.ledger.key, associated_data=self._binding)
        state.lost = ""

    def _charge(self, session: AsyncAgentSandbox) -> None:
        state = self._state
        state.spent = max(state.spent, state.earlier + session.calls_made)
        for tool, count in self._calls.used.items():
            state.used[tool] = state.used.get(tool, 0) + count - self._counted.get(tool, 0)
        self._counted = dict(self._calls.used)

    async def _wait(self, session: AsyncAgentSandbox, step: ToolCall) -> Exception:
        """Store the paused session, release its worker, and give what tells Pydantic AI that the call is deferred."""
        held = [*self._others, *self._calls.held]
        call = next(held for held in held if _same_call(held, step))
        held.remove(call)
        waiting = Waiting(
            token=secrets.token_hex(8),
            script_id=self._id,
            run_id=self._ctx.run_id or "",
            number=self._pauses + 1,
            call=call,
            calls=self._calls.made,
            others=held,
            content=self._calls.content_json,
        )
        try:
            await self._dump(session)
        except JournalTooLarge as error:
            await self._give_up(session)
            return ToolFailed(
                f"The script cannot wait at `{call.tool}`: its state is too large to be stored ({error}). It was undone."
            )
        self._state.waiting = waiting
        waits = deferral(call, _request(waiting))
        self._note_end(waits)
        await self._run.drop()
        try:
            await self._run.ledger.put(self._conversation, self._found)
        except StoreConflict:
            return ToolFailed(
                "Another run of this conversation stored its session meanwhile: this script was given up."
            )
        history.mark(self._ctx, self._id, waiting.token)
        return waits

    # ── inside of a durable workflow ─────────────────────────────────────────────────────────────────────────────────

    def _note_end(self, end: ToolReturn[Any] | Exception) -> None:
        if self._attempt is not None:
            calls = self._ctx.usage.tool_calls - self._usage_before
            self._attempt.end(self._state, outcome_of(end, self._run.failures, calls))

    async def _note_call(self, tool: str) -> None:
        async with self._noting:
            try:
                await self._run.ledger.begin(self._conversation, self._found, tool)
            except StoreConflict as conflict:  # another process took the script for dead, or began one of its own
                raise EndRun(
                    ToolFailed(
                        "Another run of this conversation stored its session meanwhile: this script was given up."
                    )
                ) from conflict

    def _account(self) -> None:
        """The calls of a process that died are charged to the conversation. Its stored session knows nothing of them."""
        state = self._state
        if self._found.begun and self._run.has_budgets:
            state.blob, state.waiting = b"", None
            state.lost = "its process ended while a script ran, and the calls of that script are charged"

    async def earlier(self) -> Outcome | None:
        """What came of this script if it was begun before; the engine has no record of it, since the process died."""
        if self._attempt is None:
            return None
        for last in (*[False] * (_TRIES - 1), True):
            try:
                outcome = await self._earlier(self._attempt)
            except StoreConflict:  # it was not dead: whoever writes first is the one that goes on
                if last:
                    raise
                continue
            self._ctx.usage.tool_calls += 0 if outcome is None else outcome["calls"]
            return outcome
        raise AssertionError("unreachable")

    async def _earlier(self, attempt: Attempt) -> Outcome | None:
        try:
            self._found = await self._run.ledger.get(self._conversation)
        except Unreadable:  # then nothing runs but a restart, whose record is a new one
            return None
        if not attempt.was_begun(self._state):
            return None
        outcome = attempt.outcome(self._state)
        if outcome is None:
            await self._run.drop()
            if not attempt.is_latest(self._state):  # the record is about another run's script by now
                return outcome_of(recall(self._run.tool, None), self._run.failures)
            answered = self._state.waiting
            if answered is not None and answered.script_id != self._id:
                answered = None
            begun = [*([] if answered is None else [answered.call.tool]), *self._found.begun]
            outcome = outcome_of(recall(self._run.tool, begun), self._run.failures, len(begun))
            self._account()
            if self._state.waiting is not None and answered is not None:
                await self._set_back()
            attempt.end(self._state, outcome)
            await self._run.ledger.put(self._conversation, self._found)
        return outcome

    async def _give_up(self, session: AsyncAgentSandbox) -> None:
        """The script will not go on: nothing of it stays but what it spent."""
        with anyio.CancelScope(shield=True):
            if not self._run.has_budgets and self._state.waiting is None:
                await self._run.drop()
                return
            try:
                await self._dump(session)
                paused = session.pending is not None
                await self._run.drop()
                if paused:
                    await self._set_back()
                self._state.waiting = None
                await self._run.ledger.put(self._conversation, self._found)
            except GloveportError:
                _logger.warning("a session could not be stored after its script was given up", exc_info=True)
                await self._run.drop()


def _same_call(held: Held, step: ToolCall) -> bool:
    arguments: Any = step.args[0] if step.args else {}
    return held.tool == step.name and json.loads(held.arguments) == json_data(arguments)


def _visible(text: str) -> str:
    """With escapes for what a person would not see, or would be misled by: bidirectional controls, zero-width characters."""
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def _request(waiting: Waiting) -> dict[str, Any]:
    """What whoever answers is shown. The arguments are the guest's: data."""
    call = waiting.call
    arguments: Mapping[str, Any] = json.loads(call.arguments)
    verb = "wants to call" if call.kind == "approval" else "waits for the result of"
    text = f"The script {verb} `{call.tool}` with {_visible(json.dumps(arguments, ensure_ascii=False))}"
    return {
        "tool_name": call.tool,
        "args": arguments,
        "tool_call_id": call.call_id,
        "text": text,
        "metadata": json.loads(call.metadata),
        "pause": waiting.token,
    }
