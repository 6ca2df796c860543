"""Calls that a script makes, performed by Pydantic AI's own `ToolManager`.

So arguments are validated, hooks, guards and instrumentation run, usage limits count, `deps` are there, and approval is asked for,
as if the model had called the tool. Only retry budgets stay out of it: a script that calls a tool wrongly gets an error to catch.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

import pydantic_core
from pydantic import TypeAdapter, ValidationError
from pydantic_ai.exceptions import (
    AgentRunError,
    ApprovalRequired,
    CallDeferred,
    ModelRetry,
    ToolFailed,
    ToolFailedError,
    ToolRetryError,
    UserError,
)
from pydantic_ai.messages import RetryFeedbackPart, ToolCallPart, ToolReturn, ToolReturnPart, UserContent
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.tools import RunContext, ToolDenied
from pydantic_ai.toolsets import WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool

from ...calls import current_call
from ...errors import PauseRequested, ToolArgumentError, ToolDeniedError, ToolError, ToolNotFoundError, ToolTimeoutError
from ...policies import decision_of
from ...types import Allow, Ask, CallRequest, Policy, json_data
from .ledger import Held, Kind
from .results import well_formed
from .turns import Turns

__all__ = ("AskingToolset", "Bridge", "EndRun", "NestedCalls", "as_json", "deferral", "guest_error")

_logger = logging.getLogger("gloveport")
_content: Final = TypeAdapter[list[UserContent]](list[UserContent])


class EndRun(BaseException):
    """Carries an error that ends the agent's run past the guest, which could catch an `Exception`."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Bridge:
    """Stands between a session, which lives longer, and the calls of the script that runs in it now."""

    def __init__(self) -> None:
        self.calls: NestedCalls | None = None
        self._asked: dict[str, str] = {}
        """Why a policy asks for an approval, by the call's key."""

    def guard(self, policy: Policy) -> Policy:
        """The policy as a session is given it: what it asks for becomes an approval of Pydantic AI."""

        def permit(request: CallRequest, given: Any) -> Any:
            decision = decision_of(given)
            if not isinstance(decision, Ask):
                return given
            self._asked[request.idempotency_key] = decision.reason
            return Allow()

        async def later(request: CallRequest, given: Any) -> Any:
            return permit(request, await given)

        def guarded(request: CallRequest) -> Any:
            given = policy(request)
            return later(request, given) if inspect.isawaitable(given) else permit(request, given)

        return guarded

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """The callable of every tool of the session."""
        if self.calls is None:
            raise ToolError(f"`{tool}` was called while no script runs")
        current = current_call()
        reason = None if current is None else self._asked.pop(current.idempotency_key, None)
        return await self.calls.call(tool, arguments, reason)


@dataclasses.dataclass
class AskingToolset(WrapperToolset[Any]):
    """Asks for the approval of calls that a policy wants to have approved, as a tool may do itself."""

    reasons: dict[str, str] = dataclasses.field(default_factory=dict[str, str])
    """By tool call id."""

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Call the tool, if that is approved where it has to be."""
        reason = self.reasons.get(ctx.tool_call_id or "")
        if reason is not None and not ctx.tool_call_approved:
            raise ApprovalRequired({"reason": reason})
        return await self.wrapped.call_tool(name, tool_args, ctx, tool)


class NestedCalls:
    """The calls of one script."""

    def __init__(
        self,
        manager: ToolManager[Any],
        ctx: RunContext[Any],
        *,
        tool_timeout: float | None,
        before: Callable[[str], Awaitable[None]] | None = None,
        made: int = 0,
        content: bytes = b"[]",
    ) -> None:
        self._manager = manager
        self._ctx = ctx
        self._timeout = tool_timeout
        self._before = before
        """Told of every call before it is made."""
        self._turns = Turns()
        self._alone = manager.get_parallel_execution_mode() == "sequential"
        self._pending = 0
        self.made = made
        """How many there were; numbers the next one."""
        self.used: dict[str, int] = {}
        """Per tool, in this part of the script."""
        self.held: list[Held] = []
        """Calls that wait for an answer from outside the run, in call order."""
        self.content = _content.validate_json(content)
        """What tools gave for the model beside their results."""

    @property
    def content_json(self) -> bytes:
        """The content, to be kept while the script waits."""
        return _content.dump_json(self.content)

    async def call(self, tool: str, arguments: Mapping[str, Any], reason: str | None = None) -> Any:
        """Perform a call; with a `reason` only if it is approved. Raises what the guest is to see, `PauseRequested`, or `EndRun`."""
        self.made += 1
        self.used[tool] = self.used.get(tool, 0) + 1
        given = cast("dict[str, Any]", json_data(arguments))
        if given != well_formed(given):
            raise ToolArgumentError("the arguments hold half a surrogate pair: use toWellFormed() on the text")
        part = ToolCallPart(tool, given, f"{self._ctx.tool_call_id}__{self.made}")
        if reason is not None:
            cast("AskingToolset", self._manager.toolset).reasons[part.tool_call_id] = reason
        if self._before is not None:
            await self._before(tool)
        try:
            return await self._perform(part)
        except (ApprovalRequired, CallDeferred) as deferred:
            self.held.append(_held(part, deferred))
            raise PauseRequested(f"`{tool}` waits for an answer") from None

    async def approved(self, held: Held, arguments: Mapping[str, Any] | None, metadata: Any) -> Any:
        """Perform a held call that was approved. Raises as `call` does, and the deferral if it defers again."""
        given = json.loads(held.arguments) if arguments is None else dict(arguments)
        return await self._perform(ToolCallPart(held.tool, given, held.call_id), approved=True, metadata=metadata)

    def hold_again(self, held: Held, deferred: ApprovalRequired | CallDeferred) -> Held:
        """A call that defers once more after it was approved."""
        return _held(ToolCallPart(held.tool, json.loads(held.arguments), held.call_id), deferred)

    def answer(self, result: Any) -> Any:
        """What the guest gets for a tool's result."""
        if isinstance(result, ToolDenied):
            raise ToolDeniedError(result.message)
        if isinstance(result, ToolReturn):
            self._keep(cast("ToolReturn[Any]", result))
            result = cast("Any", result).return_value
        return as_json(result)

    def _keep(self, returned: ToolReturn[Any]) -> None:
        if isinstance(returned.content, str):
            self.content.append(returned.content)
        elif returned.content:
            self.content.extend(returned.content)

    async def _perform(self, part: ToolCallPart, *, approved: bool = False, metadata: Any = None) -> Any:
        definition = self._manager.get_tool_def(part.tool_name)
        if definition is None:
            raise ToolNotFoundError(f"`{part.tool_name}` is not available any more")
        async with self._turns.take(alone=self._alone or definition.sequential):
            self._reserve()
            limit = asyncio.timeout(self._timeout)
            try:
                async with limit:
                    result = await self._manager.handle_call(
                        part, approved=approved, metadata=metadata, wrap_validation_errors=False
                    )
            except (ApprovalRequired, CallDeferred):
                raise
            except (AgentRunError, UserError) as error:
                raise EndRun(error) from error
            except Exception as error:
                if isinstance(error, TimeoutError) and limit.expired():
                    raise ToolTimeoutError(f"`{part.tool_name}` did not answer within {self._timeout:g} s") from error
                raise guest_error(error, part.tool_name) from error
            finally:
                self._release()
            return self.answer(result)

    # A call counts once it succeeded. Calls under way are counted beforehand here, or many made together would all pass a limit.

    def _reserve(self) -> None:
        usage, limits = self._ctx.usage, self._ctx.usage_limits
        if limits is not None and limits.tool_calls_limit is not None:
            projected = dataclasses.replace(
                usage, tool_calls=usage.tool_calls + self._pending + 2
            )  # this one, and the script's
            try:
                limits.check_before_tool_call(projected)
            except AgentRunError as error:
                raise EndRun(error) from error
        self._pending += 1

    def _release(self) -> None:
        self._pending -= 1


def _held(part: ToolCallPart, deferred: ApprovalRequired | CallDeferred) -> Held:
    kind: Kind = "approval"
    if isinstance(deferred, CallDeferred):
        kind = (
            "question" if getattr(deferred, "kind", None) == "question" else "external"
        )  # 2.62 has no `kind`, 2.68 has
    metadata = pydantic_core.to_json(deferred.metadata, fallback=str)
    return Held(part.tool_name, pydantic_core.to_json(part.args), part.tool_call_id, kind, metadata)


def deferral(held: Held, metadata: dict[str, Any]) -> ApprovalRequired | CallDeferred:
    """What a script raises that waits at the call."""
    if held.kind == "approval":
        return ApprovalRequired(metadata)
    deferred = CallDeferred(metadata)
    if held.kind == "question" and hasattr(deferred, "kind"):
        cast("Any", deferred).kind = "question"  # 2.62 has no such argument
    return deferred


def as_json(value: Any) -> Any:
    """A tool's value as its return schema describes it. Raises `ToolError` for what has no JSON form."""
    try:
        return pydantic_core.to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="constants")
    except (pydantic_core.PydanticSerializationError, ValueError) as error:
        raise ToolError(f"the result has no JSON form: {error}") from error


def guest_error(error: Exception, tool: str) -> Exception:
    """What the guest sees of what a tool raised: texts meant for the model in full, of the rest the class name."""
    if isinstance(error, ToolError):
        return error
    if isinstance(error, ValidationError):
        return ToolArgumentError(_invalid(error))
    if isinstance(error, (ModelRetry, ToolFailed)):
        return ToolError(error.message)
    if isinstance(error, ToolFailedError):
        return ToolError(_text(error.tool_failed))
    if isinstance(error, ToolRetryError):
        return ToolError(_text(error.tool_retry))
    _logger.warning("a tool called by a script failed: %s raised %s", tool, type(error).__name__, exc_info=error)
    return error


def _text(part: ToolReturnPart | RetryFeedbackPart) -> str:
    content = part.content
    return content if isinstance(content, str) else pydantic_core.to_json(content, fallback=str).decode()


def _invalid(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    lines = (f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}" for problem in problems)
    return "; ".join(lines)
