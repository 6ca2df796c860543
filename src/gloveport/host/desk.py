"""Asking the policy: from a call to a ruling, whatever the policy does."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..core.commands import Answer, Judge, Ruling
from ..errors import PolicyError, ValueCrossingError
from ..policies import decision_of
from ..tools.bridge import Prepared, ToolBridge
from ..tools.spec import ToolSpec
from ..types import Allow, CallRequest, Deny, Policy
from ..wire.values import UNDEFINED, decode_arguments

__all__ = ("Judgement", "PolicyDesk")

_log = logging.getLogger("gloveport")
_FAILED: Final = "the call was not allowed: the policy could not decide about it"
_SPEC: Final = ToolSpec("policy", "policy", "", lambda: None, (), {}, None, is_async=True)


class Judgement(Prepared):
    """A policy that is to be awaited. Drivers treat it as a tool: it overlaps, is late and is cancelled as one."""

    __slots__ = ("_ask", "_given", "name")

    def __init__(self, call_id: int, name: str, ask: Callable[[], Any], given: Any) -> None:
        super().__init__(call_id, _SPEC, (), {})
        self.name = name
        """The tool that is asked about."""
        self._ask = ask
        self._given = given

    def invoke(self) -> Any:
        given, self._given = self._given, None
        return self._ask() if given is None else given

    def drop(self) -> None:
        """It will not be awaited any more, if it is not already."""
        given, self._given = self._given, None
        if asyncio.iscoroutine(given):
            given.close()


class PolicyDesk:
    """The policy of one session. A sync policy is called where the session runs, and decides at once."""

    def __init__(self, policy: Policy, bridge: ToolBridge) -> None:
        self._policy = policy
        self._bridge = bridge
        self._is_async = inspect.iscoroutinefunction(policy) or inspect.iscoroutinefunction(
            getattr(policy, "__call__", None)  # noqa: B004  an object with an async `__call__`
        )

    def ask(self, command: Judge) -> tuple[Ruling | Judgement, float]:
        """A ruling, or what has to be awaited for one; and the seconds that it took so far."""
        began = time.monotonic()
        try:
            request = self._request(command)
        except ValueCrossingError as error:  # arguments that no tool could get either
            return Ruling("deny", str(error), name="TypeError"), time.monotonic() - began
        call_id, name = command.call.id, command.info.name
        if self._is_async:
            return Judgement(call_id, name, lambda: self._policy(request), None), time.monotonic() - began
        try:
            given = self._policy(request)
        except Exception as error:
            return self.ruling(name, None, error), time.monotonic() - began
        took = time.monotonic() - began
        if inspect.isawaitable(given):
            return Judgement(call_id, name, _nothing, _as_coroutine(given)), took
        return self.ruling(name, given, None), took

    def _request(self, command: Judge) -> CallRequest:
        call, info = command.call, command.info
        args = decode_arguments(call.args, call.flags)
        while args and args[-1] is UNDEFINED:
            args.pop()
        annotations: Mapping[str, Any] = self._bridge.annotations(call.name)
        return CallRequest(
            info.name,
            tuple(None if item is UNDEFINED else item for item in args),
            info.call_id,
            info.run,
            info.session_id,
            annotations,
            command.calls_made,
            command.calls_remaining,
            info.idempotency_key,
        )

    def ruling(self, name: str, given: Any, error: BaseException | None) -> Ruling:
        """The ruling for what a policy gave or raised."""
        if error is None:
            decision = decision_of(given)
            if decision is not None:
                if isinstance(decision, Allow):
                    return Ruling("allow")
                if isinstance(decision, Deny):
                    return Ruling("deny", decision.reason or f"`{name}` is not allowed", decision.end_run)
                return Ruling("ask", decision.reason)
            text = f"the policy gave {_shown(given)} for `{name}`: give allow, deny or ask (`gloveport.types.Decision`)"
        else:
            text = f"the policy raised {type(error).__name__} for `{name}`"
        failure = PolicyError(f"{text}; the call was denied")
        failure.__cause__ = error
        _log.error("%s", failure, exc_info=error)
        fatal = error is not None and not isinstance(error, (Exception, asyncio.CancelledError))
        return Ruling("deny", _FAILED, fatal, error=failure)

    def answer(self, judgement: Judgement, value: Any, error: BaseException | None) -> Answer:
        """What came of awaiting it, as the session takes it."""
        return Answer(judgement.call_id, True, b"", ruling=self.ruling(judgement.name, value, error))

    def late(self, judgement: Judgement, seconds: float) -> Answer:
        """It took longer than a tool may."""
        return self.answer(judgement, None, TimeoutError(f"no decision within tool_timeout ({seconds:g} s)"))


def _shown(given: Any) -> str:
    return repr(given)[:100] if given is None or isinstance(given, (str, bool)) else type(given).__name__


async def _nothing() -> None: ...


def _as_coroutine(given: Any) -> Any:
    return given if asyncio.iscoroutine(given) else _awaited(given)


async def _awaited(given: Any) -> Any:
    return await given
